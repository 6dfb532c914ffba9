/* Concurrency: how many requests of a key are in flight.
 *
 * A request takes a slot, named by a number that no other request has, and gives it back when its
 * response has ended. A slot that is neither given back nor renewed comes back by itself when its
 * lease ends, so that a proxy that dies leaves nothing behind. At most `rate` slots are taken at a
 * time. When one comes back nobody can tell: retry_after is RETRY_UNKNOWN, and next_after and
 * reset_after are as if all leases ran out. A cost counts as one slot, whatever it is,
 * and a cost of 0 takes none.
 *
 * The state grows: see state_bytes of struct algorithm.
 *
 * Source: docs/policy.md "concurrency".
 * Twin: concurrency.lua answers the same;
 * tests/data/vectors/concurrency.tsv is run through both. */

#ifndef SLUICE_LIMIT_CONCURRENCY_H
#define SLUICE_LIMIT_CONCURRENCY_H

#include <stdint.h>

#include "limit/algorithm.h"

enum { CONCURRENCY_SLOTS_MAX = 100 * 1000 }; /* a key: a greater rate is refused */

struct concurrency_slot {
    uint64_t id;
    uint64_t ends; /* of the lease, ticks */
};

/* What is remembered per key. All zero is untouched. Plain data. */
struct concurrency {
    uint64_t n;
    struct concurrency_slot slots[]; /* the first to end first */
};

/* The registry's row: see struct algorithm. A lease that ends more than a second later than one
 * that began now would is cut to that: the clock was set back. Time linear in the slots. */
extern const struct algorithm concurrency_algorithm;

#endif /* SLUICE_LIMIT_CONCURRENCY_H */
