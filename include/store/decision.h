/* A decision: what a request is charged, and the answer of a store. See store/store.h. */

#ifndef SLUICE_STORE_DECISION_H
#define SLUICE_STORE_DECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/address.h"
#include "base/span.h"
#include "base/status.h"
#include "store/charge.h"
#include "store/redis_fault.h"

struct store;
struct decision;

/* The origin of a decision. */
enum decision_source {
    DECISION_MEMORY, /* the embedded store, because the policy names no other */
    DECISION_REDIS,
    DECISION_CACHE,   /* the denial cache: Redis denied less than a second ago, and still would */
    DECISION_LOCAL,   /* the embedded store at its share, because Redis could not answer */
    DECISION_SKIPPED, /* no store: Redis could not answer and all limits say allow */
    DECISION_BAN,     /* a ban, see store/bans.h: no store was asked */
    DECISION_MISSING, /* no store: a limit denies requests that lack its key */
};
enum { DECISION_SOURCES = DECISION_MISSING + 1 };

/* The name of @source in logs and metrics: "memory", "redis", … */
struct span decision_source_name(enum decision_source source);

/* The purpose of a decision. */
enum decision_aim {
    DECISION_ADMIT, /* judge, and charge all limits if all enforced ones allow */
    DECISION_JUDGE, /* report the state of the limits for such a request, and change nothing */
    DECISION_DENY,  /* the request is already denied: charge the limits that count such requests */
};

typedef void (*decision_on_answer)(struct decision *decision);
typedef void (*decision_on_each)(struct decision *decision, size_t i);

enum { DECISION_FRAMES_MAX = 6 };

struct decision {
    struct charge *charges; /* owned by the caller, judged together; no two share limit and key */
    size_t n_charges;       /* 1 … LIMITS_PER_ROUTE_MAX */
    enum decision_aim aim;
    /* For store_cancel(): bit i: charge i is given back if it is made nevertheless. */
    uint32_t returned;
    uint64_t now_us; /* time of the request, monotonic; 0: a store that needs it reads the clock */
    /* Who asks, so that one client does not delay the decisions of others. ADDRESS_NONE: not known,
     * or many clients are behind it. */
    struct address client;

    /* Number of identical requests that this decision covers, including itself. They are decided
     * one after another at one time. 0: itself alone. Not every store and limit supports it: see
     * store_takes_identical(). While on_each(@i) runs, the answer to request @i is in allowed and
     * the charges. on_each is called once per request, in order, from 0 again if the call had to be
     * sent again, and may not ask a store. Then the decision is answered as usual: if status is not
     * STATUS_OK, no request was decided. */
    size_t batch_size;
    decision_on_each on_each;

    /* The answer. status: STATUS_OK; _TIMEOUT, _UNREACHABLE, _REFUSED, _INVALID (a malformed
     * reply), _FULL, _CROWDED (the client asks too much at once: it is refused, whatever on_failure
     * says), _NO_MEMORY: no decision could be made, and verdicts are undefined. */
    enum status status;
    bool allowed; /* if STATUS_OK: all enforced (not shadow) limits allow; DECISION_DENY: false */
    enum decision_source source;
    enum status failure;    /* why the source is LOCAL or SKIPPED; STATUS_OK otherwise */
    enum redis_fault fault; /* of the shared store; REDIS_FAULT_NONE: none, or none is known */

    /* For stores only. */
    uint64_t asked_us; /* set by the denial cache: when it asked the store below, monotonic */
    size_t n_frames;
    void *context;           /* the caller's */
    struct {                 /* last: decision_init() leaves them */
        struct store *store; /* the store that was asked */
        decision_on_answer on_answer;
        void *state; /* of that store, for this decision */
    } frames[DECISION_FRAMES_MAX];
};

/* Make @decision one over @n_charges of @charges, with all else as if cleared. */
static inline void decision_init(struct decision *decision, struct charge *charges,
                                 size_t n_charges)
{
    memset(decision, 0, offsetof(struct decision, frames));
    decision->charges = charges;
    decision->n_charges = n_charges;
}

/* Why the asked store did not make @decision: the name of its fault, or of @status if no fault is
 * known. A word for logs and answers. */
const char *decision_fault_name(const struct decision *decision, enum status status);

#endif /* SLUICE_STORE_DECISION_H */
