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
#include "store/charge.h"

enum store_outcome {
    STORE_ANSWERED, /* the answer is in the decision; on_answer will not be called */
    STORE_PENDING,  /* on_answer will be called once, later, from the loop, unless cancelled */
};

/* Who decided. */
enum decision_source {
    DECISION_MEMORY, /* the embedded store, because the policy names no other */
    DECISION_REDIS,
    DECISION_CACHE,   /* Redis, less than a second ago: it denied, and still would */
    DECISION_LOCAL,   /* the embedded store at its share, because Redis could not answer */
    DECISION_SKIPPED, /* nobody: Redis could not answer and all its limits say allow */
    DECISION_BAN,     /* an operator, see store/bans.h: no store was asked */
};

enum { DECISION_SOURCES = DECISION_BAN + 1 };

/* Its word in logs and metrics: "memory", "redis", … */
struct span decision_source_name(enum decision_source source);

/* A correction of what was charged, or what becomes of a slot. */
enum settlement_kind {
    SETTLE_COST,    /* by delta units */
    SETTLE_RELEASE, /* the slot is given back */
    SETTLE_RENEW,   /* the slot is kept for another lease */
};

/* What is wanted of a decision. */
enum decision_aim {
    DECISION_ADMIT, /* judge, and charge all if all that are enforced allow */
    DECISION_JUDGE, /* tell how things stand for such a request, and change nothing */
    DECISION_DENY,  /* the request is denied by others: charge those that count denied requests */
};

struct store;
struct decision;

typedef void (*decision_on_answer)(struct decision *decision);
typedef void (*decision_on_alike)(struct decision *decision, size_t i);

enum { DECISION_FRAMES_MAX = 5 };

struct decision {
    struct charge *charges; /* owned by the caller, judged together; no two share limit and key */
    size_t n_charges;       /* 1 … LIMITS_PER_ROUTE_MAX */
    enum decision_aim aim;
    uint64_t now_us; /* when it is asked, monotonic; 0: a store that must know reads the clock */

    /* Requests alike that this decision stands for, itself one of them: decided one after another
     * at one time. 0: itself alone. Not for every store and limit: see store_takes_alike(). The
     * answer to request @i is in allowed and the charges while on_alike(@i) runs: once each, in
     * order, from 0 again when the call had to be sent again; it asks no store. Then the decision
     * is answered as ever: if status is not STATUS_OK, none was decided. */
    size_t n_alike;
    decision_on_alike on_alike;

    /* The answer. status: STATUS_OK; _TIMEOUT, _UNREACHABLE, _REFUSED, _INVALID (a reply that makes
     * no sense), _FULL, _NO_MEMORY: no decision could be made, and verdicts are undefined. */
    enum status status;
    bool allowed; /* if STATUS_OK: all limits that are enforced, not shadows, allow; _DENY: no */
    enum decision_source source;
    enum status failure; /* why the source is LOCAL or SKIPPED; STATUS_OK otherwise */
    const char
        *fault; /* what ailed the shared store, a word for logs, where one is known; else NULL */

    /* For stores alone. */
    uint64_t asked_us; /* of the denial cache: when it asked, monotonic */
    struct {
        struct store *store; /* asked by the one who pushed the frame */
        decision_on_answer on_answer;
        void *state; /* of that store, for this decision */
    } frames[DECISION_FRAMES_MAX];
    size_t n_frames;
    void *context; /* the caller's */
};

/* What is settled is what a store has charged: the members are those of its charge. */
struct settlement {
    const struct limit *limit;
    struct span key;
    enum settlement_kind kind;
    int64_t delta; /* units; SETTLE_COST alone */
    uint64_t charged_at_us;
    uint64_t slot;
    bool overflowed;
    uint32_t instances;
    enum decision_source source; /* who charged, and is to be told */
};

struct store_errand;

struct store_ops {
    const char *name;
    enum store_outcome (*decide)(struct store *store, struct decision *decision);
    void (*cancel)(struct store *store, struct decision *decision);
    /* Whether requests alike to @decision can be one decision. NULL: no. */
    bool (*takes_alike)(const struct store *store, const struct decision *decision);
    /* NULL: what was charged stays charged, and slots come back by their lease. */
    void (*settle)(struct store *store, const struct settlement *settlements, size_t n);
    /* Another policy's limits will be asked about, or are no more. NULL: it need not know. */
    enum status (*learn)(struct store *store, const struct limit *limits, size_t n_limits);
    void (*forget)(struct store *store, const struct limit *limits);
    bool (*is_ready)(const struct store *store);   /* NULL: always */
    bool (*is_settled)(const struct store *store); /* NULL: always */
    /* An operator's errand, see store/errand.h. NULL: it is none of this store's. */
    enum store_outcome (*run)(struct store *store, struct store_errand *errand);
    void (*free)(struct store *store);
};

/* First member of every store. */
struct store {
    const struct store_ops *ops;
};

/* Judge @decision's charges together and, if all allow, charge them all, or what else is the aim.
 * @on_answer belongs to STORE_PENDING; it may ask the store again, and may not free it. */
MUST_USE enum store_outcome store_decide(struct store *store, struct decision *decision,
                                         decision_on_answer on_answer);

/* Whether @store can decide several requests alike to @decision as one, see n_alike. */
bool store_takes_alike(const struct store *store, const struct decision *decision);

/* The caller of store_decide() no longer wants a PENDING answer: on_answer is not called, the
 * memory of
 * @decision may be reused at once. What the store charges meanwhile stays charged. */
void store_cancel(struct decision *decision);

/* The same for a store's own use: what it has asked below goes, and the first @n_frames frames
 * stay. */
void store_cancel_below(struct decision *decision, size_t n_frames);

/* Tell @store of @n corrections (1 … LIMITS_PER_ROUTE_MAX), all of one request. Nobody answers:
 * what gets lost stays charged, and slots come back by their lease. Everything is borrowed for the
 * call alone. */
void store_settle(struct store *store, const struct settlement *settlements, size_t n);

/* Besides those that @store was made with, decisions will be asked over @limits, all of another
 * policy by index. They are borrowed until store_forget(). What is remembered of denials is
 * forgotten. STATUS_NO_MEMORY. */
MUST_USE enum status store_learn(struct store *store, const struct limit *limits, size_t n_limits);

/* Decisions over @limits, which it was made with or has learnt, are not asked any
 * more, and none is pending. */
void store_forget(struct store *store, const struct limit *limits);

/* Whether @store is as good as it will soon be: what it asks can be asked and knows all that was
 * learnt, or cannot be asked, as a first attempt has shown. */
bool store_is_ready(const struct store *store);

/* Whether no settlement is on its way, and none will be of what was cancelled or came too late, so
 * that freeing @store loses none. */
bool store_is_settled(const struct store *store);

/* For stores: the promise of the innermost frame is kept; calls its on_answer. */
void store_answer(struct decision *decision);

/* NULL is a no-op. No decision may be pending. */
void store_free(struct store *store);

#endif /* SLUICE_STORE_STORE_H */
