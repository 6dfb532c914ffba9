/* A real cluster, and a cluster store over it with the limits of the stores' contract. */

#ifndef SLUICE_TESTS_CLUSTER_STAGE_H
#define SLUICE_TESTS_CLUSTER_STAGE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/redis_store.h"
#include "store/store.h"
#include "support/redis_nodes.h"
#include "support/store_contract.h"
#include "support/store_contract_limits.h"

enum {
    STAGE_MASTERS = 3,           /* own about as many slots each */
    STAGE_OTHER = STAGE_MASTERS, /* the node that owns next to nothing */
};

/* Keys whose slots three different nodes own, in the order of the slots. */
extern const char *const STAGE_KEYS[STAGE_MASTERS];

extern struct redis_nodes stage_nodes;
extern struct store *stage_store;
extern struct client_calls *stage_calls;
extern struct loop *stage_loop;

/* Fixtures: the nodes once for all tests, the store for each; and the contract, whose
 * fixture does the latter. */
void stage_start_nodes(void);
void stage_stop_nodes(void);
void stage_open(void);
void stage_close(void);
extern const struct store_contract STAGE_CONTRACT;

void stage_run_once(void);
void stage_await(const bool *answered);
/* Until the owner of every slot can be asked. */
void stage_await_up(void);

struct redis_cluster_counters stage_count(void);

/* A charge of one of contract_limits, with a slot of its own where it takes one. */
struct charge stage_charge(uint32_t limit, const char *key, uint32_t cost);

/* Ask and wait for the answer. */
void stage_decide(struct decision *decision);
/* Whether @charges pass; the store must be able to tell. */
bool stage_passes(struct charge *charges, size_t n_charges);

/* Of @limit for @key, asked. */
uint64_t stage_remaining(uint32_t limit, const char *key);

#endif /* SLUICE_TESTS_CLUSTER_STAGE_H */
