/* Tables of what an algorithm answers, one file for all its implementations.
 *
 * tests/data/vectors/<algorithm>.tsv: lines of numbers between tabs, `#` starts a comment.
 *   limit rate burst period_us start_us [NAME=NUMBER ...]
 *       begins a story on an untouched key; NAMEs are members of struct limit_spec,
 *       or settles, of struct limit_params
 *   at_us cost allowed retry_after remaining next_after reset_after [wait=NUMBER] [slot=NUMBER]
 *       one request; at_us counts from start_us, times are in ticks, -1 is never and -2 unknown;
 *       remaining, next_after and reset_after as things stand after it
 *   settle at_us charged_at_us delta
 *   renew at_us slot
 *   retake at_us slot
 *   release at_us slot
 */

#ifndef SLUICE_TESTS_SUPPORT_VECTORS_H
#define SLUICE_TESTS_SUPPORT_VECTORS_H

#include <stdint.h>

#include "limit/algorithm.h"
#include "limit/limit.h"
#include "store/store.h"

/* Who is asked, on the key of a story (from 1). */
struct vectors_player {
    /* Decide @charge at @now_us, charge it if it passes, and fill its verdict. */
    void (*decide)(void *context, struct charge *charge, unsigned story, uint64_t now_us);
    void (*settle)(void *context, const struct settlement *settlement, unsigned story,
                   uint64_t now_us);
    void *context;
};

/* Play the file of @algorithm and fail the test at the first line that differs, by name. Returns
 * how many requests were played. */
unsigned vectors_play(const struct algorithm *algorithm, const struct vectors_player *player);

#endif /* SLUICE_TESTS_SUPPORT_VECTORS_H */
