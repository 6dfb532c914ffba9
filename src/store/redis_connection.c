/* Out: a command is appended to hiredis's buffer ─► at the end of the turn, one write ─► what the
 * kernel does not take waits for writability.
 * In: readable ─► hiredis reads once, parses, calls on_hiredis_reply for each reply.
 *
 * Lost: hiredis gives every command under way a NULL reply and then calls its cleanup hook.
 * Whichever comes first tells the owner. hiredis may be anywhere on the stack meanwhile: what is
 * torn down is its own, and our events go in the cleanup hook alone. It must not be freed from its
 * connect callback, so there is none: the owner learns from its first reply. */

#include "store/redis_connection.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <hiredis/async.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "net/resolver.h"
#include "store/redis_tls.h"

static enum redis_fault fault_of(const redisAsyncContext *redis)
{
    if (redis->err == REDIS_ERR_PROTOCOL) {
        return REDIS_FAULT_MALFORMED;
    }
    return (redis->c.flags & REDIS_CONNECTED) != 0 ? REDIS_FAULT_RESET : REDIS_FAULT_REFUSED;
}

static void tell_lost(struct redis_connection *connection, const redisAsyncContext *redis)
{
    if (connection->redis != redis) {
        return; /* told already, or closed by us */
    }
    const char *of_tls = connection->tls == NULL ? NULL : redis_tls_trouble(connection->tls);
    const char *trouble = redis->err == 0 ? "connection closed" : redis->errstr;
    connection->redis = NULL;
    connection->on_lost(connection->owner, fault_of(redis),
                        span_of_text(of_tls == NULL ? trouble : of_tls));
}

/* --- hooks that hiredis calls: its wishes for events --- */

static void want_read(void *context)
{
    struct redis_connection *connection = context;
    if (!connection->is_reading) {
        connection->is_reading = true;
        event_add(connection->read_event, NULL);
    }
}

static void want_no_read(void *context)
{
    struct redis_connection *connection = context;
    connection->is_reading = false;
    event_del(connection->read_event);
}

static void want_write(void *context)
{
    struct redis_connection *connection = context;
    const redisAsyncContext *redis = connection->redis;
    const bool connected = redis != NULL && (redis->c.flags & REDIS_CONNECTED) != 0;
    if (connected && !connection->is_flushing) {
        loop_at_turn_end(connection->loop, &connection->flush);
    } else {
        event_add(connection->write_event, NULL);
    }
}

static void want_no_write(void *context)
{
    struct redis_connection *connection = context;
    event_del(connection->write_event);
}

static void clean_up(void *context)
{
    struct redis_connection *connection = context;
    if (connection->redis != NULL) {
        tell_lost(connection, connection->redis);
    }
    loop_task_cancel(&connection->flush);
    event_free(connection->read_event);
    event_free(connection->write_event);
    connection->read_event = NULL;
    connection->write_event = NULL;
    connection->is_reading = false;
    if (connection->tls != NULL) {
        redis_tls_end(connection->tls);
    }
}

/* --- events --- */

static void write_out(struct redis_connection *connection)
{
    if (connection->redis == NULL) {
        return;
    }
    connection->is_flushing = true;
    redisAsyncHandleWrite(connection->redis);
    connection->is_flushing = false;
}

static void on_flush(struct loop_task *task)
{
    write_out(CONTAINER_OF(task, struct redis_connection, flush));
}

static void on_writable(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    write_out(context);
}

static bool is_reply_too_long(const struct redis_connection *connection)
{
    const redisReader *reader = connection->redis->c.reader;
    return reader->len - reader->pos > REDIS_REPLY_BYTES_MAX ||
           redis_reply_is_too_long(&connection->reply);
}

static void on_readable(evutil_socket_t fd, short events, void *context)
{
    struct redis_connection *connection = context;
    (void)fd;
    (void)events;
    if (connection->redis == NULL) {
        return;
    }
    connection->quiet_since_us = clock_monotonic_us();
    redisAsyncHandleRead(connection->redis);
    if (connection->redis != NULL && is_reply_too_long(connection)) {
        struct redisAsyncContext *redis = connection->redis;
        connection->redis = NULL;
        connection->on_lost(connection->owner, REDIS_FAULT_MALFORMED, SPAN("a reply without end"));
        redisAsyncFree(redis);
    }
}

static void on_hiredis_reply(redisAsyncContext *redis, void *reply, void *context)
{
    struct redis_connection *connection = redis->data;
    struct redis_call *call = context;
    connection->n_awaited--;
    if (reply == NULL) {
        tell_lost(connection, redis);
    }
    call->on_reply(call, reply);
}

/* --- the connection --- */

/* An idle connection that something between has forgotten is found before a request needs it. */
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

void redis_connection_init(struct redis_connection *connection, struct loop *loop,
                           void (*on_lost)(void *owner, enum redis_fault why, struct span trouble),
                           void *owner)
{
    *connection = (struct redis_connection){.loop = loop, .on_lost = on_lost, .owner = owner};
    loop_task_init(&connection->flush, on_flush);
}

static redisAsyncContext *start(const struct resolver_address *address, const char *path)
{
    char host[INET6_ADDRSTRLEN];
    if (address == NULL) {
        return redisAsyncConnectUnix(path);
    }
    if (address->sockaddr.any.sa_family == AF_INET) {
        const struct sockaddr_in *ipv4 = &address->sockaddr.ipv4;
        inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof(host));
        return redisAsyncConnect(host, ntohs(ipv4->sin_port));
    }
    const struct sockaddr_in6 *ipv6 = &address->sockaddr.ipv6;
    inet_ntop(AF_INET6, &ipv6->sin6_addr, host, sizeof(host));
    return redisAsyncConnect(host, ntohs(ipv6->sin6_port));
}

static bool attach(struct redis_connection *connection, redisAsyncContext *redis)
{
    struct event_base *base = loop_base(connection->loop);
    connection->read_event =
        event_new(base, redis->c.fd, EV_READ | EV_PERSIST, on_readable, connection);
    connection->write_event =
        event_new(base, redis->c.fd, EV_WRITE | EV_PERSIST, on_writable, connection);
    if (connection->read_event == NULL || connection->write_event == NULL) {
        return false;
    }
    redis->data = connection;
    redis->ev.data = connection;
    redis->ev.addRead = want_read;
    redis->ev.delRead = want_no_read;
    redis->ev.addWrite = want_write;
    redis->ev.delWrite = want_no_write;
    redis->ev.cleanup = clean_up;
    redis_reply_attach(&connection->reply, redis->c.reader, &connection->n_awaited);
    return true;
}

static void forget_events(struct redis_connection *connection)
{
    if (connection->read_event != NULL) {
        event_free(connection->read_event);
        connection->read_event = NULL;
    }
    if (connection->write_event != NULL) {
        event_free(connection->write_event);
        connection->write_event = NULL;
    }
}

/* False: it has failed at once, and connection->trouble says why. */
static bool begin_tls(struct redis_connection *connection, redisAsyncContext *redis)
{
    if (connection->tls == NULL || redis_tls_begin(connection->tls, redis) == STATUS_OK) {
        return true;
    }
    const char *of_socket = strerror(errno);
    const char *of_tls = redis_tls_trouble(connection->tls);
    connection->trouble = of_tls == NULL ? of_socket : of_tls;
    return false;
}

enum status redis_connection_open(struct redis_connection *connection,
                                  const struct resolver_address *address, const char *path)
{
    assert(connection->redis == NULL && connection->read_event == NULL);

    connection->trouble = "out of memory";
    redisAsyncContext *redis = start(address, path);
    if (redis == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (redis->err != 0) {
        connection->trouble = strerror(errno);
        redisAsyncFree(redis);
        return STATUS_UNREACHABLE;
    }
    if (!begin_tls(connection, redis)) {
        redisAsyncFree(redis);
        return STATUS_UNREACHABLE;
    }
    if (!attach(connection, redis)) {
        forget_events(connection);
        redisAsyncFree(redis);
        return STATUS_NO_MEMORY;
    }
    if (address != NULL) {
        keep_alive(redis->c.fd);
    }
    connection->redis = redis;
    want_write(connection); /* connected is when the socket is writable */
    return STATUS_OK;
}

void redis_connection_close(struct redis_connection *connection)
{
    struct redisAsyncContext *redis = connection->redis;
    connection->redis = NULL;
    if (redis != NULL) {
        redisAsyncFree(redis);
    }
}

enum status redis_connection_send(struct redis_connection *connection, struct span command,
                                  struct redis_call *call, uint64_t now_us)
{
    if (connection->redis == NULL ||
        redisAsyncFormattedCommand(connection->redis, on_hiredis_reply, call, command.data,
                                   command.len) != REDIS_OK) {
        return STATUS_UNREACHABLE;
    }
    if (connection->n_awaited++ == 0) {
        connection->quiet_since_us = now_us;
    }
    return STATUS_OK;
}
