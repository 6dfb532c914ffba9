/* Out: a command is appended to hiredis's buffer ─► at the end of the iteration, one write ─► data
 * that the kernel does not accept waits for writability. In: readable ─► hiredis reads once, parses
 * and calls on_hiredis_reply for each reply.
 *
 * Lost: hiredis gives every command under way a NULL reply and then calls its cleanup hook. The
 * first of these calls reports the loss to the owner. hiredis may be on the stack during this, so
 * it frees its own context, and our events are freed in the cleanup hook only. hiredis must not be
 * freed from its connect callback, so none is set: the owner's first reply shows the connection. */

#include "store/redis/redis_connection.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <hiredis/async.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "net/resolver.h"

static enum redis_fault fault_of(const redisAsyncContext *redis)
{
    if (redis->err == REDIS_ERR_PROTOCOL) {
        return REDIS_FAULT_MALFORMED;
    }
    return (redis->c.flags & REDIS_CONNECTED) != 0 ? REDIS_FAULT_RESET : REDIS_FAULT_REFUSED;
}

static void report_lost(struct redis_connection *connection, const redisAsyncContext *redis)
{
    if (connection->redis != redis) {
        return; /* reported already, or closed by us */
    }
    const char *of_tls = connection->tls == NULL ? NULL : redis_tls_trouble(connection->tls);
    const char *trouble = redis->err == 0 ? "connection closed" : redis->errstr;
    connection->redis = NULL;
    connection->on_lost(connection->owner, fault_of(redis),
                        span_of_text(of_tls == NULL ? trouble : of_tls));
}

/* Lose the connection for a reason that hiredis does not know. Not from within its hooks. */
static void lose(struct redis_connection *connection, enum redis_fault why, struct span trouble)
{
    struct redisAsyncContext *redis = connection->redis;
    connection->redis = NULL;
    connection->on_lost(connection->owner, why, trouble);
    redisAsyncFree(redis);
}

/* --- hooks by which hiredis requests events --- */

/* Without memory no event would wake the connection: it is lost at the end of the iteration. */
static void watch(struct redis_connection *connection, struct event *event)
{
    if (event_add(event, NULL) != 0) {
        connection->is_unwatched = true;
        loop_at_iteration_end(connection->loop, &connection->flush);
    }
}

static void want_read(void *context)
{
    struct redis_connection *connection = context;
    if (!connection->is_reading) {
        connection->is_reading = true;
        watch(connection, event_in(&connection->read_event));
    }
}

static void want_no_read(void *context)
{
    struct redis_connection *connection = context;
    connection->is_reading = false;
    event_del(event_in(&connection->read_event));
}

static void want_write(void *context)
{
    struct redis_connection *connection = context;
    const redisAsyncContext *redis = connection->redis;
    const bool connected = redis != NULL && (redis->c.flags & REDIS_CONNECTED) != 0;
    if (connected && !connection->is_flushing) {
        loop_at_iteration_end(connection->loop, &connection->flush);
    } else {
        watch(connection, event_in(&connection->write_event));
    }
}

static void want_no_write(void *context)
{
    struct redis_connection *connection = context;
    event_del(event_in(&connection->write_event));
}

static void clean_up(void *context)
{
    struct redis_connection *connection = context;
    if (connection->redis != NULL) {
        report_lost(connection, connection->redis);
    }
    loop_task_cancel(&connection->flush);
    event_del(event_in(&connection->read_event));
    event_del(event_in(&connection->write_event));
    connection->is_attached = false;
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
    struct redis_connection *connection = CONTAINER_OF(task, struct redis_connection, flush);
    if (!connection->is_unwatched) {
        write_out(connection);
    } else if (connection->redis != NULL) {
        lose(connection, REDIS_FAULT_RESET, SPAN("out of memory"));
    }
}

static void on_writable(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    write_out(context);
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
    if (connection->redis != NULL &&
        redis_reply_is_too_long(&connection->reply, connection->redis->c.reader)) {
        lose(connection, REDIS_FAULT_MALFORMED, SPAN("a reply without end"));
    }
}

static void on_hiredis_reply(redisAsyncContext *redis, void *reply, void *context)
{
    struct redis_connection *connection = redis->data;
    struct redis_call *call = context;
    connection->n_awaited--;
    if (reply == NULL) {
        report_lost(connection, redis);
    }
    call->on_reply(call, reply);
}

/* --- the connection --- */

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

static void attach(struct redis_connection *connection, redisAsyncContext *redis)
{
    struct event_base *base = loop_base(connection->loop);
    (void)event_assign(event_in(&connection->read_event), base, redis->c.fd, EV_READ | EV_PERSIST,
                       on_readable, connection);
    (void)event_assign(event_in(&connection->write_event), base, redis->c.fd, EV_WRITE | EV_PERSIST,
                       on_writable, connection);
    connection->is_attached = true;
    redis->data = connection;
    redis->ev.data = connection;
    redis->ev.addRead = want_read;
    redis->ev.delRead = want_no_read;
    redis->ev.addWrite = want_write;
    redis->ev.delWrite = want_no_write;
    redis->ev.cleanup = clean_up;
    redis_reply_attach(&connection->reply, redis->c.reader, &connection->n_awaited);
}

/* False: it has failed at once, and connection->trouble has the reason. */
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
    assert(connection->redis == NULL && !connection->is_attached);

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
    attach(connection, redis);
    if (address != NULL) {
        keep_alive(redis->c.fd);
    }
    connection->redis = redis;
    connection->is_unwatched = false;
    want_write(connection); /* connected is when the socket is writable */
    if (connection->is_unwatched) {
        redis_connection_close(connection);
        return STATUS_NO_MEMORY;
    }
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
