#include "proxy/downstream_writer.h"

#include <assert.h>

#include "http/message.h"
#include "proxy/framing.h"
#include "proxy/worker.h"

/* A longer one costs more to copy than its place behind the head gains. */
enum { POSTED_BODY_BYTES_MAX = 2048 };

void downstream_drop_out_block(struct downstream *downstream)
{
    if (downstream->out_block != NULL) {
        pool_give(&downstream->regime->stock->head_blocks, downstream->out_block);
        downstream->out_block = NULL;
    }
}

static bool begin_head(struct downstream *downstream, struct text *text)
{
    struct pool *pool = &downstream->regime->stock->head_blocks;
    assert(downstream->out_block == NULL);
    downstream->out_block = pool_take(pool);
    *text = text_of(downstream->out_block, downstream->out_block == NULL ? 0 : pool->block_bytes);
    return downstream->out_block != NULL;
}

static void write_fields(const struct response *response, struct text *text)
{
    /* RFC 9110 section 8.6, RFC 9112 section 6.1: these statuses have no framing fields. */
    const bool has_no_length = response->status < 200 || response->status == 204;
    for (size_t i = 0; i < response->n_fields; i++) {
        const struct field *field = &response->fields[i];
        if (!field->hop_by_hop && !(has_no_length && field->id == FIELD_CONTENT_LENGTH)) {
            message_write_field(text, field->name, field->value);
        }
    }
    for (size_t i = 0; i < response->n_own_fields; i++) {
        message_write_field(text, response->own_fields[i].name, response->own_fields[i].value);
    }
}

/* Whether what is left of the request's body is here already, so that the
 * next request can be found. */
static bool body_is_at_hand(const struct downstream *downstream)
{
    const struct inbox *inbox = &downstream->inbox;
    return inbox->ended ||
           (inbox->kind == BODY_LENGTH && inbox->left <= inbox->head_end - inbox->head_start);
}

/* A 101: this was the last request, and what the client sends from here on is the tunnel's. */
static void write_switch(struct downstream *downstream, struct text *text)
{
    downstream->is_tunnel = true;
    downstream->is_chunked = false;
    downstream->keep_alive = false;
    inbox_begin_body(&downstream->inbox, 0, BODY_UNTIL_CLOSE, 0);
    text_add_literal(text, "Connection: Upgrade\r\n");
}

/* How the body is framed, and whether another request may follow. */
static void write_framing(struct downstream *downstream, const struct response *response,
                          struct text *text)
{
    const struct head *request = &downstream->exchange->request;
    const bool has_unknown_length =
        response->body == BODY_CHUNKED || response->body == BODY_UNTIL_CLOSE;
    downstream->is_chunked = has_unknown_length && request->minor >= 1;
    downstream->keep_alive = request->keep_alive && !downstream->worker->draining &&
                             body_is_at_hand(downstream) &&
                             (!has_unknown_length || downstream->is_chunked);
    if (downstream->is_chunked) {
        text_add_literal(text, "Transfer-Encoding: chunked\r\n");
    }
    if (!downstream->keep_alive) {
        text_add_literal(text, "Connection: close\r\n");
    } else if (request->minor == 0) {
        text_add_literal(text, "Connection: keep-alive\r\n");
    }
}

static enum stream_result write_slices(struct downstream *downstream, const struct iovec *slices,
                                       int n_slices)
{
    if (n_slices == 0) {
        return STREAM_DONE;
    }
    const enum stream_result result = stream_write(&downstream->stream, slices, n_slices);
    if (result != STREAM_BLOCKED) {
        downstream_drop_out_block(downstream);
    }
    return result;
}

/* All of an answer, in our own block: it goes with those of others at the end of the turn, and the
 * exchange need not wait for that. */
static enum stream_result post(struct downstream *downstream, struct span answer)
{
    const struct iovec slice = framing_slice(answer);
    if (outbox_write(&downstream->worker->outbox, &downstream->stream, &slice, 1) ==
        STREAM_BLOCKED) {
        return STREAM_DONE;
    }
    downstream_drop_out_block(downstream);
    return STREAM_BROKEN;
}

enum stream_result downstream_send(struct client *client, const struct response *response,
                                   struct span piece, bool last)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    struct iovec slices[STREAM_SLICES_MAX];
    int n = 0;
    if (response != NULL) {
        struct text head;
        if (!begin_head(downstream, &head)) {
            return STREAM_BROKEN;
        }
        message_write_status_line(&head, response->status);
        write_fields(response, &head);
        if (response->is_switch) {
            write_switch(downstream, &head);
        } else {
            write_framing(downstream, response, &head);
        }
        text_add_literal(&head, "\r\n");
        if (head.truncated) {
            return STREAM_BROKEN; /* blocks have room for every head that was accepted, and ours */
        }
        if (last && !downstream->is_chunked && piece.len <= POSTED_BODY_BYTES_MAX &&
            piece.len <= head.capacity - head.len) {
            text_add(&head, piece);
            return post(downstream, text_span(&head));
        }
        slices[n++] = framing_slice(text_span(&head));
    }
    if (last && downstream->is_chunked) {
        n = framing_add_end(slices, n, downstream->chunk_head, piece,
                            downstream->exchange->out.trailers);
    } else {
        n = framing_add_piece(slices, n, downstream->is_chunked ? downstream->chunk_head : NULL,
                              piece, last);
    }
    if (last && downstream->is_tunnel) {
        stream_shutdown(&downstream->stream);
        return STREAM_DONE;
    }
    return write_slices(downstream, slices, n);
}

enum stream_result downstream_send_pipe(struct client *client, struct pipe *pipe)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    assert(downstream->out_block == NULL && !downstream->is_chunked);
    return stream_write_pipe(&downstream->stream, pipe);
}

enum stream_result downstream_send_interim(struct client *client, const struct response *response)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    struct text head;
    if (downstream->exchange->request.minor == 0) {
        return STREAM_DONE; /* HTTP/1.0 knows no interim responses (RFC 9110 section 15.2) */
    }
    if (!begin_head(downstream, &head)) {
        return STREAM_BROKEN;
    }
    message_write_status_line(&head, response->status);
    write_fields(response, &head);
    text_add_literal(&head, "\r\n");
    const struct iovec slice = framing_slice(text_span(&head));
    return head.truncated ? STREAM_BROKEN : write_slices(downstream, &slice, 1);
}
