/* The nodes of a cluster that one worker knows, a link to each, and which of them owns which slot.
 *
 * At first the nodes are those of the policy; one of them tells the map. The map is asked for again
 *   when a node says that it does not own a slot, or cannot be reached   at once
 *   while an owner cannot be reached, or slots have none                 every 250 ms, as is
 *                                                                        noticed within a second
 *   otherwise                                                            every 10 s
 * of one node at a time, and never twice in 100 ms. It is asked over the links that decisions use,
 * so that looking for the cluster makes no connections. Nodes that own nothing, and were not asked
 * for a while, are closed; while nobody at all can be reached, those of the policy are tried
 * again. */

#ifndef SLUICE_STORE_REDIS_CLUSTER_NODES_H
#define SLUICE_STORE_REDIS_CLUSTER_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"
#include "store/redis_cluster_map.h"
#include "store/redis_cluster_store.h"
#include "store/redis_node.h"

struct redis_cluster_node {
    struct redis_cluster_nodes *nodes;
    struct redis_cluster_address address;
    struct store *store;        /* owned */
    struct redis_listener ear;  /* of its nested replies */
    struct redis_call map_call; /* CLUSTER SLOTS */
    bool is_telling;            /* map_call is under way */
    bool is_owner;              /* of some slot, as far as is known */
    uint64_t used_us;           /* when it was last wanted, monotonic */
};

enum { REDIS_CLUSTER_KNOWN_MAX = REDIS_CLUSTER_NODES_MAX + REDIS_ENDPOINTS_MAX };

struct redis_cluster_nodes {
    struct loop *loop;
    struct redis_store_options options; /* of each node, but for host and port */
    struct redis_cluster_address seeds[REDIS_ENDPOINTS_MAX];
    size_t n_seeds;
    struct list earlier; /* struct redis_cluster_limits: of policies before that of options */

    struct redis_cluster_node *known[REDIS_CLUSTER_KNOWN_MAX]; /* owned */
    size_t n_known;
    struct redis_cluster_map *map;                              /* owned */
    struct redis_cluster_map *next;                             /* owned; being read */
    struct redis_cluster_node *owners[REDIS_CLUSTER_NODES_MAX]; /* by number in the map */

    struct timer timer; /* of the next thing to do about the map */
    struct redis_cluster_node
        *teller; /* who was asked for the map, and has not told yet; or NULL */
    struct redis_cluster_node *witness; /* who said MOVED last, and so knows more; or NULL */
    size_t turn;                        /* whom to ask next otherwise */
    bool is_doubted;                    /* the map was found wrong since it was asked for */
    uint64_t asked_us;                  /* when the map was last asked for, monotonic; 0: never */
    uint64_t reached_us;                /* when a node was last up; monotonic */
    bool is_told;                       /* the log knows what ails the map */
    uint64_t n_maps;                    /* that were told */
    struct redis_store_counters gone;   /* sums of those closed */
};

/* Starts to connect. What @options names is borrowed. STATUS_NO_MEMORY: nothing is left behind. */
MUST_USE enum status redis_cluster_nodes_init(struct redis_cluster_nodes *nodes, struct loop *loop,
                                              const struct redis_cluster_options *options);
void redis_cluster_nodes_close(struct redis_cluster_nodes *nodes);

/* --- redis_cluster_learn.c: all nodes know the limits of all policies --- */

/* As store_learn() and store_forget(). */
MUST_USE enum status redis_cluster_nodes_learn(struct redis_cluster_nodes *nodes,
                                               const struct limit *limits, size_t n_limits);
void redis_cluster_nodes_forget(struct redis_cluster_nodes *nodes, const struct limit *limits);

/* Tell @node, which is new, of the earlier ones. STATUS_NO_MEMORY. */
MUST_USE enum status redis_cluster_nodes_teach(const struct redis_cluster_nodes *nodes,
                                               struct store *node);
void redis_cluster_nodes_forget_all(struct redis_cluster_nodes *nodes);

/* Whether all that are connected know what they have learnt, and all slots can be asked. */
bool redis_cluster_nodes_are_ready(const struct redis_cluster_nodes *nodes);

/* See store_is_settled(). */
bool redis_cluster_nodes_are_settled(const struct redis_cluster_nodes *nodes);

/* Whom to ask about @slot: its owner, or where none is known any that may answer; NULL: there is
 * none. */
struct redis_cluster_node *redis_cluster_nodes_find(struct redis_cluster_nodes *nodes,
                                                    uint16_t slot);

/* The node that @from said to ask instead, with @fault, REDIS_FAULT_MOVED or _ASK, and @text; it
 * may be new. MOVED corrects the map, and has it asked for anew. NULL: @text makes no sense, there
 * is no memory, or too many nodes are known. */
struct redis_cluster_node *redis_cluster_nodes_follow(struct redis_cluster_node *from,
                                                      enum redis_fault fault, struct span text);

/* Something was not where the map says: ask for it soon. */
void redis_cluster_nodes_doubt(struct redis_cluster_nodes *nodes);

/* Whether all slots have an owner that can be asked just now. */
bool redis_cluster_nodes_are_up(const struct redis_cluster_nodes *nodes);

/* Sums over all that are or were known. */
struct redis_store_counters redis_cluster_nodes_count(const struct redis_cluster_nodes *nodes);

/* --- between redis_cluster_nodes.c and redis_cluster_watch.c, which keeps the map --- */

/* The node at @address, which is made known if it is not; NULL: no memory, or too many. */
struct redis_cluster_node *redis_cluster_nodes_at(struct redis_cluster_nodes *nodes,
                                                  const struct redis_cluster_address *address);

/* Let the nodes of the policy be known, as wanted at @now_us. */
void redis_cluster_nodes_know_seeds(struct redis_cluster_nodes *nodes, uint64_t now_us);

/* Close whoever is of no use any more at @now_us. Not from within a node's callback. */
void redis_cluster_nodes_sweep(struct redis_cluster_nodes *nodes, uint64_t now_us);

/* STATUS_NO_MEMORY. The timer of @nodes is closed by whoever closes them. */
MUST_USE enum status redis_cluster_watch_init(struct redis_cluster_nodes *nodes);
void redis_cluster_watch_start(struct redis_cluster_nodes *nodes);

/* Of the ear of each node. */
void redis_cluster_watch_on_part(struct redis_listener *listener, const struct redis_part *part);

#endif /* SLUICE_STORE_REDIS_CLUSTER_NODES_H */
