/* Reading gives events to the requests; whatever is to be sent waits for the end of the loop's
 * iteration, where the frames of all streams share a write.
 *
 * Failures: a fault of the peer, or abuse, ends the connection with GOAWAY (see http2/session.h),
 * and then as an HTTP/1.1 connection ends, in stages. A client that leaves ends its exchanges. One
 * that sends nothing while requests are under way is sent a PING, and is gone if it does not
 * answer. */

#include "proxy/client/http2_connection.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "proxy/client/client_env.h"
#include "proxy/client/connection_limits.h"
#include "proxy/client/downstream_inner.h"
#include "proxy/core/proxy_env.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/exchange_steps.h"
#include "tls/tls_server.h"
#include "tls/tls_stream.h"

enum {
    HEADS_MAX = 32,                        /* new requests of a connection in one iteration */
    WRITES_MAX = 16,                       /* of a connection in one iteration */
    BATCH_BYTES = 4096,                    /* heads of frames, and short ones */
    STREAM_WINDOW_SHARE = 2,               /* of max.http2_buffer, that one stream may fill */
    STREAM_WINDOW_BYTES = 16 * 1024,       /* of each stream alone */
    UNGRANTED_BYTES_MAX = 64 * 1024,       /* taken, and not yet granted again */
    SHARED_BYTES_MAX = 1024 * 1024 * 1024, /* of a window of 31 bits */
};

static struct proxy_env *env_of(const struct http2_connection *connection)
{
    return connection->downstream->connection.env;
}

static struct http2_request *request_of_stream(struct http2_stream *stream)
{
    return CONTAINER_OF(stream, struct http2_request, stream);
}

static struct http2_request *request_at(struct list *node)
{
    return CONTAINER_OF(node, struct http2_request, node);
}

void http2_wake(struct http2_connection *connection)
{
    loop_after_tasks(env_of(connection)->loop, &connection->flush);
}

/* --- the room for the next head --- */

static void drop_room(struct http2_connection *connection)
{
    if (connection->next != NULL) {
        http2_request_free(connection->next);
        connection->next = NULL;
        connection->room.stream = NULL;
    }
}

/* False: no memory. */
static bool make_room(struct http2_connection *connection, uint64_t now_us)
{
    struct http2_request *next = http2_request_new(connection, now_us);
    if (next == NULL) {
        return false;
    }
    struct exchange *exchange = next->memory;
    connection->next = next;
    connection->room = (struct http2_room){
        .stream = &next->stream,
        .head = &exchange->request,
        .builder =
            {
                .fields = (struct field *)(void *)(exchange + 1),
                .n_fields_max = next->config->policy->max.headers,
                .bytes = next->head_block,
                .capacity = next->config->pools->head_blocks.block_bytes,
                .head_bytes_max = next->config->policy->max.head_bytes,
            },
    };
    return true;
}

/* --- the end --- */

/* End a request for the proxy's own reasons. */
static void cut(struct http2_request *request)
{
    if (request->exchange != NULL) {
        exchange_cut(request->exchange, ANSWER_SERVER_FAILED, "the proxy ended it");
    } else {
        http2_request_free(request);
    }
}

void http2_end_requests(struct http2_connection *connection, enum http2_end end)
{
    while (!list_is_empty(&connection->requests)) {
        struct http2_request *request = request_at(connection->requests.next);
        if (end == HTTP2_END_CUT) {
            cut(request);
        } else {
            http2_request_on_reset(request);
        }
    }
}

bool http2_cut_expired(struct http2_connection *connection, const struct exchange_config *expired)
{
    bool is_any = false;
    struct list *node = connection->requests.next;
    while (node != &connection->requests) {
        struct http2_request *request = request_at(node);
        node = node->next;
        if (request->config == expired) {
            is_any = true;
            cut(request);
        }
    }
    if (connection->next != NULL && connection->next->config == expired) {
        downstream_close(connection->downstream); /* its head is not complete */
        return true;
    }
    return is_any;
}

static void drop_block(struct http2_connection *connection)
{
    pool_give(&env_of(connection)->body_blocks, connection->block);
    connection->block = NULL;
    connection->unread = span_of(NULL, 0);
}

void http2_free(struct http2_connection *connection)
{
    if (connection == NULL) {
        return;
    }
    drop_room(connection);
    drop_block(connection);
    timeout_disarm(&connection->head_timeout);
    timeout_disarm(&connection->ping_timeout);
    loop_task_cancel(&connection->flush);
    loop_task_cancel(&connection->go_on);
    client_streams_leave(connection->downstream->connection.clients, connection->client);
    counter_down(&env_of(connection)->meters->http2_connections);
    http2_session_free(connection->session);
    free(connection->kept);
    free(connection);
}

/* --- what the worker sees of the connection --- */

static void count_abuse(struct http2_connection *connection)
{
    const uint64_t *units = http2_session_abuse(connection->session);
    for (unsigned i = 0; i < HTTP2_ABUSE_KINDS; i++) {
        counter_add(&env_of(connection)->meters->http2_abuse[i],
                    units[i] - connection->counted_abuse[i]);
        connection->counted_abuse[i] = units[i];
    }
}

/* Since when @request does nothing but wait for its client: for its body, without a server, or for
 * the window or the socket that its whole answer needs. EVICTION_NEVER: it does something else. */
static uint64_t request_waits_from(const struct http2_request *request)
{
    const bool is_answering = request->exchange != NULL && !request->awaits_body;
    const bool waits = request->waits_from_us != EVICTION_NEVER &&
                       (!is_answering || http2_stream_window(&request->stream) == 0 ||
                        stream_is_blocked(&request->connection->downstream->stream));
    return waits ? request->waits_from_us : EVICTION_NEVER;
}

/* Since when a head or a request has waited for the client, the oldest of them. EVICTION_NEVER: one
 * of them does something else, or there are none. New ones do not make a wait shorter. */
static uint64_t waits_from(const struct http2_connection *connection)
{
    uint64_t from_us =
        http2_session_is_in_head(connection->session) ? connection->head_from_us : EVICTION_NEVER;
    for (struct list *node = connection->requests.next; node != &connection->requests;
         node = node->next) {
        const uint64_t request_us = request_waits_from(request_at(node));
        if (request_us == EVICTION_NEVER) {
            return EVICTION_NEVER;
        }
        from_us = request_us < from_us ? request_us : from_us;
    }
    return from_us;
}

static bool is_resting(const struct http2_connection *connection)
{
    return list_is_empty(&connection->requests) && !http2_session_is_in_head(connection->session);
}

void http2_publish(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    const uint64_t waits_from_us = waits_from(connection);
    const bool has_many = connection->requests.next != connection->requests.prev;
    uint64_t from_us = has_many ? EVICTION_AFTER_ANSWER : EVICTION_NEVER;
    if (is_resting(connection)) {
        from_us = downstream->rest_since_us + EVICTION_GRACE_US;
    } else if (waits_from_us != EVICTION_NEVER) {
        from_us = waits_from_us + EVICTION_REQUEST_GRACE_US;
    }
    eviction_publish(&downstream->connection.candidate, from_us);
}

/* How long the connection may be without a request. While the worker drains, the client was told of
 * the end. GOAWAY waits for a socket that may not be read. */
static struct timeout_queue *rest_timeouts(const struct http2_connection *connection)
{
    struct client_env *clients = connection->downstream->connection.clients;
    if (env_of(connection)->is_draining) {
        return &clients->grace_timeouts;
    }
    return connection->is_ended ? &clients->first_timeouts : &clients->rest_timeouts;
}

/* A request is under way, or none any more: run the timeouts that belong to that. */
static void note_state(struct http2_connection *connection, uint64_t now_us)
{
    struct downstream *downstream = connection->downstream;
    struct client_env *clients = downstream->connection.clients;
    const bool was_resting = connection->is_resting;
    connection->is_resting = is_resting(connection);
    if (!http2_session_is_in_head(connection->session)) {
        timeout_disarm(&connection->head_timeout);
        drop_room(connection);
    } else if (list_is_empty(&connection->head_timeout.node)) {
        connection->head_from_us = now_us;
        timeout_arm(&connection->head_timeout, &clients->first_timeouts, now_us);
    }
    if (connection->is_resting && !was_resting) {
        timeout_disarm(&connection->ping_timeout);
        if (!downstream->is_first) {
            downstream->rest_since_us = now_us;
            timeout_arm(&downstream->timeout, rest_timeouts(connection), now_us);
        }
    } else if (!connection->is_resting && was_resting) {
        if (!downstream->is_first) {
            timeout_disarm(&downstream->timeout);
        }
        timeout_arm(&connection->ping_timeout, &clients->ping_timeouts, now_us);
    }
    http2_publish(connection);
}

/* --- writing --- */

static void note_sent(struct http2_connection *connection)
{
    struct http2_stream *stream;
    while ((stream = http2_session_next_sent(connection->session)) != NULL) {
        http2_request_on_sent(request_of_stream(stream));
    }
}

/* The window of a stream may have opened, or the socket takes bytes again. */
static void wake_waiters(struct http2_connection *connection)
{
    struct list waiters;
    list_init(&waiters);
    if (list_is_empty(&connection->awaiting_room)) {
        return;
    }
    list_move_all(&waiters, &connection->awaiting_room);
    while (!list_is_empty(&waiters)) {
        struct http2_request *request = CONTAINER_OF(waiters.next, struct http2_request, awaiting);
        if (http2_stream_window(&request->stream) > 0 &&
            !stream_is_blocked(&connection->downstream->stream)) {
            http2_request_on_room(request);
        } else {
            list_remove(&request->awaiting);
            list_push_back(&connection->awaiting_room, &request->awaiting);
        }
    }
}

/* Streams that were reset meanwhile. */
static void take_resets(struct http2_connection *connection, uint64_t now_us)
{
    struct span none = span_of(NULL, 0);
    if (connection->unread.len > 0) {
        return; /* they come with the bytes */
    }
    for (;;) {
        const struct http2_event event =
            http2_session_read(connection->session, &none, &connection->room, now_us);
        if (event.kind != HTTP2_RESET) {
            return;
        }
        http2_request_on_reset(request_of_stream(event.stream));
    }
}

/* Write a batch of the frames that are due. False: nothing is due, or the rest has to wait; or the
 * connection is closed. */
static bool write_batch(struct http2_connection *connection, uint64_t now_us)
{
    struct downstream *downstream = connection->downstream;
    struct iovec slices[STREAM_SLICES_MAX];
    char bytes[BATCH_BYTES];
    struct http2_batch batch = {
        .slices = slices, .n_max = STREAM_SLICES_MAX, .bytes = bytes, .capacity = sizeof(bytes)};
    assert(connection->kept == NULL && !stream_is_blocked(&downstream->stream));
    if (!http2_session_pack(connection->session, &batch, now_us)) {
        downstream_close(downstream);
        return false;
    }
    if (batch.n == 0) {
        return false;
    }
    switch (stream_write(&downstream->stream, slices, batch.n)) {
    case STREAM_DONE:
        note_sent(connection);
        return true;
    case STREAM_BLOCKED:
        connection->kept = stream_copy_kept(&downstream->stream);
        if (connection->kept != NULL) {
            return false;
        }
        break;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    downstream_close(downstream);
    return false;
}

/* The session was ended, and the socket does not take the GOAWAY. No request gets an answer. */
static void await_goaway(struct http2_connection *connection)
{
    connection->is_ended = true;
    connection->is_resting = false; /* the timeout is another one */
    connection->downstream->is_first = false;
    http2_end_requests(connection, HTTP2_END_CLIENT_GONE);
}

static void flush(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    const uint64_t now_us = clock_monotonic_us();
    bool goes_on = true;
    take_resets(connection, now_us);
    for (unsigned i = 0; goes_on && !stream_is_blocked(&downstream->stream); i++) {
        if (i == WRITES_MAX) {
            http2_wake(connection);
            break;
        }
        goes_on = write_batch(connection, now_us);
        if (downstream->phase == DOWNSTREAM_CLOSED) {
            return;
        }
    }
    take_resets(connection, now_us);
    if (!stream_is_blocked(&downstream->stream) && http2_session_is_over(connection->session)) {
        http2_end_requests(connection, HTTP2_END_CLIENT_GONE);
        downstream_finish_http2(downstream, http2_session_is_misused(connection->session));
        return;
    }
    if (!connection->is_ended && http2_session_is_ended(connection->session)) {
        await_goaway(connection);
    }
    note_state(connection, now_us);
}

static void on_flush(struct loop_task *task)
{
    flush(CONTAINER_OF(task, struct http2_connection, flush));
}

void http2_on_drained(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    free(connection->kept);
    connection->kept = NULL;
    if (stream_is_broken(&downstream->stream)) {
        downstream_close(downstream);
        return;
    }
    note_sent(connection);
    wake_waiters(connection);
    flush(connection);
}

void http2_on_progress(struct http2_connection *connection)
{
    for (struct list *node = connection->requests.next; node != &connection->requests;
         node = node->next) {
        struct http2_request *request = request_at(node);
        if (request->exchange != NULL && request->exchange->is_client_blocked) {
            exchange_on_client_progress(request->exchange);
        }
    }
}

/* --- reading --- */

static void begin_request(struct http2_connection *connection, bool has_body, uint64_t now_us)
{
    struct downstream *downstream = connection->downstream;
    struct http2_request *request = connection->next;
    connection->n_begun++;
    const size_t n_max = request->config->policy->max.requests_per_connection;
    const struct stream *tls = downstream->client.tls;
    const bool is_last = tls != NULL && tls_server_is_to_reconnect(tls_client_of(tls));
    if (is_last || connection->n_begun >= n_max) {
        http2_session_drain(connection->session);
        http2_wake(connection);
    }
    if (is_last || connection->n_begun / 2 >= n_max) { /* a client need not answer the PING */
        http2_session_refuse_new(connection->session);
    }
    if (!client_streams_take(request->clients, connection->client, &downstream->connection.peer,
                             &request->slot)) {
        http2_stream_refuse(&request->stream);
        return;
    }
    connection->next = NULL;
    connection->room.stream = NULL;
    downstream_end_first(downstream);
    request->client.is_leaving = http2_stream_is_reset_ahead(&request->stream, connection->unread);
    counter_up(&env_of(connection)->meters->http2_requests);
    if (UNLIKELY(env_of(connection)->tls != NULL)) {
        tls_note_activity(env_of(connection)->tls, tls);
    }
    http2_request_begin(request, has_body, now_us);
}

static void note_spoken(struct http2_connection *connection)
{
    struct client_connection *shared = &connection->downstream->connection;
    if (!shared->candidate.has_spoken) {
        eviction_note_spoken(&shared->clients->connection_limits->eviction, &shared->candidate);
    }
}

/* False: no memory. */
static bool handle(struct http2_connection *connection, const struct http2_event *event,
                   uint64_t now_us)
{
    struct http2_request *request = event->stream != NULL ? request_of_stream(event->stream) : NULL;
    switch (event->kind) {
    case HTTP2_NONE:
    case HTTP2_MALFORMED:
        return true;
    case HTTP2_NEEDS_ROOM:
        note_spoken(connection);
        return make_room(connection, now_us);
    case HTTP2_HEAD:
        begin_request(connection, !event->is_last, now_us);
        return true;
    case HTTP2_BODY:
        return http2_request_on_body(request, event->piece, event->is_last);
    case HTTP2_TRAILERS:
        if (request->exchange != NULL) {
            const struct head *trailers = connection->room.head;
            exchange_on_trailers(request->exchange, trailers->fields, trailers->n_fields);
        }
        return http2_request_on_body(request, span_of(NULL, 0), true);
    case HTTP2_BAD_TRAILERS:
        request->is_body_ended = true;
        if (request->exchange != NULL) {
            exchange_on_bad_body(request->exchange, &connection->room.head->error);
        }
        return true;
    case HTTP2_RESET:
        http2_request_on_reset(request);
        return true;
    case HTTP2_WINDOW: /* of requests of ours alone */
        return true;
    }
    return true;
}

static bool ends_head(enum http2_event_kind kind)
{
    return kind == HTTP2_HEAD || kind == HTTP2_MALFORMED || kind == HTTP2_TRAILERS ||
           kind == HTTP2_BAD_TRAILERS;
}

static void end_gathering(struct http2_connection *connection)
{
    while (!list_is_empty(&connection->gathering)) {
        struct list *node = connection->gathering.next;
        http2_request_end_gathering(CONTAINER_OF(node, struct http2_request, gathering));
    }
}

/* Process the bytes that were read, HEADS_MAX requests of them at most. */
static void process(struct http2_connection *connection, uint64_t now_us)
{
    struct http2_event event;
    unsigned n_heads = 0;
    do {
        event =
            http2_session_read(connection->session, &connection->unread, &connection->room, now_us);
        if (!handle(connection, &event, now_us)) {
            downstream_close(connection->downstream);
            return;
        }
        n_heads += event.kind == HTTP2_HEAD;
        if (ends_head(event.kind)) {
            timeout_disarm(&connection->head_timeout); /* the next one has its own time */
        }
    } while (event.kind != HTTP2_NONE && n_heads < HEADS_MAX);
    end_gathering(connection);
    if (event.kind == HTTP2_NONE) {
        drop_block(connection);
    } else {
        loop_at_iteration_end(env_of(connection)->loop, &connection->go_on);
    }
    count_abuse(connection);
    wake_waiters(connection);
    note_state(connection, now_us);
    http2_wake(connection); /* windows, answers to PING and SETTINGS */
}

static void on_go_on(struct loop_task *task)
{
    process(CONTAINER_OF(task, struct http2_connection, go_on), clock_monotonic_us());
}

void http2_on_readable(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    size_t n_read = 0;
    enum stream_result result = STREAM_BROKEN;
    if (connection->block != NULL) {
        return; /* they are processed at the end of the iteration */
    }
    connection->block = pool_take(&env_of(connection)->body_blocks);
    if (connection->block != NULL) {
        result = stream_read(&downstream->stream, connection->block, IO_BLOCK_BYTES, &n_read);
    }
    const uint64_t now_us = clock_monotonic_us();
    switch (result) {
    case STREAM_DONE:
        connection->read_us = now_us;
        connection->unread = span_of(connection->block, n_read);
        process(connection, now_us);
        return;
    case STREAM_BLOCKED:
        drop_block(connection);
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        downstream_close(downstream);
        return;
    }
}

/* --- the end of time --- */

void http2_on_timeout(struct http2_connection *connection)
{
    struct stream *stream = &connection->downstream->stream;
    if (stream_is_blocked(stream) && !stream_is_unoffered(stream)) {
        stream_reset_on_close(stream); /* the kernel need not keep what is not read */
        downstream_close(connection->downstream);
        return;
    }
    http2_session_stop(connection->session);
    flush(connection);
}

static void on_head_timeout(struct timeout *timeout)
{
    http2_on_timeout(CONTAINER_OF(timeout, struct http2_connection, head_timeout));
}

static void on_ping_timeout(struct timeout *timeout)
{
    struct http2_connection *connection =
        CONTAINER_OF(timeout, struct http2_connection, ping_timeout);
    struct client_env *clients = connection->downstream->connection.clients;
    const uint64_t now_us = clock_monotonic_us();
    const bool is_silent = now_us - connection->read_us >= clients->ping_timeouts.length_us;
    if (is_silent && http2_session_awaits_pong(connection->session)) {
        downstream_close(connection->downstream);
        return;
    }
    if (is_silent) {
        http2_session_ping(connection->session);
        http2_wake(connection);
    }
    timeout_arm(&connection->ping_timeout, &clients->ping_timeouts, now_us);
}

/* --- for the worker --- */

void http2_drain(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    http2_session_drain(connection->session);
    if (connection->is_resting) {
        downstream->is_first = false;
        timeout_arm(&downstream->timeout, rest_timeouts(connection), clock_monotonic_us());
    }
    http2_wake(connection);
}

/* No server waits for the client. Requests that lack their bodies get their answers, as far as the
 * socket and the windows take them. A head that is not whole cannot be answered. */
static enum eviction_kind evict_waiting(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    struct list *node = connection->requests.next;
    enum eviction_kind kind = list_is_empty(&connection->requests) ? EVICTED_HEAD : EVICTED_IDLE;
    downstream->is_evicted = true;
    while (node != &connection->requests) {
        struct http2_request *request = request_at(node);
        node = node->next;
        if (request->awaits_body) {
            kind = EVICTED_BODY;
            exchange_on_evicted(request->exchange);
        }
    }
    http2_session_refuse_new(connection->session);
    flush(connection);
    if (downstream->phase != DOWNSTREAM_CLOSED) {
        downstream_close(downstream);
    }
    return kind;
}

/* A connection at rest, or whose client is waited for, closes at once. One with requests under way
 * takes no more of them, and closes when they have their answers. */
enum eviction_kind http2_evict(struct http2_connection *connection)
{
    struct downstream *downstream = connection->downstream;
    struct eviction *eviction = &downstream->connection.clients->connection_limits->eviction;
    const bool has_spoken = downstream->connection.candidate.has_spoken;
    if (connection->is_resting && stream_peek(&downstream->stream) != STREAM_DONE) {
        downstream->is_evicted = true;
        if (stream_is_blocked(&downstream->stream)) { /* by answers that were given up */
            stream_reset_on_close(&downstream->stream);
        } else {
            http2_session_stop(connection->session);
            (void)write_batch(connection, clock_monotonic_us());
        }
        if (downstream->phase != DOWNSTREAM_CLOSED) {
            downstream_close(downstream);
        }
        return has_spoken ? EVICTED_IDLE : EVICTED_SILENT;
    }
    if (waits_from(connection) != EVICTION_NEVER) {
        return evict_waiting(connection);
    }
    if (!eviction_defer(eviction, &downstream->connection.candidate)) {
        return EVICTED_NONE;
    }
    downstream->is_evicted = true;
    http2_session_refuse_new(connection->session);
    http2_wake(connection);
    return EVICTED_IDLE;
}

/* The window of the connection has room for those of all streams. */
static struct http2_config config_of(const struct downstream *downstream)
{
    const struct max_section *max = &downstream->connection.env->config->policy->max;
    const uint32_t shared = max->http2_buffer_bytes < SHARED_BYTES_MAX
                                ? (uint32_t)max->http2_buffer_bytes
                                : SHARED_BYTES_MAX;
    const uint64_t all =
        shared + (uint64_t)max->streams * STREAM_WINDOW_BYTES + UNGRANTED_BYTES_MAX;
    return (struct http2_config){
        .streams_max = max->streams,
        .head_bytes_max = (uint32_t)max->head_bytes,
        .stream_window = STREAM_WINDOW_BYTES,
        .connection_window = all < INT32_MAX ? (uint32_t)all : INT32_MAX,
        .stream_window_max = shared / STREAM_WINDOW_SHARE,
        .shared_window = shared,
        .is_shared = connection_limits_is_protected(downstream->connection.clients,
                                                    &downstream->connection.peer),
    };
}

bool http2_begin(struct downstream *downstream, struct span first)
{
    const struct http2_config config = config_of(downstream);
    const uint64_t now_us = clock_monotonic_us();
    struct http2_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        return false;
    }
    connection->block = first.len > 0 ? pool_take(&downstream->connection.env->body_blocks) : NULL;
    connection->session = http2_session_new(&config, now_us);
    if (connection->session == NULL || (first.len > 0 && connection->block == NULL) ||
        client_streams_join(downstream->connection.clients, &downstream->connection.peer,
                            &connection->client) != STATUS_OK) {
        pool_give(&downstream->connection.env->body_blocks, connection->block);
        if (connection->session != NULL) {
            http2_session_free(connection->session);
        }
        free(connection);
        return false;
    }
    connection->downstream = downstream;
    connection->read_us = now_us;
    connection->is_resting = true;
    list_init(&connection->requests);
    list_init(&connection->awaiting_room);
    list_init(&connection->gathering);
    timeout_init(&connection->head_timeout, on_head_timeout);
    timeout_init(&connection->ping_timeout, on_ping_timeout);
    loop_task_init(&connection->flush, on_flush);
    loop_task_init(&connection->go_on, on_go_on);
    counter_up(&env_of(connection)->meters->http2_connections);
    downstream->http2 = connection;
    downstream->phase = DOWNSTREAM_HTTP2;
    http2_wake(connection);
    if (first.len > 0) {
        memcpy(connection->block, first.data, first.len);
        connection->unread = span_of(connection->block, first.len);
        process(connection, now_us);
    }
    return true;
}
