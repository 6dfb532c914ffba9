/* The cluster nodes that one worker knows, the link to each, and the map of slots to owners.
 *
 * The first nodes are those of the policy, and one of them reports the map. The map is requested
 * again
 *   when a node does not own a slot or cannot be reached    at once
 *   while an owner cannot be reached or slots have none     every 250 ms; noticed within a second
 *   otherwise                                               every 10 s
 * from one node at a time, and never twice in 100 ms. Requests use the links of decisions, so they
 * make no connections. Nodes that own no slot and were not used for some seconds are closed. While
 * no node can be reached, the nodes of the policy are tried again. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_NODES_H
#define SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis/cluster/redis_cluster_map.h"
#include "store/redis/redis_store_inner.h"
#include "store/redis_options.h"
#include "store/redis_process.h"

struct redis_cluster_node {
    struct redis_cluster_nodes *nodes;
    struct redis_cluster_address address;
    struct store *store;              /* owned */
    struct redis_listener subscriber; /* of its nested replies */
    struct redis_call map_call;       /* CLUSTER SLOTS */
    bool is_reporting;                /* map_call is under way */
    bool is_owner;                    /* of a slot, according to the map */
    uint64_t used_us;                 /* when it was last used, monotonic */
};

enum { REDIS_CLUSTER_KNOWN_MAX = REDIS_CLUSTER_NODES_MAX + REDIS_ENDPOINTS_MAX };

struct redis_cluster_nodes {
    struct loop *loop;
    struct redis_store_options options; /* of each node, except host and port */
    struct redis_cluster_address seeds[REDIS_ENDPOINTS_MAX];
    size_t n_seeds;
    struct list limits; /* struct redis_cluster_limits, the latest first */

    struct redis_cluster_node *known[REDIS_CLUSTER_KNOWN_MAX]; /* owned */
    size_t n_known;
    struct redis_cluster_map *map;                              /* owned */
    struct redis_cluster_map *next;                             /* owned; being read */
    struct redis_cluster_node *owners[REDIS_CLUSTER_NODES_MAX]; /* by number in the map */

    struct timer timer;                       /* of the next check or request of the map */
    struct redis_cluster_node *map_source;    /* asked for the map, answer awaited; NULL: none */
    struct redis_cluster_node *second_source; /* sent the latest MOVED, asked next; NULL: none */
    size_t turn;                              /* index of the node to ask otherwise */
    bool is_stale;                            /* the map was found wrong since it was requested */
    uint64_t asked_us;                /* when the map was last requested, monotonic; 0: never */
    uint64_t reached_us;              /* when a node was last up; monotonic */
    bool is_reported;                 /* the lack of a map has been logged */
    uint64_t n_maps;                  /* maps received */
    struct redis_store_counters gone; /* sums over closed nodes */
    uint64_t n_losses;                /* of all nodes */
    struct redis_renewals renewals;   /* of all nodes */
};

/* Starts to connect. The data that @options points to is borrowed. STATUS_NO_MEMORY,
 * STATUS_INVALID (no host, or a malformed one): nothing is left behind. */
MUST_USE enum status redis_cluster_nodes_init(struct redis_cluster_nodes *nodes, struct loop *loop,
                                              const struct redis_cluster_options *options);
void redis_cluster_nodes_close(struct redis_cluster_nodes *nodes);

/* As store_add_limits() and store_remove_limits(). */
MUST_USE enum status redis_cluster_nodes_add_limits(struct redis_cluster_nodes *nodes,
                                                    const struct limit *limits, size_t n_limits);
void redis_cluster_nodes_remove_limits(struct redis_cluster_nodes *nodes,
                                       const struct limit *limits);

/* True when store_is_ready() holds for all nodes and, if one of them is up, a map is known. */
bool redis_cluster_nodes_are_ready(const struct redis_cluster_nodes *nodes);

/* See store_is_settled(). */
bool redis_cluster_nodes_are_settled(const struct redis_cluster_nodes *nodes);

/* The node to ask about @slot: its owner or, if no owner is known, a node that is up or else any
 * node. NULL: no node is known. */
struct redis_cluster_node *redis_cluster_nodes_find(struct redis_cluster_nodes *nodes,
                                                    uint16_t slot);

/* The node that @from redirects to with @fault, REDIS_FAULT_MOVED or _ASK, and @text. The node may
 * be new. MOVED corrects the map and causes a new request of it. NULL: @text is malformed, there is
 * no memory, or too many nodes are known. */
struct redis_cluster_node *redis_cluster_nodes_follow(struct redis_cluster_node *from,
                                                      enum redis_fault fault, struct span text);

/* Count a settlement that cannot be sent to any node as lost, in the meters of node number 0. */
void redis_cluster_nodes_lose_settlement(struct redis_cluster_nodes *nodes);

/* The map was found wrong: request a new one soon. */
void redis_cluster_nodes_mark_stale(struct redis_cluster_nodes *nodes);

/* Whether all slots have an owner, and all owners are up. */
bool redis_cluster_nodes_are_up(const struct redis_cluster_nodes *nodes);

/* Sums over all nodes, closed ones included. */
struct redis_store_counters redis_cluster_nodes_count(const struct redis_cluster_nodes *nodes);

#endif /* SLUICE_STORE_REDIS_CLUSTER_REDIS_CLUSTER_NODES_H */
