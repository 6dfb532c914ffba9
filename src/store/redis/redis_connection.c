/* Out: a command is appended to those of this iteration ─► at its end, one write ─► what the kernel
 * does not accept is kept until the socket drains, and further commands are collected meanwhile.
 * In: readable ─► one read ─► hiredis's reader parses it ─► each reply goes to its call.
 *
 * Over TLS the handshake stands between connect() and the first write.
 *
 * Lost: the connection is closed, its owner is told, and then each call under way gets NULL. When a
 * callback closes the connection, the other calls get NULL after it has returned. */

#include "store/redis/redis_connection.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/listen_socket.h"
#include "net/resolver.h"
#include "tls/tls_stream.h"

enum {
    READ_BYTES = 16 * 1024,
    COMMANDS_BYTES_MIN = 1024,
    COMMANDS_BYTES_KEPT = 64 * 1024, /* of a buffer that is empty */
    CALLS_MIN = 16,
    TROUBLE_BYTES = TLS_REASON_BYTES + 32,
};

/* --- calls under way --- */

/* Make room for one more call. False: no memory. */
static bool reserve_call(struct redis_connection *connection)
{
    const size_t n_max = connection->n_calls_max;
    if (connection->n_awaited < n_max) {
        return true;
    }
    struct redis_call **grown =
        calloc(n_max == 0 ? CALLS_MIN : 2 * n_max, sizeof(struct redis_call *));
    if (grown == NULL) {
        return false;
    }
    for (size_t i = 0; i < n_max; i++) {
        grown[i] = connection->calls[(connection->first_call + i) & (n_max - 1)];
    }
    free(connection->calls);
    connection->calls = grown;
    connection->first_call = 0;
    connection->n_calls_max = n_max == 0 ? CALLS_MIN : 2 * n_max;
    return true;
}

static void push_call(struct redis_connection *connection, struct redis_call *call)
{
    const size_t end = connection->first_call + connection->n_awaited++;
    connection->calls[end & (connection->n_calls_max - 1)] = call;
}

static struct redis_call *take_call(struct redis_connection *connection)
{
    struct redis_call *call = connection->calls[connection->first_call];
    connection->first_call = (connection->first_call + 1) & (connection->n_calls_max - 1);
    connection->n_awaited--;
    return call;
}

/* The connection is closed: no reply will come. */
static void end_calls(struct redis_connection *connection)
{
    while (connection->n_awaited > 0 && !connection->is_reading) {
        struct redis_call *call = take_call(connection);
        call->on_reply(call, NULL);
    }
}

/* --- the end --- */

static void empty(struct redis_commands *commands)
{
    commands->len = 0;
    if (commands->capacity > COMMANDS_BYTES_KEPT) {
        free(commands->bytes);
        *commands = (struct redis_commands){.bytes = NULL};
    }
}

static void tear_down(struct redis_connection *connection)
{
    stream_close(&connection->stream);
    tls_client_sessions_close(&connection->sessions);
    redisReaderFree(connection->reader);
    connection->reader = NULL;
    connection->is_ready = false;
    loop_task_cancel(&connection->flush);
    empty(&connection->collected);
    empty(&connection->blocked);
}

/* @trouble does not lie in the reader. */
static void lose(struct redis_connection *connection, enum redis_fault why, struct span trouble)
{
    tear_down(connection);
    connection->on_lost(connection->owner, why, trouble);
    end_calls(connection);
}

/* The stream is broken; errno has the reason, or an alert of TLS. */
static void lose_broken(struct redis_connection *connection)
{
    char text[TROUBLE_BYTES];
    const char *reason = strerror(errno);
    const char *alert = connection->tls != NULL ? tls_alert_of(&connection->stream) : NULL;
    (void)snprintf(text, sizeof(text), "%s%s", alert != NULL ? "TLS alert: " : "",
                   alert != NULL ? alert : reason);
    lose(connection, REDIS_FAULT_RESET, span_of_text(text));
}

/* --- commands --- */

/* False: no memory. */
static bool collect(struct redis_commands *commands, struct span command)
{
    const size_t needed = commands->len + command.len;
    if (needed > commands->capacity) {
        size_t capacity = commands->capacity == 0 ? COMMANDS_BYTES_MIN : commands->capacity;
        while (capacity < needed) {
            capacity *= 2;
        }
        char *grown = realloc(commands->bytes, capacity);
        if (grown == NULL) {
            return false;
        }
        commands->bytes = grown;
        commands->capacity = capacity;
    }
    memcpy(commands->bytes + commands->len, command.data, command.len);
    commands->len = needed;
    return true;
}

static void write_collected(struct redis_connection *connection)
{
    struct redis_commands *collected = &connection->collected;
    if (!connection->is_ready || collected->len == 0 || stream_is_blocked(&connection->stream)) {
        return;
    }
    const struct iovec slice = {.iov_base = collected->bytes, .iov_len = collected->len};
    const enum stream_result result = stream_write(&connection->stream, &slice, 1);
    if (result == STREAM_BROKEN) {
        lose_broken(connection);
    } else if (result == STREAM_BLOCKED) {
        const struct redis_commands unused = connection->blocked;
        connection->blocked = *collected;
        *collected = unused;
    } else {
        empty(collected);
    }
}

static void on_flush(struct loop_task *task)
{
    write_collected(CONTAINER_OF(task, struct redis_connection, flush));
}

enum status redis_connection_send(struct redis_connection *connection, struct span command,
                                  struct redis_call *call, uint64_t now_us)
{
    if (connection->reader == NULL || !reserve_call(connection) ||
        !collect(&connection->collected, command)) {
        return STATUS_UNREACHABLE;
    }
    if (call != NULL) {
        connection->quiet_since_us =
            connection->n_awaited == 0 ? now_us : connection->quiet_since_us;
        push_call(connection, call);
    }
    if (connection->is_ready) {
        loop_after_tasks(connection->loop, &connection->flush);
    }
    return STATUS_OK;
}

/* --- replies --- */

/* False: the reply belongs to nothing. */
static bool pass_on(struct redis_connection *connection)
{
    if (connection->n_awaited > 0) {
        struct redis_call *call = take_call(connection);
        call->on_reply(call, &connection->reply);
        return true;
    }
    if (connection->on_message != NULL) {
        connection->on_message(connection->owner, &connection->reply);
        return true;
    }
    return false;
}

/* Pass all whole replies on, until a callback closes the connection. Returns what is wrong with
 * those that are left; NULL: nothing. */
static const char *take_replies(struct redis_connection *connection)
{
    while (connection->reader != NULL) {
        void *reply = NULL;
        if (redisReaderGetReply(connection->reader, &reply) != REDIS_OK) {
            return connection->reader->errstr;
        }
        if (reply == NULL) {
            return redis_reply_is_too_long(&connection->reply, connection->reader)
                       ? "a reply without end"
                       : NULL;
        }
        if (reply != &connection->reply) {
            return "a reply of a kind that was not asked for";
        }
        if (!pass_on(connection)) {
            return "a reply to nothing";
        }
    }
    return NULL;
}

static void read_replies(struct redis_connection *connection)
{
    char text[TROUBLE_BYTES];
    connection->is_reading = true;
    const char *trouble = take_replies(connection);
    connection->is_reading = false;
    if (trouble != NULL) {
        (void)snprintf(text, sizeof(text), "%s", trouble);
        lose(connection, REDIS_FAULT_MALFORMED, span_of_text(text));
    } else if (connection->reader == NULL) {
        end_calls(connection);
    }
}

static void on_readable(void *owner)
{
    struct redis_connection *connection = owner;
    char bytes[READ_BYTES];
    size_t n_read;
    switch (stream_read(&connection->stream, bytes, sizeof(bytes), &n_read)) {
    case STREAM_DONE:
        break;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
        lose(connection, REDIS_FAULT_RESET, SPAN("Redis closed the connection"));
        return;
    case STREAM_BROKEN:
        lose_broken(connection);
        return;
    }
    connection->quiet_since_us = clock_monotonic_us();
    if (redisReaderFeed(connection->reader, bytes, n_read) == REDIS_OK) {
        read_replies(connection);
    } else {
        lose(connection, REDIS_FAULT_RESET, SPAN("out of memory"));
    }
}

/* --- connecting --- */

static void begin(struct redis_connection *connection)
{
    connection->is_ready = true;
    write_collected(connection);
}

/* The handshake of TLS has ended. */
static void on_secured(void *owner, const struct tls_outcome *outcome)
{
    struct redis_connection *connection = owner;
    char text[TROUBLE_BYTES];
    if (outcome->failure == TLS_FAILURE_NONE) {
        begin(connection);
    } else {
        (void)snprintf(text, sizeof(text), "TLS: %s", outcome->reason);
        lose(connection, REDIS_FAULT_REFUSED, span_of_text(text));
    }
}

static void on_connected(struct redis_connection *connection)
{
    static const struct tls_handler HANDLER = {.on_done = on_secured};
    if (stream_connect_status(&connection->stream) != STATUS_OK) {
        lose(connection, REDIS_FAULT_REFUSED, span_of_text(strerror(errno)));
        return;
    }
    connection->was_reached = true;
    if (connection->tls == NULL) {
        begin(connection);
    } else if (tls_connect(connection->tls_worker, &connection->stream, connection->tls,
                           connection->tls->config->name.len > 0 ? connection->tls->config->name
                                                                 : connection->tls_name,
                           &connection->sessions, &HANDLER) != STATUS_OK) {
        lose(connection, REDIS_FAULT_REFUSED, SPAN("out of memory"));
    }
}

/* The attempt to connect has ended, or the blocked commands are written or lost. */
static void on_drained(void *owner)
{
    struct redis_connection *connection = owner;
    if (connection->is_ready) {
        if (stream_is_broken(&connection->stream)) {
            lose_broken(connection);
            return;
        }
        empty(&connection->blocked);
        write_collected(connection);
    } else {
        on_connected(connection);
    }
}

/* Keepalive finds an idle connection that a middlebox has dropped before a request needs it. */
static void keep_alive(int fd)
{
    static const struct {
        int level;
        int option;
        int value;
    } OPTIONS[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 15}, /* s */
        {IPPROTO_TCP, TCP_KEEPINTVL, 5}, /* s */
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        (void)setsockopt(fd, OPTIONS[i].level, OPTIONS[i].option, &OPTIONS[i].value, sizeof(int));
    }
}

static enum status connect_to(struct redis_connection *connection,
                              const struct resolver_address *address, const char *path)
{
    static const struct stream_handler HANDLER = {.on_readable = on_readable,
                                                  .on_drained = on_drained};
    if (address == NULL) {
        const struct sockaddr_un local = unix_socket_address(span_of_text(path));
        return stream_connect(&connection->stream, connection->loop,
                              (const struct sockaddr *)(const void *)&local, sizeof(local),
                              &HANDLER, connection);
    }
    const enum status status =
        stream_connect(&connection->stream, connection->loop, &address->sockaddr.any,
                       address->bytes, &HANDLER, connection);
    if (status == STATUS_OK) {
        keep_alive(connection->stream.fd);
    }
    return status;
}

void redis_connection_secure(struct redis_connection *connection, struct tls_worker *worker,
                             struct tls_client_context *tls, struct span name)
{
    connection->tls_worker = worker;
    connection->tls = tls;
    connection->tls_name = name;
}

enum status redis_connection_open(struct redis_connection *connection,
                                  const struct resolver_address *address, const char *path)
{
    assert(connection->reader == NULL && connection->n_awaited == 0);
    connection->was_reached = false;

    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    const enum status status =
        reader == NULL ? STATUS_NO_MEMORY : connect_to(connection, address, path);
    if (status != STATUS_OK) {
        connection->trouble = status == STATUS_NO_MEMORY ? "out of memory" : strerror(errno);
        redisReaderFree(reader);
        return status;
    }
    redis_reply_attach(&connection->reply, reader);
    connection->reader = reader;
    return STATUS_OK;
}

/* --- life --- */

void redis_connection_init(struct redis_connection *connection, struct loop *loop,
                           void (*on_lost)(void *owner, enum redis_fault why, struct span trouble),
                           void *owner)
{
    *connection = (struct redis_connection){
        .loop = loop, .on_lost = on_lost, .owner = owner, .stream = {.fd = -1}};
    loop_task_init(&connection->flush, on_flush);
}

void redis_connection_close(struct redis_connection *connection)
{
    if (connection->reader != NULL) {
        tear_down(connection);
        end_calls(connection);
    }
}

void redis_connection_free(struct redis_connection *connection)
{
    redis_connection_close(connection);
    free(connection->collected.bytes);
    free(connection->blocked.bytes);
    free(connection->calls);
    connection->collected = connection->blocked = (struct redis_commands){.bytes = NULL};
    connection->calls = NULL;
    connection->n_calls_max = 0;
}
