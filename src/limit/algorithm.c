#include "limit/algorithm.h"

#include <assert.h>
#include <stddef.h>

#include "base/compiler.h"
#include "limit/concurrency.h"
#include "limit/fixed_window.h"
#include "limit/gcra.h"
#include "limit/leaky_bucket.h"
#include "limit/sliding_log.h"
#include "limit/sliding_window.h"
#include "limit/token_bucket.h"

/* The registry: one row each. The order is the number that proxies sharing a Redis agree on for a
 * script, so new ones go to the end. */
static const struct algorithm *const ALGORITHMS[] = {
    &token_bucket_algorithm,   &fixed_window_algorithm, &leaky_bucket_algorithm, &gcra_algorithm,
    &sliding_window_algorithm, &sliding_log_algorithm,  &concurrency_algorithm,
};

void algorithm_evaluate(const struct algorithm *algorithm, const void *state,
                        const struct limit_params *params, const struct limit_call *call,
                        struct verdict *verdict)
{
    algorithm->judge(state, params, call, verdict);
    algorithm->report(state, params, call, verdict);
}

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
    unsigned number = 1;
    while (ALGORITHMS[number - 1] != algorithm) {
        number++;
        assert(number <= ARRAY_LEN(ALGORITHMS));
    }
    return number;
}
