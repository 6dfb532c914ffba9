/* A Redis cluster as one store of one worker: a link to each node, decisions where their slots are.
 *
 * Limits whose keys have one tag lie in one slot, and are one atomic call, as with one Redis. Where
 * a request's limits lie in several, all are judged first; if all that are enforced allow, they are
 * charged slot by slot, each by a call that judges again; and if a later one denies, the charges
 * before it are given back. So no limit ever admits more than it may; at worst some requests are
 * denied that would have passed a moment later, by what others have reserved and are about to give
 * back. What a proxy that dies in between has reserved stays charged, and slots come back by their
 * lease.
 *
 * MOVED and ASK are followed, a few times and within the deadline. A call that a slot on the move
 * cannot take whole (TRYAGAIN) is made key by key, as if each key lay in a slot of its own. None of
 * these replies has changed anything, so nothing is ever charged twice.
 *
 * Where a node cannot be reached, the decisions on its slots fail, and others go on. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_STORE_H
#define SLUICE_STORE_REDIS_CLUSTER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_store.h"
#include "store/store.h"

struct redis_cluster_options {
    struct redis_store_options redis; /* of each node; where Redis is, is not looked at */
    struct redis_host hosts[REDIS_ENDPOINTS_MAX]; /* nodes to begin with */
    size_t n_hosts;                               /* at least 1 */
};

struct redis_cluster_counters {
    struct redis_store_counters nodes; /* of all nodes together */
    uint64_t n_maps;                   /* times that a node told who owns which slot */
    uint64_t n_redirections;           /* followed, MOVED and ASK */
    uint64_t n_spread;                 /* decisions over several slots, or key by key */
    uint64_t n_by_key;                 /* of them, those asked again since a slot is on the move */
    uint64_t n_given_back;             /* of them, those whose first charges were given back */
};

/* The links start at once, within @loop; their failure is not an error of this function.
 * STATUS_NO_MEMORY; STATUS_INVALID: no host, or one without name or port. Free with
 * store_free(), in the loop's thread. */
MUST_USE enum status redis_cluster_store_new(struct loop *loop,
                                             const struct redis_cluster_options *options,
                                             struct store **store);

/* Whether the owner of every slot can be asked just now. */
bool redis_cluster_store_is_up(const struct store *store);

struct redis_cluster_counters redis_cluster_store_count(const struct store *store);

#endif /* SLUICE_STORE_REDIS_CLUSTER_STORE_H */
