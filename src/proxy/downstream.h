/* A connection from a client, speaking HTTP/1.1 or 1.0: the client side of its exchanges, one after another. */

#ifndef SLUICE_PROXY_DOWNSTREAM_H
#define SLUICE_PROXY_DOWNSTREAM_H

#include <stdbool.h>

#include "base/address.h"
#include "base/list.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/stream.h"
#include "proxy/exchange.h"
#include "proxy/inbox.h"
#include "proxy/linger.h"

struct worker;

enum downstream_phase {
    DOWNSTREAM_IDLE, /* between requests */
    DOWNSTREAM_BUSY, /* carries an exchange */
    DOWNSTREAM_LINGER, /* answered; what the client still sends is thrown away until it has read that */
    DOWNSTREAM_CLOSED, /* freed at the end of the turn */
};

struct downstream {
    struct client client; /* first: what the exchange knows of us */
    enum downstream_phase phase;
    struct worker *worker;
    struct list node; /* in worker->open */
    struct stream stream;
    struct inbox inbox;
    struct head_parser parser;
    struct address peer;
    struct exchange *exchange; /* while BUSY */
    struct timeout timeout;    /* while IDLE or LINGER */
    struct lingering linger;   /* while LINGER */
    char *out_block;           /* the response's head, until the kernel has it; NULL otherwise */
    bool wants_body;           /* the exchange takes pieces of the request's body */
    bool keep_alive;           /* another request may follow; known when the head goes out */
    bool is_chunked;           /* the response's body goes out chunked */
    bool is_tunnel;            /* bytes pass as they are, until both sides have ended */
    bool has_ended;            /* the client has ended its side: nothing more comes */
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    struct loop_task next; /* a pipelined request is there: begin it at the end of the turn */
    struct loop_task death;
};

/* Serve the connection @fd (taken over) from @peer. Refused, with a 503 if that can be sent at once, when there
 * are too many or no memory. */
void downstream_open(struct worker *worker, int fd, const struct address *peer);

/* The worker is draining: close with the answer that is under way, or now if there is none. A connection that
 * is new has a moment to send its first request. */
void downstream_drain(struct downstream *downstream);

/* Close at once, whatever is under way. */
void downstream_close(struct downstream *downstream);

#endif /* SLUICE_PROXY_DOWNSTREAM_H */
