/* Fixed window: a counter per window.
 *
 * Windows are laid in one of three ways:
 *   by the clock     they start at multiples of the period since the Unix epoch, moved by `offset`
 *                    (weeks start on Monday: the epoch was a Thursday)
 *   from_first       one starts at the first request admitted after the last one ended
 *   is_calendar      the edges around now go with each call: days, weeks and months of a time zone
 *                    differ in length, see limit/calendar.h
 * At most `rate` units pass in each window, so up to twice that across an edge.
 *
 * Source: docs/policy.md "fixed_window".
 * Twin: fixed_window.lua answers the same; tests/data/vectors/fixed_window.tsv
 * is run through both. */

#ifndef SLUICE_LIMIT_FIXED_WINDOW_H
#define SLUICE_LIMIT_FIXED_WINDOW_H

#include <stdint.h>

#include "limit/algorithm.h"

/* What is remembered per key. All zero is an untouched window. Plain data. */
struct fixed_window {
    uint64_t count; /* units admitted in the window */
    uint64_t start; /* of the window, ticks since the epoch */
};

/* The registry's row: see struct algorithm for what each function promises.
 * A @now before the window of the state counts as the start of that window, if
 * it is at most a second before; a clock that went back by more is followed, and
 * what was taken counts in the window of the new time. Constant time. */
extern const struct algorithm fixed_window_algorithm;

#endif /* SLUICE_LIMIT_FIXED_WINDOW_H */
