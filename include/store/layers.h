/* Stores over another store: each takes the decisions of a worker and passes on what it does not
 * answer itself. */

#ifndef SLUICE_STORE_LAYERS_H
#define SLUICE_STORE_LAYERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"
#include "store/store_meters.h"

struct client_calls;
struct loop;

/* --- coalesce_store --- */

/* Coalescing store: while a decision is in flight, requests with the same limits, keys and cost
 * wait for it, and are then sent as one call, a batch.
 *
 * The result is the same as deciding them one after another at one time, in order of arrival. A
 * request passes straight to the store below if its limits or that store do not support batches, if
 * its keys are very long, or if too many different requests are in flight. A call that is lost or
 * gets no answer fails its whole batch and is not sent again. Requests that wait for the next call
 * have their own deadlines. If a cluster answers a call with TRYAGAIN, the call changed nothing,
 * and each request of the batch is sent by itself. */

/* Makes a store over @below, which it owns, for @loop's thread. @deadline_us is the longest wait of
 * a decision, from its arrival; it equals the deadline of @below. The store counts in @meters,
 * borrowed; NULL: nowhere. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status coalesce_store_new(struct loop *loop, struct store *below,
                                        uint64_t deadline_us, struct coalesce_meters *meters,
                                        struct store **store);

/* --- client_queue --- */

/* A client queue and its call counter: one client (an IPv4 address, or an IPv6 /48) has at most
 * CLIENT_CALLS_MAX calls in flight, so that its decisions do not delay those of others until they
 * fail. Further decisions of it wait in order, each until a call of the client has ended. Beside
 * these calls, CLIENT_CALLS_FREE are counted to no client, whoever makes them: where few calls are
 * in flight nothing need be counted.
 *
 * A call ends with its decision. If that is cancelled, the call ends with the reply, the loss of
 * the link, or the deadline, as if the client had waited for it.
 *
 * A decision that joins a call of others does not wait. A decision that finds CLIENT_WAITERS_MAX
 * waiters, or has waited for CLIENT_WAIT_US, gets STATUS_CROWDED: nothing was asked, so it is no
 * failure of the store below. The time of waiting counts towards no other deadline. Decisions
 * without a client are neither counted nor delayed. */

enum {
    CLIENT_CALLS_FREE = 8,
    CLIENT_CALLS_MAX = 16,
    CLIENT_WAITERS_MAX = 1024,
    CLIENT_WAIT_US = 1000 * 1000,
};

/* The calls in flight of each client, counted by the stores of one worker: those made below, and
 * the Redis stores that have them in their options. Freed when the owner and the last of these
 * stores have left. NULL: no memory. */
MUST_USE struct client_calls *client_calls_new(struct loop *loop);

/* For the owner, and for stores. NULL is a no-op. */
void client_calls_leave(struct client_calls *calls);

/* Makes the store that counts calls, over @below, which it owns. STATUS_NO_MEMORY: nothing is
 * owned. */
MUST_USE enum status call_counter_new(struct client_calls *calls, struct store *below,
                                      struct store **store);

/* Makes the store that lets decisions wait, over @below, which it owns. The store that counts in
 * @calls is @below or lies under it. The store counts in @meters, borrowed; NULL: nowhere.
 * STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status client_queue_new(struct client_calls *calls, struct store *below,
                                      struct client_queue_meters *meters, struct store **store);

/* --- denial_cache --- */

/* A denial cache: repeats denials of the store below until their retry_after, for at most one
 * second.
 *
 * A denial is cached by (limit, key). It applies to every request of that cost or more, whatever
 * its other limits are. Its time starts when the request was asked, so it never lasts too long. A
 * request that the cache denies charges nothing, as in the store below. Denials by limits that hold
 * slots, or whose charges are corrected later, are not cached. Requests with a limit that counts
 * denied requests always go to the store below.
 *
 * A cached answer has the verdicts of the original answer, with the times counted down. A charge
 * without a cached verdict is marked unreported: it might deny too. The source of the answer is
 * DECISION_CACHE. */

enum {
    DENIAL_CACHE_BYTES = 1024 * 1024, /* maximum size of the cache */
    DENIAL_CACHE_HOLDS_US = 1000 * 1000,
};

struct denial_cache_options {
    struct denial_cache_meters *meters; /* borrowed; NULL: nothing is counted */
    uint64_t (*now_us)(void *context);  /* monotonic; NULL: the clock. A test passes its own */
    void *context;
    /* incremented by any thread when the whole cache is void; NULL: that never happens */
    const atomic_uint_fast64_t *n_forgets;
};

/* Makes a cache over @below, which it owns. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status denial_cache_new(struct store *below,
                                      const struct denial_cache_options *options,
                                      struct store **store);

/* Drops all cached verdicts, and does not cache the answers to decisions in flight. Called when the
 * policy or the state of a key has changed. */
void denial_cache_clear(struct store *store);

/* --- fallback_store --- */

/* A fallback store: a shared store over an embedded one. Decisions that the shared store cannot
 * make follow the on_failure setting of each limit, but for STATUS_CROWDED, which stays.
 *
 * If the limits of a request differ: deny wins; local is judged in the embedded store, with the
 * limit divided by the number of proxies; allow is skipped. A skipped charge gets a verdict that
 * allows and shows an unused quota. Of the decisions of one client that get no reply in time, one a
 * second is skipped; allow is judged like local in the others.
 *
 * Local charges stay in the embedded store, so an outage that begins again does not reset local
 * quotas. When the number of proxies changes, buckets start afresh and windows continue. */

struct fallback_store_options {
    struct store *shared;       /* owned from now on */
    struct store *embedded;     /* borrowed; answers at once */
    const struct limit *limits; /* all of the policy, by index; borrowed */
    size_t n_limits;
    /* Returns the number of proxies that a local limit is divided among, at least 1. Called for
     * each decision that is made here. */
    uint32_t (*count_instances)(void *context);
    uint64_t (*now_us)(void *context); /* monotonic; NULL: the clock. A test passes its own */
    void *context;
};

/* Makes a fallback store. If on_failure denies a decision, the decision keeps the shared store's
 * status. Other failed decisions get STATUS_OK, source LOCAL or SKIPPED, and the shared store's
 * status in `failure`. STATUS_NO_MEMORY: nothing is owned. */
MUST_USE enum status fallback_store_new(const struct fallback_store_options *options,
                                        struct store **store);

#endif /* SLUICE_STORE_LAYERS_H */
