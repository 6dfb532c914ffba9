/* One limit's part in a decision: the key, the cost and the limit's verdict. */

#ifndef SLUICE_STORE_CHARGE_H
#define SLUICE_STORE_CHARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"
#include "limit/limit.h"

struct charge {
    const struct limit *limit; /* borrowed until the answer */
    /* The counted identity: "{" tag "}" and the rest, see policy/key.h. Borrowed until the answer;
     * never empty. */
    struct span key;
    uint32_t cost; /* units */
    /* The answer. allowed and wait: before anything was charged; the others: the state after the
     * decision, but retry_after is 0 if allowed. */
    struct verdict verdict;
    /* calendar windows: LIMIT_EDGES of them around now, us; else NULL. Borrowed until the answer */
    const uint64_t *edges;
    uint64_t slot; /* concurrency: the slot to take */
    /* The answer: other limits deny the request, and this one was not judged. Its verdict allows
     * and has no meaning. */
    bool unreported;
    bool is_hashed;         /* hash is set: see charge_hash() */
    bool charged;           /* the answer: the request was admitted, and this limit took its cost */
    uint64_t charged_at_us; /* the answer: time of the charge, by the clock of the deciding store */
    bool overflowed;        /* the answer: charged to the state that keys without room share */
    uint32_t instances;     /* the answer, LOCAL: proxies that the limit was divided among */
    struct hash128 hash;
};

/* hash_shared() of the key: all tables of this process look keys up by it. A settlement has no
 * charge and hashes its key again. */
static inline struct hash128 charge_hash(const struct charge *charge)
{
    return charge->is_hashed ? charge->hash : hash_shared(charge->key);
}

/* As charge_hash(), for the charge of index @i. The charge keeps the hash, so its key must not
 * change afterwards. Neighbours with the same key text, as the rates of a limit, share one hash. */
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
