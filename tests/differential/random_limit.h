/* Limits with parameters up to the exact bound. */

#ifndef SLUICE_TESTS_DIFFERENTIAL_RANDOM_LIMIT_H
#define SLUICE_TESTS_DIFFERENTIAL_RANDOM_LIMIT_H

#include "limit/limit.h"

void random_limit(struct limit *limit, const struct algorithm *algorithm);

/* What @before is after a change of the policy that keeps what was taken. */
void random_limit_change(const struct limit *before, struct limit *after);

#endif /* SLUICE_TESTS_DIFFERENTIAL_RANDOM_LIMIT_H */
