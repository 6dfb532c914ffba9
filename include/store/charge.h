/* One limit's part in a decision: who is charged what, and what the limit said. */

#ifndef SLUICE_STORE_CHARGE_H
#define SLUICE_STORE_CHARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"
#include "limit/limit.h"
#include "limit/verdict.h"

struct charge {
    const struct limit *limit; /* borrowed until the answer */
    /* Who is counted: "{" tag "}" and the rest of the identity, see policy/key.h. Borrowed until
     * the answer; never empty. */
    struct span key;
    uint32_t cost; /* units */
    /* The answer. allowed and wait: before anything was charged; the others: as things stand now,
     * but retry_after is 0 if allowed. */
    struct verdict verdict;
    const uint64_t *edges; /* calendar windows: LIMIT_EDGES of them around now, us; else NULL.
                             * Borrowed until the answer */
    uint64_t slot;         /* concurrency: which to take */
    /* The answer: others deny the request, and this one was not asked: its verdict, which allows,
     * says nothing. */
    bool untold;
    bool is_hashed;         /* hash is there: see charge_hash() */
    bool charged;           /* the answer: the request was admitted, and this limit took its cost */
    uint64_t charged_at_us; /* the answer: when, by the clock of who decided */
    bool overflowed;    /* the answer: it was charged to the state that keys without room share */
    uint32_t instances; /* the answer, LOCAL: proxies that the limit was shared out among */
    struct hash128 hash;
};

/* hash_shared() of the key: by what all tables of this process find who is counted. A settlement
 * comes without the charge, and hashes its key anew. */
static inline struct hash128 charge_hash(const struct charge *charge)
{
    return charge->is_hashed ? charge->hash : hash_shared(charge->key);
}

/* The same of the charge of index @i, which knows it from then on: its key is not changed any more.
 * Where neighbours are charged to one text, as the rates of a limit are, that is hashed once. */
static inline struct hash128 charges_keep_hash(struct charge *charges, size_t i)
{
    struct charge *charge = &charges[i];
    if (!charge->is_hashed) {
        const bool is_known = i > 0 && charge[-1].is_hashed &&
                              charge[-1].key.data == charge->key.data &&
                              charge[-1].key.len == charge->key.len;
        charge->hash = is_known ? charge[-1].hash : hash_shared(charge->key);
        charge->is_hashed = true;
    }
    return charge->hash;
}

#endif /* SLUICE_STORE_CHARGE_H */
