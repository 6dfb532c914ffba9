/* Sliding window: counters of sub-windows, the oldest of which counts by the
 * part that is still inside.
 *
 * The period is cut into `buckets` equal sub-windows that start at multiples of their width since
 * the epoch. Used are the current one, those of the period before it, and the one that now - period
 * falls into: by the part of it that is still inside, rounded up, or whole if `strict`. A request
 * passes if its cost fits beside them into `rate`.
 *
 * At most `rate` units pass in any interval of period * (1 - 1 / buckets), and just under twice
 * that in a period at worst; strict: `rate` in any period.
 *
 * Source: docs/policy.md "sliding_window"; with one bucket, the two counters known from large CDNs.
 * Twin: sliding_window.lua answers the same;
 * tests/data/vectors/sliding_window.tsv is run through both. */

#ifndef SLUICE_LIMIT_SLIDING_WINDOW_H
#define SLUICE_LIMIT_SLIDING_WINDOW_H

#include <stdint.h>

#include "limit/algorithm.h"

enum {
    SLIDING_WINDOW_BUCKETS_DEFAULT = 10,
    SLIDING_WINDOW_BUCKETS_MAX = 100,
};

/* What is remembered per key. All zero is untouched. Plain data. */
struct sliding_window {
    uint64_t newest;   /* number of the latest sub-window with a charge, from the epoch */
    uint32_t counts[]; /* buckets + 1 of them: of newest, and of those before it */
};

/* The registry's row: see struct algorithm. A state of a later sub-window than @now's stands while
 * the clock went back by at most a second; more is followed. Time linear in buckets. */
extern const struct algorithm sliding_window_algorithm;

#endif /* SLUICE_LIMIT_SLIDING_WINDOW_H */
