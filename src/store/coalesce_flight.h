/* What the coalescing store is made of: the decisions that are asked, and the flights that they
 * travel in. Private to coalesce_store.c and coalesce_flight.c. */

#ifndef SLUICE_STORE_COALESCE_FLIGHT_H
#define SLUICE_STORE_COALESCE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/pool.h"
#include "net/loop.h"
#include "store/coalesce_store.h"
#include "store/coalesce_table.h"
#include "store/store.h"

struct coalesce_store {
    struct store store;
    struct store *below; /* owned */
    struct timeout_queue deadlines;
    struct list gathering;  /* of struct coalesce_flight: whose next call waits for more */
    struct timer next_turn; /* armed while there are some */
    struct pool flights;
    struct pool waiters;
    struct coalesce_meters *meters;
    struct coalesce_meters own; /* where nobody looks */
    struct coalesce_table table;
};

/* One decision that is asked. */
struct coalesce_waiter {
    struct coalesce_flight *flight; /* NULL: it has left it, and asks by itself */
    struct decision *decision;      /* NULL: gone */
    size_t n_frames;                /* of decision, the last of them the coalescing store's */
    struct timeout deadline; /* from its arrival; of the first of a flight that of the call */
    struct list node;        /* in its flight's aboard or waiting */
    bool is_aboard;
};

static inline struct coalesce_store *coalesce_store_of(struct store *store)
{
    return CONTAINER_OF(store, struct coalesce_store, store);
}

/* Who is of a flight's lists. */
static inline struct coalesce_waiter *coalesce_waiter_of(struct list *node)
{
    return CONTAINER_OF(node, struct coalesce_waiter, node);
}

/* A question that is being asked: one call under way, and those who wait for the next. */
struct coalesce_flight {
    struct coalesce_entry entry;
    struct coalesce_store *store;
    struct list gathering; /* in the store's, between a call and the next */
    unsigned n_turns;      /* of the loop that it has gathered for */
    bool has_grown;        /* in this turn */
    size_t n_waiting;      /* in waiting */
    struct decision call;  /* over the flight's own copy of the question */
    struct list aboard;    /* of struct coalesce_waiter: in the call that is under way */
    struct list waiting;   /* of struct coalesce_waiter: for the next */
    struct list *answered; /* the latest aboard who has its verdicts */
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    uint64_t edges[LIMITS_PER_ROUTE_MAX][LIMIT_EDGES];
    char keys[COALESCE_KEYS_BYTES_MAX];
};

/* A flight for @decision's question, nobody aboard; in the table under @hash, where there is room.
 * NULL: no memory. */
MUST_USE struct coalesce_flight *coalesce_flight_begin(struct coalesce_store *store,
                                                       const struct decision *decision,
                                                       struct hash128 hash);

/* Nobody is aboard or waits. */
void coalesce_flight_end(struct coalesce_flight *flight);

/* One call for those who wait, of whom there is one at least, at @now_us (0: not known).
 * STORE_PENDING: when it has landed, all aboard are answered, those who wait then depart within a
 * few turns of the loop, and a flight without any ends.
 * STORE_ANSWERED: the answer is in flight->call, and nobody aboard knows. */
MUST_USE enum store_outcome coalesce_flight_depart(struct coalesce_flight *flight, uint64_t now_us);

/* What gathers departs, or goes on for another turn; @context is the store. */
void coalesce_flight_on_turn(void *context);

/* Tell @decision how @call went. */
void coalesce_flight_tell(struct decision *decision, const struct decision *call);

/* Take @waiter out of wherever it is, and give its memory back. */
void coalesce_waiter_forget(struct coalesce_store *store, struct coalesce_waiter *waiter);

#endif /* SLUICE_STORE_COALESCE_FLIGHT_H */
