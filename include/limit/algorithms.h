/* The algorithms, one row each. The source of each says how it works, and from where it is. */

#ifndef SLUICE_LIMIT_ALGORITHMS_H
#define SLUICE_LIMIT_ALGORITHMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "limit/algorithm.h"

enum {
    SLIDING_WINDOW_BUCKETS_DEFAULT = 10,
    SLIDING_WINDOW_BUCKETS_MAX = 100,
    SLIDING_LOG_ENTRIES_MAX = 100 * 1000, /* per key: a greater rate is refused */
    SLIDING_LOG_ENTRIES_MANY = 1000,      /* a greater rate causes a warning */
    CONCURRENCY_SLOTS_MAX = 100 * 1000,   /* per key: a greater rate is refused */
};

extern const struct algorithm token_bucket_algorithm; /* src/limit/meter.c */
extern const struct algorithm leaky_bucket_algorithm; /* src/limit/meter.c */
extern const struct algorithm gcra_algorithm;         /* src/limit/gcra.c, and so on */
extern const struct algorithm fixed_window_algorithm;
extern const struct algorithm sliding_window_algorithm;
extern const struct algorithm sliding_log_algorithm;
extern const struct algorithm concurrency_algorithm;

/* The algorithm called @name, or NULL. */
const struct algorithm *algorithm_find(struct span name);

/* All algorithms, in the order of the registry; *n is their number. */
const struct algorithm *const *algorithm_all(size_t *n);

/* Number of @algorithm in the registry, from 1. The script's arguments use it. */
unsigned algorithm_number(const struct algorithm *algorithm);

#endif /* SLUICE_LIMIT_ALGORITHMS_H */
