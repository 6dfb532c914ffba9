/* A connection to a server of an upstream: idle in its server's list, or carrying one exchange.
 *
 * It reads and writes HTTP/1.1 and tells its exchange, through the
 * exchange_on_upstream_…() functions, what came. */

#ifndef SLUICE_PROXY_UPSTREAM_H
#define SLUICE_PROXY_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/stream.h"
#include "proxy/inbox.h"

struct exchange;
struct upstream_server;
struct upstream_waiter;

enum upstream_phase {
    UPSTREAM_CONNECTING,
    UPSTREAM_IDLE,      /* in server->idle, without an exchange */
    UPSTREAM_AWAITING,  /* the response's head */
    UPSTREAM_STREAMING, /* the response's body, or a tunnel */
    UPSTREAM_CLOSED,    /* freed at the end of the turn */
};

struct upstream {
    enum upstream_phase phase;
    struct upstream_server *server;
    struct exchange *exchange; /* NULL: idle or closed */
    struct stream stream;
    struct inbox inbox;
    struct resolver_address address; /* of its server; not of a unix socket */
    unsigned generation;    /* of the server's addresses, when it was seen to be among them */
    struct list node;       /* in server->idle */
    struct timeout timeout; /* of an idle connection */
    struct pool *out_pool;  /* of out_block: that of the latest exchange's regime */
    char *out_block;        /* the request's head, until the kernel has it; NULL otherwise */
    struct span out_head;   /* in it, not offered to the kernel yet */
    bool is_chunked;        /* the request's body goes out chunked */
    bool has_place;         /* of the server's max_connections */
    bool is_reused;         /* carried an exchange before this one */
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    struct head_parser parser;
    struct loop_task death;
};

/* Which connections will do. */
enum upstream_use {
    UPSTREAM_ANY,
    UPSTREAM_SURE,  /* of the idle ones, those alone of which the kernel knows no end just now */
    UPSTREAM_FRESH, /* no idle one */
};

/* Get a connection to @server for @exchange: an idle one is ready at once (*upstream, true in
 * *is_ready), a new one calls exchange_on_upstream_connected() later.
 * STATUS_UNREACHABLE, STATUS_FULL (no descriptor), STATUS_NO_MEMORY; STATUS_IN_USE: as many as the
 * server may have. */
MUST_USE enum status upstream_acquire(struct upstream_server *server, struct exchange *exchange,
                                      enum upstream_use use, struct upstream **upstream,
                                      bool *is_ready);

/* The same with what @grant is: a place at a server, or a connection that has one, which has to do
 * for @use. Both are given back on failure. */
MUST_USE enum status upstream_acquire_granted(struct exchange *exchange,
                                              const struct upstream_waiter *grant,
                                              enum upstream_use use, struct upstream **upstream,
                                              bool *is_ready);

/* Let go of the latest idle connection of @server, which has one, and of its place: both the
 * caller's; *address is where it leads. */
int upstream_give_up_idle(struct upstream_server *server, struct resolver_address *address);

/* Where to write the request's head: a text over a whole block. */
MUST_USE enum status upstream_begin_head(struct upstream *upstream, struct text *text);

/* The head is written: it goes out with the next piece of the body, with
 * upstream_post_head() or upstream_flush_head(). */
void upstream_end_head(struct upstream *upstream, const struct text *text, bool body_is_chunked);

/* Send a piece of the request's body, framed; @last ends it. An empty @piece may end it too. With
 * STREAM_BLOCKED @piece stays borrowed until exchange_on_upstream_drained(). */
MUST_USE enum stream_result upstream_send(struct upstream *upstream, struct span piece, bool last);

/* Send what is in @pipe, of a body of known length whose head has gone out; not the last of it.
 * With STREAM_BLOCKED @pipe stays borrowed likewise. */
MUST_USE enum stream_result upstream_send_pipe(struct upstream *upstream, struct pipe *pipe);

/* Send the head, which is all of the request, with what others send in this turn: by the outbox, so
 * that it blocks. */
MUST_USE enum stream_result upstream_post_head(struct upstream *upstream);

/* Send the head if it has not gone out yet. */
MUST_USE enum stream_result upstream_flush_head(struct upstream *upstream);

/* It is written, and has not gone out. */
static inline bool upstream_owes_head(const struct upstream *upstream)
{
    return upstream->out_head.len > 0;
}

/* The response's head has come: put its trailers into @memory,
 * TRAILER_BYTES_MAX; NULL drops them. */
void upstream_keep_trailers(struct upstream *upstream, char *memory);

/* How many bytes they were; the body has ended. */
size_t upstream_trailer_bytes(const struct upstream *upstream);

/* Nothing more goes to the server: end our side of the tunnel. Nothing may be blocked. */
void upstream_end_tunnel(struct upstream *upstream);

/* Its side of the tunnel has ended, and nothing more is read. */
void upstream_has_ended(struct upstream *upstream);

/* The exchange can take more: hand it what is there of the response, until it blocks, nothing is
 * there or the body ends. The connection may be gone when this returns. */
void upstream_pump(struct upstream *upstream);

/* The exchange is over and the response was read to its end: keep the connection for the next one,
 * if both sides want that. */
void upstream_release(struct upstream *upstream, uint64_t now_us);

/* The exchange is over, or the idle connection is not wanted: close it. */
void upstream_close(struct upstream *upstream);

#endif /* SLUICE_PROXY_UPSTREAM_H */
