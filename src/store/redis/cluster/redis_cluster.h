/* The internals of the cluster store: each decision has a ticket, and the ticket has parts.
 *
 * A part is one call to one node. It has all charges of the decision if they lie in one slot.
 * Otherwise it has the charges of one slot or, while a slot is migrating, a single charge. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_H
#define SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/memory.h"
#include "net/loop.h"
#include "store/redis/cluster/redis_cluster_nodes.h"
#include "store/redis_process.h"
#include "store/store.h"

struct redis_cluster {
    struct store store;
    struct span prefix;
    struct redis_cluster_nodes nodes;
    struct timeout_queue deadlines;
    struct pool tickets;
    struct pool spreads;
    uint64_t unstable_us; /* when a slot was last found migrating, monotonic; 0: never */
    struct redis_cluster_counters counters; /* others are in the nodes */
    struct list abandoned;                  /* see redis_cluster_abandoned.c */
};

struct redis_cluster_part {
    struct decision decision; /* over its charges; asked of a node */
    struct redis_cluster_ticket *ticket;
    struct redis_cluster_node *node; /* asked last; do not read it after its answer */
    uint16_t slot;
    unsigned n_redirections;
    bool is_asked;    /* in this step */
    bool is_pending;  /* the node will answer */
    bool is_unstable; /* TRYAGAIN: the slot is migrating, and the node lacks some of the keys */
};

/* The parts of a decision whose charges need several calls. */
struct redis_cluster_spread {
    struct redis_cluster_part parts[LIMITS_PER_ROUTE_MAX];
    struct charge charges[LIMITS_PER_ROUTE_MAX]; /* copies of the decision's, part by part */
    size_t of[LIMITS_PER_ROUTE_MAX];             /* the index of each in the decision */
};

/*   ALONE                  one part: its answer is the answer
 *   JUDGE ─► CHARGE        several parts, none denies: they are charged one after the other
 *     └────────┴─► COUNT   a part denies: limits that count denied requests are charged */
enum redis_cluster_step {
    REDIS_CLUSTER_ALONE,
    REDIS_CLUSTER_JUDGE,
    REDIS_CLUSTER_CHARGE,
    REDIS_CLUSTER_COUNT,
};

struct redis_cluster_ticket {
    struct redis_cluster *cluster;
    struct decision *decision;
    struct timeout deadline;
    enum redis_cluster_step step;
    struct redis_cluster_part *parts; /* alone, or those of the spread */
    size_t n_parts;
    size_t n_pending;   /* parts that are pending */
    size_t n_charged;   /* the first n_charged parts have admitted; step CHARGE only */
    bool is_late;       /* the deadline has passed: the decision does not start again by key */
    bool was_restarted; /* the deadline */
    struct redis_cluster_part alone;
    struct redis_cluster_spread *spread; /* owned; NULL: one part */
};

static inline struct redis_cluster *redis_cluster_of(struct store *store)
{
    return (struct redis_cluster *)(void *)store;
}

/* --- redis_cluster_split.c: grouping the charges into parts --- */

/* Give @ticket one part for each slot. STATUS_NO_MEMORY: it has none. */
MUST_USE enum status redis_cluster_split(struct redis_cluster_ticket *ticket);

/* Give @ticket, of which no part is pending, one part for each charge. STATUS_NO_MEMORY: it keeps
 * its parts. */
MUST_USE enum status redis_cluster_split_by_key(struct redis_cluster_ticket *ticket);

/* Whether all charges of @decision lie in one slot. */
bool redis_cluster_is_one_slot(struct span prefix, const struct decision *decision);

/* --- redis_cluster_store.c --- */

/* Send each of the @n settlements to the node of its slot. */
void redis_cluster_settle(struct store *store, const struct settlement *settlements, size_t n);

/* --- redis_cluster_decision.c: the steps of a decision --- */

MUST_USE enum store_outcome redis_cluster_decide(struct store *store, struct decision *decision);
void redis_cluster_cancel(struct store *store, struct decision *decision);

/* End @ticket where it is: its calls are cancelled, and slots that were taken are given back, and
 * what its decision's `returned` names. */
void redis_cluster_end_ticket(struct redis_cluster_ticket *ticket);

/* Write to @settlements what of the charges of @decision, which was cancelled, is given back: those
 * that @returned names, and slots. Returns how many. */
MUST_USE size_t redis_cluster_refund_cancelled(const struct decision *decision, uint32_t returned,
                                               struct settlement *settlements);

/* --- redis_cluster_abandoned.c: decisions that go on without their callers --- */

/* Let @ticket, in step CHARGE, go on without the memory of its decision. False: no memory, and
 * nothing has changed. */
MUST_USE bool redis_cluster_abandon(struct redis_cluster_ticket *ticket);

/* End those that charge @limits; NULL: all. */
void redis_cluster_end_abandoned(struct redis_cluster *cluster, const struct limit *limits);

#endif /* SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_H */
