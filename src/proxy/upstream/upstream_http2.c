/* Connections to servers that speak HTTP/2.
 *
 * Happy path: the connection is made, streams come and go, all frames of an iteration share a
 * write at its end. Without streams it rests for timeout.idle, and is closed with GOAWAY.
 *
 * Failures: the server closes the connection, or is silent for timeouts.ping and does not answer a
 * PING, of which there is one for each time that it was heard (its streams are lost); it breaks a
 * rule of HTTP/2 (the stream on which it does has a bad answer, the others are lost); it sends
 * GOAWAY (streams above its last one are lost unprocessed, the others go on, and the connection
 * ends with them). A stream whose answer has come whole is not lost: it needs no connection. Which
 * requests share a connection is in upstream_sharing.c. */

#include "proxy/upstream/upstream_http2.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "proxy/upstream/upstream_http2_inner.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_stream_inner.h"
#include "tls/tls_stream.h"

enum {
    WRITES_MAX = 16,          /* of a connection in one iteration */
    BATCH_BYTES = 4096,       /* heads of frames, and short ones */
    HEAD_BYTES_MAX = 1 << 20, /* announced; each request's limit is its user's */
    KEEPALIVE_S = 30,
    KEEPALIVE_PROBES = 3,
    BLOCK_BYTES = IO_BLOCK_BYTES - sizeof(struct upstream_block),
};

static struct proxy_env *env_of(const struct upstream_http2 *http2)
{
    return http2->connection->server->group->env;
}

static bool is_closed(const struct upstream_http2 *http2)
{
    return http2->connection->phase == UPSTREAM_CLOSED;
}

static struct upstream_stream *stream_of(struct http2_stream *stream)
{
    return CONTAINER_OF(stream, struct upstream_stream, stream);
}

void upstream_http2_wake(struct upstream_http2 *http2)
{
    if (!is_closed(http2)) {
        loop_after_tasks(env_of(http2)->loop, &http2->flush);
    }
}

/* --- the end --- */

enum end_cause {
    END_LOST,      /* by the server */
    END_SILENT,    /* it does not answer a PING */
    END_NO_MEMORY, /* of the proxy */
    END_BAD,       /* the server broke a rule */
};

/* Take no stream any more. */
static void leave_server(struct upstream_http2 *http2)
{
    http2->is_ending = true;
    list_remove(&http2->node);
}

/* The stream whose answer broke a rule of the connection. NULL: it is over, or not known. */
static struct upstream_stream *cause_of_fault(struct upstream_http2 *http2)
{
    const int32_t id = http2_session_faulty_id(http2->session);
    struct upstream_stream *only = NULL;
    size_t n = 0;
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        struct upstream_stream *stream = upstream_stream_at(node);
        if (!stream->is_whole && (id == 0 || stream->stream.id == id)) {
            only = stream;
            n++;
        }
    }
    return n == 1 ? only : NULL;
}

/* The server broke a rule. The stream that it did so on has a bad answer, the others are lost; but
 * the server may work on for them, since it did not end them. */
static void on_fault(struct upstream_http2 *http2)
{
    struct upstream_stream *cause = cause_of_fault(http2);
    upstream_sharing_on_fault(http2, cause);
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        struct upstream_stream *stream = upstream_stream_at(node);
        stream->upstream.is_refused = stream->upstream.is_refused || !stream->is_whole;
    }
    if (cause != NULL) {
        list_remove(&cause->node);
        upstream_stream_on_bad(cause, "the server broke a rule of HTTP/2");
    }
}

/* This side ends the connection: no request is the reason. */
static void note_reason(struct upstream_http2 *http2, const char *reason)
{
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        struct upstream *upstream = &upstream_stream_at(node)->upstream;
        upstream->is_blameless_end = true;
        upstream->end_reason = reason;
    }
}

/* Those that are lost with the connection become those of @lost. Of an answer that has come whole
 * only its client has to take what waits here. */
static void take_lost(struct upstream_http2 *http2, struct list *lost)
{
    struct list *node = http2->streams.next;
    list_init(lost);
    while (node != &http2->streams) {
        struct upstream_stream *stream = upstream_stream_at(node);
        node = node->next;
        if (stream->is_whole) {
            upstream_stream_end_sending(stream);
        } else {
            list_remove(&stream->node);
            list_push_back(lost, &stream->node);
        }
    }
}

/* End all streams but those that need no connection any more, and close. */
static void end_streams(struct upstream_http2 *http2, enum end_cause cause)
{
    struct list lost;
    leave_server(http2);
    if (cause == END_LOST) {
        upstream_sharing_on_end(http2);
    } else if (cause == END_BAD) {
        on_fault(http2);
    } else {
        note_reason(http2, cause == END_SILENT ? "the upstream did not answer a PING in time"
                                               : "no memory is left for the upstream's connection");
    }
    take_lost(http2, &lost);
    while (!list_is_empty(&lost)) {
        struct upstream_stream *stream = upstream_stream_at(lost.next);
        list_remove(&stream->node); /* also where its user keeps it for now */
        upstream_stream_on_lost(stream);
    }
    if (!is_closed(http2)) {
        upstream_close(http2->connection);
    }
}

static bool write_batch(struct upstream_http2 *http2, uint64_t now_us);

static void end(struct upstream *connection)
{
    struct upstream_http2 *http2 = connection->http2;
    leave_server(http2);
    if (http2->session != NULL && !stream_is_blocked(&connection->stream)) {
        http2_session_stop(http2->session);
        (void)write_batch(http2, clock_monotonic_us());
    }
    if (!is_closed(http2)) {
        upstream_close(connection);
    }
}

static void ping(struct upstream_http2 *http2, bool is_probe, uint64_t now_us)
{
    upstream_liveness_on_ping(&http2->liveness, is_probe, now_us);
    http2_session_ping(http2->session);
    upstream_http2_wake(http2);
}

/* An answer shows that the head was read, and as a rule the whole body. But a server may answer
 * early, and a connection on which long bodies came is used for those of other clients. */
void upstream_http2_note_sent(struct upstream_stream *stream, uint64_t now_us, bool is_head)
{
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    upstream_liveness_on_sent(&http2->liveness, now_us);
    if (is_head || !http2->is_exclusive) {
        stream->shown_us = now_us;
    }
}

bool upstream_http2_is_read(const struct upstream_http2 *http2)
{
    const bool is_in_doubt = http2->is_resting && http2->liveness.is_asked && !http2->is_exclusive;
    return !is_in_doubt &&
           upstream_liveness_state(&http2->liveness, clock_monotonic_us()) != LIVENESS_POOR;
}

static void note_resting(struct upstream_http2 *http2, bool is_resting)
{
    struct upstream_server *server = http2->connection->server;
    http2->is_resting = is_resting;
    if (is_resting) {
        counter_up(&upstream_server_meters(server)->idle);
        server->n_resting[http2->rest]++;
    } else {
        counter_down(&upstream_server_meters(server)->idle);
        server->n_resting[http2->rest]--;
    }
}

/* Ask a server that may not have read all before the next request comes, and do not wait long for
 * its reply. */
static void ask_at_rest(struct upstream_http2 *http2, uint64_t now_us)
{
    const struct upstream_liveness *liveness = &http2->liveness;
    if (liveness->unread_us != 0 && upstream_liveness_may_ping(liveness, false, now_us)) {
        ping(http2, false, now_us);
    }
    if (liveness->is_asked) {
        timer_arm(&http2->ping, UPSTREAM_UNREAD_US);
    }
}

/* Streams may have left: rest, or end. */
static void note_state(struct upstream_http2 *http2)
{
    struct upstream *connection = http2->connection;
    struct upstream_group *group = connection->server->group;
    if (http2->n_streams > 0 || http2->is_resting) {
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    timer_disarm(&http2->ping);
    if (http2->session == NULL || http2->is_full || !http2_session_takes_requests(http2->session) ||
        !upstream_http2_is_current(connection) ||
        upstream_liveness_state(&http2->liveness, now_us) == LIVENESS_POOR ||
        !upstream_sharing_rest(http2)) {
        end(connection);
        return;
    }
    note_resting(http2, true);
    timeout_arm(&connection->timeout, &group->idle_timeouts, now_us);
    ask_at_rest(http2, now_us);
}

void upstream_http2_end_rest(struct upstream_http2 *http2)
{
    struct upstream *connection = http2->connection;
    if (http2->is_resting) {
        note_resting(http2, false);
        timeout_disarm(&connection->timeout);
    }
    if (http2->session != NULL) {
        const uint64_t now_us = clock_monotonic_us();
        if (upstream_liveness_state(&http2->liveness, now_us) == LIVENESS_TO_ASK) {
            ping(http2, false, now_us);
        }
        timer_arm(&http2->ping, http2->connection->server->group->ping_us);
    }
}

void upstream_http2_on_left(struct upstream_http2 *http2)
{
    if (http2->n_streams > 0) {
        return;
    }
    if (is_closed(http2)) {
        if (http2->is_survived) {
            loop_at_iteration_end(env_of(http2)->loop, &http2->connection->death);
        }
        return;
    }
    if (http2->session == NULL && !http2->is_ending) {
        end(http2->connection); /* nobody waits for it any more */
    } else {
        upstream_http2_wake(http2);
    }
}

/* False: streams are left, which point to it; the last of them frees it. */
static bool free_http2(struct upstream_http2 *http2)
{
    if (http2->n_streams > 0) {
        http2->is_survived = true;
        return false;
    }
    if (http2->session != NULL) {
        http2_session_free(http2->session);
    }
    free(http2->trailer_bytes);
    free(http2->kept);
    free(http2);
    return true;
}

static void on_close(struct upstream *connection)
{
    struct upstream_http2 *http2 = connection->http2;
    leave_server(http2);
    if (http2->is_resting) {
        note_resting(http2, false);
    }
    if (http2->has_counted) {
        http2->has_counted = false;
        counter_down(&upstream_server_meters(connection->server)->http2_connections);
    }
    timer_close(&http2->ping);
    timer_close(&http2->held_timer);
    upstream_sharing_close(http2);
    loop_task_cancel(&http2->flush);
}

/* --- writing --- */

static void note_sent(struct upstream_http2 *http2)
{
    struct http2_stream *stream;
    while (!is_closed(http2) && (stream = http2_session_next_sent(http2->session)) != NULL) {
        upstream_stream_on_sent(stream_of(stream));
    }
}

/* False: nothing is due, or the rest has to wait; or the connection is closed. */
static bool write_batch(struct upstream_http2 *http2, uint64_t now_us)
{
    struct stream *socket = &http2->connection->stream;
    struct iovec slices[STREAM_SLICES_MAX];
    char bytes[BATCH_BYTES];
    struct http2_batch batch = {
        .slices = slices, .n_max = STREAM_SLICES_MAX, .bytes = bytes, .capacity = sizeof(bytes)};
    if (!http2_session_pack(http2->session, &batch, now_us)) {
        end_streams(http2, END_NO_MEMORY);
        return false;
    }
    if (batch.n == 0) {
        return false;
    }
    switch (stream_write(socket, slices, batch.n)) {
    case STREAM_DONE:
        note_sent(http2);
        return true;
    case STREAM_BLOCKED:
        http2->kept = stream_copy_kept(socket);
        if (http2->kept == NULL) {
            end_streams(http2, END_NO_MEMORY);
        }
        return false;
    case STREAM_EOF:
    case STREAM_BROKEN:
        /* What the server has sent before it closed is read first. */
        stream_want_read(socket, true);
        return false;
    }
    end_streams(http2, END_LOST);
    return false;
}

/* Bytes may wait for a wider window: it does not have to come. A socket that takes no bytes calls
 * when it does. */
static void arm_held(struct upstream_http2 *http2, uint64_t now_us)
{
    const uint64_t until_us = http2_session_held_until_us(http2->session);
    if (UNLIKELY(until_us != 0) && !stream_is_blocked(&http2->connection->stream)) {
        timer_arm(&http2->held_timer, until_us > now_us ? until_us - now_us : 0);
    }
}

static void on_held_timer(void *context)
{
    upstream_http2_wake(context);
}

/* Streams that were reset meanwhile. */
static void take_resets(struct upstream_http2 *http2, uint64_t now_us)
{
    struct span none = span_of(NULL, 0);
    for (;;) {
        const struct http2_event event =
            http2_session_read(http2->session, &none, &http2->room, now_us);
        if (event.kind != HTTP2_RESET) {
            return;
        }
        upstream_sharing_on_reset(stream_of(event.stream));
        upstream_stream_on_lost(stream_of(event.stream));
        if (is_closed(http2)) {
            return;
        }
    }
}

static void flush(struct upstream_http2 *http2)
{
    struct stream *socket = &http2->connection->stream;
    const uint64_t now_us = clock_monotonic_us();
    bool goes_on = true;
    if (http2->session == NULL || is_closed(http2)) {
        return;
    }
    while (!list_is_empty(&http2->refused)) {
        upstream_stream_on_refused(
            CONTAINER_OF(http2->refused.next, struct upstream_stream, refused_node));
        if (is_closed(http2)) {
            return;
        }
    }
    for (unsigned i = 0; goes_on && !stream_is_blocked(socket); i++) {
        if (i == WRITES_MAX) {
            upstream_http2_wake(http2);
            break;
        }
        goes_on = write_batch(http2, now_us);
        if (is_closed(http2)) {
            return;
        }
    }
    arm_held(http2, now_us);
    take_resets(http2, now_us);
    if (is_closed(http2)) {
        return;
    }
    /* A server that broke a rule and does not read is not waited for: no answer can come. */
    if (stream_is_blocked(socket) ? http2_session_is_failed(http2->session)
                                  : http2_session_is_over(http2->session)) {
        end_streams(http2, http2_session_is_failed(http2->session) ? END_BAD : END_LOST);
        return;
    }
    note_state(http2);
}

static void on_flush(struct loop_task *task)
{
    flush(CONTAINER_OF(task, struct upstream_http2, flush));
}

static void on_drained(struct upstream *connection)
{
    struct upstream_http2 *http2 = connection->http2;
    free(http2->kept);
    http2->kept = NULL;
    if (stream_is_broken(&connection->stream)) {
        stream_want_read(&connection->stream, true);
        return;
    }
    note_sent(http2);
    flush(http2);
}

/* --- reading --- */

/* False: no memory. */
static bool handle(struct upstream_http2 *http2, struct upstream_block *block,
                   const struct http2_event *event, bool is_more)
{
    struct upstream_stream *stream = event->stream != NULL ? stream_of(event->stream) : NULL;
    struct http2_room *room = &http2->room;
    if (event->kind != HTTP2_NONE && event->kind != HTTP2_WINDOW) {
        upstream_liveness_on_answer(&http2->liveness, stream != NULL ? stream->shown_us : 0);
    }
    switch (event->kind) {
    case HTTP2_NONE:
        return true;
    case HTTP2_NEEDS_ROOM:
        return upstream_stream_make_room(stream);
    case HTTP2_HEAD:
        room->stream = NULL;
        upstream_stream_on_head(stream, event->is_last);
        return true;
    case HTTP2_BODY:
        return upstream_stream_on_body(stream, block, event->piece, event->is_last, is_more);
    case HTTP2_TRAILERS:
        room->stream = NULL;
        upstream_stream_on_trailers(stream);
        return upstream_stream_on_body(stream, block, span_of("", 0), true, is_more);
    case HTTP2_MALFORMED:
    case HTTP2_BAD_TRAILERS:
        room->stream = NULL;
        upstream_stream_on_bad(stream, room->head->error.reason);
        return true;
    case HTTP2_RESET:
        if (event->is_by_peer) {
            upstream_sharing_on_reset(stream);
            upstream_stream_on_lost(stream);
        } else {
            upstream_stream_on_bad(stream, "the answer broke a rule of HTTP/2");
        }
        return true;
    case HTTP2_WINDOW:
        upstream_stream_on_begun(stream);
        return true;
    }
    return true;
}

/* Heads that came without a part of the body, and small pieces, go to their users now. */
static void end_read(struct upstream_http2 *http2)
{
    while (!is_closed(http2) && !list_is_empty(&http2->unreported)) {
        upstream_stream_on_read_end(
            CONTAINER_OF(http2->unreported.next, struct upstream_stream, unreported_node));
    }
}

static void process(struct upstream_http2 *http2, struct upstream_block *block, size_t n_bytes)
{
    struct span bytes = span_of(block->bytes, n_bytes);
    const uint64_t now_us = clock_monotonic_us();
    struct http2_event event;
    do {
        event = http2_session_read(http2->session, &bytes, &http2->room, now_us);
        if (!handle(http2, block, &event, bytes.len > 0)) {
            end_streams(http2, END_NO_MEMORY);
        }
    } while (!is_closed(http2) && event.kind != HTTP2_NONE);
    end_read(http2);
    if (http2->liveness.is_asked && !http2_session_awaits_pong(http2->session)) {
        upstream_liveness_on_pong(&http2->liveness);
    }
    http2->connection->server->granted = http2_session_granted(http2->session);
    upstream_http2_wake(http2); /* windows, answers to PING and SETTINGS, and the end */
}

static void on_readable(struct upstream *connection)
{
    struct upstream_http2 *http2 = connection->http2;
    struct proxy_env *env = env_of(http2);
    struct upstream_block *block = pool_take(&env->body_blocks);
    enum stream_result result = STREAM_BROKEN;
    size_t n_read = 0;
    if (block != NULL) {
        block->n_users = 1;
        result = stream_read(&connection->stream, block->bytes, BLOCK_BYTES, &n_read);
    }
    switch (result) {
    case STREAM_DONE:
        http2->read_us = clock_monotonic_us();
        process(http2, block, n_read);
        break;
    case STREAM_BLOCKED:
        break;
    case STREAM_EOF:
    case STREAM_BROKEN:
        end_streams(http2, END_LOST);
        break;
    }
    upstream_block_release(env, block);
}

static void on_ping_timer(void *context)
{
    struct upstream_http2 *http2 = context;
    const struct upstream_liveness *liveness = &http2->liveness;
    const uint64_t ping_us = http2->connection->server->group->ping_us;
    const uint64_t now_us = clock_monotonic_us();
    const bool is_silent = now_us - http2->read_us >= ping_us;
    if (http2->is_resting) {
        if (liveness->is_asked) {
            end(http2->connection);
        }
        return;
    }
    if (is_silent && liveness->is_asked && now_us - liveness->pinged_us >= ping_us) {
        end_streams(http2, END_SILENT);
        return;
    }
    if (is_silent && upstream_liveness_may_ping(liveness, true, now_us)) {
        ping(http2, true, now_us);
    }
    timer_arm(&http2->ping, ping_us);
}

/* --- the beginning --- */

static void on_failed(struct upstream *connection, enum status status, const char *reason)
{
    struct upstream_http2 *http2 = connection->http2;
    leave_server(http2);
    while (!list_is_empty(&http2->streams)) {
        struct upstream_stream *stream = upstream_stream_at(http2->streams.next);
        struct upstream_user *user = stream->upstream.user;
        list_remove(&stream->node);
        if (reason != NULL) {
            user->events->on_insecure(user, reason);
        } else {
            user->events->on_connected(user, status);
        }
    }
    if (!is_closed(http2)) {
        upstream_close(connection);
    }
}

/* Let the kernel find a host that is gone: PINGs are few. Without effect on a unix socket. */
static void watch_peer(int fd)
{
    static const struct {
        int level;
        int option;
        int value;
    } OPTIONS[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S / KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 2 * KEEPALIVE_S * 1000}, /* ms */
    };
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        (void)setsockopt(fd, OPTIONS[i].level, OPTIONS[i].option, &OPTIONS[i].value, sizeof(int));
    }
}

static void on_connected(struct upstream *connection)
{
    const struct http2_config config = {
        .streams_max = UPSTREAM_STREAMS_MAX,
        .head_bytes_max = HEAD_BYTES_MAX,
        .stream_window = UPSTREAM_STREAM_WINDOW,
    };
    struct upstream_http2 *http2 = connection->http2;
    http2->read_us = clock_monotonic_us();
    http2->session = http2_session_new_client(&config, http2->read_us);
    if (http2->session == NULL) {
        on_failed(connection, STATUS_NO_MEMORY, NULL);
        return;
    }
    connection->phase = UPSTREAM_CARRYING;
    upstream_liveness_init(&http2->liveness);
    watch_peer(connection->stream.fd);
    http2->has_counted = true;
    counter_up(&upstream_server_meters(connection->server)->http2_connections);
    upstream_http2_end_rest(http2);
    upstream_http2_wake(http2);
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        upstream_stream_at(node)->upstream.phase = UPSTREAM_AWAITING;
    }
    struct list waiting;
    list_init(&waiting);
    list_move_all(&waiting, &http2->streams);
    while (!list_is_empty(&waiting)) {
        struct upstream_stream *stream = upstream_stream_at(waiting.next);
        struct upstream_user *user = stream->upstream.user;
        list_remove(&stream->node);
        list_push_back(&http2->streams, &stream->node);
        user->events->on_connected(user, STATUS_OK);
    }
}

/* The first stream's request goes on this connection, each of the others on one of its own. */
static void fall_back(struct upstream *connection)
{
    struct upstream_http2 *http2 = connection->http2;
    struct upstream_server *server = connection->server;
    bool is_used = false;
    leave_server(http2);
    server->is_http1 = true;
    while (!list_is_empty(&http2->streams)) {
        struct upstream *upstream = &upstream_stream_at(http2->streams.next)->upstream;
        struct upstream_user *user = upstream->user;
        struct upstream *next = connection;
        enum status status = STATUS_OK;
        list_remove(&upstream_stream_at(http2->streams.next)->node);
        if (is_used) {
            status = upstream_connect_anew(server, &next);
        }
        if (status != STATUS_OK) {
            user->events->on_connected(user, status);
            continue;
        }
        next->has_slot = upstream->has_slot;
        upstream->has_slot = false;
        upstream_close(upstream);
        upstream_begin_request(next, user);
        user->events->on_moved(user, next);
        if (!is_used) {
            is_used = true;
            http2->is_resting = false;
            timer_close(&http2->ping);
            upstream_sharing_close(http2);
            connection->phase = UPSTREAM_AWAITING;
            user->events->on_connected(user, STATUS_OK);
        }
    }
    if (!is_used) {
        upstream_close(connection);
    }
}

static const struct upstream_carrier_ops OPS = {
    .on_connected = on_connected,
    .on_failed = on_failed,
    .fall_back = fall_back,
    .on_readable = on_readable,
    .on_drained = on_drained,
    .end = end,
    .on_close = on_close,
    .free = free_http2,
};

bool upstream_http2_init(struct upstream *connection, const struct address *owner)
{
    struct upstream_http2 *http2 = calloc(1, sizeof(*http2));
    if (http2 == NULL) {
        return false;
    }
    struct loop *loop = connection->server->group->env->loop;
    http2->connection = connection;
    http2->is_exclusive = owner != NULL;
    http2->owner = owner != NULL ? *owner : (struct address){0};
    list_init(&http2->streams);
    list_init(&http2->unreported);
    list_init(&http2->refused);
    loop_task_init(&http2->flush, on_flush);
    timer_init(&http2->ping, loop, on_ping_timer, http2);
    timer_init(&http2->held_timer, loop, on_held_timer, http2);
    connection->http2 = http2;
    upstream_sharing_init(http2);
    connection->carrier_ops = &OPS;
    return true;
}

void upstream_http2_drop(struct upstream *connection)
{
    on_close(connection);
    (void)free_http2(connection->http2); /* it has no streams */
}

static void close_idle(struct list *connections)
{
    struct list *node = connections->next;
    while (node != connections) {
        struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        node = node->next;
        if (http2->n_streams == 0) {
            end(http2->connection);
        }
    }
}

void upstream_http2_close_idle(struct upstream_server *server)
{
    close_idle(&server->http2);
    for (size_t i = 0; i < ARRAY_LEN(server->http2_own); i++) {
        close_idle(&server->http2_own[i]);
    }
    close_idle(&server->http2_for_bodies);
    close_idle(&server->http2_withdrawn);
}
