/* A connection from a client, speaking HTTP/1.1 or 1.0: the client side of its
 * exchanges, one after another. */

#ifndef SLUICE_PROXY_DOWNSTREAM_H
#define SLUICE_PROXY_DOWNSTREAM_H

#include <stdbool.h>

#include "base/address.h"
#include "base/list.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/stream.h"
#include "proxy/eviction.h"
#include "proxy/exchange.h"
#include "proxy/inbox.h"
#include "proxy/linger.h"

struct worker;

enum downstream_phase {
    DOWNSTREAM_NEW,      /* the header of the PROXY protocol is to come first */
    DOWNSTREAM_IDLE,     /* between requests */
    DOWNSTREAM_BUSY,     /* carries an exchange */
    DOWNSTREAM_ANSWERED, /* the exchange is over; the last of its answer is not all written */
    DOWNSTREAM_LINGER,   /* answered; what the client sends is thrown away until it has read that */
    DOWNSTREAM_CLOSED,   /* freed at the end of the turn */
};

struct downstream {
    struct client client; /* first: what the exchange knows of us */
    enum downstream_phase phase;
    struct worker *worker;
    struct regime *regime; /* of what is being read or answered; NULL: nothing is */
    struct list node;      /* in worker->open */
    struct stream stream;
    struct inbox inbox;
    struct head_parser parser;
    struct address peer;       /* or who the PROXY header says it is */
    bool is_counted;           /* at the entrance, as a connection of that client */
    bool has_left;             /* the entrance counts it no more */
    struct exchange *exchange; /* while BUSY */
    struct timeout timeout;    /* while NEW, IDLE, ANSWERED or LINGER, or is_first */
    bool is_first; /* timeouts.head runs from accept: for the first head, of an unprotected peer */
    bool is_evicted;        /* it ends with its answer */
    uint64_t rest_since_us; /* the latest answer was given to it then, or it came */
    struct eviction_candidate candidate;
    struct lingering linger; /* while LINGER */
    char *out_block;         /* the response's head, until the kernel has it; NULL otherwise */
    bool wants_body;         /* the exchange takes pieces of the request's body */
    bool keep_alive;         /* another request may follow; known when the head goes out */
    bool is_chunked;         /* the response's body goes out chunked */
    bool is_tunnel;          /* bytes pass as they are, until both sides have ended */
    bool is_stalled;         /* ANSWERED, and the kernel did not take all of it at once */
    bool has_ended;          /* the client has ended its side: nothing more comes */
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    struct loop_task next; /* a pipelined request is there: begin it at the end of the turn */
    struct loop_task death;
};

/* Serve the connection @fd (taken over) from @peer, which has come in at the entrance.
 * @awaits_header: that of the PROXY protocol, within timeouts.head, says who the client is, who is
 * counted then; else @is_counted is told. Refused when there is no memory. */
void downstream_open(struct worker *worker, int fd, const struct address *peer, bool awaits_header,
                     bool is_counted);

/* The worker is draining: close with the answer that is under way, or now if there is none. A
 * connection that is new has a moment to send its first request. */
void downstream_drain(struct downstream *downstream);

/* Close a connection that waits for its client, to make room. A silent or idle one is closed
 * without an answer, an unfinished head is answered with 408. EVICTED_NONE: a request has come, or
 * an answer is under way, and it stays. */
MUST_USE enum eviction_kind downstream_evict(struct downstream *downstream);

/* The client is gone: close at once, whatever is under way. */
void downstream_close(struct downstream *downstream);

/* The same, and it is the proxy that ends it. */
void downstream_cut(struct downstream *downstream);

#endif /* SLUICE_PROXY_DOWNSTREAM_H */
