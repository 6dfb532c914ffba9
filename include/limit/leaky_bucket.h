/* Leaky bucket: a meter that refuses what would spill over, or a queue that spaces requests out.
 *
 * The bucket holds at most `burst` units and drains `rate` of them per period. Without max_wait it
 * polices: a request passes if its units fit, and pours them in. With max_wait it shapes: a request
 * that is admitted is given the next free departure, `wait` from now, and the next one comes no
 * sooner than its units take to drain. What is in the bucket is then what is in the queue, the part
 * of the latest departure's gap that is still to pass included. It is refused when its units do not
 * fit or its wait would be longer than max_wait.
 *
 * A departure that was granted is not taken back: a refund changes nothing while shaping, so that
 * no two departures are ever closer than their gaps.
 *
 * Source: docs/policy.md "leaky_bucket"; the meter is ITU-T I.371's continuous-state leaky bucket.
 * Twin: meter.lua answers the same;
 * tests/data/vectors/leaky_bucket.tsv is run through both. */

#ifndef SLUICE_LIMIT_LEAKY_BUCKET_H
#define SLUICE_LIMIT_LEAKY_BUCKET_H

#include "limit/algorithm.h"

/* The registry's row: see struct algorithm. What is remembered is a struct meter. Constant time. */
extern const struct algorithm leaky_bucket_algorithm;

#endif /* SLUICE_LIMIT_LEAKY_BUCKET_H */
