/* What the stores of one worker count, for whoever shows it. It outlives them: those that a new
 * policy brings go on counting in the same place. One thread counts, any thread reads. */

#ifndef SLUICE_STORE_STORE_METERS_H
#define SLUICE_STORE_STORE_METERS_H

#include "base/counter.h"

enum {
    STORE_NODES_MAX = 64,  /* servers that are told apart; what is beyond shares number 0 */
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
    struct counter breakers_open; /* of those that are up, now; on trial too */
    struct counter openings;      /* of breakers */
    struct counter settlements;   /* commands sent to settle */
    struct counter settlements_lost;
};

/* The store that gathers decisions alike. */
struct coalesce_meters {
    struct counter decisions; /* asked of it */
    struct counter calls;     /* that it made of them */
    struct counter gathered;  /* decisions that travelled with others */
};

/* The store that remembers denials. */
struct denial_cache_meters {
    struct counter answers;   /* requests denied by what is remembered */
    struct counter evictions; /* what was remembered and still held made room for other keys */
};

struct store_meters {
    struct store_node_meters nodes[STORE_NODES_MAX];
    struct coalesce_meters coalesce;
    struct denial_cache_meters denial_cache;
};

#endif /* SLUICE_STORE_STORE_METERS_H */
