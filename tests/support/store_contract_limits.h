/* The limits that the suite of all stores asks about. */

#ifndef SLUICE_TESTS_SUPPORT_STORE_CONTRACT_LIMITS_H
#define SLUICE_TESTS_SUPPORT_STORE_CONTRACT_LIMITS_H

#include "limit/limit.h"

/* Periods are long, so that no test sees time pass. */
enum {
    BUCKET,
    WINDOW,
    SMALL,
    SHADOW,
    COUNTING,
    SLOTS,
    FIRST_OF_EACH, /* one of each algorithm follows */
    ALGORITHMS_MAX = 16,
};

/* What the limits of FIRST_OF_EACH admit at once. */
enum { EACH_UNITS = 4 };

/* Filled by store_contract_limits(), see store_contract.h. */
extern struct limit contract_limits[FIRST_OF_EACH + ALGORITHMS_MAX];

#endif /* SLUICE_TESTS_SUPPORT_STORE_CONTRACT_LIMITS_H */
