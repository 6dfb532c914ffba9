/* Requests and what the peer grants: the rest of a session is the same in both roles. */

#include "http2/client_session.h"

#include "http2/session_inner.h"

struct http2_session *http2_session_new_client(const struct http2_config *config, uint64_t now_us)
{
    return session_new(config, true, now_us);
}

bool http2_session_takes_requests(const struct http2_session *session)
{
    return !session->is_broken && !session->is_terminated && !session->is_refused &&
           nghttp2_session_check_request_allowed(session->nghttp2) != 0;
}

uint32_t http2_session_granted(const struct http2_session *session)
{
    return nghttp2_session_get_remote_settings(session->nghttp2,
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
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

bool http2_session_open(struct http2_session *session, struct http2_stream *stream,
                        const struct http2_fields *fields, bool is_answer_to_head, bool is_last)
{
    nghttp2_nv lines[SENT_FIELDS_MAX];
    const size_t n = send_add_lines(lines, 0, fields, false);
    *stream = (struct http2_stream){.session = session, .is_answer_to_head = is_answer_to_head};
    list_init(&stream->node);
    stream->id = nghttp2_submit_request(session->nghttp2, NULL, lines, n,
                                        is_last ? NULL : &SEND_BODY, stream);
    if (stream->id < 0) {
        stream->session = NULL;
        session->is_broken = true;
        return false;
    }
    session->n_streams++;
    return true;
}

bool http2_stream_is_unprocessed(const struct http2_stream *stream)
{
    return stream->is_unprocessed || !stream->is_opened;
}
