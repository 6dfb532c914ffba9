/* The interface of all stores: decisions, settlements and admin operations on the state of limits.
 *
 * A store answers at once (STORE_ANSWERED) or later by one callback (STORE_PENDING), never both.
 * The callback is called exactly once, after the reply, the deadline or the loss of the connection,
 * unless the caller cancels. Stores are stacked: a store over another pushes a frame on the
 * decision. */

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
#include "store/redis_fault.h"

enum store_outcome {
    STORE_ANSWERED, /* the answer is in the decision; on_answer will not be called */
    STORE_PENDING,  /* on_answer will be called once, later, from the loop, unless cancelled */
};

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

/* A correction of a charge, or a change of a slot. */
enum settlement_kind {
    SETTLE_COST,    /* the charge is corrected by delta units */
    SETTLE_RELEASE, /* the slot is given back */
    SETTLE_RENEW,   /* the slot is kept for another lease */
};

/* The purpose of a decision. */
enum decision_aim {
    DECISION_ADMIT, /* judge, and charge all limits if all enforced ones allow */
    DECISION_JUDGE, /* report the state of the limits for such a request, and change nothing */
    DECISION_DENY,  /* the request is already denied: charge the limits that count such requests */
};

struct store;
struct decision;

typedef void (*decision_on_answer)(struct decision *decision);
typedef void (*decision_on_each)(struct decision *decision, size_t i);

enum { DECISION_FRAMES_MAX = 5 };

struct decision {
    struct charge *charges; /* owned by the caller, judged together; no two share limit and key */
    size_t n_charges;       /* 1 … LIMITS_PER_ROUTE_MAX */
    enum decision_aim aim;
    uint64_t now_us; /* time of the request, monotonic; 0: a store that needs it reads the clock */

    /* Number of identical requests that this decision covers, including itself. They are decided
     * one after another at one time. 0: itself alone. Not every store and limit supports it: see
     * store_takes_identical(). While on_each(@i) runs, the answer to request @i is in allowed and
     * the charges. on_each is called once per request, in order, from 0 again if the call had to be
     * sent again, and may not ask a store. Then the decision is answered as usual: if status is not
     * STATUS_OK, no request was decided. */
    size_t batch_size;
    decision_on_each on_each;

    /* The answer. status: STATUS_OK; _TIMEOUT, _UNREACHABLE, _REFUSED, _INVALID (a malformed
     * reply), _FULL, _NO_MEMORY: no decision could be made, and verdicts are undefined. */
    enum status status;
    bool allowed; /* if STATUS_OK: all enforced (not shadow) limits allow; DECISION_DENY: false */
    enum decision_source source;
    enum status failure;    /* why the source is LOCAL or SKIPPED; STATUS_OK otherwise */
    enum redis_fault fault; /* of the shared store; REDIS_FAULT_NONE: none, or none is known */

    /* For stores only. */
    uint64_t asked_us; /* set by the denial cache: when it asked the store below, monotonic */
    struct {
        struct store *store; /* the store that was asked */
        decision_on_answer on_answer;
        void *state; /* of that store, for this decision */
    } frames[DECISION_FRAMES_MAX];
    size_t n_frames;
    void *context; /* the caller's */
};

/* A settlement of one charge. limit, key, charged_at_us, slot, overflowed and instances are those
 * of the charge. */
struct settlement {
    const struct limit *limit;
    struct span key;
    enum settlement_kind kind;
    int64_t delta; /* units; SETTLE_COST alone */
    uint64_t charged_at_us;
    uint64_t slot;
    bool overflowed;
    uint32_t instances;
    enum decision_source source; /* the store that charged and receives the settlement */
};

/* Why the asked store did not make @decision: the name of its fault, or of @status if no fault is
 * known. A word for logs and answers. */
const char *decision_fault_name(const struct decision *decision, enum status status);

struct store_operation;

/* The operations of a kind of store. One that is NULL is left to the store below; where there is
 * none, what stands behind NULL holds. */
struct store_ops {
    const char *name;
    enum store_outcome (*decide)(struct store *store, struct decision *decision); /* never NULL */
    /* The stores below have cancelled @decision already. NULL: nothing to do, in any store. */
    void (*cancel)(struct store *store, struct decision *decision);
    /* Whether requests identical to @decision can be one decision. NULL: no. */
    bool (*takes_identical)(const struct store *store, const struct decision *decision);
    /* NULL: charges stay, and slots are released when their lease ends. */
    void (*settle)(struct store *store, const struct settlement *settlements, size_t n);
    bool (*can_settle)(struct store *store, const struct settlement *settlement); /* NULL: yes */
    /* The limits of another policy come into use, or go out of use. NULL: nothing to do. */
    enum status (*add_limits)(struct store *store, const struct limit *limits, size_t n_limits);
    void (*remove_limits)(struct store *store, const struct limit *limits);
    bool (*is_ready)(const struct store *store);   /* NULL: always */
    bool (*is_settled)(const struct store *store); /* NULL: always */
    /* Starts an admin operation, see store/operation.h. NULL: this store has none. */
    enum store_outcome (*run)(struct store *store, struct store_operation *operation);
    /* Frees @store alone; the store below is freed after it. It must not ask the store below,
     * except to cancel. */
    void (*free)(struct store *store);
};

/* The first member of every store. */
struct store {
    const struct store_ops *ops;
    struct store *below; /* owned; NULL: this one is no layer over another */
};

/* Judges @decision's charges together and charges them as its aim says. @on_answer is called only
 * after STORE_PENDING. It may ask the store again, and may not free it. */
MUST_USE enum store_outcome store_decide(struct store *store, struct decision *decision,
                                         decision_on_answer on_answer);

/* Whether @store can decide several requests identical to @decision as one, see batch_size. */
bool store_takes_identical(const struct store *store, const struct decision *decision);

/* Cancels a pending decision: on_answer is not called, and the memory of @decision may be reused at
 * once. A charge that the store still makes stays. */
void store_cancel(struct decision *decision);

/* For stores: cancels @decision in the stores below, and keeps the first @n_frames frames. */
void store_cancel_below(struct decision *decision, size_t n_frames);

/* Sends @n settlements (1 … LIMITS_PER_ROUTE_MAX) of one request to @store. There is no answer: if
 * a settlement is lost, its charge stays, and its slot is released when the lease ends. All
 * arguments are borrowed for the call only. */
void store_settle(struct store *store, const struct settlement *settlements, size_t n);

/* False: the link to the server with @settlement's charge is down, and it would be lost. */
bool store_can_settle(struct store *store, const struct settlement *settlement);

/* Adds @limits, all limits of another policy by index, to those that @store was made with. They are
 * borrowed until store_remove_limits(). Cached denials are dropped. STATUS_NO_MEMORY. */
MUST_USE enum status store_add_limits(struct store *store, const struct limit *limits,
                                      size_t n_limits);

/* Removes @limits, which @store was made with or which were added. No decision over them may be
 * pending, and none may be asked afterwards. */
void store_remove_limits(struct store *store, const struct limit *limits);

/* True when waiting would not help: connected with all limits loaded, or the first connection
 * attempt has failed. */
bool store_is_ready(const struct store *store);

/* Whether @store can be freed without losing a settlement: none is in flight, and none will follow
 * for a cancelled or late decision. */
bool store_is_settled(const struct store *store);

/* For stores: the store that the innermost frame of @decision belongs to. */
static inline struct store *store_asked(const struct decision *decision)
{
    return decision->frames[decision->n_frames - 1].store;
}

/* For stores: answers the innermost frame of @decision by its on_answer. */
void store_answer(struct decision *decision);

/* Frees @store and the stores below. NULL is a no-op. No decision may be pending. */
void store_free(struct store *store);

#endif /* SLUICE_STORE_STORE_H */
