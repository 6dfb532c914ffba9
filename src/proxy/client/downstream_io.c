
#include <assert.h>

#include "base/clock.h"
#include "http/head_builder.h"
#include "proxy/client/downstream_inner.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/hop_by_hop.h"
#include "tls/tls_server.h"
#include "tls/tls_stream.h"

/* A longer body costs more to copy behind the head than that saves. */
enum { POSTED_BODY_BYTES_MAX = 2048 };

static void write_fields(const struct response *response, struct text *text)
{
    /* RFC 9110 section 8.6, RFC 9112 section 6.1: these statuses have no framing fields. */
    const bool has_no_length = response->status < 200 || response->status == 204;
    struct line_run run = line_run_begin(text);
    for (size_t i = 0; i < response->n_fields; i++) {
        const struct field *field = &response->fields[i];
        if (!field->hop_by_hop && !(has_no_length && field->id == FIELD_CONTENT_LENGTH)) {
            line_run_add(&run, field);
        }
    }
    line_run_end(&run);
    for (size_t i = 0; i < response->n_own_fields; i++) {
        message_write_field(text, response->own_fields[i].name, response->own_fields[i].value);
    }
}

/* Whether the rest of the request's body is here already, so that the next request can be found. */
static bool body_is_at_hand(const struct downstream *downstream)
{
    const struct inbox *inbox = &downstream->inbox;
    return inbox->ended ||
           (inbox->kind == BODY_LENGTH && inbox->left <= inbox->head_end - inbox->head_start);
}

/* A 101: this was the last request. From here on the client's bytes belong to the tunnel. */
static void write_switch(struct downstream *downstream, struct text *text)
{
    downstream->is_tunnel = true;
    downstream->out.is_chunked = false;
    downstream->keep_alive = false;
    downstream_note_tunnel(downstream);
    inbox_begin_body(&downstream->inbox, 0, BODY_UNTIL_CLOSE, 0);
    text_add_literal(text, "Connection: Upgrade\r\n");
}

static bool is_to_reconnect(const struct downstream *downstream)
{
    const struct stream *tls = downstream->client.tls;
    return UNLIKELY(tls != NULL) && tls_server_is_to_reconnect(tls_client_of(tls));
}

/* How the body is framed, and whether another request may follow. */
static void write_framing(struct downstream *downstream, const struct response *response,
                          struct text *text)
{
    const struct head *request = &downstream->exchange->request;
    const bool has_unknown_length =
        response->body == BODY_CHUNKED || response->body == BODY_UNTIL_CLOSE;
    downstream->out.is_chunked = has_unknown_length && request->minor >= 1;
    downstream->keep_alive = request->keep_alive && !downstream->connection.env->is_draining &&
                             !downstream->is_evicted && !is_to_reconnect(downstream) &&
                             body_is_at_hand(downstream) &&
                             (!has_unknown_length || downstream->out.is_chunked);
    if (downstream->out.is_chunked) {
        text_add_literal(text, "Transfer-Encoding: chunked\r\n");
    }
    if (!downstream->keep_alive) {
        text_add_literal(text, "Connection: close\r\n");
    } else if (request->minor == 0) {
        text_add_literal(text, "Connection: keep-alive\r\n");
    }
}

/* Write the head of @response, an interim one or the last, into a block of @pool. False: no memory,
 * or it does not fit. */
static ALWAYS_INLINE bool fill_head(struct downstream *downstream, struct pool *pool,
                                    const struct response *response, bool is_interim,
                                    struct text *head)
{
    if (!sender_begin_head(&downstream->out, pool, head)) {
        return false;
    }
    message_write_status_line(head, response->status);
    write_fields(response, head);
    if (response->is_switch) {
        write_switch(downstream, head);
    } else if (!is_interim) {
        write_framing(downstream, response, head);
    }
    text_add_literal(head, "\r\n");
    return !head->truncated;
}

/* The same, for callers that are rare. */
static NEVER_INLINE bool fill_rare_head(struct downstream *downstream, struct pool *pool,
                                        const struct response *response, bool is_interim,
                                        struct text *head)
{
    return fill_head(downstream, pool, response, is_interim, head);
}

/* A head did not fit: write it into a large block, which has room for any head that is accepted and
 * for our additions. False: no memory, then and now. */
static bool fill_large_head(struct downstream *downstream, const struct response *response,
                            bool is_interim, struct text *head)
{
    sender_drop_head(&downstream->out);
    return head->truncated && fill_rare_head(downstream, &downstream->config->pools->large_heads,
                                             response, is_interim, head);
}

enum stream_result downstream_send(struct client *client, const struct response *response,
                                   struct span piece, bool last)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    struct text head = text_of(NULL, 0);
    if (response != NULL) {
        if (!fill_head(downstream, &downstream->config->pools->head_blocks, response, false,
                       &head) &&
            !fill_large_head(downstream, response, false, &head)) {
            return STREAM_BROKEN;
        }
        if (last && !downstream->out.is_chunked && piece.len <= POSTED_BODY_BYTES_MAX &&
            piece.len <= head.capacity - head.len) {
            /* It is sent with other answers at the end of the iteration, and the exchange does not
             * wait for that. */
            text_add(&head, piece);
            return sender_post(&downstream->out, &downstream->connection.env->outbox,
                               text_span(&head));
        }
    }
    if (last && downstream->is_tunnel) {
        stream_shutdown(&downstream->stream);
        return STREAM_DONE;
    }
    const enum stream_result result = sender_write(&downstream->out, text_span(&head), &piece, 1,
                                                   last, downstream->exchange->out.trailers);
    if (result == STREAM_BLOCKED && downstream->exchange->state == EXCHANGE_REPLY) {
        /* The proxy's own answer: no server waits for the client to take it. */
        eviction_publish(&downstream->connection.candidate,
                         clock_monotonic_us() + EVICTION_REQUEST_GRACE_US);
    }
    return result;
}

enum stream_result downstream_send_pipe(struct client *client, struct pipe *pipe)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    assert(downstream->out.head_block == NULL && !downstream->out.is_chunked);
    return stream_write_pipe(&downstream->stream, pipe);
}

enum stream_result downstream_send_interim(struct client *client, const struct response *response)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    struct text head;
    if (downstream->exchange->request.minor == 0) {
        return STREAM_DONE; /* HTTP/1.0 knows no interim responses (RFC 9110 section 15.2) */
    }
    if (!fill_rare_head(downstream, &downstream->config->pools->head_blocks, response, true,
                        &head) &&
        !fill_large_head(downstream, response, true, &head)) {
        return STREAM_BROKEN;
    }
    return sender_write(&downstream->out, text_span(&head), NULL, 0, false, span_of(NULL, 0));
}

/* --- the request's body --- */

/* Keep the trailers of a body, where they may be passed on. Without memory they are dropped. Out of
 * line, as what follows: both are rare. */
static NEVER_INLINE void keep_trailers(struct downstream *downstream)
{
    struct exchange *exchange = downstream->exchange;
    struct chunked_decoder *decoder = &downstream->inbox.decoder;
    if (decoder->trailers == NULL && decoder->trailer_bytes == 0 &&
        trailers_of_request_pass(&exchange->request, exchange->evaluation.route)) {
        decoder->trailers = arena_alloc(&exchange->arena, TRAILER_BYTES_MAX);
    }
}

static NEVER_INLINE void hand_over_trailers(struct downstream *downstream)
{
    const struct chunked_decoder *decoder = &downstream->inbox.decoder;
    const struct span section = span_of(decoder->trailers, decoder->trailer_bytes);
    size_t n;
    struct field *fields = trailers_read(section, &downstream->exchange->arena, &n);
    for (size_t i = 0; i < n; i++) {
        fields[i].id = field_identify(fields[i].name);
    }
    exchange_on_trailers(downstream->exchange, fields, n);
}

static bool has_trailers(const struct inbox *inbox)
{
    return inbox->kind == BODY_CHUNKED && inbox->decoder.trailers != NULL &&
           inbox->decoder.trailer_bytes > 0;
}

/* Hand over one piece, or what is in the pipe. False: no more is wanted, and the exchange may be
 * over. */
static bool hand_over(struct downstream *downstream, bool is_piped, struct span piece, bool last)
{
    downstream->wants_body = false; /* before the call: it may end this exchange */
    if (last) {
        /* Reading may have been stopped while the body waited; now the client may leave. */
        stream_want_read(&downstream->stream, true);
        if (UNLIKELY(has_trailers(&downstream->inbox))) {
            hand_over_trailers(downstream);
        }
    }
    if (!(is_piped ? exchange_on_pipe(downstream->exchange, downstream->inbox.pipe)
                   : exchange_on_body(downstream->exchange, piece, last))) {
        return false;
    }
    downstream->wants_body = true;
    return true;
}

bool downstream_has_whole_body(struct client *client)
{
    const struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    return body_is_at_hand(downstream);
}

/* Read no more than the exchange takes. False: it takes nothing now. */
static bool prepare_read(struct downstream *downstream)
{
    const size_t room = exchange_body_room(downstream->exchange);
    downstream->inbox.read_max = room;
    downstream->inbox.is_small = room < IO_BLOCK_BYTES;
    return room > 0;
}

void downstream_pump(struct client *client)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    downstream->wants_body = true;
    if (downstream->inbox.kind == BODY_CHUNKED) {
        keep_trailers(downstream);
    }
    inbox_end_iteration(&downstream->inbox); /* of the last piece, if the exchange stopped at it */
    for (unsigned i = 0; i < PUMP_READS_MAX; i++) {
        struct span piece = span_of(NULL, 0);
        bool last;
        if (!prepare_read(downstream)) {
            downstream->wants_body = false;
            return;
        }
        downstream->inbox.takes_pipe =
            inbox_wants_pipe(&downstream->inbox) &&
            exchange_takes_pipe(downstream->exchange, downstream->inbox.pipe != NULL);
        const enum inbox_result result = inbox_next(&downstream->inbox, &piece, &last);
        if (result == INBOX_PIECE || result == INBOX_PIPED) {
            if (!hand_over(downstream, result == INBOX_PIPED, piece, last)) {
                return;
            }
            i += result == INBOX_PIPED ? PIPE_READS - 1 : 0;
        } else if (result == INBOX_END) {
            (void)hand_over(downstream, false, span_of(NULL, 0), true);
            return;
        } else if (result == INBOX_CUT) {
            exchange_on_client_gone(downstream->exchange);
            return;
        } else if (result == INBOX_BAD) {
            exchange_on_bad_body(downstream->exchange, &downstream->inbox.error);
            return;
        } else {
            downstream->wants_body = exchange_on_body_blocked(downstream->exchange);
            break;
        }
    }
    inbox_end_iteration(&downstream->inbox);
    stream_want_read(&downstream->stream, true);
}

void downstream_skip_body(struct downstream *downstream)
{
    struct span piece;
    bool last;
    downstream->inbox.decoder.trailers = NULL; /* memory of the exchange, which is over */
    while (!downstream->inbox.ended && inbox_has_bytes(&downstream->inbox) &&
           inbox_next(&downstream->inbox, &piece, &last) == INBOX_PIECE) {
    }
}
