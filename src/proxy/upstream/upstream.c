/* Happy path: an idle connection is taken off its list. The request's head and first piece of body
 * are sent in one write. The response's head and first piece come with one read and are passed on
 * in one call. The connection returns to the front of its list.
 *
 * Failures: a connect is refused or times out (the user tries another server); the peer closes
 * before the first byte of the response (the user may retry); the head or the body is malformed;
 * the connection ends within the body. Any input on an idle connection closes it. */

#include "proxy/upstream/upstream.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "proxy/core/proxy_env.h"
#include "proxy/core/upstream_descriptors.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"
#include "tls/tls_stream.h"

enum {
    /* A server that waits has filled the socket's buffer, 64 KiB at least by default. Fewer bytes
     * are what a server that sends now and then has sent meanwhile. */
    HELD_BACK_BYTES_MIN = 16 * 1024,
    NO_UPGRADE_FOR_US = 300 * 1000 * 1000,
};

static struct proxy_env *env_of(const struct upstream *upstream)
{
    return upstream->server->group->env;
}

static void die(struct loop_task *task)
{
    struct upstream *upstream = CONTAINER_OF(task, struct upstream, death);
    if (upstream->http2 == NULL || upstream->carrier_ops->free(upstream->http2)) {
        free(upstream);
    }
}

void upstream_leave_user(struct upstream *upstream)
{
    if (upstream->user != NULL && upstream->server->group->counts_requests) {
        atomic_fetch_sub_explicit(&upstream->server->process->n_requests, 1, memory_order_relaxed);
    }
    upstream->user = NULL;
}

/* Whether the connection has a port that would wait in TIME_WAIT if this side ended first. */
static bool has_port(const struct upstream *upstream)
{
    return upstream->stream.fd >= 0 && !upstream->has_ended &&
           upstream->server->endpoint->unix_path.len == 0;
}

/* False: this side may not end it first, in order. */
static bool take_closing(const struct upstream *upstream)
{
    const enum server_closing kind = upstream->is_for_upgrade ? CLOSING_TUNNEL : CLOSING_REQUEST;
    struct upstream_user *user = upstream->user;
    struct address client;
    const bool is_one_client = user != NULL && user->events->find_client(user, &client);
    return server_process_take_closing(upstream->server->process, kind,
                                       is_one_client ? &client : NULL, clock_monotonic_us());
}

/* A reset takes from the server what it has not read. There is nothing of that where it has
 * answered, so none is needed; else it has what has come, and then the end. A server that was
 * offered a switch of protocols may not live through a reset: Node hands the socket over without a
 * listener of errors, and ends, unless what takes it over has one. */
static void choose_end(struct upstream *upstream)
{
    const bool is_unused = upstream->stream.connecting; /* though it may be there by now */
    if (!has_port(upstream) || (upstream->is_for_upgrade && !is_unused) ||
        stream_has_peer_ended(&upstream->stream)) {
        return;
    }
    if (is_unused || upstream->is_over || !take_closing(upstream)) {
        stream_reset_on_close(&upstream->stream);
    }
}

bool upstream_end_request(struct upstream *upstream)
{
    if (has_port(upstream) && !stream_has_peer_ended(&upstream->stream) &&
        !take_closing(upstream)) {
        return false;
    }
    upstream->has_ended = true;
    stream_shutdown(&upstream->stream);
    return true;
}

void upstream_close(struct upstream *upstream)
{
    if (UNLIKELY(upstream->stream_ops != NULL)) {
        upstream->stream_ops->close(upstream);
        return;
    }
    assert(upstream->phase != UPSTREAM_CLOSED);
    if (UNLIKELY(upstream->http2 != NULL)) {
        upstream->carrier_ops->on_close(upstream);
    }
    choose_end(upstream);
    upstream_leave_user(upstream);
    upstream_leave_idle(upstream);
    upstream->phase = UPSTREAM_CLOSED;
    upstream->server->n_connections--;
    counter_down(&upstream_server_meters(upstream->server)->connections);
    stream_close(&upstream->stream);
    upstream_descriptors_give(env_of(upstream)->upstream_descriptors);
    inbox_close(&upstream->inbox);
    sender_drop_head(&upstream->out);
    loop_at_iteration_end(env_of(upstream)->loop, &upstream->death);
    if (upstream->has_slot) {
        upstream_release_slot(upstream->server);
    }
}

static void on_idle_timeout(struct timeout *timeout)
{
    struct upstream *upstream = CONTAINER_OF(timeout, struct upstream, timeout);
    if (upstream->http2 != NULL) {
        upstream->carrier_ops->end(upstream);
    } else {
        upstream_close(upstream);
    }
}

/* --- the response --- */

/* Prepare to read more of the body, if the user accepts it; bytes that it does not take would
 * occupy a block for as long as the client likes. A user that keeps up gets a large block or a
 * pipe. A slower user gets a small block, and only when it has room for one, so it usually holds no
 * block. The user is asked again in this iteration only after it has got *@room bytes, but not if
 * it has just taken a whole pipe. False: it is blocked. */
static bool prepare_read(struct upstream *upstream, bool is_head_pending, size_t *room)
{
    struct inbox *inbox = &upstream->inbox;
    if (*room == 0 && !is_head_pending && inbox_wants_large_block(inbox)) {
        const bool has_taken_pipe = inbox->pipe != NULL && inbox_wants_pipe(inbox);
        inbox_release_head(inbox);
        *room =
            has_taken_pipe ? IO_BLOCK_BYTES : upstream->user->events->await_room(upstream->user);
        if (*room == 0) {
            inbox_end_iteration(inbox);
            return false;
        }
        inbox->is_small = *room < IO_BLOCK_BYTES;
        inbox->takes_pipe = !inbox->is_small && upstream->user->takes_pipes;
    }
    inbox->read_max = *room > 0 ? *room : IO_BLOCK_BYTES;
    return true;
}

/* Pass on the available part of the body. @is_head_pending: the user has got the head, and waits
 * for the first piece to send both together. */
static void pump_body(struct upstream *upstream, bool is_head_pending)
{
    struct upstream_user *user = upstream->user;
    const struct upstream_events *events = user->events;
    size_t room = 0; /* known room of the client */
    for (unsigned i = 0; i < PUMP_READS_MAX; i++) {
        struct span piece = span_of(NULL, 0);
        bool last;
        if (!prepare_read(upstream, is_head_pending, &room)) {
            return;
        }
        switch (inbox_next(&upstream->inbox, &piece, &last)) {
        case INBOX_PIECE:
            if (!events->on_body(user, piece, last)) {
                return; /* blocked, or over: the connection may have another user */
            }
            is_head_pending = false;
            room = piece.len + SMALL_BLOCK_BYTES <= room ? room - piece.len : 0;
            break;
        case INBOX_PIPED:
            if (!events->on_pipe(user, upstream->inbox.pipe)) {
                return;
            }
            room = 0;
            i += PIPE_READS - 1;
            break;
        case INBOX_END:
            (void)events->on_body(user, span_of(NULL, 0), true);
            return;
        case INBOX_BLOCKED:
            stream_want_read(&upstream->stream, true);
            if (is_head_pending) {
                events->on_head_alone(user); /* at most a chunk line came with it */
            }
            return;
        case INBOX_CUT:
            events->on_lost(user);
            return;
        case INBOX_BAD:
            events->on_bad(user, upstream->inbox.error.reason);
            return;
        }
    }
    /* The block is consumed; the loop reports the rest in the socket again. */
    inbox_end_iteration(&upstream->inbox);
    stream_want_read(&upstream->stream, true);
}

/* The bytes after the 101 are not HTTP. */
static void hand_over_switch(struct upstream *upstream, size_t consumed)
{
    upstream->phase = UPSTREAM_STREAMING;
    upstream->server->has_upgraded = true;
    upstream->out.is_chunked = false;
    inbox_begin_body(&upstream->inbox, consumed, BODY_UNTIL_CLOSE, 0);
    if (upstream->user->events->on_switch(upstream->user)) {
        inbox_end_head(&upstream->inbox);
        pump_body(upstream, false);
    }
}

/* Pass on a complete head and the bytes after it. False: the connection may be gone. */
static bool hand_over_head(struct upstream *upstream, size_t consumed)
{
    struct upstream_user *user = upstream->user;
    const struct head *response = user->response;
    head_parser_reset(&upstream->parser);
    if (response->status == 101) {
        hand_over_switch(upstream, consumed);
        return false;
    }
    if (response->status < 200) {
        inbox_begin_body(&upstream->inbox, consumed, BODY_NONE, 0);
        if (!user->events->on_interim(user)) {
            return false;
        }
        inbox_end_head(&upstream->inbox);
        return true;
    }
    upstream->phase = UPSTREAM_STREAMING;
    inbox_begin_body(&upstream->inbox, consumed, response->body, response->content_length);
    if (!user->events->on_head(user)) {
        return false;
    }
    if (inbox_has_bytes(&upstream->inbox)) {
        pump_body(upstream, true);
    } else {
        user->events->on_head_alone(user);
    }
    return false;
}

/* Parse the available bytes. Several interim responses may precede the final one. */
static void parse_heads(struct upstream *upstream)
{
    struct upstream_user *user = upstream->user;
    for (;;) {
        size_t consumed;
        const struct span bytes = inbox_head_bytes(&upstream->inbox);
        if (bytes.len == 0) {
            return;
        }
        switch (head_parse_response(&upstream->parser, bytes, user->is_head_request, user->response,
                                    &consumed)) {
        case PARSE_DONE:
            if (!hand_over_head(upstream, consumed)) {
                return;
            }
            break;
        case PARSE_PARTIAL:
            return;
        case PARSE_BAD:
            user->events->on_bad(user, user->response->error.reason);
            return;
        }
    }
}

void upstream_pump(struct upstream *upstream)
{
    if (UNLIKELY(upstream->stream_ops != NULL)) {
        upstream->stream_ops->pump(upstream);
    } else if (upstream->phase == UPSTREAM_STREAMING) {
        inbox_end_iteration(&upstream->inbox); /* the piece that was blocked is consumed */
        pump_body(upstream, false);
    } else {
        inbox_end_head(&upstream->inbox); /* an interim response was blocked */
        stream_want_read(&upstream->stream, true);
        parse_heads(upstream);
    }
}

static void read_head(struct upstream *upstream)
{
    switch (inbox_read_head(&upstream->inbox)) {
    case STREAM_DONE:
        upstream->user->events->on_byte(upstream->user);
        parse_heads(upstream);
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        upstream->user->events->on_lost(upstream->user);
        return;
    }
}

/* The connection has a request that is not written yet. Any input is older than the request: an
 * end, or bytes that answer no request. */
static void meet_idle(struct upstream *upstream)
{
    if (stream_peek(&upstream->stream) != STREAM_BLOCKED) {
        upstream->user->events->on_lost(upstream->user);
    }
}

static void on_readable(void *owner)
{
    struct upstream *upstream = owner;
    if (upstream->user != NULL && upstream->user->events->is_blocked(upstream->user)) {
        stream_want_read(&upstream->stream, false);
        return;
    }
    switch (upstream->phase) {
    case UPSTREAM_IDLE:
        /* Tickets of TLS 1.3 may come late, and are no bytes of an answer. */
        if (stream_peek(&upstream->stream) != STREAM_BLOCKED) {
            upstream_close(
                upstream); /* an end, or bytes that answer no request (RFC 9112 section 9.2) */
        }
        return;
    case UPSTREAM_AWAITING:
        if (upstream->is_reused && stream_is_unoffered(&upstream->stream)) {
            meet_idle(upstream);
        } else {
            read_head(upstream);
        }
        return;
    case UPSTREAM_STREAMING:
        pump_body(upstream, false);
        return;
    case UPSTREAM_CARRYING:
        upstream->carrier_ops->on_readable(upstream);
        return;
    case UPSTREAM_CONNECTING:
    case UPSTREAM_CLOSED:
        return;
    }
}

/* --- connecting --- */

/* The connection is made, but not secure. */
static void fail_insecure(struct upstream *upstream, const char *reason)
{
    if (upstream->http2 != NULL) {
        upstream->carrier_ops->on_failed(upstream, STATUS_UNREACHABLE, reason);
    } else {
        upstream->user->events->on_insecure(upstream->user, reason);
    }
}

/* The server has chosen a protocol by ALPN, or none: then it speaks HTTP/1.1. */
static void begin_agreed(struct upstream *upstream)
{
    const bool is_http2 = tls_alpn_of(&upstream->stream) == ALPN_H2;
    const bool may_fall_back = upstream->server->group->spec->protocol == UPSTREAM_AUTO;
    if (is_http2 && upstream->http2 != NULL) {
        upstream->server->is_http1 = false;
        upstream->carrier_ops->on_connected(upstream);
    } else if (upstream->http2 != NULL && may_fall_back) {
        upstream->carrier_ops->fall_back(upstream);
    } else if (is_http2 || upstream->http2 != NULL) {
        static const char REASON[] = "the server did not agree on the version of HTTP by ALPN";
        upstream_name_report_insecure(upstream->server, REASON);
        fail_insecure(upstream, REASON);
    } else {
        upstream->phase = UPSTREAM_AWAITING;
        upstream->user->events->on_connected(upstream->user, STATUS_OK);
    }
}

static void on_secured(void *owner, const struct tls_outcome *outcome)
{
    struct upstream *upstream = owner;
    if (outcome->failure == TLS_FAILURE_NONE) {
        begin_agreed(upstream);
        return;
    }
    upstream_name_report_insecure(upstream->server, outcome->reason);
    fail_insecure(upstream, outcome->reason);
}

static void secure(struct upstream *upstream)
{
    static const struct tls_handler HANDLER = {.on_done = on_secured};
    const enum status status = upstream_name_secure(upstream->server, &upstream->stream, &HANDLER);
    const bool is_http1 =
        upstream->http2 == NULL && upstream->server->group->spec->protocol == UPSTREAM_AUTO;
    if (status != STATUS_OK || (is_http1 && !tls_offer_http_1_1(&upstream->stream))) {
        fail_insecure(upstream, status_text(status != STATUS_OK ? status : STATUS_NO_MEMORY));
    }
}

static void end_connecting(struct upstream *upstream)
{
    const enum status status = stream_connect_status(&upstream->stream);
    if (status == STATUS_OK && upstream->server->endpoint->is_https) {
        secure(upstream);
    } else if (upstream->http2 != NULL && status == STATUS_OK) {
        upstream->carrier_ops->on_connected(upstream);
    } else if (upstream->http2 != NULL) {
        upstream->carrier_ops->on_failed(upstream, status, NULL);
    } else {
        if (status == STATUS_OK) {
            upstream->phase = UPSTREAM_AWAITING;
        }
        upstream->user->events->on_connected(upstream->user, status);
    }
}

/* --- the request --- */

static void on_drained(void *owner)
{
    struct upstream *upstream = owner;
    if (upstream->phase == UPSTREAM_CONNECTING) {
        end_connecting(upstream);
        return;
    }
    if (UNLIKELY(upstream->phase == UPSTREAM_CARRYING)) {
        upstream->carrier_ops->on_drained(upstream);
        return;
    }
    sender_drop_head(&upstream->out);
    if (upstream->user != NULL) {
        upstream->user->events->on_drained(upstream->user);
    }
}

static void on_progress(void *owner)
{
    struct upstream *upstream = owner;
    if (upstream->user != NULL) {
        upstream->user->events->on_progress(upstream->user);
    }
}

const struct stream_handler UPSTREAM_HANDLER = {
    .on_readable = on_readable,
    .on_progress = on_progress,
    .on_drained = on_drained,
};

/* --- life --- */

void upstream_prepare(struct upstream *upstream, struct upstream_server *server)
{
    struct proxy_env *env = server->group->env;
    upstream->server = server;
    upstream->has_slot = server->group->is_limited;
    list_init(&upstream->node);
    timeout_init(&upstream->timeout, on_idle_timeout);
    loop_task_init(&upstream->death, die);
    inbox_init(&upstream->inbox, &upstream->stream, NULL, &env->body_blocks, &env->small_blocks);
    upstream->inbox.pipes = server->endpoint->is_https ? NULL : &env->pipes;
    upstream->out.stream = &upstream->stream;
    upstream->inbox.looks_beyond = true;
}

void upstream_begin_request(struct upstream *upstream, struct upstream_user *user)
{
    upstream->user = user;
    upstream->inbox.head_pool = &user->pools->answer_blocks;
    upstream->inbox.large_head_pool = &user->pools->large_heads;
    if (upstream->server->group->counts_requests) {
        atomic_fetch_add_explicit(&upstream->server->process->n_requests, 1, memory_order_relaxed);
    }
    upstream->parser = (struct head_parser){
        .fields = user->fields,
        .n_fields_max = user->n_fields_max,
        .head_bytes_max = user->head_bytes_max,
    };
}

void upstream_end_head(struct upstream *upstream, const struct text *text, bool body_is_chunked)
{
    upstream->out_head = text_span(text);
    upstream->out.is_chunked = body_is_chunked;
}

/* The head, if it is not offered yet: it is now. */
static struct span take_head(struct upstream *upstream)
{
    const struct span head = upstream->out_head;
    upstream->out_head.len = 0;
    return head;
}

enum stream_result upstream_send(struct upstream *upstream, const struct span *pieces, int n_pieces,
                                 bool last)
{
    if (UNLIKELY(upstream->stream_ops != NULL)) {
        return upstream->stream_ops->send(upstream, pieces, n_pieces, last);
    }
    return sender_write(&upstream->out, take_head(upstream), pieces, n_pieces, last,
                        span_of(NULL, 0));
}

enum stream_result upstream_post_head(struct upstream *upstream)
{
    if (UNLIKELY(upstream->stream_ops != NULL)) {
        return upstream->stream_ops->send(upstream, NULL, 0, true);
    }
    return sender_post(&upstream->out, &env_of(upstream)->outbox, take_head(upstream));
}

enum stream_result upstream_send_pipe(struct upstream *upstream, struct pipe *pipe)
{
    assert(!upstream_owes_head(upstream) && !upstream->out.is_chunked);
    return stream_write_pipe(&upstream->stream, pipe);
}

/* --- questions, and what differs by the version --- */

bool upstream_is_unprocessed(const struct upstream *upstream)
{
    return upstream->stream_ops != NULL ? upstream->stream_ops->is_unprocessed(upstream)
                                        : stream_is_unoffered(&upstream->stream);
}

enum upstream_loss upstream_loss_of(struct upstream *upstream, bool is_counted)
{
    return upstream->stream_ops != NULL ? upstream->stream_ops->loss(upstream, is_counted)
                                        : LOSS_PLAIN;
}

bool upstream_refuses_upgrade(struct upstream *upstream)
{
    struct upstream_server *server = upstream->server;
    const bool has_agreed =
        tls_is_used(&upstream->stream) && tls_alpn_of(&upstream->stream) == ALPN_HTTP_1_1;
    if (!upstream->is_single || server->has_upgraded || has_agreed) {
        return false;
    }
    server->no_upgrade_until_us = clock_monotonic_us() + NO_UPGRADE_FOR_US;
    return true;
}

static const struct stream *socket_of(const struct upstream *upstream)
{
    return upstream->stream_ops != NULL ? upstream->stream_ops->socket(upstream)
                                        : &upstream->stream;
}

const char *upstream_alert(const struct upstream *upstream, bool *is_of_handshake)
{
    const struct stream *socket = socket_of(upstream);
    if (socket->fd < 0 || !tls_is_used(socket)) {
        return NULL;
    }
    *is_of_handshake = tls_has_late_handshake(socket);
    return tls_alert_of(socket);
}

bool upstream_is_securing(const struct upstream *upstream)
{
    return tls_is_used(socket_of(upstream));
}

bool upstream_waits_here(const struct upstream *upstream)
{
    return tls_is_queued(socket_of(upstream));
}

void upstream_read_rest(struct upstream *upstream)
{
    if (upstream->stream_ops == NULL) {
        stream_want_read(&upstream->stream, true);
    }
}

void upstream_keep_trailers(struct upstream *upstream, char *memory)
{
    if (upstream->stream_ops != NULL) {
        upstream->stream_ops->keep_trailers(upstream, memory);
    } else {
        upstream->inbox.decoder.trailers = memory;
    }
}

size_t upstream_trailer_bytes(const struct upstream *upstream)
{
    return upstream->stream_ops != NULL ? upstream->stream_ops->trailer_bytes(upstream)
                                        : upstream->inbox.decoder.trailer_bytes;
}

bool upstream_is_held_back(const struct upstream *upstream)
{
    if (upstream->stream_ops != NULL) {
        return upstream->stream_ops->is_held_back(upstream);
    }
    const struct inbox *inbox = &upstream->inbox;
    const uint64_t received = stream_received_bytes(&upstream->stream);
    const bool is_rest_here = inbox->kind == BODY_LENGTH && inbox->left <= received;
    return received >= HELD_BACK_BYTES_MIN && !is_rest_here &&
           !stream_has_peer_ended(&upstream->stream);
}

bool upstream_is_starved(const struct upstream *upstream)
{
    return upstream->stream_ops != NULL && upstream->stream_ops->is_starved(upstream);
}

bool upstream_takes_pipe(const struct upstream *upstream, bool keeps_up)
{
    return upstream->stream_ops == NULL && upstream->stream.transport->from_pipe != NULL &&
           (!keeps_up || stream_keeps_up(&upstream->stream));
}

/* --- the end --- */

/* Whether the answer has no body because of its request or its status, not by its own length. */
static bool is_bodyless(const struct upstream *upstream)
{
    const struct upstream_user *user = upstream->user;
    const uint16_t status = user->response->status;
    return user->response->body == BODY_NONE &&
           (user->is_head_request || status == 204 || status == 205 || status == 304);
}

/* Whether the server of a bodyless answer may send a body all the same, against the rules. It may
 * send it late, when it would be taken for the answer to the next request. To HEAD an answer
 * without a length is the one of a handler that streams. */
static bool may_bring_late_body(const struct upstream *upstream)
{
    const struct head *response = upstream->user->response;
    const bool is_announced =
        response->content_length > 0 || head_has(response, FIELD_TRANSFER_ENCODING);
    if (response->status == 204 || response->status == 205) {
        return is_announced;
    }
    if (upstream->server->group->spec->reuse_after_head) {
        return false;
    }
    return response->status == 304 ? is_announced : is_announced || !response->has_content_length;
}

bool upstream_may_go_on(const struct upstream *upstream)
{
    const struct upstream_user *user = upstream->user;
    const uint16_t status = user->response->status;
    return user->is_head_request && upstream->phase == UPSTREAM_STREAMING && status != 204 &&
           status != 304 && may_bring_late_body(upstream);
}

bool upstream_is_current(struct upstream *upstream)
{
    const struct upstream_server *server = upstream->server;
    if (upstream->generation == server->generation) {
        return true;
    }
    if (upstream->is_single) { /* its generation never is that of the server */
        upstream->server->has_upgraded = true;
        return false;
    }
    upstream->generation = server->generation;
    return upstream_server_find_address(server, &upstream->address) < server->n_addresses;
}

void upstream_close_outdated(struct upstream_server *server)
{
    struct list *node = server->idle.next;
    while (node != &server->idle) {
        struct upstream *upstream = CONTAINER_OF(node, struct upstream, node);
        node = node->next;
        if (!upstream_is_current(upstream)) {
            upstream_close(upstream);
        }
    }
}

bool upstream_release(struct upstream *upstream, uint64_t now_us)
{
    if (UNLIKELY(upstream->stream_ops != NULL)) {
        return false;
    }
    const struct head *response = upstream->user->response;
    upstream->is_doubtful = is_bodyless(upstream);
    const bool is_clean = upstream->phase == UPSTREAM_STREAMING && response->keep_alive &&
                          !upstream->ends_after_answer && upstream->inbox.ended &&
                          !inbox_has_bytes(&upstream->inbox) &&
                          !(upstream->is_doubtful && may_bring_late_body(upstream)) &&
                          !stream_is_blocked(&upstream->stream) &&
                          !stream_is_broken(&upstream->stream);
    if (!is_clean || env_of(upstream)->is_draining || upstream->server->group->is_retired ||
        !upstream_is_current(upstream) || !inbox_end_message(&upstream->inbox)) {
        return false;
    }
    upstream_leave_user(upstream);
    stream_want_read(&upstream->stream, true);
    upstream_enter_idle(upstream, now_us);
    return true;
}

bool upstream_is_at_work(const struct upstream *upstream)
{
    return upstream->stream_ops != NULL
               ? upstream->stream_ops->is_at_work(upstream)
               : !upstream_owes_head(upstream) && !stream_is_unoffered(&upstream->stream);
}

bool upstream_hand_over(struct upstream *upstream, struct upstream_user *user)
{
    assert(upstream->phase == UPSTREAM_AWAITING || upstream->phase == UPSTREAM_STREAMING);
    if (upstream->stream_ops != NULL) {
        return upstream->stream_ops->hand_over(upstream, user);
    }
    upstream->user = user;
    stream_give_up_writing(&upstream->stream);
    sender_drop_head(&upstream->out);
    upstream->inbox.decoder.trailers = NULL;
    upstream->parser.fields = user->fields;
    upstream->inbox.is_small = true;
    upstream->inbox.takes_pipe = false;
    return true;
}

void upstream_read_to_close(struct upstream *upstream)
{
    if (upstream->stream_ops == NULL) {
        upstream->phase = UPSTREAM_STREAMING;
        inbox_begin_body(&upstream->inbox, 0, BODY_UNTIL_CLOSE, 0);
        stream_want_read(&upstream->stream, true);
    }
}
