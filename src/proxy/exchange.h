/* An exchange: one request and its answer.
 *
 * It knows no wire format of the client: a client side hands it a parsed head and pieces of the
 * body, and takes a response's head and pieces of its body back (struct client_ops). It owns what
 * is released exactly once: upstream connection, pending decision, timeout, arena.
 *
 * Pieces are never copied. Who hands one over keeps its memory until the other side says that it
 * has gone out: at once (true), or by calling back later (false: the taker is blocked). */

#ifndef SLUICE_PROXY_EXCHANGE_H
#define SLUICE_PROXY_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/precise_timer.h"
#include "net/stream.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "proxy/client.h"
#include "proxy/pace.h"
#include "proxy/upstream.h"
#include "proxy/upstream_choice.h"
#include "proxy/upstream_group.h"
#include "proxy/upstream_queue.h"

struct regime;
struct worker;

enum exchange_state {
    EXCHANGE_READ_HEAD, /* the request's head is being read */
    EXCHANGE_DECIDE,    /* the store is asked */
    EXCHANGE_HOLD,      /* admitted, and held until its departure (shaping) */
    EXCHANGE_QUEUE,     /* all connections that may be had are in use */
    EXCHANGE_CONNECT,   /* a connection to the upstream is being made */
    EXCHANGE_FORWARD,   /* bodies pass; the response's head may still be awaited */
    EXCHANGE_TUNNEL,    /* the protocol was switched: bytes pass both ways as they are */
    EXCHANGE_REPLY,     /* an answer of our own goes out */
    EXCHANGE_DONE,      /* answered */
    EXCHANGE_CLOSED,    /* given up; what the client got is not whole */
};

enum {
    OWN_FIELDS_MAX = 12 + ROUTE_SETS_MAX,
    EXCHANGE_ARENA_BYTES = 2048,
};

struct exchange {
    enum exchange_state state;
    struct worker *worker;
    struct regime *regime; /* that it began under */
    struct client *client; /* borrowed */
    struct timeout timeout;
    bool is_looked_at;         /* the timeout is a look at a client that is waited for */
    uint64_t touched_us;       /* monotonic: when something moved last */
    struct pace request_pace;  /* of the client, sending the body */
    struct pace response_pace; /* of the client, taking the answer */
    struct precise_timer hold; /* armed in HOLD */
    struct list slot_node;     /* in regime->slot_holders while it holds slots */
    struct address peer;       /* who is connected to us */

    struct head request;
    const struct route *route; /* NULL: none matched, or not yet */
    bool is_decision_pending;
    bool is_cost_told;      /* by the response, where the route's cost is what it says */
    uint32_t told_cost;     /* units */
    uint8_t request_id[16]; /* random; sent as X-Request-ID unless a trusted proxy brought one */
    struct span client_request_id; /* of a trusted proxy; empty: none that is passed on */

    struct upstream *upstream; /* NULL: none */
    struct upstream_server *server;
    struct upstream_choice choice; /* which it was, and what was tried before */
    bool is_queued;                /* the waiter waits, or has a grant that was not taken yet */
    unsigned n_interims;
    bool may_go_ahead; /* the server has said 100: it wants the body */
    struct head response;
    bool is_request_sent;       /* to its end, to the upstream; of a tunnel: the client's side */
    bool is_response_started;   /* a final head has been given to the client */
    bool is_head_pending;       /* the head waits for the first piece of body */
    bool has_upstream_answered; /* a byte came */
    bool is_answer_unreadable;  /* its head breaks the rules */
    bool is_client_blocked;     /* response bytes wait for the client */
    bool is_last_blocked;       /* and they are the last */
    bool is_request_blocked;    /* request bytes wait for the upstream */
    bool is_event_stream;       /* the answer may be silent for long */
    bool has_client_ended;      /* its side: it may listen, or be gone */
    bool is_upgrade_offered;    /* the server was asked to switch protocols */
    bool has_upstream_ended;    /* its side of the tunnel */
    char *trailers;             /* where the upstream's are kept; NULL: they are dropped */
    struct response out;

    uint64_t started_us;         /* monotonic: the first byte of the request */
    uint64_t decide_us;          /* until the store has answered; before that: when it was asked */
    uint64_t hold_us;            /* held on purpose */
    uint64_t queued_us;          /* in QUEUE */
    uint64_t connect_started_us; /* monotonic */
    uint64_t upstream_us;        /* from the choice of a server to its response's head */
    uint64_t request_bytes;      /* of body, and of a tunnel */
    uint64_t response_bytes;     /* likewise */
    const char *fault;           /* static: why the answer is not the upstream's; NULL: it is */
    enum answer_end end;         /* who ended it; ANSWER_WHOLE while nobody did */

    /* What follows is large, and written before it is read: exchange_init() does not clear it. */
    struct field *fields; /* 2 * n_fields_max: the request's, then the response's */
    size_t n_fields_max;
    struct upstream_waiter waiter; /* in QUEUE */
    uint64_t queued_at_us;         /* monotonic: when it began to wait */
    struct request_view view;      /* head is NULL until it is filled */
    struct admission admission;
    struct span stripped_path; /* what the upstream gets, where the route strips a prefix */
    struct path path;          /* of view.path */
    char host[HOST_BYTES_MAX]; /* of view.host */
    struct field own_fields[OWN_FIELDS_MAX];
    struct arena arena;
    char arena_first[EXCHANGE_ARENA_BYTES];
};

/* Bytes of a struct exchange with room for @n_fields_max request and response fields behind it. */
size_t exchange_bytes(size_t n_fields_max);

/* Begin in @memory (exchange_bytes()), at the first byte of a request. */
struct exchange *exchange_init(void *memory, struct regime *regime, struct client *client,
                               const struct address *peer, uint64_t now_us);

/* --- from the client side --- */

/* exchange->request is filled: decide and go on. */
void exchange_on_head(struct exchange *exchange, uint64_t now_us);

/* The head breaks the rules: answer exchange->request.error. */
void exchange_on_bad_head(struct exchange *exchange);

/* Whether pieces of the request's body, or of a tunnel, may be handed over. */
static inline bool exchange_takes_body(const struct exchange *exchange)
{
    return exchange->state == EXCHANGE_FORWARD || exchange->state == EXCHANGE_TUNNEL;
}

/* A piece of the request's body, or of the client's side of a tunnel; @last ends it. False: no more
 * until client_ops.pump is called again. */
MUST_USE bool exchange_on_body(struct exchange *exchange, struct span piece, bool last);

/* Nothing more of the body is there just now. False: as above. */
MUST_USE bool exchange_on_body_blocked(struct exchange *exchange);

/* The request's body breaks the rules, or ended before its end. */
void exchange_on_bad_body(struct exchange *exchange, const struct http_error *error);

/* The client closed or reset the connection before it had the whole answer. Calls on_done. */
void exchange_on_client_gone(struct exchange *exchange);

/* The client has ended its side, and may still listen. Nobody is held for who may have left. */
void exchange_on_client_ended(struct exchange *exchange);

/* Some of what send() blocked on has gone out: the client reads, if slowly. */
void exchange_on_client_progress(struct exchange *exchange);

/* What send() blocked on has gone out. */
void exchange_on_client_drained(struct exchange *exchange);

/* --- from the upstream side --- */

/* exchange->waiter, which waits in QUEUE, has been granted a place at a server. */
void exchange_on_grant(struct exchange *exchange);
void exchange_on_upstream_connected(struct exchange *exchange, enum status status);
/* Some of what is blocked has gone out. */
void exchange_on_upstream_progress(struct exchange *exchange);
void exchange_on_upstream_drained(struct exchange *exchange);
/* A byte of the answer has come: it is too late to try elsewhere. */
void exchange_on_upstream_byte(struct exchange *exchange);
/* exchange->response is an interim response. False: the exchange is over. */
MUST_USE bool exchange_on_upstream_interim(struct exchange *exchange);
/* exchange->response is a 101. True: go on with exchange_on_upstream_body(). False: not now. */
MUST_USE bool exchange_on_upstream_switch(struct exchange *exchange);
/* exchange->response is the final head. False: the exchange is over, or its connection is. */
MUST_USE bool exchange_on_upstream_head(struct exchange *exchange);
/* No piece of body came with the head: send it alone. */
void exchange_flush_response_head(struct exchange *exchange);
MUST_USE size_t exchange_await_room(struct exchange *exchange); /* as client_ops; 0: blocked */
/* A piece of body, or of a tunnel's server side; @last ends it. False: blocked or over. */
bool exchange_on_upstream_body(struct exchange *exchange, struct span piece, bool last);
/* The connection ended or broke before the response did. */
void exchange_on_upstream_lost(struct exchange *exchange);
/* The response breaks the rules, @reason says how. */
void exchange_on_upstream_bad(struct exchange *exchange, const char *reason);

/* --- questions --- */

bool exchange_is_client_blocked(const struct exchange *exchange);
bool exchange_is_head_request(const struct exchange *exchange);
const char *exchange_state_name(enum exchange_state state);

#endif /* SLUICE_PROXY_EXCHANGE_H */
