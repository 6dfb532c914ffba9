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
#include "proxy/upstream/upstream_user.h"

struct pipe;
struct upstream;
struct upstream_carrier_ops;
struct upstream_http2;
struct upstream_server;
struct upstream_stream_ops;
struct upstream_waiter;

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
    const char *end_reason;   /* of a stream whose connection this side has ended; else NULL */
    bool has_slot, is_reused; /* holds a slot of max_connections; carried an earlier request */
    bool is_doubtful; /* its last answer had no body by the rules, and a server may break them */
    bool ends_after_answer; /* the server was asked to close it */
    bool is_single;         /* by HTTP/1.1 to a server of HTTP/2, for an upgrade: it is not kept */
    bool is_refused;        /* the proxy does not accept its answer: the server may work on */
    bool has_begun;         /* a stream: the server has given a sign of it */
    bool is_lost;           /* a stream that has ended before its answer: its user is to close it */
    bool is_declined;       /* then: the server says that it did nothing for it */
    bool is_unproven;       /* then: nothing but REFUSED_STREAM says so, which need not be true */
    bool is_reset;          /* then: the server has reset it, and may work on */
    bool is_own_end;        /* then: with its connection, which its client may have ended */
    bool is_blameless_end;  /* then: with its connection, and no request was the reason */
    bool is_old;            /* then: the server has had time to act on the request */
    bool is_given_up;       /* its user closes it, as at a time-out; its client has not left */
    bool is_over;           /* the server has read its request, and sent the answer whole */
    bool is_for_upgrade;    /* a switch of protocols was offered on it */
    bool has_ended;         /* this side was ended by upstream_end_request() */
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
 * one calls on_connected() later. Errors of stream_connect(); STATUS_IN_USE: the server has its
 * max_connections. */
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
 * the connection is made, and TLS not yet; whether it is the proxy then that is late with TLS. */
bool upstream_is_unprocessed(const struct upstream *upstream);
bool upstream_is_securing(const struct upstream *upstream);
bool upstream_waits_here(const struct upstream *upstream);
/* The alert of TLS that ended it. *is_of_handshake: the handshake failed by it, for any request.
 * NULL: there was none, and *is_of_handshake is left alone. */
const char *upstream_alert(const struct upstream *upstream, bool *is_of_handshake);

/* How the request was lost: during on_lost() and on_bad(). @is_counted: as a failure of the server,
 * if it is LOSS_PLAIN: of the requests of a connection one is told so. */
enum upstream_loss upstream_loss_of(struct upstream *upstream, bool is_counted);

/* Whether the request was lost because its server, which speaks HTTP/2, takes no connection by
 * HTTP/1.1 for an upgrade: it is offered none for a while. One that has agreed on HTTP/1.1 by ALPN
 * takes them: it closed this one for what the request says. */
bool upstream_refuses_upgrade(struct upstream *upstream);

/* A write has failed: read what the server has sent before. */
void upstream_read_rest(struct upstream *upstream);
/* Keep the trailers of the answer in @memory, of TRAILER_BYTES_MAX; and how many bytes they are. */
void upstream_keep_trailers(struct upstream *upstream, char *memory);
size_t upstream_trailer_bytes(const struct upstream *upstream);

/* Whether upstream_send_pipe() may be called; with @keeps_up: and the server takes all at once. */
bool upstream_takes_pipe(const struct upstream *upstream, bool keeps_up);
/* Whether the server has more of the answer and cannot send it until its user takes what came. */
bool upstream_is_held_back(const struct upstream *upstream);
/* Whether the body waits because the server does not take what others have sent it. */
bool upstream_is_starved(const struct upstream *upstream);
/* Whether the head is complete but not sent. */
static inline bool upstream_owes_head(const struct upstream *upstream)
{
    return upstream->out_head.len > 0;
}

/* The user can take more: pass on the response until the user blocks, no data is left, or the body
 * ends. The connection may be gone when this returns. */
void upstream_pump(struct upstream *upstream);
/* The request is over and the response was read to its end: keep the connection for another request
 * if both sides allow it. False: close it. */
MUST_USE bool upstream_release(struct upstream *upstream, uint64_t now_us);

/* Whether the server has a part of the request, and owes a part of the answer; or worked on it when
 * its client ended the connection. */
bool upstream_is_at_work(const struct upstream *upstream);
/* Transfer the request to @user, which has as many fields as the previous user. The rest of the
 * request is not written: the server may see its end by HTTP/1.1 alone. From the next
 * upstream_pump() on, @user gets the rest of the response. False: a head is just being read. */
MUST_USE bool upstream_hand_over(struct upstream *upstream, struct upstream_user *user);
/* Whether the answer is one to HEAD whose handler may go on, as it would stream a body. */
bool upstream_may_go_on(const struct upstream *upstream);
/* What comes from now on is no answer. By HTTP/1.1 it is one body, which ends with the connection;
 * by HTTP/2 it goes on. */
void upstream_read_to_close(struct upstream *upstream);
/* The rest of the request, or of what the client sends in a tunnel, does not come: end this side of
 * a connection by HTTP/1.1, so that the server waits for no more. False: see
 * server_process_take_closing(). */
MUST_USE bool upstream_end_request(struct upstream *upstream);
/* The request is over, or the idle connection is not wanted: close it. A connection that is_over is
 * reset, so that it takes no port, and any where too many were closed in order, but for one that
 * was offered an upgrade. */
void upstream_close(struct upstream *upstream);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_H */
