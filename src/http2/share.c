/* What one request may have of the window for all requests of a connection to a server.
 *
 * A server opens its windows again as its handlers read. One whose handler does not read would have
 * all of the connection's window, and stop the others. So a stream has at most a third of what is
 * left to them: one has a quarter of the window, two less than a half, and so on, and a rest is
 * always open.
 *
 * Servers gather what was read until it is worth an update: half of a window with many. A stream
 * that is stopped before would wait for an update that never comes. So what a server gathers, which
 * is learnt from its latest updates, is left to each stream, and nobody is stopped until it is
 * known.
 *
 * A window that is all but closed would cut a body into small frames, which servers count as abuse
 * of all who share the connection (Tomcat). So what is small waits for an update, as TCP does (RFC
 * 1122 section 4.2.3.4): HELD_US at most, since a server may update a window only when all of it is
 * used. */

#include "http2/share.h"

#include "http2/client_session.h"
#include "http2/frame.h"

enum { HELD_US = 200 * 1000 };

void share_note_update(struct http2_session *session, uint32_t increment)
{
    session->updates[session->n_updates++ % UPDATES] = increment;
}

/* The most that the server has gathered lately, and what waits here to be worth a frame. */
static int64_t gathered(const struct http2_session *session)
{
    int64_t most = 0;
    if (session->n_updates < UPDATES) {
        return session->send_window_max;
    }
    for (unsigned i = 0; i < UPDATES; i++) {
        most = session->updates[i] > most ? session->updates[i] : most;
    }
    return most + HTTP2_SMALL_BYTES;
}

/* What @stream may have of the connection's window now. */
static int64_t share_of_connection(const struct http2_stream *stream)
{
    const struct http2_session *session = stream->session;
    const int64_t open = session->send_window;
    if (!session->is_client) {
        return open;
    }
    const int64_t unit = gathered(session);
    const int64_t beyond = (int64_t)session->peer_stream_window - stream->send_window - unit;
    const int64_t rest = open > unit ? open - unit : 0;
    const int64_t more = (rest - 3 * beyond) / 4; /* then it has a third of what is left */
    const int64_t share = more > -beyond ? more : -beyond;
    return share < 0 ? 0 : share < open ? share : open;
}

/* Whether @len bytes, by which a piece would be cut, are to wait for more. */
static bool is_held(struct http2_stream *stream, size_t len)
{
    struct http2_session *session = stream->session;
    const uint32_t half = session->peer_stream_window / 2;
    const size_t few = half < HTTP2_SMALL_BYTES ? half : HTTP2_SMALL_BYTES;
    if (!session->is_client || len >= few) {
        return false;
    }
    if (stream->held_since_us == 0) {
        stream->held_since_us = session->now_us;
    }
    const uint64_t until_us = stream->held_since_us + HELD_US;
    if (session->now_us >= until_us) {
        return false;
    }
    if (session->held_until_us == 0 || until_us < session->held_until_us) {
        session->held_until_us = until_us;
    }
    return true;
}

size_t share_of_window(struct http2_stream *stream)
{
    const int64_t share = share_of_connection(stream);
    const int64_t window = stream->send_window < share ? stream->send_window : share;
    const size_t open = window > 0 ? (size_t)window : 0;
    const size_t most = open < FRAME_BYTES_MAX ? open : (size_t)FRAME_BYTES_MAX;
    if (LIKELY(stream->piece.len <= most)) {
        stream->held_since_us = 0;
        return stream->piece.len;
    }
    if (most == 0 || is_held(stream, most)) {
        stream->session->has_held = true;
        return 0;
    }
    stream->held_since_us = 0;
    return most;
}

void share_note_window(struct http2_session *session)
{
    const int64_t open = session->send_window;
    session->send_window_max = open > session->send_window_max ? open : session->send_window_max;
    if (open > session->send_window_max / 4) {
        session->narrow_since_us = 0;
    } else if (session->narrow_since_us == 0) {
        session->narrow_since_us = session->now_us;
    }
}

/* Those that were held back are looked at again. */
static void wake_held(struct http2_session *session)
{
    for (size_t i = 0; session->has_held && i < STREAM_BUCKETS; i++) {
        for (struct http2_stream *stream = session->streams[i]; stream != NULL;
             stream = stream->below) {
            send_note_ready(stream);
        }
    }
    session->has_held = false;
    session->held_until_us = 0;
}

void share_on_update(struct http2_session *session, uint32_t increment)
{
    share_note_update(session, increment);
    share_note_window(session);
    wake_held(session);
}

void share_on_time(struct http2_session *session)
{
    if (UNLIKELY(session->held_until_us != 0) && session->now_us >= session->held_until_us) {
        wake_held(session);
    }
}

uint64_t http2_session_held_until_us(const struct http2_session *session)
{
    return session->held_until_us;
}

bool http2_session_is_narrow(const struct http2_session *session, uint64_t now_us)
{
    const uint64_t since_us = session->narrow_since_us;
    return since_us != 0 && now_us >= since_us && now_us - since_us >= HTTP2_NARROW_US;
}

uint64_t http2_session_widest(const struct http2_session *session)
{
    return (uint64_t)session->send_window_max;
}

bool http2_session_is_wide(const struct http2_session *session)
{
    return session->send_window > session->send_window_max / 2;
}
