/* The Redis that has the hash: that of the policy, or in a cluster one of its nodes, which
 * redirections lead to. */

#ifndef SLUICE_STORE_REPLICA_REPLICA_NODE_H
#define SLUICE_STORE_REPLICA_REPLICA_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "store/redis_fault.h"
#include "store/redis_options.h"

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

#endif /* SLUICE_STORE_REPLICA_REPLICA_NODE_H */
