/* Counters of the stores of one worker. They outlive the stores: the stores of a new policy
 * continue the same counters. One thread counts, any thread reads. */

#ifndef SLUICE_STORE_STORE_METERS_H
#define SLUICE_STORE_STORE_METERS_H

#include "base/counter.h"

enum {
    STORE_NODES_MAX = 64,  /* servers with a number of their own; further ones share number 0 */
    STORE_FAULTS_MAX = 32, /* at least REDIS_FAULT_COUNT */
};

/* A server of the shared store. */
struct store_node_meters {
    struct counter calls;                      /* commands sent for decisions */
    struct counter failures[STORE_FAULTS_MAX]; /* decisions not made, by enum redis_fault */
    struct counter late_replies;
    struct counter connects;      /* attempts */
    struct counter links;         /* now */
    struct counter links_up;      /* of them */
    struct counter breakers_open; /* of links_up, now; includes half-open ones */
    struct counter openings;      /* of breakers */
    struct counter settlements;   /* commands sent to settle */
    struct counter settlements_lost;
    struct latency rtt; /* from sending a PING, one a second, to its reply */
};

/* Counters of the coalescing store. */
struct coalesce_meters {
    struct counter decisions; /* received */
    struct counter calls;     /* sent for them */
    struct counter batched;   /* decisions that shared their call with others */
};

/* Counters of the denial cache. */
struct denial_cache_meters {
    struct counter answers;   /* requests denied from the cache */
    struct counter evictions; /* valid cached verdicts dropped to make room for other keys */
};

/* Counters of the client queue. */
struct client_queue_meters {
    struct counter waits;   /* decisions that waited since their client had too many in flight */
    struct counter refused; /* of them, those that were given up, and those that found no room */
};

struct store_meters {
    struct store_node_meters nodes[STORE_NODES_MAX];
    struct coalesce_meters coalesce;
    struct denial_cache_meters denial_cache;
    struct client_queue_meters client_queue;
};

#endif /* SLUICE_STORE_STORE_METERS_H */
