/* Which node of a cluster owns which slot, as one of them told it.
 *
 * Read from the reply to CLUSTER SLOTS part by part: ranges of a first slot, a last one, and nodes,
 * of which the first is the owner and the others its replicas. What is too much or makes no sense
 * leaves slots without an owner; a decision on such a slot is asked of any node, and that one knows
 * better. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_MAP_H
#define SLUICE_STORE_REDIS_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/span.h"
#include "store/redis_reply.h"
#include "store/redis_slots.h"

/* Where a node listens. */
struct redis_cluster_address {
    char host[HOST_BYTES_MAX +
              1]; /* name or address without brackets, NUL-terminated; "": that of the
                                    * node which told of it */
    uint16_t port;
};

enum { REDIS_CLUSTER_NOBODY = UINT16_MAX };

struct redis_cluster_map {
    struct redis_cluster_address owners[REDIS_CLUSTER_NODES_MAX];
    size_t n_owners;
    uint16_t owner_of[REDIS_SLOTS]; /* index in owners, or REDIS_CLUSTER_NOBODY */
    size_t n_owned;                 /* slots that have an owner */
    uint64_t n_told;                /* slots in all ranges so far */

    /* The range that is being read. */
    struct {
        struct redis_cluster_address owner;
        long long first;
        long long last;
        bool is_sound; /* so far */
    } range;
    struct redis_listener listener; /* reads the reply of the connection that it is given to */
};

/* No slot has an owner. */
void redis_cluster_map_init(struct redis_cluster_map *map);

/* Set @address. False, and it is left: @host is too long, or holds a NUL, or @port is none. */
MUST_USE bool redis_cluster_address_set(struct redis_cluster_address *address, struct span host,
                                        long long port);

bool redis_cluster_address_equals(const struct redis_cluster_address *a,
                                  const struct redis_cluster_address *b);

#endif /* SLUICE_STORE_REDIS_CLUSTER_MAP_H */
