/* hiredis on our loop: one connection, commands out in one write a turn, replies in.
 *
 * What hiredis allocates: a node of 32 bytes for each command while it is under way, and its two
 * buffers as they grow. */

#ifndef SLUICE_STORE_REDIS_CONNECTION_H
#define SLUICE_STORE_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis_fault.h"
#include "store/redis_reply.h"

struct event;
struct redisAsyncContext;
struct redis_tls;
struct resolver_address;

/* A command under way, a member of whoever sent it; it stays until on_reply. */
struct redis_call {
    /* Once, from the loop: the reply, which lasts for this call, or NULL when the connection is
     * gone. May send again, and may close the connection. */
    void (*on_reply)(struct redis_call *call, const struct redis_reply *reply);
};

struct redis_connection {
    struct loop *loop;
    struct redis_tls *tls; /* borrowed; NULL: none. To be set before a connection is opened. */
    /* The connection could not be made (REDIS_FAULT_REFUSED), broke (_RESET), or brought what is no
     * Redis protocol (_MALFORMED). Once, unless it is closed by us; before the calls under way get
     * their NULL. May not open again at once: see redis_connection_open(). */
    void (*on_lost)(void *owner, enum redis_fault why, struct span trouble);
    void *owner;

    struct redisAsyncContext *redis; /* NULL: none, or being torn down */
    struct event *read_event;        /* NULL: the last one has been torn down */
    struct event *write_event;       /* armed only while connecting, or the kernel takes no more */
    struct loop_task flush;
    bool is_reading;
    bool is_flushing;
    struct redis_reply reply;
    const char *trouble;     /* why it could not be opened; until the next attempt */
    size_t n_awaited;        /* commands without a reply */
    uint64_t quiet_since_us; /* nothing has come since, if something is awaited; monotonic */
};

void redis_connection_init(struct redis_connection *connection, struct loop *loop,
                           void (*on_lost)(void *owner, enum redis_fault why, struct span trouble),
                           void *owner);

/* Start to connect to @address, or where that is NULL to the unix socket @path. Commands may be
 * sent at once. Only from the loop, in a turn after the one that lost or closed the one before.
 * STATUS_UNREACHABLE, STATUS_NO_MEMORY: on_lost is not called, connection->trouble says why. */
MUST_USE enum status redis_connection_open(struct redis_connection *connection,
                                           const struct resolver_address *address,
                                           const char *path);

static inline bool redis_connection_is_open(const struct redis_connection *connection)
{
    return connection->redis != NULL;
}

/* Calls under way get their NULL, at the latest when the callback that this is called from returns.
 * A connection that is not open stays so. */
void redis_connection_close(struct redis_connection *connection);

/* Send @command, RESP, at @now_us (monotonic). STATUS_UNREACHABLE: on_reply will not be called. */
MUST_USE enum status redis_connection_send(struct redis_connection *connection, struct span command,
                                           struct redis_call *call, uint64_t now_us);

#endif /* SLUICE_STORE_REDIS_CONNECTION_H */
