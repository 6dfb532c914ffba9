/* Tables of what an algorithm answers, one file for all its implementations.
 *
 * tests/data/vectors/<algorithm>.tsv: lines of numbers between tabs, `#` starts a comment.
 * `limit rate burst period_us start_us` begins a story on an untouched key; each line after it is one
 * request: `at_us cost allowed retry_after remaining next_after reset_after`, at_us counted from
 * start_us, -1 for never, times in ticks. */

#ifndef SLUICE_TESTS_SUPPORT_VECTORS_H
#define SLUICE_TESTS_SUPPORT_VECTORS_H

#include <stdint.h>

#include "limit/limit.h"
#include "limit/verdict.h"

/* Who is asked: decide a request of @cost at @now_us on the key of @story (from 1), charge it if it
 * passes, and fill @verdict. */
struct vectors_player {
    void (*decide)(void *context, const struct limit *limit, unsigned story, uint64_t now_us,
                   uint32_t cost, struct verdict *verdict);
    void *context;
};

/* Play the file of @algorithm and fail the test at the first line that differs, by name. Returns how
 * many requests were played. */
unsigned vectors_play(const struct algorithm *algorithm, const struct vectors_player *player);

#endif /* SLUICE_TESTS_SUPPORT_VECTORS_H */
