/* Identical requests: equal in limits, keys and cost, decided by one call of the script.
 *
 * The result equals that of deciding them one after another at the same time. The script reports
 * how many requests it admitted and each limit's state before them. This module computes the answer
 * to each request with the C algorithms. */

#ifndef SLUICE_LIMIT_IDENTICAL_H
#define SLUICE_LIMIT_IDENTICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "limit/judge.h"
#include "limit/script_source.h"

enum {
    IDENTICAL_REQUESTS_MAX = 256, /* in one call */
    /* Most integers in a reply. */
    IDENTICAL_INTS_MAX =
        SCRIPT_IDENTICAL_HEAD_INTS + LIMITS_PER_ROUTE_MAX * (LIMIT_SCRIPT_REPORTED_MAX + 1),
};

struct identical {
    struct judged judged[LIMITS_PER_ROUTE_MAX];    /* by charge: whether it was charged */
    struct verdict verdicts[LIMITS_PER_ROUTE_MAX]; /* by charge: of the latest request */
    uint64_t charged_at_us[LIMITS_PER_ROUTE_MAX];  /* by charge: time of it, in all requests */
    size_t n_judged;
    uint64_t states[LIMITS_PER_ROUTE_MAX][LIMIT_STATE_BYTES_MAX / 8];
    uint64_t n_left;     /* requests not yet judged here */
    uint64_t n_admitted; /* of those, how many the script admitted */
};

/* Begin with the reply, @n_ints integers at @ints, to a call for @n_requests identical requests
 * (2 ... IDENTICAL_REQUESTS_MAX). Each request has @charges, whose limits limit_takes_identical()
 * accepts. The edges of @charges are borrowed, and @identical must not move. False: the reply is
 * invalid. */
MUST_USE bool identical_begin(struct identical *identical, uint64_t n_requests,
                              const struct script_charge *charges, size_t n_charges,
                              const long long *ints, size_t n_ints);

/* Judge the next request: sets *admitted, identical->judged and identical->verdicts. False: the
 * result differs from the script's, or no request is left. */
MUST_USE bool identical_next(struct identical *identical, bool *admitted);

#endif /* SLUICE_LIMIT_IDENTICAL_H */
