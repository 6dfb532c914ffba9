/* How much of bodies the peer may send ahead.
 *
 * The window of each stream has bytes of its own, so that a body can go on whatever the others of
 * its connection wait for: what one of them has filled is never what another needs. The window of a
 * client's stream that sends fast grows by bytes which all streams share, up to as many as are left
 * then to others, and keeps these until its body has been taken. Where the window of the connection
 * has room for those of all streams and CONNECTION_GRANT_BYTES, it closes only to a client that
 * does not heed our SETTINGS. */

#include "http2/windows.h"

#include "http2/session_inner.h"

enum {
    FAST_US = 100000,        /* half of a window in this time is fast */
    GROWTH_BYTES_MIN = 4096, /* a smaller one is not worth its frame */
    CONNECTION_GRANT_BYTES =
        64 * 1024, /* so much is granted again, if half of the window is more */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void open_by(struct http2_session *session, int32_t id, int64_t *window, uint32_t n)
{
    char increment[4];
    write_u32(increment, n);
    queue_frame(session, NGHTTP2_WINDOW_UPDATE, 0, id, increment, sizeof(increment));
    *window += n;
}

void windows_return(struct http2_session *session, uint32_t n)
{
    const uint32_t half = session->config.connection_window / 2;
    session->unreturned += n;
    if (session->unreturned > 0 &&
        session->unreturned >= (session->is_client ? half : least(half, CONNECTION_GRANT_BYTES))) {
        open_by(session, 0, &session->receive_window, session->unreturned);
        session->unreturned = 0;
    }
}

static uint32_t window_of(const struct http2_stream *stream)
{
    return stream->session->config.stream_window + stream->grown;
}

void windows_return_of_stream(struct http2_stream *stream, uint32_t n)
{
    if (stream->is_closed || stream->is_body_ended) {
        return;
    }
    stream->unreturned += n;
    if (stream->unreturned > 0 && stream->unreturned >= window_of(stream) / 2) {
        open_by(stream->session, stream->id, &stream->receive_window, stream->unreturned);
        stream->unreturned = 0;
    }
}

/* --- until our SETTINGS are read --- */

/* How many bytes a client may send beyond ours on a stream, before it has read our SETTINGS. */
static uint32_t excess(const struct http2_session *session)
{
    const uint32_t own = session->config.stream_window;
    return !session->is_client && session->awaits_ack && own < WINDOW_BYTES_INITIAL
               ? WINDOW_BYTES_INITIAL - own
               : 0;
}

uint32_t windows_initial(const struct http2_session *session)
{
    return session->config.stream_window + excess(session);
}

void windows_on_settings_read(struct http2_session *session)
{
    const uint32_t n = excess(session);
    for (size_t i = 0; n > 0 && i < STREAM_BUCKETS; i++) {
        for (struct http2_stream *stream = session->streams[i]; stream != NULL;
             stream = stream->below) {
            stream->receive_window -= n;
        }
    }
}

/* --- windows that grow --- */

/* Whether its window is what limits the client of @stream, or soon will be. */
static bool is_fast(struct http2_stream *stream, uint32_t n)
{
    const uint64_t now_us = stream->session->now_us;
    if (now_us - stream->recent_from_us > FAST_US) {
        stream->recent_from_us = now_us;
        stream->recent = 0;
    }
    stream->recent += n;
    return stream->recent >= window_of(stream) / 2;
}

void windows_note_body(struct http2_stream *stream, uint32_t n)
{
    struct http2_session *session = stream->session;
    const struct http2_config *config = &session->config;
    if (config->stream_window_max <= window_of(stream) || !is_fast(stream, n)) {
        return;
    }
    const uint32_t wanted = config->stream_window_max - window_of(stream);
    const uint32_t left = config->shared_window - session->n_grown;
    const uint32_t growth = left > stream->grown ? least(wanted, (left - stream->grown) / 2) : 0;
    if (growth >= GROWTH_BYTES_MIN) {
        stream->grown += growth;
        session->n_grown += growth;
        open_by(session, stream->id, &stream->receive_window, growth);
    }
}

void windows_shrink(struct http2_stream *stream)
{
    if (stream->is_body_ended && stream->untaken == 0) { /* what was not taken fills memory */
        stream->session->n_grown -= stream->grown;
        stream->grown = 0;
    }
}
