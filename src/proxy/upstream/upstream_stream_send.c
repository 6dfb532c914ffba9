/* The request of a stream. Its head comes as HTTP/1.1 would write it, and is sent as fields. Pieces
 * of its body are borrowed until they are written. */

#include <assert.h>

#include "base/clock.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_http2_inner.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_stream_inner.h"

enum { AUTHORITY_BYTES = 512 };

enum opening {
    OPENED,
    OPENING_REFUSED, /* the server would take it for a fault; its user hears of it soon */
    OPENING_FAILED,  /* no memory */
};

static enum opening refuse(struct upstream_stream *stream, uint16_t status, const char *reason)
{
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    stream->refusal_status = status;
    stream->refusal = reason;
    list_push_back(&http2->refused, &stream->refused_node);
    sender_drop_head(&stream->upstream.out);
    return OPENING_REFUSED;
}

/* Send the head. */
static enum opening open_stream(struct upstream_stream *stream, bool is_last)
{
    struct upstream *upstream = &stream->upstream;
    const struct endpoint *endpoint = upstream->server->endpoint;
    struct upstream_request request;
    struct upstream_head_fields head;
    char buffer[AUTHORITY_BYTES];
    struct text own_name = text_of(buffer, sizeof(buffer));
    upstream_name_write_host(endpoint, &own_name);
    upstream->user->events->describe(upstream->user, &request);
    const bool is_read = upstream_head_fields_read(&head, upstream->out_head, endpoint->is_https,
                                                   text_span(&own_name), request.more_fields_max);
    upstream->out_head.len = 0;
    if (!is_read) {
        return refuse(stream, head.status, head.fault);
    }
    const struct http2_fields list = {.fields = head.fields, .n = head.n};
    if (!http2_session_takes_head(upstream_http2_of(stream)->session, &list)) {
        return refuse(stream, 431, "the request's head is larger than the upstream takes");
    }
    stream->risky_us = clock_monotonic_us();
    upstream_http2_note_sent(stream, stream->risky_us, true);
    const bool is_open = http2_session_open(upstream_http2_of(stream)->session, &stream->stream,
                                            &list, upstream->user->is_head_request, is_last);
    sender_drop_head(&upstream->out);
    return is_open ? OPENED : OPENING_FAILED;
}

/* Give the session the next piece. False: there is none. */
static bool send_next(struct upstream_stream *stream)
{
    while (stream->next_piece < stream->n_pieces) {
        const struct span piece = stream->pieces[stream->next_piece++];
        const bool is_last = stream->is_last && stream->next_piece == stream->n_pieces;
        if (piece.len > 0 || is_last) {
            const struct upstream_user *user = stream->upstream.user;
            const struct http2_fields trailers = {user->trailers, user->n_trailers};
            const uint64_t now_us = clock_monotonic_us();
            upstream_http2_note_sent(stream, now_us, false);
            if (is_last ? trailers.n > 0 : piece.len < HTTP2_SMALL_BYTES) {
                stream->risky_us = now_us;
                stream->is_risky_body = true;
                upstream_http2_of(stream)->is_for_bodies = false;
            }
            http2_stream_send(&stream->stream, piece, is_last,
                              is_last && trailers.n > 0 ? &trailers : NULL);
            return true;
        }
    }
    return false;
}

enum stream_result upstream_stream_send(struct upstream *upstream, const struct span *pieces,
                                        int n_pieces, bool last)
{
    struct upstream_stream *stream = upstream_stream_of(upstream);
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    size_t n_bytes = 0;
    assert(n_pieces <= SENDER_PIECES_MAX && !stream->is_sending);
    if (stream->is_unsendable) {
        return STREAM_BLOCKED;
    }
    for (int i = 0; i < n_pieces; i++) {
        stream->pieces[i] = pieces[i];
        n_bytes += pieces[i].len;
    }
    const bool ends_with_head =
        upstream->out_head.len > 0 && n_bytes == 0 && last && upstream->user->n_trailers == 0;
    upstream_http2_wake(http2);
    const enum opening opening =
        upstream->out_head.len > 0 ? open_stream(stream, ends_with_head) : OPENED;
    if (opening != OPENED) {
        return opening == OPENING_REFUSED ? STREAM_BLOCKED : STREAM_BROKEN;
    }
    if (ends_with_head) {
        return STREAM_DONE;
    }
    stream->n_pieces = n_pieces;
    stream->next_piece = 0;
    stream->is_last = last;
    if (last && n_bytes == 0) {
        stream->pieces[0] = span_of("", 0);
        stream->n_pieces = 1;
    }
    stream->is_sending = send_next(stream);
    return stream->is_sending ? STREAM_BLOCKED : STREAM_DONE;
}

void upstream_stream_on_sent(struct upstream_stream *stream)
{
    struct upstream_user *user = stream->upstream.user;
    if (!stream->is_sending) {
        return; /* the end of a head */
    }
    if (send_next(stream)) {
        upstream_http2_wake(upstream_http2_of(stream));
        user->events->on_progress(user);
        return;
    }
    stream->is_sending = false;
    user->events->on_drained(user);
}

void upstream_stream_stop_sending(struct upstream_stream *stream)
{
    http2_stream_stop_sending(&stream->stream);
    stream->n_pieces = 0;
    stream->next_piece = 0;
    stream->is_sending = false;
}

void upstream_stream_end_sending(struct upstream_stream *stream)
{
    upstream_stream_stop_sending(stream);
    stream->is_unsendable = true;
}
