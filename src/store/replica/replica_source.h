/* The Redis that has the hash: that of the policy, or in a cluster one of its nodes, which
 * redirections lead to. */

#ifndef SLUICE_STORE_REPLICA_REPLICA_SOURCE_H
#define SLUICE_STORE_REPLICA_REPLICA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"
#include "store/replica_entry.h"

struct replica_node {
    struct redis_store_options at;  /* target of the link */
    const struct redis_host *hosts; /* of the policy; borrowed */
    size_t n_hosts;                 /* 0: no cluster */
    size_t n_tried;                 /* of them */
    char host[HOST_BYTES_MAX];      /* where a redirection led to */
    bool is_asking;       /* it takes over the slot of the hash, and does not own it yet */
    unsigned n_redirects; /* since something was read */
};

/* Takes the Redis of @redis, or of a cluster the first of @hosts, which are borrowed. */
void replica_node_init(struct replica_node *node, const struct redis_store_options *redis,
                       const struct redis_host *hosts, size_t n_hosts);

/* Whether @fault, of a reading, is a redirection within a cluster. */
static inline bool replica_node_is_redirect(const struct replica_node *node, enum redis_fault fault)
{
    return node->n_hosts > 0 && (fault == REDIS_FAULT_MOVED || fault == REDIS_FAULT_ASK);
}

/* Takes the node that the redirection @said names. *wait_us: when to go there. Nodes may name each
 * other for ever, so that after a few redirections one follows a second. False: it is malformed. */
MUST_USE bool replica_node_follow(struct replica_node *node, enum redis_fault fault,
                                  struct span said, uint64_t *wait_us);

/* Takes the next node of the policy. */
void replica_node_advance(struct replica_node *node);

/* --- fields that have changed and are to be read: a set --- */

enum { REPLICA_FIELDS_MAX = 64 }; /* if more have changed, all fields are read */

/* All zero: empty. */
struct replica_fields {
    char bytes[REPLICA_FIELDS_MAX][REPLICA_FIELD_BYTES_MAX];
    uint8_t lens[REPLICA_FIELDS_MAX];
    size_t n;
};

/* Adds @field. False: there is no room, or its length is invalid. */
bool replica_fields_add(struct replica_fields *fields, struct span field);

/* Empties the set. @words gets its fields, at most REPLICA_FIELDS_MAX; they point into @fields
 * until the next is added. How many there are. */
size_t replica_fields_take(struct replica_fields *fields, struct span *words);

#endif /* SLUICE_STORE_REPLICA_REPLICA_SOURCE_H */
