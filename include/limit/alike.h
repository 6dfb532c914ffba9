/* Requests alike: equal in limits, keys and cost, decided by one call of the script.
 *
 * The result is that of deciding them one after another at one time. The script says how many it
 * has admitted and tells each limit's state as it was before them; what every one of them is
 * answered is reckoned here, by the algorithms themselves. */

#ifndef SLUICE_LIMIT_ALIKE_H
#define SLUICE_LIMIT_ALIKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "limit/judge.h"
#include "limit/script_source.h"

enum {
    ALIKE_REQUESTS_MAX = 256, /* in one call */
    /* Integers of a reply at most. */
    ALIKE_INTS_MAX = SCRIPT_ALIKE_HEAD_INTS + LIMITS_PER_ROUTE_MAX * SCRIPT_TOLD_MAX,
};

struct alike {
    struct judged judged[LIMITS_PER_ROUTE_MAX];    /* whether it was charged, by charge */
    struct verdict verdicts[LIMITS_PER_ROUTE_MAX]; /* of the latest request, by charge */
    size_t n_judged;
    uint64_t states[LIMITS_PER_ROUTE_MAX][LIMIT_STATE_BYTES_MAX / 8];
    uint64_t n_left;     /* requests of the call */
    uint64_t n_admitted; /* of those that are left, as the script says */
};

/* Begin with the reply of @n_ints @ints to a call for @n_requests (2 ... ALIKE_REQUESTS_MAX) alike,
 * each of them @charges, of limits that limit_takes_alike(). Their edges are borrowed, and @alike
 * stays where it is. False: the reply makes no sense. */
MUST_USE bool alike_begin(struct alike *alike, uint64_t n_requests,
                          const struct script_charge *charges, size_t n_charges,
                          const long long *ints, size_t n_ints);

/* Judge the next request: *admitted, and its answer in alike->judged and alike->verdicts. False:
 * the script has decided otherwise, or there is none left. */
MUST_USE bool alike_next(struct alike *alike, bool *admitted);

#endif /* SLUICE_LIMIT_ALIKE_H */
