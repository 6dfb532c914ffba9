/* Internals of a downstream, for downstream.c and its parts only. */

#ifndef SLUICE_PROXY_CLIENT_DOWNSTREAM_INNER_H
#define SLUICE_PROXY_CLIENT_DOWNSTREAM_INNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/stream.h"
#include "proxy/client/client_env.h"
#include "proxy/core/inbox.h"
#include "proxy/core/sender.h"
#include "proxy/exchange/exchange.h"

enum downstream_phase {
    DOWNSTREAM_NEW,      /* waits for the header of the PROXY protocol */
    DOWNSTREAM_SECURING, /* in the handshake of TLS */
    DOWNSTREAM_IDLE,     /* between requests */
    DOWNSTREAM_BUSY,     /* carries an exchange */
    DOWNSTREAM_HTTP2,    /* carries HTTP/2, see http2_connection.h */
    DOWNSTREAM_ANSWERED, /* the exchange is over; the end of its answer is not written yet */
    DOWNSTREAM_LINGER,   /* answered; the client's bytes are discarded until it has read the answer,
                        * or left unread for a moment after abuse */
    DOWNSTREAM_CLOSED,   /* freed at the end of the iteration */
};

struct downstream {
    struct client client;                /* seen by the exchange */
    struct client_connection connection; /* seen by the worker and the connection limits */
    enum downstream_phase phase;
    struct exchange_config *config; /* of the message that is read or answered; NULL: none */
    struct stream stream;
    struct inbox inbox;
    struct head_parser parser;
    struct exchange *exchange;      /* while BUSY */
    struct timeout timeout;         /* while NEW, SECURING, IDLE, ANSWERED or LINGER, or is_first */
    struct http2_connection *http2; /* while HTTP2; NULL: not */
    unsigned versions; /* that the first bytes may show: bits HTTP_VERSION_…; 0: they have come */
    bool is_first;   /* timeouts.head runs from accept, for the first head of an unprotected peer */
    bool is_evicted; /* it closes after its answer */
    uint64_t busy_from_us;  /* published while BUSY: NEVER, or AFTER_ANSWER if it pipelines */
    uint64_t rest_since_us; /* time of the latest answer, or of the client becoming known */
    struct tls_server *tls_server;   /* a reference, until the handshake begins; NULL: plain */
    struct list shaking;             /* node in clients->shaking */
    struct client_count *handshakes; /* SECURING, and counted in those of the client; else NULL */
    uint64_t secured_from_us;        /* begin of SECURING */
    struct lingering linger;         /* while LINGER */
    struct sender out;               /* the response */
    bool wants_body;                 /* the exchange takes pieces of the request's body */
    bool keep_alive;                 /* another request may follow; known when the head goes out */
    bool is_tunnel;                  /* bytes pass as they are, until both sides have ended */
    bool is_stalled;       /* ANSWERED, and the kernel did not take all of the answer at once */
    bool has_ended;        /* the client has ended its side: no more bytes come */
    struct loop_task next; /* a pipelined request is here: begin it at the end of the iteration */
    struct loop_task death;
};

/* The client is gone: close at once, even during an exchange. */
void downstream_close(struct downstream *downstream);

/* --- the request's body and the answer (downstream_io.c) --- */

/* pump() of the client_ops: hand over pieces of the body as they arrive, for as long as the
 * exchange wants them. */
void downstream_pump(struct client *client);

bool downstream_has_whole_body(struct client *client);

/* Drop the buffered bytes of a body that the exchange did not want. */
void downstream_skip_body(struct downstream *downstream);

/* See struct client_ops. */
MUST_USE enum stream_result downstream_send(struct client *client, const struct response *response,
                                            struct span piece, bool last);
MUST_USE enum stream_result downstream_send_pipe(struct client *client, struct pipe *pipe);
MUST_USE enum stream_result downstream_send_interim(struct client *client,
                                                    const struct response *response);

/* --- the handshake of TLS (downstream_tls.c) --- */

/* Begin it; @first was read already. downstream_on_secured() follows, or the connection closes. */
void downstream_secure(struct downstream *downstream, struct span first);

/* The connection closes in mid handshake, or the handshake is over: it is not counted any more. */
void downstream_end_handshake(struct downstream *downstream);

/* The handshake took longer than timeouts.handshake: count and report it. */
void downstream_report_slow_handshake(struct downstream *downstream);

/* HTTP/2 is over: close in stages; after a pause if it was misused. */
void downstream_finish_http2(struct downstream *downstream, bool is_misused);

/* The handshake is over: the first request is expected (downstream.c). */
void downstream_on_secured(struct downstream *downstream);

/* --- eviction, and the time limit of the first head (downstream_eviction.c) --- */

/* A PROXY header is expected within its time. Until it is whole the connection counts by no client,
 * and may be evicted after EVICTION_REQUEST_GRACE_US. */
void downstream_await_header(struct downstream *downstream, uint64_t now_us);

/* It is whole: the connection is no candidate until downstream_await_first(). */
void downstream_end_header(struct downstream *downstream);

/* The client is known, and its first request is expected. If the peer is not protected, the
 * connection becomes a candidate for eviction, and timeouts.head runs from accept (it runs already
 * if a PROXY header came). False: the peer is protected, and may keep a connection in a pool
 * before it uses it. */
MUST_USE bool downstream_await_first(struct downstream *downstream, uint64_t now_us);

/* The first head is complete or bad: stop the timeout that runs from accept. A no-op for later
 * heads. */
void downstream_end_first(struct downstream *downstream);

/* A head is not complete, and is not waited for any longer: answer 408. */
#define DOWNSTREAM_HEAD_EVICTED "too many connections: the head was not whole yet"
void downstream_refuse_head(struct downstream *downstream, const char *reason);

/* A head is complete, and the exchange begins: publish when the connection may be evicted. */
static inline void downstream_publish_busy(struct downstream *downstream)
{
    const struct inbox *inbox = &downstream->inbox;
    if (UNLIKELY(inbox->ended && inbox->head_start < inbox->head_end)) {
        downstream->busy_from_us = EVICTION_AFTER_ANSWER; /* the next request is here already */
    }
    eviction_publish(&downstream->connection.candidate, downstream->busy_from_us);
}

/* The connection becomes a tunnel. Bytes behind its request are no next request, and it does not
 * close after its answer: it is in use, and no deferred victim. */
void downstream_note_tunnel(struct downstream *downstream);

/* evict() of the client_connection_ops. */
MUST_USE enum eviction_kind downstream_evict(struct client_connection *connection);

#endif /* SLUICE_PROXY_CLIENT_DOWNSTREAM_INNER_H */
