/* Token bucket: pure integer arithmetic, no clock, no I/O, no allocation.
 *
 * A bucket holds at most `burst` tokens and gains `rate` tokens per period. A
 * request of cost N passes when N tokens are there, and then takes them.
 *
 * The state is the debt, what was taken and has not come back yet, rather than
 * the level: an absent state is an untouched bucket, and a burst that is raised
 * in the policy helps at once.
 *
 * Source: RFC 2697 section 3, bucket C alone (CIR = rate / period, CBS = burst).
 * Twin: token_bucket.lua answers the same; tests/data/vectors/token_bucket.tsv
 * is run through both. */

#ifndef SLUICE_LIMIT_TOKEN_BUCKET_H
#define SLUICE_LIMIT_TOKEN_BUCKET_H

#include <stdint.h>

#include "limit/algorithm.h"

/* What is remembered per key. All zero is a full bucket. Plain data. */
struct token_bucket {
    uint64_t debt;    /* 1 token = period units, so that refills never round */
    uint64_t updated; /* time of the latest charge, ticks; 0 while debt is 0 */
};

/* The registry's row: see struct algorithm for what each function promises.
 * A @now earlier than the latest charge counts as no time passed; a clock that
 * went back by more than a second is followed by the next call. Constant time. */
extern const struct algorithm token_bucket_algorithm;

#endif /* SLUICE_LIMIT_TOKEN_BUCKET_H */
