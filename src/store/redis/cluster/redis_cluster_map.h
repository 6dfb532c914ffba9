/* The map from the slots of a cluster to the nodes that own them, as one node reports it.
 *
 * The map is read from the reply to CLUSTER SLOTS part by part. Each range has a first slot, a last
 * slot and nodes, of which the first is the owner and the others are replicas. Malformed or excess
 * ranges leave slots without an owner. A decision on such a slot is sent to any node, which
 * redirects it to the owner. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_MAP_H
#define SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/span.h"
#include "store/redis/redis_reply.h"
#include "store/redis_options.h"

/* The endpoint of a node. */
struct redis_cluster_address {
    /* Name or address without brackets, NUL-terminated; "": the host of the reporting node. */
    char host[HOST_BYTES_MAX + 1];
    uint16_t port;
};

enum { REDIS_CLUSTER_NOBODY = UINT16_MAX };

struct redis_cluster_map {
    struct redis_cluster_address owners[REDIS_CLUSTER_NODES_MAX];
    size_t n_owners;
    uint16_t owner_of[REDIS_SLOTS]; /* index in owners, or REDIS_CLUSTER_NOBODY */
    size_t n_owned;                 /* slots with an owner */
    uint64_t n_reported;            /* slots in all ranges read so far */

    /* The range that is being read. */
    struct {
        struct redis_cluster_address owner;
        long long first;
        long long last;
        bool is_sound; /* so far */
    } range;
    struct redis_listener listener; /* fills the map from the parts of a reply */
};

/* Empty the map: no slot has an owner. */
void redis_cluster_map_init(struct redis_cluster_map *map);

/* Set @address. False, and it is unchanged: @host is too long or contains a NUL, or @port is not a
 * port. */
MUST_USE bool redis_cluster_address_set(struct redis_cluster_address *address, struct span host,
                                        long long port);

bool redis_cluster_address_equals(const struct redis_cluster_address *a,
                                  const struct redis_cluster_address *b);

#endif /* SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_MAP_H */
