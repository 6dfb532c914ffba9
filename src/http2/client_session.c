/* Requests and what the peer grants: the rest of a session is the same in both roles. */

#include "http2/client_session.h"

#include "http2/session_inner.h"

enum { LATE_BLOCKS = 2 }; /* the answer's head and its trailers */

struct http2_session *http2_session_new_client(const struct http2_config *config, uint64_t now_us)
{
    return session_new(config, true, now_us);
}

bool http2_session_takes_requests(const struct http2_session *session)
{
    return !session->is_broken && !session->is_terminated && !session->is_refused &&
           session->next_id > 0;
}

uint32_t http2_session_granted(const struct http2_session *session)
{
    return session->peer_streams_max;
}

bool http2_session_takes_head(const struct http2_session *session,
                              const struct http2_fields *fields)
{
    enum { FIELD_OVERHEAD = 32 }; /* RFC 9113 section 6.5.2 */
    size_t n = 0;
    for (size_t i = 0; i < fields->n; i++) {
        const struct field *field = &fields->fields[i];
        n += field->hop_by_hop ? 0 : field->name.len + field->value.len + FIELD_OVERHEAD;
    }
    return n <= session->peer_head_max;
}

bool http2_session_may_open(const struct http2_session *session)
{
    return session->n_streams < http2_session_granted(session) &&
           session->n_streams < session->config.streams_max &&
           http2_session_takes_requests(session);
}

bool http2_session_is_failed(const struct http2_session *session)
{
    return session->is_terminated;
}

int32_t http2_session_faulty_id(const struct http2_session *session)
{
    return session_is_idle(session, session->faulty_id) ? 0 : session->faulty_id;
}

/* A request is sent: all that its answer may have, its window and its blocks, may come late. More
 * than the window of the connection is never under way. */
static void grant_late(struct http2_session *session)
{
    const uint64_t block = (session->continuations_max + UINT64_C(1)) * FRAME_BYTES_MAX;
    const uint64_t left = session->late_left + session->config.stream_window + LATE_BLOCKS * block;
    session->late_left = left < INT32_MAX ? left : INT32_MAX;
}

bool http2_session_open(struct http2_session *session, struct http2_stream *stream,
                        const struct http2_fields *fields, bool is_answer_to_head, bool is_last)
{
    const struct head_lines lines = {.lists = fields, .n_lists = 1, .is_last = is_last};
    *stream = (struct http2_stream){
        .session = session,
        .id = session->next_id,
        .is_answer_to_head = is_answer_to_head,
    };
    session_add_stream(session, stream);
    stream->nth = session->n_streams;
    grant_late(session);
    session->next_id = session->next_id < INT32_MAX ? session->next_id + 2 : -1;
    if (queue_head(stream, &lines)) {
        return true;
    }
    (void)session_close_stream(stream, FATE_IGNORED);
    session->n_streams--;
    stream->session = NULL;
    return false;
}

void http2_stream_stop_sending(struct http2_stream *stream)
{
    list_remove(&stream->ready);
    stream->piece = span_of(NULL, 0);
    stream->is_last = false;
    stream->trailers = NULL;
    stream->n_trailers = 0;
}

/* Whether an error code of the peer tells of what it was sent, rather than of itself. */
static bool is_for_request(uint32_t code)
{
    return code == NGHTTP2_PROTOCOL_ERROR || code == NGHTTP2_FRAME_SIZE_ERROR ||
           code == NGHTTP2_CANCEL || code == NGHTTP2_COMPRESSION_ERROR ||
           code == NGHTTP2_ENHANCE_YOUR_CALM || code == NGHTTP2_HTTP_1_1_REQUIRED;
}

enum http2_goaway http2_session_goaway(const struct http2_session *session)
{
    if (!session->is_refused) {
        return HTTP2_GOAWAY_NONE;
    }
    if (session->goaway_code == NGHTTP2_NO_ERROR) {
        return HTTP2_GOAWAY_FINE;
    }
    return is_for_request(session->goaway_code) ? HTTP2_GOAWAY_REFUSAL : HTTP2_GOAWAY_ERROR;
}

bool http2_stream_is_refused(const struct http2_stream *stream)
{
    return stream->is_reset_by_peer && is_for_request(stream->reset_code);
}

bool http2_stream_is_too_much(const struct http2_stream *stream)
{
    return stream->is_reset_by_peer && stream->reset_code == NGHTTP2_ENHANCE_YOUR_CALM;
}

bool http2_stream_is_broken_off(const struct http2_stream *stream)
{
    return stream->is_reset_by_peer && !http2_stream_is_unprocessed(stream);
}

bool http2_stream_is_declined_unproven(const struct http2_stream *stream)
{
    return stream->is_unprocessed && stream->is_unproven;
}

bool http2_stream_is_unprocessed(const struct http2_stream *stream)
{
    return stream->is_unprocessed || !stream->is_opened;
}
