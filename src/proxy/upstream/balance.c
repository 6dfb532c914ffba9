#include "proxy/upstream/balance.h"

#include <assert.h>
#include <stdbool.h>

enum {
    FRACTION_BITS = 24, /* of a logarithm: shares are exact to one in ten million */
};

int64_t balance_first_credit(size_t index, size_t n_servers, size_t first)
{
    assert(index < n_servers);
    /* Less than any weight, except at the start of slow start: it decides only the first turn. */
    return (int64_t)((first + n_servers - 1 - index) % n_servers);
}

size_t balance_by_turn(const struct balance_candidate *candidates, size_t n)
{
    size_t best = 0;
    int64_t total = 0;
    assert(n > 0);
    for (size_t i = 0; i < n; i++) {
        *candidates[i].credit += candidates[i].weight;
        total += candidates[i].weight;
        if (*candidates[i].credit > *candidates[best].credit) {
            best = i;
        }
    }
    *candidates[best].credit -= total;
    return best;
}

size_t balance_by_load(const struct balance_candidate *candidates, size_t n, size_t start)
{
    size_t best = start % n;
    for (size_t i = 1; i < n; i++) {
        const size_t at = (start + i) % n;
        const struct balance_candidate *candidate = &candidates[at];
        if ((uint64_t)(candidate->n_requests + UINT64_C(1)) * candidates[best].weight <
            (uint64_t)(candidates[best].n_requests + UINT64_C(1)) * candidate->weight) {
            best = at;
        }
    }
    return best;
}

/* --- hashing --- */

/* A permutation of 64 bits in which each input bit flips each output bit with probability 1/2
 * (Stafford's mix 13, as in splitmix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t draw(struct hash128 key, uint64_t seed)
{
    return mix(mix(key.low ^ seed) + key.high);
}

uint64_t balance_seed(const struct hash_key *key, struct span name)
{
    return hash_table(key, name).low;
}

/* -log2((@x + 1) / 2^64), with FRACTION_BITS behind the point. */
static uint64_t minus_log2(uint64_t x)
{
    const uint64_t above = x == UINT64_MAX ? x : x + 1;
    const int whole = 63 - __builtin_clzll(above);
    uint64_t mantissa = (above << (63 - whole)) >> 32; /* 1 to below 2, 31 bits behind the point */
    uint64_t log = (uint64_t)whole;
    for (int i = 0; i < FRACTION_BITS; i++) {
        mantissa = (mantissa * mantissa) >> 31;
        const bool has_bit = (mantissa >> 32) != 0;
        mantissa >>= has_bit;
        log = log << 1 | has_bit;
    }
    return (UINT64_C(64) << FRACTION_BITS) - log;
}

static bool are_weights_equal(const struct balance_candidate *candidates, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (candidates[i].weight != candidates[0].weight) {
            return false;
        }
    }
    return true;
}

/* With equal weights no logarithm is needed: the greatest number has the smallest -log2. */
static size_t best_of_equals(const struct balance_candidate *candidates, size_t n,
                             struct hash128 key)
{
    size_t best = 0;
    uint64_t greatest = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t drawn = draw(key, candidates[i].seed);
        if (drawn >= greatest) {
            greatest = drawn;
            best = i;
        }
    }
    return best;
}

size_t balance_by_hash(const struct balance_candidate *candidates, size_t n, struct hash128 key)
{
    size_t best = 0;
    uint64_t smallest = 0;
    assert(n > 0);
    if (are_weights_equal(candidates, n)) {
        return best_of_equals(candidates, n, key);
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t log = minus_log2(draw(key, candidates[i].seed));
        /* Compare log / weight by cross-multiplication: no overflow, below 2^31 times 2^20. */
        if (i == 0 || log * candidates[best].weight < smallest * candidates[i].weight) {
            smallest = log;
            best = i;
        }
    }
    return best;
}
