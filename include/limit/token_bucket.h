/* Token bucket: pure integer arithmetic, no clock, no I/O, no allocation.
 *
 * A bucket holds at most `burst` tokens and gains `rate` tokens per period. A
 * request of cost N passes when N tokens are there, and then takes them. What
 * is remembered is a struct meter: the tokens that have not come back yet.
 *
 * A refund gives back what has not come back since the charge, see limit/refill.h:
 * in any interval of length T at most burst + T * rate / period units pass that
 * are not given back.
 *
 * Source: RFC 2697 section 3, bucket C alone (CIR = rate / period, CBS = burst).
 * Twin: meter.lua answers the same; tests/data/vectors/token_bucket.tsv
 * is run through both. */

#ifndef SLUICE_LIMIT_TOKEN_BUCKET_H
#define SLUICE_LIMIT_TOKEN_BUCKET_H

#include "limit/algorithm.h"

/* The registry's row: see struct algorithm for what each function promises.
 * A @now earlier than the latest charge counts as no time passed; a clock that
 * went back by more than a second is followed by the next call. Constant time. */
extern const struct algorithm token_bucket_algorithm;

#endif /* SLUICE_LIMIT_TOKEN_BUCKET_H */
