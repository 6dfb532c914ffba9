/* One hiredis connection on the worker's loop. The commands of a loop iteration leave in one write.
 *
 * hiredis allocates a node of 32 bytes for each command under way, and its two buffers as they
 * grow. */

#ifndef SLUICE_STORE_REDIS_REDIS_CONNECTION_H
#define SLUICE_STORE_REDIS_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis/redis_reply.h"
#include "store/redis_fault.h"

struct event;
struct redisAsyncContext;
struct redis_tls;
struct resolver_address;

/* A command under way, a member of the sender's struct; valid until on_reply. */
struct redis_call {
    /* Called once, from the loop. @reply is valid during the call; NULL: the connection is gone.
     * May send again, and may close the connection. */
    void (*on_reply)(struct redis_call *call, const struct redis_reply *reply);
};

struct redis_connection {
    struct loop *loop;
    struct redis_tls *tls; /* borrowed; NULL: none. Set it before a connection is opened. */
    /* The connection could not be made (REDIS_FAULT_REFUSED), broke (_RESET), or received data that
     * is not Redis protocol (_MALFORMED). Called once, before the calls under way get NULL; not
     * called after redis_connection_close(). May not open a new connection at once: see
     * redis_connection_open(). */
    void (*on_lost)(void *owner, enum redis_fault why, struct span trouble);
    void *owner;

    struct redisAsyncContext *redis; /* NULL: none, or being torn down */
    struct event_room read_event;
    struct event_room write_event; /* armed only while connecting or the send buffer is full */
    bool is_attached;              /* until the connection has been torn down */
    struct loop_task flush;
    bool is_reading;
    bool is_flushing;
    bool is_unwatched; /* libevent has no memory to watch it: it is lost */
    struct redis_reply reply;
    const char *trouble;     /* why it could not be opened; valid until the next attempt */
    size_t n_awaited;        /* commands without a reply */
    uint64_t quiet_since_us; /* last data received, or first command awaited since; monotonic */
};

void redis_connection_init(struct redis_connection *connection, struct loop *loop,
                           void (*on_lost)(void *owner, enum redis_fault why, struct span trouble),
                           void *owner);

/* Start to connect to @address, or to the unix socket @path when @address is NULL. Commands may be
 * sent at once. Call it only from the loop, in a later iteration than the one that lost or closed
 * the previous connection. STATUS_UNREACHABLE, STATUS_NO_MEMORY: on_lost is not called, and
 * connection->trouble has the reason. */
MUST_USE enum status redis_connection_open(struct redis_connection *connection,
                                           const struct resolver_address *address,
                                           const char *path);

static inline bool redis_connection_is_open(const struct redis_connection *connection)
{
    return connection->redis != NULL;
}

/* Calls under way get NULL, at the latest when the callback that this is called from returns. A
 * no-op on a connection that is not open. */
void redis_connection_close(struct redis_connection *connection);

/* Send @command, in RESP, at @now_us (monotonic). STATUS_UNREACHABLE: on_reply is not called. */
MUST_USE enum status redis_connection_send(struct redis_connection *connection, struct span command,
                                           struct redis_call *call, uint64_t now_us);

/* --- redis_tls.c: TLS, when hiredis is built with it. The certificate must be issued for the name
 * or address of the host, by an authority that the system or SSL_CERT_FILE and SSL_CERT_DIR name.
 * The policies of a build without TLS cannot ask for it. --- */

/* For connections to @host, copied. STATUS_NO_MEMORY; STATUS_INVALID: the trusted certificates
 * cannot be read, or this build has no TLS. */
MUST_USE enum status redis_tls_new(struct span host, struct redis_tls **tls);
/* NULL is a no-op. */
void redis_tls_free(struct redis_tls *tls);

/* Use TLS on @redis, which has begun to connect. STATUS_NO_MEMORY, STATUS_UNREACHABLE: the reason
 * is in redis_tls_trouble() or, if that is NULL, in errno. */
MUST_USE enum status redis_tls_begin(struct redis_tls *tls, struct redisAsyncContext *redis);

/* The TLS error of the connection that just broke or could not begin, for the log; valid until the
 * next one begins. NULL: none. */
const char *redis_tls_trouble(struct redis_tls *tls);

/* A connection has ended: clear this thread's TLS errors, so that they are not reported for another
 * connection. */
void redis_tls_end(struct redis_tls *tls);

#endif /* SLUICE_STORE_REDIS_REDIS_CONNECTION_H */
