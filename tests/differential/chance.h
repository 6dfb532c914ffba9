/* Chance that can be told again: the same seed, the same numbers. */

#ifndef SLUICE_TESTS_DIFFERENTIAL_CHANCE_H
#define SLUICE_TESTS_DIFFERENTIAL_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

void random_seed(uint64_t seed);

/* 0 … @bound - 1. */
uint64_t random_below(uint64_t bound);

bool one_in(uint64_t n);

/* 1 … @max, each order of magnitude as likely as another, @max itself often. */
uint64_t random_size(uint64_t max);

#endif /* SLUICE_TESTS_DIFFERENTIAL_CHANCE_H */
