/* The client side of an exchange on an HTTP/2 stream.
 *
 * Bytes of a body are copied: the input goes on to other streams while an exchange waits for its
 * server. The stream's window bounds the copies, and is given back as the exchange takes them.
 * Small pieces that come in one read are handed over as one, after it: each would cost a write, and
 * reach the server as a chunk of its own. The answer is not copied, but for the end of a short one,
 * so that its exchange need not wait for the write. */

#include <assert.h>

#include "base/clock.h"
#include "http/grpc.h"
#include "proxy/client/client_env.h"
#include "proxy/client/connection_limits.h"
#include "proxy/client/downstream_inner.h"
#include "proxy/client/http2_connection.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/exchange/exchange_steps.h"
#include "proxy/exchange/hop_by_hop.h"

enum {
    REQUESTS_KEPT = 1024,
    POSTED_BODY_BYTES_MAX = 2048, /* of an answer whose exchange does not wait for the write */
    SHUT_OUT_MAX = 16,            /* own answers of a connection that wait for a closed window */
    GATHERED_PIECE_BYTES = 1024,  /* smaller pieces of a body are gathered */
    BODY_BLOCK_BYTES = SMALL_BLOCK_BYTES - sizeof(struct http2_body_block),
};

void http2_init_pool(struct pool *pool)
{
    pool_init(pool, sizeof(struct http2_request), REQUESTS_KEPT);
}

static struct http2_request *request_of(struct client *client)
{
    return CONTAINER_OF(client, struct http2_request, client);
}

static struct proxy_env *env_of(const struct http2_request *request)
{
    return request->clients->env;
}

/* --- the body of the request --- */

static void drop_block(struct http2_request *request)
{
    struct http2_body_block *block = request->first;
    request->first = block->next;
    request->last = block->next == NULL ? NULL : request->last;
    pool_give(&env_of(request)->small_blocks, block);
}

/* The exchange no longer uses the bytes that it was given. */
static void take_given(struct http2_request *request)
{
    struct http2_body_block *block = request->first;
    if (request->n_given == 0) {
        return;
    }
    http2_stream_took(&request->stream, request->n_given);
    http2_wake(request->connection);
    block->start += request->n_given;
    request->n_given = 0;
    if (block->start == block->end) {
        drop_block(request);
    }
}

/* Hand over the next piece. False: the exchange takes no more now, or is over. */
static bool hand_over(struct http2_request *request, size_t room)
{
    const struct http2_body_block *block = request->first;
    struct span piece = span_of("", 0);
    if (block != NULL) {
        const size_t n = block->end - block->start;
        piece = span_of(block->bytes + block->start, n < room ? n : room);
    }
    const bool is_last = request->is_body_ended &&
                         (block == NULL || (block->next == NULL &&
                                            piece.len == (size_t)(block->end - block->start)));
    request->n_given = (uint32_t)piece.len;
    request->wants_body = false; /* before the call: it may end the exchange */
    if (request->exchange->is_call) {
        grpc_messages_take(&request->exchange->messages, piece);
    }
    if (!exchange_on_body(request->exchange, piece, is_last) || request->exchange == NULL) {
        return false;
    }
    take_given(request);
    request->wants_body = true;
    return true;
}

static void pump(struct client *client)
{
    struct http2_request *request = request_of(client);
    take_given(request);
    request->wants_body = true;
    for (;;) {
        const size_t room = exchange_body_room(request->exchange);
        if (room == 0) {
            request->wants_body = false;
            return;
        }
        if (request->first == NULL && !request->is_body_ended) {
            break;
        }
        if (!hand_over(request, room)) {
            return;
        }
    }
    const bool wants_body = exchange_on_body_blocked(request->exchange);
    request->wants_body = wants_body && request->exchange != NULL;
}

/* Copy @piece behind the bytes that wait. False: no memory. */
static bool append(struct http2_request *request, struct span piece)
{
    while (piece.len > 0) {
        struct http2_body_block *block = request->last;
        if (block == NULL || block->end == BODY_BLOCK_BYTES) {
            block = pool_take(&env_of(request)->small_blocks);
            if (block == NULL) {
                return false;
            }
            *block = (struct http2_body_block){0};
            if (request->last == NULL) {
                request->first = block;
            } else {
                request->last->next = block;
            }
            request->last = block;
        }
        const size_t room = BODY_BLOCK_BYTES - block->end;
        const size_t n = piece.len < room ? piece.len : room;
        memcpy(block->bytes + block->end, piece.data, n);
        block->end += (uint32_t)n;
        piece = span_of(piece.data + n, piece.len - n);
    }
    return true;
}

void http2_request_end_gathering(struct http2_request *request)
{
    list_remove(&request->gathering);
    if (request->wants_body && exchange_takes_body(request->exchange)) {
        pump(&request->client);
    }
}

bool http2_request_on_body(struct http2_request *request, struct span piece, bool is_last)
{
    struct http2_connection *connection = request->connection;
    request->is_body_ended = request->is_body_ended || is_last;
    if (request->exchange == NULL) {
        http2_stream_took(&request->stream, piece.len); /* answered already */
        return true;
    }
    if (!append(request, piece)) {
        return false;
    }
    if (is_last || piece.len >= GATHERED_PIECE_BYTES || connection->unread.len == 0) {
        http2_request_end_gathering(request);
    } else if (list_is_empty(&request->gathering)) {
        list_push_back(&connection->gathering, &request->gathering);
    }
    return true;
}

static bool has_whole_body(struct client *client)
{
    return request_of(client)->is_body_ended;
}

static uint64_t rest_bytes(struct client *client)
{
    return request_of(client)->stream.untaken;
}

/* --- the answer --- */

static bool send_head(struct http2_request *request, const struct response *response, bool is_last)
{
    const struct http2_fields lists[] = {
        {response->fields, response->n_fields},
        {response->own_fields, response->n_own_fields},
    };
    http2_wake(request->connection);
    return http2_stream_send_head(&request->stream, response->status, lists, ARRAY_LEN(lists),
                                  is_last);
}

/* Copy the short end of an answer, which is then written without the exchange. */
static bool post(struct http2_request *request, struct span piece)
{
    char *block = pool_take(&env_of(request)->small_blocks);
    if (block == NULL) {
        return false;
    }
    if (piece.len > 0) {
        memcpy(block, piece.data, piece.len);
    }
    request->answer_block = block;
    http2_stream_send(&request->stream, span_of(block, piece.len), true, NULL);
    return true;
}

static enum stream_result send_piece(struct client *client, const struct response *response,
                                     struct span piece, bool last)
{
    struct http2_request *request = request_of(client);
    const struct span section = request->exchange->out.trailers;
    const bool ends_with_head = response != NULL && last && piece.len == 0 && section.len == 0;
    if (response != NULL) {
        request->stream.is_own = response->fields == NULL;
    }
    if (response != NULL && last && http2_grpc_maps(request, response)) {
        http2_wake(request->connection);
        return http2_grpc_send(request, response) ? STREAM_DONE : STREAM_BROKEN;
    }
    if (response != NULL && !send_head(request, response, ends_with_head)) {
        return STREAM_BROKEN;
    }
    if (ends_with_head) {
        request->client.grpc_status =
            (uint8_t)grpc_find_status(response->fields, response->n_fields);
    }
    if (ends_with_head || (piece.len == 0 && !last)) {
        return STREAM_DONE;
    }
    http2_wake(request->connection);
    if (last && section.len > 0) {
        struct http2_fields trailers;
        trailers.fields = trailers_read(section, &request->exchange->arena, &trailers.n);
        request->client.grpc_status = (uint8_t)grpc_find_status(trailers.fields, trailers.n);
        http2_stream_send(&request->stream, piece, true, trailers.n > 0 ? &trailers : NULL);
        return STREAM_BLOCKED;
    }
    if (last && piece.len <= POSTED_BODY_BYTES_MAX && post(request, piece)) {
        return STREAM_DONE;
    }
    if (response != NULL && last) {
        request->waits_from_us = clock_monotonic_us();
    }
    http2_stream_send(&request->stream, piece, last, NULL);
    return STREAM_BLOCKED;
}

static enum stream_result send_pipe(struct client *client, struct pipe *pipe)
{
    (void)client, (void)pipe;
    assert(false); /* takes_pipes is false */
    return STREAM_BROKEN;
}

static enum stream_result send_interim(struct client *client, const struct response *response)
{
    return send_head(request_of(client), response, false) ? STREAM_DONE : STREAM_BROKEN;
}

/* Clients announce 64 KiB less a byte as a rule: that is room for a whole block. */
static size_t await_room(struct client *client)
{
    struct http2_request *request = request_of(client);
    struct stream *stream = &request->connection->downstream->stream;
    const size_t window = http2_stream_window(&request->stream);
    const size_t room = window == 0 || stream_is_blocked(stream) ? 0 : stream_await_room(stream);
    if (room == 0) {
        list_remove(&request->awaiting);
        list_push_back(&request->connection->awaiting_room, &request->awaiting);
        return 0;
    }
    return window >= IO_BLOCK_BYTES / 2 || room < window ? room : window;
}

static uint64_t unread_bytes(struct client *client)
{
    return http2_stream_unsent(&request_of(client)->stream);
}

static unsigned n_blocked(struct client *client)
{
    struct list *requests = &request_of(client)->connection->requests;
    unsigned n = 0;
    for (struct list *node = requests->next; node != requests; node = node->next) {
        const struct http2_request *request = CONTAINER_OF(node, struct http2_request, node);
        n += request->exchange != NULL && request->exchange->is_client_blocked;
    }
    return n;
}

void http2_request_on_room(struct http2_request *request)
{
    list_remove(&request->awaiting);
    if (request->exchange != NULL) {
        exchange_on_client_drained(request->exchange);
    }
}

void http2_request_on_sent(struct http2_request *request)
{
    if (request->exchange != NULL) {
        exchange_on_client_drained(request->exchange);
    } else {
        http2_request_free(request);
    }
}

/* Nothing is known of a client that is about to leave before its connection ends. */
static void hold(struct client *client, bool is_held)
{
    (void)client, (void)is_held;
}

static void await_body(struct client *client, bool is_awaited)
{
    struct http2_request *request = request_of(client);
    request->awaits_body = is_awaited;
    request->waits_from_us = is_awaited ? clock_monotonic_us() : EVICTION_NEVER;
    http2_publish(request->connection);
}

/* --- begin and end --- */

/* The client has the time of a head to take the end of an answer, or `idle` without body_rate. */
static void await_client(struct http2_request *request, uint64_t now_us)
{
    struct exchange_config *config = request->config;
    const bool has_rate = config->policy->timeouts.body_bytes_per_s > 0 &&
                          config->head_timeouts.length_us < config->idle_timeouts.length_us;
    request->waits_from_us = now_us;
    timeout_arm(&request->timeout, has_rate ? &config->head_timeouts : &config->idle_timeouts,
                now_us);
}

/* Whether the answer may wait for the client. Own ones need no server and pass no limit: their
 * number is bounded, where the client keeps their windows closed. */
static bool may_wait(struct http2_request *request)
{
    struct http2_connection *connection = request->connection;
    const struct http2_stream *stream = &request->stream;
    if (!stream->is_own || http2_stream_unsent(stream) == 0 || http2_stream_window(stream) > 0) {
        return true;
    }
    request->is_shut_out = connection->n_shut_out < SHUT_OUT_MAX;
    connection->n_shut_out += request->is_shut_out;
    return request->is_shut_out;
}

static void return_exchange(struct http2_request *request)
{
    if (request->memory != NULL) {
        pool_give(&request->config->pools->exchanges, request->memory);
    }
    if (request->head_block != NULL) {
        pool_give(&request->config->pools->head_blocks, request->head_block);
    }
    request->memory = NULL;
    request->head_block = NULL;
    request->exchange = NULL;
    request->wants_body = false;
    list_remove(&request->gathering);
}

static void on_done(struct client *client, uint64_t now_us)
{
    struct http2_request *request = request_of(client);
    const bool is_answered = request->exchange->state == EXCHANGE_DONE;
    request->stream.is_client_at_fault =
        request->exchange->end == ANSWER_CLIENT_LEFT || request->exchange->end == ANSWER_EVICTED;
    if (grpc_is_call(&request->exchange->request)) {
        counter_up(&env_of(request)->meters->grpc_calls[client->grpc_status]);
    }
    return_exchange(request);
    list_remove(&request->awaiting);
    if (is_answered && !request->stream.is_answered && may_wait(request)) {
        await_client(request, now_us);
    } else {
        http2_request_free(request);
    }
}

static void on_timeout(struct timeout *timeout)
{
    http2_request_free(CONTAINER_OF(timeout, struct http2_request, timeout));
}

static void die(struct loop_task *task)
{
    struct http2_request *request = CONTAINER_OF(task, struct http2_request, death);
    pool_give(&request->clients->http2_requests, request);
}

static const struct client_ops OPS = {
    .send = send_piece,
    .send_pipe = send_pipe,
    .send_interim = send_interim,
    .has_whole_body = has_whole_body,
    .rest_bytes = rest_bytes,
    .pump = pump,
    .hold = hold,
    .await_body = await_body,
    .await_room = await_room,
    .unread_bytes = unread_bytes,
    .n_blocked = n_blocked,
    .on_done = on_done,
};

/* The policy may have changed since the request began: its peer may be a trusted proxy. */
static bool is_exempt(struct stream_slot *slot)
{
    const struct http2_request *request = CONTAINER_OF(slot, struct http2_request, slot);
    return connection_limits_is_protected(request->clients,
                                          &request->connection->downstream->connection.peer);
}

static uint64_t moved_us(struct stream_slot *slot)
{
    const struct http2_request *request = CONTAINER_OF(slot, struct http2_request, slot);
    const struct exchange *exchange = request->exchange;
    if (exchange == NULL) {
        return request->waits_from_us;
    }
    return exchange->touched_us > request->began_us ? exchange->touched_us : request->began_us;
}

static void evict(struct stream_slot *slot)
{
    struct http2_request *request = CONTAINER_OF(slot, struct http2_request, slot);
    if (request->exchange != NULL) {
        exchange_cut(request->exchange, ANSWER_EVICTED,
                     "too many requests: it gave way to one of another client");
    } else {
        request->stream.is_client_at_fault = true;
        http2_request_free(request);
    }
}

static const struct stream_slot_ops SLOT_OPS = {
    .is_exempt = is_exempt,
    .moved_us = moved_us,
    .evict = evict,
};

struct http2_request *http2_request_new(struct http2_connection *connection, uint64_t now_us)
{
    struct downstream *downstream = connection->downstream;
    struct exchange_config *config = downstream->connection.env->config;
    struct http2_request *request = pool_take(&downstream->connection.clients->http2_requests);
    if (request == NULL) {
        return NULL;
    }
    *request = (struct http2_request){
        .client =
            {
                .ops = &OPS,
                .tls = downstream->client.tls,
                .identity = downstream->client.identity,
                .is_http2 = true,
                .grpc_status = GRPC_NONE,
            },
        .slot = {.ops = &SLOT_OPS},
        .connection = connection,
        .clients = downstream->connection.clients,
        .config = exchange_config_acquire(config),
        .memory = pool_take(&config->pools->exchanges),
        .head_block = pool_take(&config->pools->head_blocks),
        .began_us = now_us,
        .waits_from_us = EVICTION_NEVER,
    };
    list_init(&request->node);
    list_init(&request->awaiting);
    list_init(&request->gathering);
    timeout_init(&request->timeout, on_timeout);
    loop_task_init(&request->death, die);
    if (request->memory == NULL || request->head_block == NULL) {
        http2_request_free(request);
        return NULL;
    }
    return request;
}

void http2_request_begin(struct http2_request *request, bool has_body, uint64_t now_us)
{
    struct downstream *downstream = request->connection->downstream;
    list_push_back(&request->connection->requests, &request->node);
    request->is_body_ended = !has_body;
    request->exchange = exchange_init(request->memory, request->config, &request->client,
                                      &downstream->connection.peer, request->began_us);
    if (request->exchange->request.error.status != 0) {
        exchange_on_bad_head(request->exchange);
    } else {
        exchange_on_head(request->exchange, now_us);
    }
}

void http2_request_on_reset(struct http2_request *request)
{
    if (request->exchange != NULL) {
        exchange_on_client_gone(request->exchange);
    } else {
        http2_request_free(request);
    }
}

void http2_request_free(struct http2_request *request)
{
    struct http2_connection *connection = request->connection;
    assert(request->exchange == NULL);
    if (request->stream.session != NULL) {
        http2_stream_release(&request->stream);
        http2_wake(connection);
    }
    while (request->first != NULL) {
        drop_block(request);
    }
    connection->n_shut_out -= request->is_shut_out;
    if (request->answer_block != NULL) {
        pool_give(&env_of(request)->small_blocks, request->answer_block);
    }
    return_exchange(request);
    client_streams_give(request->clients, &request->slot);
    exchange_config_release(request->config);
    timeout_disarm(&request->timeout);
    list_remove(&request->node);
    list_remove(&request->awaiting);
    loop_at_iteration_end(env_of(request)->loop, &request->death);
}
