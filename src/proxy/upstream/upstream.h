/* A connection to a server of an upstream: idle in its server's list, or carrying one request.
 *
 * It reads and writes HTTP/1.1 and reports events to its user by struct upstream_events. Where the
 * server speaks HTTP/2 what a user has is a stream of a connection instead: upstream_http2.h. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/stream.h"
#include "proxy/core/inbox.h"
#include "proxy/core/sender.h"

struct buffer_pools;
struct pipe;
struct upstream;
struct upstream_carrier_ops;
struct upstream_http2;
struct upstream_server;
struct upstream_stream_ops;
struct upstream_user;
struct upstream_waiter;

/* The events that a connection reports to its user: the mirror of struct client_ops. After an event
 * marked "over", or that returns false, the connection may belong to another user or be closed. */
struct upstream_events {
    /* A new connection is made, or failed: @status is from stream_connect_status(). Over. */
    void (*on_connected)(struct upstream_user *user, enum status status);
    /* It is made, but TLS with the server is not, for @reason, which is valid during the call.
     * Over. */
    void (*on_insecure)(struct upstream_user *user, const char *reason);
    /* The request goes on @upstream from now on, which is being made by HTTP/1.1. */
    void (*on_moved)(struct upstream_user *user, struct upstream *upstream);

    /* --- the request --- */

    /* A part of the blocked output was sent. */
    void (*on_progress)(struct upstream_user *user);
    /* All of the blocked output was sent. */
    void (*on_drained)(struct upstream_user *user);

    /* --- the answer --- */

    /* The first bytes have come: it is too late to try another server. */
    void (*on_byte)(struct upstream_user *user);
    /* user->response is an interim response. False: blocked, or over. */
    bool (*on_interim)(struct upstream_user *user);
    /* user->response is a 101. True: continue with on_body(). False: blocked, or over. */
    bool (*on_switch)(struct upstream_user *user);
    /* user->response is the final head. False: over. */
    bool (*on_head)(struct upstream_user *user);
    /* The head came without a piece of the body. */
    void (*on_head_alone)(struct upstream_user *user);
    /* How many bytes the user accepts now: IO_BLOCK_BYTES or more if it keeps up. 0: it is blocked
     * until upstream_pump(). */
    size_t (*await_room)(struct upstream_user *user);
    /* A piece of the body, or of the server's direction of a tunnel; @last ends it. False: blocked
     * until upstream_pump(), or over. */
    bool (*on_body)(struct upstream_user *user, struct span piece, bool last);
    /* The same with the bytes in @pipe. They are not the end of the body, and its head was sent. */
    bool (*on_pipe)(struct upstream_user *user, struct pipe *pipe);
    /* Whether the user is blocked and cannot take input. */
    bool (*is_blocked)(struct upstream_user *user);

    /* --- failures --- */

    /* The connection ended or broke before the end of the answer. */
    void (*on_lost)(struct upstream_user *user);
    /* The answer is malformed, for @reason. */
    void (*on_bad)(struct upstream_user *user, const char *reason);
};

/* The request that uses a connection, and the storage for its answer. */
struct upstream_user {
    const struct upstream_events *events;
    struct buffer_pools *pools; /* for heads */
    struct head *response;      /* the latest head of the answer */
    struct field *fields;       /* of that head: an array of n_fields_max */
    size_t n_fields_max;
    size_t head_bytes_max;
    const struct field *trailers; /* n_trailers of the request; by HTTP/2 alone */
    size_t n_trailers;
    bool is_head_request;          /* a HEAD: its answer has no body */
    bool takes_pipes, needs_http1; /* on_pipe() may be called; the request offers an upgrade */
};

enum upstream_phase {
    UPSTREAM_CONNECTING, /* or in the handshake of TLS */
    UPSTREAM_IDLE,       /* in server->idle, without a user */
    UPSTREAM_AWAITING,   /* the response's head */
    UPSTREAM_STREAMING,  /* the response's body, or a tunnel */
    UPSTREAM_CARRYING,   /* streams of HTTP/2; without a user */
    UPSTREAM_CLOSED,     /* freed at the end of the iteration */
};

struct upstream {
    enum upstream_phase phase;
    struct upstream_server *server;
    struct upstream_user *user; /* NULL: idle or closed */
    struct stream stream;
    struct inbox inbox; /* decoder.trailers: memory for those of the answer, see chunked.h */
    struct resolver_address address; /* of its server; unused for a unix socket */
    unsigned generation;    /* of the server's addresses, when they last included `address` */
    struct list node;       /* in server->idle */
    struct timeout timeout; /* of an idle connection */
    struct sender out;
    struct span out_head; /* the request's head, if it is not offered to the kernel yet */
    /* Of a stream of HTTP/2, which has no socket: see upstream_http2.h. NULL: a connection. */
    const struct upstream_stream_ops *stream_ops;
    struct upstream_http2 *http2; /* of a connection that may carry streams; else NULL */
    const struct upstream_carrier_ops *carrier_ops; /* with http2 */
    bool has_slot, is_reused; /* holds a slot of max_connections; carried an earlier request */
    struct head_parser parser;
    struct loop_task death;
};

/* Which connections are acceptable. */
enum upstream_use {
    UPSTREAM_ANY,
    UPSTREAM_SURE,  /* a new one, or an idle one that the kernel does not report as ended */
    UPSTREAM_FRESH, /* only a new one */
};

/* Get a connection to @server for @user. An idle one is ready at once (*is_ready is true); a new
 * one calls on_connected() later. STATUS_UNREACHABLE, STATUS_FULL (no descriptor),
 * STATUS_NO_MEMORY; STATUS_IN_USE: the server has its max_connections. */
MUST_USE enum status upstream_acquire(struct upstream_server *server, struct upstream_user *user,
                                      enum upstream_use use, struct upstream **upstream,
                                      bool *is_ready);

/* The same with @grant, which is a slot of a server, or a connection with a slot. A granted
 * connection that is not acceptable for @use is replaced. On failure both are released. */
MUST_USE enum status upstream_acquire_granted(struct upstream_user *user,
                                              const struct upstream_waiter *grant,
                                              enum upstream_use use, struct upstream **upstream,
                                              bool *is_ready);

/* The head in upstream->out is complete; the next piece, or upstream_post_head(), sends it. */
void upstream_end_head(struct upstream *upstream, const struct text *text, bool body_is_chunked);

/* Send at most SENDER_PIECES_MAX pieces of the request's body, framed as one; @last ends it. None:
 * send the head if it is not sent yet. With STREAM_BLOCKED they are borrowed until on_drained(). */
MUST_USE enum stream_result upstream_send(struct upstream *upstream, const struct span *pieces,
                                          int n_pieces, bool last);
/* Send the bytes in @pipe. They belong to a body of known length and are not its end; the head must
 * have been sent. With STREAM_BLOCKED @pipe stays borrowed until on_drained(). */
MUST_USE enum stream_result upstream_send_pipe(struct upstream *upstream, struct pipe *pipe);
/* Send the head of a request without a body by the outbox, together with other output of this
 * loop iteration: STREAM_DONE although it is not written yet, or STREAM_BROKEN. */
MUST_USE enum stream_result upstream_post_head(struct upstream *upstream);

/* Whether the server has seen nothing of the request, or says that it did nothing for it; whether
 * the connection is made, and TLS not yet; the alert of TLS that ended it (NULL: none). */
bool upstream_is_unprocessed(const struct upstream *upstream);
bool upstream_is_securing(const struct upstream *upstream);
const char *upstream_alert(const struct upstream *upstream);
/* A write has failed: read what the server has sent before. */
void upstream_read_rest(struct upstream *upstream);
/* Keep the trailers of the answer in @memory, of TRAILER_BYTES_MAX; and how many bytes they are. */
void upstream_keep_trailers(struct upstream *upstream, char *memory);
size_t upstream_trailer_bytes(const struct upstream *upstream);

/* Whether upstream_send_pipe() may be called; with @keeps_up: and the server takes all at once. */
bool upstream_takes_pipe(const struct upstream *upstream, bool keeps_up);
/* Whether the server has more of the answer and cannot send it until its user takes what came. */
bool upstream_is_held_back(const struct upstream *upstream);
/* Whether the head is complete but not sent. */
static inline bool upstream_owes_head(const struct upstream *upstream)
{
    return upstream->out_head.len > 0;
}

/* The user can take more: pass on the response until the user blocks, no data is left, or the body
 * ends. The connection may be gone when this returns. */
void upstream_pump(struct upstream *upstream);
/* The request is over and the response was read to its end: keep the connection for another request
 * if both sides allow it. Otherwise close it. */
void upstream_release(struct upstream *upstream, uint64_t now_us);

/* Whether the server has a part of the request, and owes a part of the answer. */
bool upstream_is_at_work(const struct upstream *upstream);
/* Transfer the request to @user, which has as many fields as the previous user. The rest of the
 * request is not written: the server may see its end by HTTP/1.1 alone. From the next
 * upstream_pump() on, @user gets the rest of the response. False: a head is just being read. */
MUST_USE bool upstream_hand_over(struct upstream *upstream, struct upstream_user *user);
/* The request is over, or the idle connection is not wanted: close it. */
void upstream_close(struct upstream *upstream);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_H */
