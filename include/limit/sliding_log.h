/* Sliding log: each request that was admitted, with its time and units. Exact, and
 * it costs memory per request.
 *
 * A request passes if the units logged in (now - period, now] leave room for its cost. In any
 * window of a period at most `rate` units pass.
 *
 * The state grows: see state_bytes of struct algorithm. Entries that have left the window are
 * dropped by the next charge, so that a key has at most `rate` that count and as many that do not.
 *
 * Source: docs/policy.md "sliding_log".
 * Twin: sliding_log.lua answers the same;
 * tests/data/vectors/sliding_log.tsv is run through both. */

#ifndef SLUICE_LIMIT_SLIDING_LOG_H
#define SLUICE_LIMIT_SLIDING_LOG_H

#include <stdint.h>

#include "limit/algorithm.h"

enum {
    SLIDING_LOG_ENTRIES_MAX = 100 * 1000, /* a key: a greater rate is refused */
    SLIDING_LOG_ENTRIES_MANY = 1000,      /* a greater rate is worth a warning */
};

struct sliding_log_entry {
    uint32_t at_low; /* ticks, in two halves: a word each keeps entries at 12 bytes */
    uint32_t at_high;
    uint32_t units;
};

/* What is remembered per key. All zero is untouched. Plain data. */
struct sliding_log {
    uint64_t units; /* of all entries */
    uint32_t first; /* the oldest entry; what is before it was dropped */
    uint32_t n;
    struct sliding_log_entry entries[]; /* oldest first */
};

/* The registry's row: see struct algorithm. A @now earlier than the newest entry counts as no time
 * passed; after a step back of more than a second the entries of the time to come are one entry of
 * now. Time linear in the entries that leave and in the cost, not in those that stay. */
extern const struct algorithm sliding_log_algorithm;

#endif /* SLUICE_LIMIT_SLIDING_LOG_H */
