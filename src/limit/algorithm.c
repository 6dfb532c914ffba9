#include "limit/algorithm.h"

#include "base/compiler.h"
#include "base/status.h"
#include "limit/algorithms.h"

/* The registry: one row each. The order is the number that proxies sharing a Redis agree on for a
 * script, so new ones go to the end. */
static const struct algorithm *const ALGORITHMS[] = {
    &token_bucket_algorithm,   &fixed_window_algorithm, &leaky_bucket_algorithm, &gcra_algorithm,
    &sliding_window_algorithm, &sliding_log_algorithm,  &concurrency_algorithm,
};

const struct algorithm *algorithm_find(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(ALGORITHMS); i++) {
        if (span_equals(name, span_of_text(ALGORITHMS[i]->name))) {
            return ALGORITHMS[i];
        }
    }
    return NULL;
}

const struct algorithm *const *algorithm_all(size_t *n)
{
    *n = ARRAY_LEN(ALGORITHMS);
    return ALGORITHMS;
}

unsigned algorithm_number(const struct algorithm *algorithm)
{
    for (size_t i = 0; i < ARRAY_LEN(ALGORITHMS); i++) {
        if (ALGORITHMS[i] == algorithm) {
            return (unsigned)i + 1;
        }
    }
    panic("an algorithm is not registered");
}

const char *algorithm_check_params(const struct algorithm *algorithm,
                                   const struct limit_params *params)
{
    if (params->rate == 0) {
        return "rate must be at least 1";
    }
    if (algorithm->has_burst && params->burst == 0) {
        return "burst must be at least 1";
    }
    if (!algorithm->has_slots && params->period == 0) {
        return "period must be at least 1 tick";
    }
    if (params->period > LIMIT_UNITS_MAX) {
        return "period must not exceed 2^52 ticks";
    }
    return algorithm->check_params(params);
}
