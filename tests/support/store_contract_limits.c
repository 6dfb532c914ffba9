#include "support/store_contract_limits.h"

#include <check.h>
#include <stdint.h>

#include "limit/algorithms.h"
#include "support/store_contract.h"

static const uint64_t DAY_US = UINT64_C(86400000000);

struct limit contract_limits[FIRST_OF_EACH + ALGORITHMS_MAX];

static void fill_limit(uint32_t index, const char *name, const struct algorithm *algorithm,
                       uint32_t units)
{
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = units,
        .burst = units,
        .period_us = 7 * DAY_US,
        .lease_us = 7 * DAY_US,
        .buckets = 10,
    };
    contract_limits[index] = (struct limit){.name = span_of_text(name), .index = index};
    ck_assert_ptr_null(limit_init(&contract_limits[index], &spec));
}

const struct limit *store_contract_limits(size_t *n_limits)
{
    fill_limit(BUCKET, "bucket", &token_bucket_algorithm, 10);
    fill_limit(WINDOW, "window", &fixed_window_algorithm, 10);
    fill_limit(SMALL, "small", &token_bucket_algorithm, 2);
    fill_limit(SHADOW, "shadow", &token_bucket_algorithm, 2);
    contract_limits[SHADOW].shadow = true;
    fill_limit(COUNTING, "counting", &token_bucket_algorithm, 5);
    contract_limits[COUNTING].charge_denied = true;
    fill_limit(SLOTS, "slots", &concurrency_algorithm, 2);

    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    ck_assert_uint_le(n_algorithms, ALGORITHMS_MAX);
    for (uint32_t i = 0; i < n_algorithms; i++) {
        fill_limit(FIRST_OF_EACH + i, algorithms[i]->name, algorithms[i], EACH_UNITS);
    }
    *n_limits = FIRST_OF_EACH + n_algorithms;
    return contract_limits;
}
