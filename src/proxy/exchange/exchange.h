/* An exchange: one request and its answer.
 *
 * It knows no wire format of the client: a client side hands it a parsed head and pieces of the
 * body, and takes a response's head and pieces of its body back (struct client_ops). It owns, and
 * releases exactly once: upstream connection, pending decision, timeout, arena.
 *
 * Pieces are never copied. The side that hands a piece over keeps its memory until the piece has
 * gone out: at once (true), or when the other side calls back (false: that side is blocked). */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/memory.h"
#include "http/grpc.h"
#include "http/head.h"
#include "net/loop.h"
#include "net/precise_timer.h"
#include "net/stream.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "proxy/core/min_rate.h"
#include "proxy/core/proxy_env.h"
#include "proxy/exchange/client.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/request_evaluate.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_choice.h"
#include "proxy/upstream/upstream_queue.h"
#include "proxy/upstream/upstream_server.h"

struct exchange_buffer;
struct exchange_loan;
struct pipe;

enum exchange_state {
    EXCHANGE_READ_HEAD, /* the request's head is being read */
    EXCHANGE_DECIDE,    /* the store's decision is pending */
    EXCHANGE_HOLD,      /* admitted, and held until its departure (shaping) */
    EXCHANGE_BUFFER,    /* the start of the body is waited for */
    EXCHANGE_QUEUE,     /* all connections that are allowed are in use */
    EXCHANGE_CONNECT,   /* a connection to the upstream is being made */
    EXCHANGE_FORWARD,   /* bodies pass; the response's head may still be to come */
    EXCHANGE_TUNNEL,    /* the protocol was switched: bytes pass both ways as they are */
    EXCHANGE_REPLY,     /* an answer made by the proxy goes out */
    EXCHANGE_DONE,      /* answered */
    EXCHANGE_CLOSED,    /* given up; the client has no whole answer */
};

enum {
    OWN_FIELDS_MAX = 19 + ROUTE_SETS_MAX + REPLY_SETS_MAX,
    EXCHANGE_ARENA_BYTES = 2048,
};

struct exchange {
    enum exchange_state state;
    struct proxy_env *env;
    struct exchange_config *config; /* the one that it began under */
    struct client *client;          /* borrowed */
    struct timeout timeout;
    struct timeout_queue *client_check; /* @timeout is a slow-client check of it; NULL: it is not */
    uint64_t touched_us;                /* monotonic: when something moved last */
    struct min_rate request_min_rate;   /* of the client, sending the body */
    struct min_rate response_min_rate;  /* of the client, taking the answer */
    struct precise_timer hold;          /* armed in HOLD */
    struct slot_holder slots;           /* in config->slot_holders while it holds slots */
    struct address peer;                /* the other end of the client's connection */

    bool is_decision_pending, awaits_body_first; /* n_put_off charges are decided behind that */
    bool is_cost_reported;  /* by the response, where the route takes the cost from it */
    uint32_t reported_cost; /* units */
    uint8_t request_id[16]; /* random; sent as X-Request-ID unless a trusted proxy brought one */
    struct span client_request_id;      /* from a trusted proxy; empty: none is passed on */
    struct upstream_user upstream_user; /* of the connection */
    struct upstream *upstream;          /* NULL: none */
    struct upstream_server *server;
    struct upstream_choice choice; /* of @server, and of those tried before */
    bool is_queued;                /* the waiter waits, or has a grant that it has not taken */
    unsigned n_interims, n_put_off;
    bool may_go_ahead, is_late;      /* a 100 has come, or is ours; a late first byte is paid for */
    bool is_repeated, was_at_server; /* sent before; to a server that may have worked on it */
    bool is_unsent, is_before_departure, has_departed; /* with @end: see struct outcome */
    bool is_declined, was_left_at_work; /* the only server did nothing; the former may work on */
    bool is_request_sent;     /* its end is passed on; in a tunnel: that of the client's side */
    bool is_response_started; /* a final head has been given to the client */
    bool is_head_pending;     /* the head waits for the first piece of body */
    bool has_upstream_answered, has_server_head; /* with a byte; with a head that is no 1xx */
    bool is_answer_unreadable;                   /* its head breaks the rules */
    bool is_client_blocked, is_last_blocked;     /* response bytes wait for it; the last ones */
    bool may_hold_server;           /* with is_client_blocked: a server may wait, too */
    bool is_request_blocked;        /* request bytes wait for the upstream */
    bool is_server_http2;           /* the request was sent by HTTP/2 */
    bool is_call, is_call_answered; /* of gRPC: a request may be one, see exchange_is_call() */
    bool is_event_stream, is_grpc_head_error; /* the answer; its grpc-status is in its head */
    uint8_t grpc_status;   /* of the server's answer; 0: OK, or not of gRPC; GRPC_NONE: not told */
    uint8_t made_head;     /* enum made_head: of the same */
    bool has_client_ended; /* its side: it may still read, or be gone */
    bool is_upgrade_offered; /* the request offers the server a switch of protocols */
    bool has_upstream_ended; /* its side of the tunnel */
    char *trailers;          /* memory for the upstream's; NULL: they are dropped */
    struct response out;
    struct exchange_buffer *buffer; /* of the request's body, or its start; NULL: none is kept */
    struct exchange_loan *loan;     /* slots to be taken again before a server is chosen, or NULL */

    uint64_t started_us;  /* monotonic: the first byte of the request */
    uint64_t decide_us;   /* duration of the decision; until then: when it began */
    uint64_t hold_us;     /* duration in HOLD; during it: when it began */
    uint64_t buffered_us; /* duration in BUFFER; during it: when it began */
    uint64_t queued_us, connect_started_us; /* in QUEUE; monotonic */
    uint64_t upstream_us;                   /* from the choice of a server to its response's head */
    uint64_t request_bytes, response_bytes; /* of the body and of a tunnel */
    const char *fault;   /* for the access log: static, or in the arena; NULL: none */
    enum answer_end end; /* the side that ended it; ANSWER_WHOLE: none yet */

    /* exchange_init() does not clear the members below: they are large, and written before read. */
    struct field *fields; /* the request's, then the response's */
    struct head request;  /* the parser clears both heads */
    struct head response;
    struct grpc_messages messages;     /* of the request, with is_call */
    struct span whole_body;            /* with upstream_user.keeps_body, and without buffer */
    struct min_rate download_min_rate; /* total_us: of response_min_rate, by its last check */
    uint64_t stalled_us;               /* of the client's stall budget, with download_min_rate */
    struct upstream_waiter waiter;     /* in QUEUE */
    uint64_t queued_at_us;             /* monotonic: when it began to wait */
    /* Until the evaluation only route and view.head are read, both NULL, and see admission.h. */
    struct evaluation evaluation;
    struct admission admission;
    struct field own_fields[OWN_FIELDS_MAX];
    struct arena arena;
    char arena_first[EXCHANGE_ARENA_BYTES];
};

/* Bytes of a struct exchange under @policy, with the fields of a request and a response. */
size_t exchange_bytes(const struct policy *policy);

/* Begin in @memory (exchange_bytes()), at the first byte of a request. */
struct exchange *exchange_init(void *memory, struct exchange_config *config, struct client *client,
                               const struct address *peer, uint64_t now_us);

/* --- from the client side --- */
/* exchange->request is filled: decide and go on. */
void exchange_on_head(struct exchange *exchange, uint64_t now_us);

/* The head is malformed: answer with exchange->request.error. */
void exchange_on_bad_head(struct exchange *exchange);

/* In BUFFER: the connection gives way to another. Answers 408. */
void exchange_on_evicted(struct exchange *exchange);

/* Whether pieces of the request's body, or of a tunnel, may be handed over; no others wait. */
static inline bool exchange_takes_body(const struct exchange *exchange)
{
    const bool forwards = exchange->state == EXCHANGE_FORWARD || exchange->state == EXCHANGE_TUNNEL;
    return exchange->state == EXCHANGE_BUFFER || (forwards && !exchange->is_request_blocked);
}

/* How many bytes may be read of the body, or of a tunnel. 0: none until client_ops.pump(). */
MUST_USE size_t exchange_body_room(struct exchange *exchange);

/* A piece of the request's body, or of the client's side of a tunnel; @last ends it. False: no more
 * until client_ops.pump is called again. */
MUST_USE bool exchange_on_body(struct exchange *exchange, struct span piece, bool last);

/* Trailers of the request, with ids, have come before its last piece: keep those that may pass. */
void exchange_on_trailers(struct exchange *exchange, const struct field *trailers, size_t n);
/* No more of the body is available now. False: as above. */
MUST_USE bool exchange_on_body_blocked(struct exchange *exchange);

/* The request's body is malformed or incomplete. */
void exchange_on_bad_body(struct exchange *exchange, const struct http_error *error);

/* The client closed or reset the connection before it had the whole answer. Calls on_done. */
void exchange_on_client_gone(struct exchange *exchange);
/* The client has ended its side, and may still read. An exchange that is held, is queued or
 * streams events is cut, since its client may have left. */
void exchange_on_client_ended(struct exchange *exchange);
/* Some, or all, of the bytes that send() blocked on have gone out. */
void exchange_on_client_progress(struct exchange *exchange);
void exchange_on_client_drained(struct exchange *exchange);

bool exchange_is_head_request(const struct exchange *exchange);

/* --- long pieces of a body, moved through a pipe without being read: see net/pipe.h --- */
/* Each belongs to a body of known length whose head has gone out, and is not the last piece. */

/* Whether exchange_on_pipe() may be called where exchange_on_body() may: the head has gone out and
 * the server keeps up, so no pipe is filled in vain. One system call; none with @has_taken_one:
 * the server has taken a whole pipe in this loop iteration, and is not checked again. */
MUST_USE bool exchange_takes_pipe(const struct exchange *exchange, bool has_taken_one);

/* As exchange_on_body(), with the content of @pipe. */
MUST_USE bool exchange_on_pipe(struct exchange *exchange, struct pipe *pipe);

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_H */
