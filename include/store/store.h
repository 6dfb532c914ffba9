/* Where state lives: one question, asked of whatever store there is.
 *
 * A store answers at once (STORE_ANSWERED) or promises one callback (STORE_PENDING), never both.
 * The promise is kept exactly once: by the reply, the deadline or the lost connection, unless the
 * caller cancels. Stores are stacked: one that wraps another pushes a frame on the decision. */

#ifndef SLUICE_STORE_STORE_H
#define SLUICE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/limit.h"
#include "limit/verdict.h"

enum store_outcome {
    STORE_ANSWERED, /* the answer is in the decision; on_answer will not be called */
    STORE_PENDING,  /* on_answer will be called once, later, from the loop, unless cancelled */
};

/* Who decided. */
enum decision_source {
    DECISION_MEMORY, /* the embedded store, because the policy names no other */
    DECISION_REDIS,
    DECISION_LOCAL,   /* the embedded store at its share, because Redis could not answer */
    DECISION_SKIPPED, /* nobody: Redis could not answer and all its limits say allow */
};

struct charge {
    const struct limit *limit; /* borrowed until the answer */
    /* Who is counted: "{" tag "}" and the rest of the identity, see policy/key.h. Borrowed until
     * the answer; never empty. */
    struct span key;
    uint32_t cost;          /* units */
    struct verdict verdict; /* the answer. allowed and retry_after: before anything was charged; the
                             * others: as things stand now */
};

struct store;
struct decision;

typedef void (*decision_on_answer)(struct decision *decision);

enum { DECISION_FRAMES_MAX = 5 };

struct decision {
    struct charge *charges; /* owned by the caller, judged together; no two share limit and key */
    size_t n_charges;       /* 1 … LIMITS_PER_ROUTE_MAX */

    /* The answer. status: STATUS_OK; _TIMEOUT, _UNREACHABLE, _REFUSED, _INVALID (a reply that makes
     * no sense), _FULL, _NO_MEMORY: no decision could be made, and verdicts are undefined. */
    enum status status;
    bool allowed; /* if STATUS_OK: all limits allow, and all were charged */
    enum decision_source source;
    enum status failure; /* why the source is LOCAL or SKIPPED; STATUS_OK otherwise */

    /* For stores alone. */
    struct {
        struct store *store; /* asked by the one who pushed the frame */
        decision_on_answer on_answer;
        void *state; /* of that store, for this decision */
    } frames[DECISION_FRAMES_MAX];
    size_t n_frames;
    void *context; /* the caller's */
};

struct store_ops {
    const char *name;
    enum store_outcome (*decide)(struct store *store, struct decision *decision);
    void (*cancel)(struct store *store, struct decision *decision);
    void (*free)(struct store *store);
};

/* First member of every store. */
struct store {
    const struct store_ops *ops;
};

/* Judge @decision's charges together and, if all allow, charge them all. @on_answer belongs to
 * STORE_PENDING; it may ask the store again, and may not free it. */
MUST_USE enum store_outcome store_decide(struct store *store, struct decision *decision,
                                         decision_on_answer on_answer);

/* The caller of store_decide() no longer wants a PENDING answer: on_answer is not called, the
 * memory of
 * @decision may be reused at once. What the store charges meanwhile stays charged. */
void store_cancel(struct decision *decision);

/* For stores: the promise of the innermost frame is kept; calls its on_answer. */
void store_answer(struct decision *decision);

/* NULL is a no-op. No decision may be pending. */
void store_free(struct store *store);

#endif /* SLUICE_STORE_STORE_H */
