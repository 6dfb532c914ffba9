/* The cluster store from within: a decision is a ticket, and the ticket has parts.
 *
 * A part is what is asked of one node in one call: all charges of the decision, where they lie in
 * one slot; else those of one slot, or, while a slot is on the move, a single one. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_H
#define SLUICE_STORE_REDIS_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/pool.h"
#include "net/loop.h"
#include "store/redis_cluster_nodes.h"
#include "store/redis_cluster_store.h"
#include "store/store.h"

struct redis_cluster {
    struct store store;
    struct span prefix;
    struct redis_cluster_nodes nodes;
    struct timeout_queue deadlines;
    struct pool tickets;
    struct pool spreads;
    uint64_t unstable_us; /* when a slot was last found on the move, monotonic; 0: never */
    struct redis_cluster_counters counters; /* some are the nodes' */
};

struct redis_cluster_part {
    struct decision decision; /* over its charges; asked of a node */
    struct redis_cluster_ticket *ticket;
    struct redis_cluster_node *node; /* asked last; not to be looked at once it has answered */
    uint16_t slot;
    unsigned n_redirections;
    bool is_asked;    /* in this step */
    bool is_pending;  /* the node will answer */
    bool is_unstable; /* TRYAGAIN: the slot is on the move, and has not all of the keys */
};

/* What a decision needs whose charges are asked apart. */
struct redis_cluster_spread {
    struct redis_cluster_part parts[LIMITS_PER_ROUTE_MAX];
    struct charge charges[LIMITS_PER_ROUTE_MAX]; /* the decision's, part by part */
    size_t of[LIMITS_PER_ROUTE_MAX];             /* which of the decision's each is */
};

/*   ALONE                  one part: it is the decision
 *   JUDGE ─► CHARGE        several: none denies; then one after the other is charged
 *     └────────┴─► COUNT   one denies: those that count denied requests are charged */
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
    size_t n_pending; /* of them */
    size_t n_charged; /* of them, the first ones: their calls admitted; CHARGE alone */
    bool is_late;     /* the deadline has passed: nothing more is asked */
    struct redis_cluster_part alone;
    struct redis_cluster_spread *spread; /* owned; NULL: one part */
};

/* --- redis_cluster_part.c: one call, wherever it leads --- */

/* What the owner of parts learns, from the loop: @part was answered, its decision tells what. */
void redis_cluster_on_part(struct redis_cluster_part *part);

/* Ask @part with @aim of whoever owns its slot. It is pending then, and redis_cluster_on_part()
 * will be called, or its decision tells the answer already. */
void redis_cluster_ask(struct redis_cluster_part *part, enum decision_aim aim);

/* --- redis_cluster_split.c: which charges are asked together --- */

/* Give @ticket its parts, by slots. STATUS_NO_MEMORY: it has none. */
MUST_USE enum status redis_cluster_split(struct redis_cluster_ticket *ticket);

/* Give @ticket, of which nothing is pending, a part for each charge. STATUS_NO_MEMORY: it keeps
 * those it has. */
MUST_USE enum status redis_cluster_split_by_key(struct redis_cluster_ticket *ticket);

/* Whether all charges of @decision lie in one slot. */
bool redis_cluster_is_one_slot(struct span prefix, const struct decision *decision);

/* --- redis_cluster_store.c --- */

/* Settle each of the @n where its slot is. */
void redis_cluster_settle(struct redis_cluster *cluster, const struct settlement *settlements,
                          size_t n);

/* --- redis_cluster_decision.c: the steps of a decision --- */

MUST_USE enum store_outcome redis_cluster_decide(struct redis_cluster *cluster,
                                                 struct decision *decision);
void redis_cluster_cancel(struct redis_cluster *cluster, struct decision *decision);

#endif /* SLUICE_STORE_REDIS_CLUSTER_H */
