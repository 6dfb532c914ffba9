/* One connection to a Redis or a sentinel, on the loop, plain or over TLS. The commands of a loop
 * iteration leave in one write.
 *
 * A reply belongs to the oldest call under way. A connection that is subscribed to channels has
 * on_message: it gets what belongs to no call. */

#ifndef SLUICE_STORE_REDIS_REDIS_CONNECTION_H
#define SLUICE_STORE_REDIS_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"
#include "store/redis/redis_reply.h"
#include "store/redis_fault.h"
#include "tls/tls_client.h"

struct loop;
struct redisReader;
struct redis_store_options;
struct resolver_address;
struct tls_client_context;
struct tls_worker;

/* A command under way, a member of the sender's struct; valid until on_reply. */
struct redis_call {
    /* Called once, from the loop. @reply is valid during the call; NULL: the connection is gone.
     * May send again, and may close the connection. */
    void (*on_reply)(struct redis_call *call, const struct redis_reply *reply);
};

/* Encoded commands. */
struct redis_commands {
    char *bytes; /* owned */
    size_t len;
    size_t capacity;
};

struct redis_connection {
    struct loop *loop;
    /* The connection could not be made (REDIS_FAULT_REFUSED), broke (_RESET), or received data that
     * is not Redis protocol (_MALFORMED). Called once, when it is closed and before the calls under
     * way get NULL; not called after redis_connection_close(). Unless there are such calls, it may
     * open the next connection. */
    void (*on_lost)(void *owner, enum redis_fault why, struct span trouble);
    /* A message, or a reply to a command without a call; valid during the call. May close the
     * connection. NULL: there are none, and one breaks the connection. */
    void (*on_message)(void *owner, const struct redis_reply *message);
    void *owner;

    struct stream stream;
    struct redisReader *reader; /* owned; NULL: closed */
    /* Of the next connection: see redis_connection_secure(). */
    struct tls_worker *tls_worker;
    struct tls_client_context *tls; /* NULL: plain */
    struct span tls_name;
    struct tls_client_sessions sessions; /* of this connection; never resumed by another */
    bool was_reached; /* the latest attempt to connect came as far as the server */
    bool is_ready;    /* connected: commands may be written */
    bool is_reading;  /* replies are being taken from the reader */
    struct loop_task flush;
    struct redis_commands collected; /* to be written at the end of the iteration */
    struct redis_commands blocked;   /* that the kernel has not accepted yet; the stream's slice */
    struct redis_reply reply;
    struct redis_call **calls; /* under way: a ring, owned */
    size_t n_calls_max;        /* its capacity: 0 or a power of 2 */
    size_t first_call;         /* index of the oldest */
    size_t n_awaited;          /* number of calls under way */
    const char *trouble;       /* why it could not be opened; valid until the next attempt */
    uint64_t quiet_since_us;   /* last data received, or first call under way since; monotonic */
};

void redis_connection_init(struct redis_connection *connection, struct loop *loop,
                           void (*on_lost)(void *owner, enum redis_fault why, struct span trouble),
                           void *owner);

/* Close the connection and free its memory. Not from within one of its callbacks. */
void redis_connection_free(struct redis_connection *connection);

/* Speak TLS, by @tls of @worker, on the connections that are opened from now on, to a server whose
 * certificate is for @name unless @tls has another name. All is borrowed. */
void redis_connection_secure(struct redis_connection *connection, struct tls_worker *worker,
                             struct tls_client_context *tls, struct span name);

/* Start to connect to @address, or to the unix socket @path when @address is NULL. Commands may be
 * sent at once. No call of the previous connection may be left, so call it in a later iteration
 * than the one that lost or closed it. STATUS_UNREACHABLE, STATUS_FULL, STATUS_NO_MEMORY: on_lost
 * is not called, and connection->trouble has the reason. */
MUST_USE enum status redis_connection_open(struct redis_connection *connection,
                                           const struct resolver_address *address,
                                           const char *path);

static inline bool redis_connection_is_open(const struct redis_connection *connection)
{
    return connection->reader != NULL;
}

/* Calls under way get NULL, at the latest when the callback that this is called from returns. A
 * no-op on a connection that is not open. */
void redis_connection_close(struct redis_connection *connection);

/* Send @command, in RESP, at @now_us (monotonic). @call may be NULL if the connection has
 * on_message. STATUS_UNREACHABLE: on_reply is not called. */
MUST_USE enum status redis_connection_send(struct redis_connection *connection, struct span command,
                                           struct redis_call *call, uint64_t now_us);

/* --- TLS to Redis and to sentinels: what the connections of a store share --- */

/* Counted by references of the loop's thread. */
struct redis_tls {
    struct tls_worker *worker;            /* owned */
    struct tls_client_context *servers;   /* owned; NULL: Redis is spoken to in plain text */
    struct tls_client_context *sentinels; /* owned; NULL: likewise the sentinels */
    unsigned n_references;
};

/* Take one reference more to the contexts of @options or, if there are none, make those that its
 * configurations ask for. STATUS_INVALID: OpenSSL refuses something, which is logged;
 * STATUS_NO_MEMORY. */
MUST_USE enum status redis_tls_open(struct loop *loop, struct redis_store_options *options);

/* Release what redis_tls_open() took. Of the last, all connections that used it are closed. */
void redis_tls_close(struct redis_store_options *options);

#endif /* SLUICE_STORE_REDIS_REDIS_CONNECTION_H */
