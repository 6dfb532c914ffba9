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
           session->next_id > 0;
}

uint32_t http2_session_granted(const struct http2_session *session)
{
    return session->peer_streams_max;
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
    const struct head_lines lines = {.lists = fields, .n_lists = 1, .is_last = is_last};
    *stream = (struct http2_stream){
        .session = session,
        .id = session->next_id,
        .is_answer_to_head = is_answer_to_head,
    };
    session_add_stream(session, stream);
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

bool http2_stream_is_unprocessed(const struct http2_stream *stream)
{
    return stream->is_unprocessed || !stream->is_opened;
}
