/* Happy path: a head is read with one read() and given to an exchange. The answer is sent with one
 * writev(). Then the connection is idle, without a buffer, until the next request.
 *
 *   NEW ─ PROXY header, if one is expected ─► IDLE
 *   IDLE ─ first byte ─► BUSY ─ answered ─► ANSWERED ─ written, another may follow ─► IDLE
 *                          │                    └ written, none may follow ─► LINGER ─► CLOSED
 *                          └ lost, or cut ─► CLOSED
 *
 * Failures: a client that leaves ends its exchange. A client that has ended only its side still
 * gets its answer. A client that goes on sending unwanted bytes is answered, and its bytes are
 * read for a while, so that a reset does not destroy the answer. */

#include "proxy/client/client_env.h"

#include <assert.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/proxy_header.h"
#include "proxy/client/connection_limits.h"
#include "proxy/client/downstream_inner.h"
#include "proxy/client/http2_connection.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/exchange_steps.h"
#include "tls/tls_server.h"
#include "tls/tls_stream.h"

enum { DOWNSTREAMS_KEPT = 1024 };

/* --- the configuration of the connection: none while it is idle --- */

/* The first byte of a request or of the PROXY header comes: from here on the connection is under
 * @config. */
static void acquire_config(struct downstream *downstream, struct exchange_config *config)
{
    downstream->config = exchange_config_acquire(config);
    downstream->inbox.head_pool = &config->pools->head_blocks;
    downstream->parser.n_fields_max = config->policy->max.headers;
    downstream->parser.head_bytes_max = config->policy->max.head_bytes;
}

/* The connection holds nothing of its configuration any more, or never did. */
static void release_config(struct downstream *downstream)
{
    exchange_config_release(downstream->config);
    downstream->config = NULL;
}

/* An exchange has ended, and part of the next request was read. That request goes on under the
 * configuration in force, or under the old one if the new one has no room for it. */
static void refresh_config(struct downstream *downstream)
{
    struct exchange_config *before = downstream->config;
    struct exchange_config *config = downstream->connection.env->config;
    if (before != config && (before->pools == config->pools ||
                             inbox_move_head(&downstream->inbox, &config->pools->head_blocks))) {
        acquire_config(downstream, config);
        exchange_config_release(before);
    }
}

/* --- the end --- */

static void die(struct loop_task *task)
{
    struct downstream *downstream = CONTAINER_OF(task, struct downstream, death);
    struct client_env *clients = downstream->connection.clients;
    pool_give(&clients->downstreams, downstream);
    clients->on_gone(clients);
}

/* Free everything; no exchange is under way. */
static void close_idle(struct downstream *downstream)
{
    assert(downstream->phase != DOWNSTREAM_CLOSED && downstream->exchange == NULL);
    if (downstream->is_stalled) {
        stream_reset_on_close(&downstream->stream); /* a cut answer must not look complete */
    }
    downstream_end_handshake(downstream);
    http2_free(downstream->http2);
    downstream->http2 = NULL;
    downstream->phase = DOWNSTREAM_CLOSED;
    list_remove(&downstream->connection.node);
    timeout_disarm(&downstream->timeout);
    loop_task_cancel(&downstream->next);
    stream_close(&downstream->stream);
    inbox_close(&downstream->inbox);
    sender_drop_head(&downstream->out);
    release_config(downstream);
    eviction_remove(&downstream->connection.clients->connection_limits->eviction,
                    &downstream->connection.candidate);
    connection_limits_forget(&downstream->connection);
    loop_at_iteration_end(downstream->connection.env->loop, &downstream->death);
}

void downstream_close(struct downstream *downstream)
{
    if (downstream->exchange != NULL) {
        exchange_on_client_gone(downstream->exchange); /* comes back through on_done() */
    } else if (downstream->phase != DOWNSTREAM_CLOSED) {
        if (downstream->http2 != NULL) {
            http2_end_requests(downstream->http2, HTTP2_END_CLIENT_GONE);
        }
        close_idle(downstream);
    }
}

static void cut(struct client_connection *connection)
{
    struct downstream *downstream = CONTAINER_OF(connection, struct downstream, connection);
    if (downstream->exchange != NULL) {
        /* comes back through on_done() */
        exchange_cut(downstream->exchange, ANSWER_SERVER_FAILED, "the proxy ended it");
    } else if (downstream->phase != DOWNSTREAM_CLOSED) {
        if (downstream->http2 != NULL) {
            http2_end_requests(downstream->http2, HTTP2_END_CUT);
        }
        close_idle(downstream);
    }
}

static bool on_new_configuration(struct client_connection *connection,
                                 const struct exchange_config *expired)
{
    const struct downstream *downstream = CONTAINER_OF(connection, struct downstream, connection);
    if (downstream->http2 != NULL) {
        return http2_cut_expired(downstream->http2, expired);
    }
    const bool is_under_it = downstream->config == expired;
    if (is_under_it) {
        cut(connection);
    }
    return is_under_it;
}

static void on_timeout(struct timeout *timeout)
{
    struct downstream *downstream = CONTAINER_OF(timeout, struct downstream, timeout);
    if (downstream->phase == DOWNSTREAM_BUSY) {
        downstream_refuse_head(downstream, "the request's head took too long");
    } else if (downstream->phase == DOWNSTREAM_SECURING) {
        downstream_report_slow_handshake(downstream);
        close_idle(downstream);
    } else if (downstream->phase == DOWNSTREAM_HTTP2) {
        http2_on_timeout(downstream->http2);
    } else {
        close_idle(downstream);
    }
}

/* --- the end in stages (RFC 9112 section 9.6): a close with unread bytes would reset the
 * connection, and the client could lose an answer that it has not read yet --- */

/* End our side, and discard for a while what the client still sends. */
static void linger(struct downstream *downstream)
{
    downstream->phase = DOWNSTREAM_LINGER;
    inbox_close(&downstream->inbox);
    release_config(downstream);
    stream_shutdown(&downstream->stream);
    stream_want_read(&downstream->stream, true);
    const uint64_t now_us = clock_monotonic_us();
    linger_begin(&downstream->linger, now_us);
    timeout_arm(&downstream->timeout, &downstream->connection.clients->linger_timeouts, now_us);
    eviction_publish(&downstream->connection.candidate, now_us + EVICTION_GRACE_US);
}

/* Whether the client's side may lack a part of an answer: a close would destroy that part. */
static bool owes_answer(const struct downstream *downstream)
{
    /* Our FIN counts as a byte. */
    const uint64_t n_ends = downstream->phase == DOWNSTREAM_LINGER ? 1 : 0;
    return stream_unread_bytes(&downstream->stream) > n_ends;
}

/* Bytes or the end have come: discard them, and close at the end or when a bound is reached. An
 * evicted connection closes when its client has the answer, whatever the client goes on to send. */
static void discard(struct downstream *downstream)
{
    char *block = pool_take(&downstream->connection.env->body_blocks);
    const uint64_t now_us = clock_monotonic_us();
    size_t n_read = 0;
    enum stream_result result = STREAM_BROKEN;
    if (block != NULL) {
        result = stream_read(&downstream->stream, block, IO_BLOCK_BYTES, &n_read);
        pool_give(&downstream->connection.env->body_blocks, block);
    }
    if (result == STREAM_EOF || result == STREAM_BROKEN ||
        (downstream->is_evicted && !owes_answer(downstream)) ||
        !linger_takes(&downstream->linger, n_read, now_us)) {
        downstream_close(downstream);
        return;
    }
    timeout_arm(&downstream->timeout, &downstream->connection.clients->linger_timeouts, now_us);
}

/* Answered, and no other request may follow. An evicted connection does not linger, unless it is
 * deferred and a close would destroy its answer. */
static void finish(struct downstream *downstream)
{
    const bool may_linger =
        !downstream->is_evicted ||
        (downstream->connection.candidate.is_deferred && owes_answer(downstream));
    const bool sends_more = !downstream->inbox.ended || inbox_has_bytes(&downstream->inbox) ||
                            stream_peek(&downstream->stream) == STREAM_DONE;
    if (sends_more && !downstream->has_ended && may_linger) {
        linger(downstream);
    } else {
        close_idle(downstream);
    }
}

/* Close it after a pause, in which nothing is read. A client that floods connects again as soon as
 * its connection ends, and a new connection costs more than frames. This one may be evicted. */
static void close_after_pause(struct downstream *downstream)
{
    const uint64_t now_us = clock_monotonic_us();
    downstream->phase = DOWNSTREAM_LINGER;
    inbox_close(&downstream->inbox);
    release_config(downstream);
    stream_want_read(&downstream->stream, false);
    timeout_arm(&downstream->timeout, &downstream->connection.clients->grace_timeouts, now_us);
    eviction_publish(&downstream->connection.candidate, now_us);
}

void downstream_finish_http2(struct downstream *downstream, bool is_misused)
{
    http2_free(downstream->http2);
    downstream->http2 = NULL;
    if (is_misused && !downstream->connection.env->is_draining) {
        close_after_pause(downstream);
    } else {
        finish(downstream);
    }
}

/* --- draining --- */

static void drain(struct client_connection *connection)
{
    struct downstream *downstream = CONTAINER_OF(connection, struct downstream, connection);
    if (downstream->phase == DOWNSTREAM_NEW || downstream->phase == DOWNSTREAM_SECURING) {
        timeout_arm(&downstream->timeout, &downstream->connection.clients->grace_timeouts,
                    clock_monotonic_us());
        return;
    }
    if (downstream->phase == DOWNSTREAM_HTTP2) {
        http2_drain(downstream->http2);
        return;
    }
    if (downstream->phase != DOWNSTREAM_IDLE || !list_is_empty(&downstream->next.node)) {
        return;
    }
    switch (stream_peek(&downstream->stream)) {
    case STREAM_DONE:
        return; /* a request has come and is not read yet */
    case STREAM_BLOCKED:
        if (downstream->keep_alive) {
            break; /* had its answers */
        }
        /* A client that has just connected is about to send its first request. */
        downstream->is_first = false;
        timeout_arm(&downstream->timeout, &downstream->connection.clients->grace_timeouts,
                    clock_monotonic_us());
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    downstream_close(downstream);
}

/* --- one request after another --- */

static void arm_rest(struct downstream *downstream, uint64_t now_us)
{
    downstream->rest_since_us = now_us;
    timeout_arm(&downstream->timeout, &downstream->connection.clients->rest_timeouts, now_us);
}

/* The client is known, and its first request is expected. */
static void begin_first(struct downstream *downstream, uint64_t now_us)
{
    if (!downstream_await_first(downstream, now_us)) {
        arm_rest(downstream, now_us);
    }
}

/* Wait for the next request. The timeout is armed already. */
static void rest(struct downstream *downstream)
{
    downstream->phase = DOWNSTREAM_IDLE;
    eviction_publish(&downstream->connection.candidate,
                     downstream->rest_since_us + EVICTION_GRACE_US);
    release_config(downstream);
    stream_want_read(&downstream->stream, true);
}

/* The answer has been written. */
static void go_on(struct downstream *downstream)
{
    if (downstream->keep_alive && !downstream->inbox.ended) {
        downstream_skip_body(downstream);
    }
    if (!downstream->keep_alive || !downstream->inbox.ended ||
        downstream->connection.env->is_draining) {
        finish(downstream);
        return;
    }
    if (!inbox_end_message(&downstream->inbox)) {
        close_idle(downstream); /* the start of the next request is lost */
        return;
    }
    head_parser_reset(&downstream->parser);
    if (inbox_head_bytes(&downstream->inbox).len > 0) {
        downstream->phase = DOWNSTREAM_IDLE;
        downstream->busy_from_us = EVICTION_AFTER_ANSWER;
        refresh_config(downstream);
        loop_at_iteration_end(downstream->connection.env->loop, &downstream->next);
    } else if (downstream->has_ended) {
        close_idle(downstream);
    } else {
        rest(downstream);
    }
}

static void on_done(struct client *client, uint64_t now_us)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    const bool is_answered = downstream->exchange->state == EXCHANGE_DONE;
    const bool is_cut = !is_answered && downstream->exchange->is_response_started;
    pool_give(&downstream->config->pools->exchanges, downstream->exchange);
    downstream->exchange = NULL;
    downstream->wants_body = false;
    if (is_cut) {
        /* After an orderly close, an answer that the close delimits would look complete. */
        stream_reset_on_close(&downstream->stream);
    }
    if (!is_answered) {
        close_idle(downstream);
        return;
    }
    arm_rest(downstream, now_us);
    if (stream_is_blocked(&downstream->stream)) {
        downstream->phase = DOWNSTREAM_ANSWERED;
        eviction_publish(&downstream->connection.candidate, EVICTION_AFTER_ANSWER);
    } else {
        go_on(downstream);
    }
}

/* The first byte of a request is here. False: no memory, and the connection is closed. */
static bool begin(struct downstream *downstream, uint64_t now_us)
{
    struct exchange_config *config = downstream->config;
    void *memory = pool_take(&config->pools->exchanges);
    if (memory == NULL) {
        close_idle(downstream);
        return false;
    }
    if (!downstream->is_first) {
        timeout_disarm(&downstream->timeout);
    }
    if (UNLIKELY(!downstream->connection.candidate.has_spoken)) {
        eviction_note_spoken(&downstream->connection.clients->connection_limits->eviction,
                             &downstream->connection.candidate);
    }
    if (UNLIKELY(downstream->connection.env->tls != NULL)) {
        tls_note_activity(downstream->connection.env->tls, downstream->client.tls);
    }
    downstream->phase = DOWNSTREAM_BUSY;
    eviction_publish(&downstream->connection.candidate, downstream->busy_from_us);
    downstream->exchange =
        exchange_init(memory, config, &downstream->client, &downstream->connection.peer, now_us);
    downstream->parser.fields = downstream->exchange->fields;
    return true;
}

static void parse(struct downstream *downstream, uint64_t now_us)
{
    struct exchange *exchange = downstream->exchange;
    struct head *request = &exchange->request;
    size_t consumed;
    switch (head_parse_request(&downstream->parser, inbox_head_bytes(&downstream->inbox), request,
                               &consumed)) {
    case PARSE_DONE:
        downstream_end_first(downstream);
        inbox_begin_body(&downstream->inbox, consumed, request->body, request->content_length);
        downstream_publish_busy(downstream);
        exchange_on_head(exchange, now_us);
        return;
    case PARSE_PARTIAL:
        if (downstream->has_ended) {
            exchange_on_client_gone(exchange);
        } else if (downstream->is_evicted) {
            downstream_refuse_head(downstream, DOWNSTREAM_HEAD_EVICTED);
        } else {
            eviction_publish(&downstream->connection.candidate,
                             exchange->started_us + EVICTION_REQUEST_GRACE_US);
            stream_want_read(&downstream->stream, true);
        }
        return;
    case PARSE_BAD:
        downstream_end_first(downstream);
        eviction_publish(&downstream->connection.candidate, downstream->busy_from_us);
        downstream->inbox.ended = false; /* the end of this request is not known */
        exchange_on_bad_head(exchange);
        return;
    }
}

static void on_next(struct loop_task *task)
{
    struct downstream *downstream = CONTAINER_OF(task, struct downstream, next);
    const uint64_t now_us = clock_monotonic_us();
    if (begin(downstream, now_us)) {
        parse(downstream, now_us);
    }
}

/* The first bytes of a connection that may speak HTTP/2 are here. True: it does, or more of them
 * have to come; or there is no memory, and the connection is closed. */
static bool takes_http2(struct downstream *downstream)
{
    const struct span bytes = inbox_head_bytes(&downstream->inbox);
    const size_t n = bytes.len < HTTP2_PREFACE_BYTES ? bytes.len : HTTP2_PREFACE_BYTES;
    const bool is_preface = memcmp(bytes.data, HTTP2_PREFACE.data, n) == 0;
    if (!is_preface && (downstream->versions & HTTP_VERSION_1_1) != 0) {
        downstream->versions = 0;
        return false;
    }
    if (is_preface && n < HTTP2_PREFACE_BYTES) {
        return true;
    }
    downstream->versions = 0;
    if (!http2_begin(downstream, bytes)) {
        close_idle(downstream);
        return true;
    }
    if (downstream->phase != DOWNSTREAM_CLOSED) {
        inbox_close(&downstream->inbox);
        release_config(downstream);
    }
    return true;
}

static void read_head(struct downstream *downstream)
{
    if (downstream->config == NULL) {
        acquire_config(downstream, downstream->connection.env->config);
    }
    const enum stream_result result = inbox_read_head(&downstream->inbox);
    const uint64_t now_us = clock_monotonic_us();
    switch (result) {
    case STREAM_DONE:
        if (UNLIKELY((downstream->versions & HTTP_VERSION_2) != 0) && takes_http2(downstream)) {
            return;
        }
        if (downstream->phase == DOWNSTREAM_BUSY || begin(downstream, now_us)) {
            parse(downstream, now_us);
        }
        return;
    case STREAM_BLOCKED:
        if (downstream->phase == DOWNSTREAM_IDLE && !inbox_has_bytes(&downstream->inbox)) {
            release_config(downstream);
        }
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        downstream_close(downstream);
        return;
    }
}

/* --- the PROXY header --- */

/* The PROXY header is complete: @consumed bytes. The first request may follow, or part of it. */
static void take_header(struct downstream *downstream, const struct proxy_header *header,
                        size_t consumed)
{
    downstream_end_header(downstream);
    if (header->has_source) {
        downstream->connection.peer = header->source;
    }
    if (!connection_limits_count(downstream->connection.clients, &downstream->connection.peer,
                                 downstream->stream.fd, &downstream->connection.is_counted)) {
        close_idle(downstream);
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    inbox_begin_body(&downstream->inbox, consumed, BODY_NONE, 0);
    inbox_end_head(&downstream->inbox);
    if (downstream->tls_server != NULL) {
        downstream_secure(downstream, inbox_head_bytes(&downstream->inbox));
        inbox_close(&downstream->inbox);
        release_config(downstream);
        return;
    }
    begin_first(downstream, now_us);
    if (inbox_head_bytes(&downstream->inbox).len > 0 &&
        (downstream->versions & HTTP_VERSION_2) != 0) {
        downstream->phase = DOWNSTREAM_IDLE;
        if (takes_http2(downstream)) {
            return;
        }
    }
    if (inbox_head_bytes(&downstream->inbox).len == 0) {
        rest(downstream);
        if (downstream->connection.env->is_draining) {
            drain(&downstream->connection);
        }
    } else if (begin(downstream, now_us)) {
        parse(downstream, now_us);
    }
}

void downstream_on_secured(struct downstream *downstream)
{
    const uint64_t now_us = clock_monotonic_us();
    downstream->client.tls = &downstream->stream;
    downstream->inbox.pipes = NULL; /* bytes pass through user space to be decrypted */
    if (downstream->is_first) {
        timeout_arm(&downstream->timeout, &downstream->connection.clients->first_timeouts, now_us);
    } else {
        arm_rest(downstream, now_us);
    }
    rest(downstream);
    if (tls_alpn_of(&downstream->stream) == ALPN_H2 && !http2_begin(downstream, span_of(NULL, 0))) {
        close_idle(downstream);
    } else if (downstream->connection.env->is_draining) {
        drain(&downstream->connection);
    }
}

static void read_header(struct downstream *downstream)
{
    struct proxy_header header;
    size_t consumed;
    const enum stream_result result = inbox_read_head(&downstream->inbox);
    if (result == STREAM_EOF || result == STREAM_BROKEN) {
        close_idle(downstream);
        return;
    }
    switch (proxy_header_parse(inbox_head_bytes(&downstream->inbox), &header, &consumed)) {
    case PARSE_DONE:
        take_header(downstream, &header, consumed);
        return;
    case PARSE_PARTIAL:
        return;
    case PARSE_BAD:
        connection_limits_refuse(downstream->connection.clients, downstream->stream.fd,
                                 &downstream->connection.peer, REFUSAL_HEADER, header.problem);
        close_idle(downstream);
        return;
    }
}

/* --- the loop --- */

/* Something comes while the exchange wants no bytes: the next request, which waits in the kernel,
 * or the end. */
static void look(struct downstream *downstream)
{
    switch (stream_peek(&downstream->stream)) {
    case STREAM_EOF:
        downstream->has_ended = true;
        stream_want_read(&downstream->stream, false);
        exchange_on_client_ended(downstream->exchange);
        return;
    case STREAM_DONE:
        stream_want_read(&downstream->stream, false);
        if (downstream->inbox.ended) {
            downstream->busy_from_us = EVICTION_AFTER_ANSWER;
            if (downstream->exchange->state != EXCHANGE_REPLY) { /* else it waits to be read */
                eviction_publish(&downstream->connection.candidate, downstream->busy_from_us);
            }
        }
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_BROKEN:
        downstream_close(downstream);
        return;
    }
}

static void on_readable(void *owner)
{
    struct downstream *downstream = owner;
    switch (downstream->phase) {
    case DOWNSTREAM_NEW:
        read_header(downstream);
        return;
    case DOWNSTREAM_IDLE:
        if (!list_is_empty(&downstream->next.node)) {
            stream_want_read(&downstream->stream, false); /* one request after another */
            return;
        }
        read_head(downstream);
        return;
    case DOWNSTREAM_BUSY:
        if (downstream->exchange->state == EXCHANGE_READ_HEAD) {
            read_head(downstream);
        } else if (downstream->wants_body && exchange_takes_body(downstream->exchange)) {
            downstream_pump(&downstream->client);
        } else {
            look(downstream);
        }
        return;
    case DOWNSTREAM_HTTP2:
        http2_on_readable(downstream->http2);
        return;
    case DOWNSTREAM_ANSWERED:
        stream_want_read(&downstream->stream, false); /* one request after another */
        return;
    case DOWNSTREAM_LINGER:
        discard(downstream);
        return;
    case DOWNSTREAM_SECURING:
    case DOWNSTREAM_CLOSED:
        return;
    }
}

static void on_drained(void *owner)
{
    struct downstream *downstream = owner;
    if (downstream->http2 != NULL) {
        http2_on_drained(downstream->http2);
        return;
    }
    sender_drop_head(&downstream->out);
    if (stream_is_broken(&downstream->stream)) {
        downstream_close(downstream);
    } else if (downstream->phase == DOWNSTREAM_ANSWERED) {
        if (downstream->is_stalled) {
            downstream->is_stalled = false;
            arm_rest(downstream, clock_monotonic_us());
        }
        go_on(downstream);
    } else if (downstream->exchange != NULL) {
        exchange_on_client_drained(downstream->exchange);
    }
}

/* The kernel has not taken the end of an answer, at most a block behind the bytes that it holds.
 * The client has the time that body_rate grants in advance to take it. No server waits for it, so
 * the connection may give way before that. */
static void stall(struct downstream *downstream)
{
    struct exchange_config *config = downstream->config;
    const bool has_rate = config->policy->timeouts.body_bytes_per_s > 0 &&
                          config->head_timeouts.length_us < config->idle_timeouts.length_us;
    if (!downstream->is_stalled) {
        downstream->is_stalled = true;
        eviction_publish(&downstream->connection.candidate,
                         downstream->rest_since_us + EVICTION_REQUEST_GRACE_US);
        timeout_arm(&downstream->timeout,
                    has_rate ? &config->head_timeouts : &config->idle_timeouts,
                    clock_monotonic_us());
    }
}

static void on_progress(void *owner)
{
    struct downstream *downstream = owner;
    if (downstream->phase == DOWNSTREAM_ANSWERED) {
        stall(downstream);
    } else if (downstream->http2 != NULL) {
        http2_on_progress(downstream->http2);
    } else if (downstream->exchange != NULL) {
        exchange_on_client_progress(downstream->exchange);
    }
}

static void on_ended(void *owner)
{
    struct downstream *downstream = owner;
    exchange_on_client_ended(downstream->exchange);
}

static const struct stream_handler HANDLER = {
    .on_readable = on_readable,
    .on_ended = on_ended,
    .on_progress = on_progress,
    .on_drained = on_drained,
};

static void hold(struct client *client, bool is_held)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    stream_watch_end(&downstream->stream, is_held);
}

static void await_body(struct client *client, bool is_awaited)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    eviction_publish(&downstream->connection.candidate,
                     is_awaited ? clock_monotonic_us() + EVICTION_REQUEST_GRACE_US
                                : downstream->busy_from_us);
}

static size_t await_room(struct client *client)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    return stream_await_room(&downstream->stream);
}

static uint64_t unread_bytes(struct client *client)
{
    const struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    return stream_unread_bytes(&downstream->stream);
}

static const struct client_ops OPS = {
    .send = downstream_send,
    .send_pipe = downstream_send_pipe,
    .send_interim = downstream_send_interim,
    .has_whole_body = downstream_has_whole_body,
    .pump = downstream_pump,
    .hold = hold,
    .await_body = await_body,
    .await_room = await_room,
    .unread_bytes = unread_bytes,
    .on_done = on_done,
};

static const struct client_connection_ops CONNECTION_OPS = {
    .drain = drain,
    .close = cut,
    .on_new_configuration = on_new_configuration,
    .evict = downstream_evict,
};

void downstream_init_pools(struct client_env *clients)
{
    pool_init(&clients->downstreams, sizeof(struct downstream), DOWNSTREAMS_KEPT);
    http2_init_pool(&clients->http2_requests);
}

void downstream_open(struct client_env *clients, int fd, const struct address *peer,
                     bool awaits_header, bool is_counted, struct tls_server *tls_server,
                     unsigned versions)
{
    struct proxy_env *env = clients->env;
    struct downstream *downstream = pool_take(&clients->downstreams);
    if (downstream == NULL) {
        connection_limits_refuse(clients, fd, peer, REFUSAL_MEMORY, NULL);
        connection_limits_release(clients, is_counted ? peer : NULL);
        close(fd);
        return;
    }
    *downstream = (struct downstream){
        .client = {.ops = &OPS, .identity = &downstream->connection.identity},
        .connection =
            {
                .ops = &CONNECTION_OPS,
                .env = env,
                .clients = clients,
                .peer = *peer,
                .is_counted = is_counted,
            },
        .busy_from_us = EVICTION_NEVER,
        .versions = tls_server != NULL ? 0 : versions,
        .out = {.stream = &downstream->stream},
    };
    list_push_back(&clients->open, &downstream->connection.node);
    eviction_candidate_init(&downstream->connection.candidate, &clients->victims);
    list_init(&downstream->shaking);
    timeout_init(&downstream->timeout, on_timeout);
    loop_task_init(&downstream->next, on_next);
    loop_task_init(&downstream->death, die);
    inbox_init(&downstream->inbox, &downstream->stream, NULL, &env->body_blocks,
               &env->small_blocks);
    downstream->inbox.pipes = &env->pipes;
    downstream->tls_server = tls_server != NULL ? tls_server_acquire(tls_server) : NULL;
    if (stream_open(&downstream->stream, env->loop, fd, &HANDLER, downstream) != STATUS_OK) {
        close_idle(downstream);
    } else if (awaits_header) {
        downstream->phase = DOWNSTREAM_NEW;
        acquire_config(downstream, env->config);
        downstream_await_header(downstream, clock_monotonic_us());
    } else if (tls_server != NULL) {
        downstream_secure(downstream, span_of(NULL, 0));
    } else {
        begin_first(downstream, clock_monotonic_us());
        rest(downstream);
    }
    if (env->is_draining && downstream->phase != DOWNSTREAM_CLOSED) {
        drain(&downstream->connection);
    }
}
