/* The Redis store from within, for its own files alone. */

#ifndef SLUICE_STORE_REDIS_STORE_INNER_H
#define SLUICE_STORE_REDIS_STORE_INNER_H

#include <stdbool.h>

#include "base/list.h"
#include "base/pool.h"
#include "base/span.h"
#include "net/loop.h"
#include "store/redis_command.h"
#include "store/redis_connection.h"
#include "store/redis_fault.h"
#include "store/redis_heartbeat.h"
#include "store/redis_link.h"
#include "store/redis_runner.h"
#include "store/redis_settler.h"
#include "store/redis_store.h"
#include "store/store.h"
#include "store/store_meters.h"

struct redis_store {
    struct store store;
    struct redis_store_options options;
    struct redis_command command;
    struct redis_link link;
    struct redis_settler settler;
    struct redis_runner runner;
    struct redis_heartbeat heartbeat;
    struct redis_call
        load_call;    /* of SCRIPT LOAD, of a script that was learnt while the link is up */
    bool is_loading;  /* it is under way */
    unsigned loading; /* the number of that script */
    struct timeout_queue deadlines;
    struct list waiting; /* of struct redis_ticket: asked before the first attempt has ended */
    struct pool tickets;
    size_t n_releases_owed;               /* by orphans, of slots that Redis may still give them */
    struct redis_store_counters counters; /* some are the link's and the settler's */
    struct store_node_meters *meters;
    struct store_node_meters own; /* where nobody looks */
    enum redis_fault fault;       /* of the latest decision */
    struct span fault_text;       /* what Redis said of it, while it is answered */
    bool is_node; /* of a cluster: others follow redirections, and watch the deadlines */
    bool asking;  /* what is asked now goes behind ASKING */
};

/* One decision, and after its deadline what is left of it. */
struct redis_ticket {
    struct redis_call call;
    struct redis_store *store;
    struct decision *decision; /* NULL: an orphan */
    struct timeout deadline;
    struct list node;             /* in store->waiting */
    bool was_eval;                /* sent with the script */
    bool was_cell;                /* sent as CL.THROTTLE */
    bool asking;                  /* sent behind ASKING */
    bool is_trial;                /* what becomes of it tells whether to ask more */
    struct redis_notice *release; /* an orphan's: of the slots that it takes if it is admitted */
};

static inline struct redis_store *redis_store_of(struct store *store)
{
    return (struct redis_store *)(void *)store;
}

/* --- redis_node.c --- */

MUST_USE enum store_outcome redis_store_run(struct store *store, struct store_errand *errand);

/* --- redis_store_learn.c --- */

/* Ops of the store. */
MUST_USE enum status redis_store_learn(struct store *store, const struct limit *limits,
                                       size_t n_limits);
void redis_store_forget(struct store *store, const struct limit *limits);
bool redis_store_is_ready(const struct store *store);
bool redis_store_is_settled(const struct store *store);

/* The link may have changed, or something was learnt: see to it that Redis knows the script. */
void redis_store_catch_up(struct redis_store *redis);

/* @decision is to be sent, and a script waits: if it is for that, the script is
 * taken, known to Redis or not. */
void redis_store_hurry(struct redis_store *redis, const struct decision *decision);

/* --- redis_orphan.c --- */

/* The caller of @ticket goes, and its decision with it: the ticket alone knows
 * which slots its call takes. */
void redis_orphan_begin(struct redis_ticket *ticket);

/* The late reply of an orphan, or NULL: nobody knows what came of it. What it took is given
 * back; the ticket stays. */
void redis_orphan_end(struct redis_ticket *ticket, const struct redis_reply *reply);

/* --- redis_store.c --- */

/* The deadline of @ticket, which has a decision, has passed: the decision is answered. */
void redis_ticket_expire(struct redis_ticket *ticket);

#endif /* SLUICE_STORE_REDIS_STORE_INNER_H */
