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
#include "store/decision.h"

enum store_outcome {
    STORE_ANSWERED, /* the answer is in the decision; on_answer will not be called */
    STORE_PENDING,  /* on_answer will be called once, later, from the loop, unless cancelled */
};

/* A correction of a charge, or a change of a slot. The numbers are arguments of the script, see
 * driver.lua. */
enum settlement_kind {
    SETTLE_COST,    /* the charge is corrected by delta units */
    SETTLE_RELEASE, /* the slot is given back */
    SETTLE_RENEW,   /* the slot is kept for another lease, or taken anew if it was lost */
    SETTLE_RETAKE,  /* for stores: the slot, which a renewal has not found, is taken anew */
};

/* A settlement of one charge. limit, key, charged_at_us, slot, overflowed and instances are those
 * of the charge. */
struct settlement {
    const struct limit *limit;
    struct span key;
    const struct address *client; /* the decision's; NULL: not known, as ADDRESS_NONE */
    enum settlement_kind kind;
    int64_t delta; /* units; SETTLE_COST alone */
    uint64_t charged_at_us;
    uint64_t slot;
    bool overflowed;
    uint32_t instances;
    enum decision_source source; /* the store that charged and receives the settlement */
};

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
    /* Whether @decision would join a call that is under way or about to be sent, and so make none
     * of its own. NULL: no. */
    bool (*joins)(struct store *store, const struct decision *decision);
    /* As store_denies(). NULL: what the store below says; where there is none, no. */
    bool (*denies)(struct store *store, struct decision *decision);
    /* NULL: charges stay, and slots are released when their lease ends. */
    void (*settle)(struct store *store, const struct settlement *settlements, size_t n);
    bool (*can_settle)(struct store *store, const struct settlement *settlement); /* NULL: yes */
    uint64_t (*count_losses)(const struct store *store, enum decision_source source); /* NULL: 0 */
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

/* For stores: leaves @decision, whose innermost frame is that of @store, to the store below. @store
 * takes no part in it any more: neither the answer nor a cancellation reaches it. */
MUST_USE static inline enum store_outcome store_hand_on(struct store *store,
                                                        struct decision *decision)
{
    struct store *below = store->below;
    decision->frames[decision->n_frames - 1].store = below;
    return below->ops->decide(below, decision);
}

/* Whether @store would deny @decision, which has its now_us, as far as it knows without a call to a
 * server: false also if it does not know. Nothing is changed but the verdicts of the charges. */
bool store_denies(struct store *store, struct decision *decision);

/* Whether @store can decide several requests identical to @decision as one, see batch_size. */
bool store_takes_identical(const struct store *store, const struct decision *decision);

/* Whether @decision would join a call of @store that other decisions have caused. */
bool store_joins(struct store *store, const struct decision *decision);

/* Cancels a pending decision: on_answer is not called, and the memory of @decision may be reused at
 * once. A charge that the store still makes stays, unless decision->returned names it. */
void store_cancel(struct decision *decision);

/* For stores: cancels @decision in the stores below, and keeps the first @n_frames frames. */
void store_cancel_below(struct decision *decision, size_t n_frames);

/* Sends @n settlements (1 … LIMITS_PER_ROUTE_MAX) of one request to @store. There is no answer: if
 * a settlement is lost, its charge stays, and its slot is released when the lease ends. All
 * arguments are borrowed for the call only. */
void store_settle(struct store *store, const struct settlement *settlements, size_t n);

/* False: @settlement would be lost, since the link to the server with its charge is down, or too
 * many wait there. True: with others of its request it is sent, if they are at once. */
bool store_can_settle(struct store *store, const struct settlement *settlement);

/* A number that changes when settlements for @source that could be settled may have been lost
 * nevertheless, with their link. While it stays the same all of them were made or are under way. */
uint64_t store_count_losses(const struct store *store, enum decision_source source);

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
