/* Runs the tests of a policy: sends each step's requests through a simulation and compares the
 * answers with the expected ones. */

#ifndef SLUICE_SIMULATION_TEST_RUN_H
#define SLUICE_SIMULATION_TEST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/status.h"
#include "policy/policy.h"
#include "policy/test_file.h"

enum { TEST_RUN_FAILURES_MAX = 20 }; /* reported of one test; the rest is only counted */

/* One property of an answer. */
struct test_run_fact {
    struct span name;   /* as in `expect` */
    struct span wanted; /* data is NULL: no expectation */
    struct span got;
};

/* A failed expectation of a step. */
struct test_run_failure {
    const struct test_step *step;
    uint32_t number;   /* of the request, from 1; 0: the step as a whole */
    uint64_t after_us; /* time since the start of the test */
    const struct test_run_fact *observations;
    size_t n_observations;
};

struct test_run_result {
    const struct policy_test *test;
    uint64_t n_requests;
    uint64_t n_failures;
    struct test_run_failure failures[TEST_RUN_FAILURES_MAX];
    uint64_t simulated_us; /* from its first request to the last */
};

/* Run @test against @policy, which is untouched. The texts of @result are in @arena and in @test.
 * STATUS_NO_MEMORY; STATUS_INVALID: the policy's calendars do not cover the test's time. */
MUST_USE enum status test_run_run(const struct policy *policy, const struct policy_test *test,
                                  struct arena *arena, struct test_run_result *result);

/* Whether a property differs from the expected one. */
static inline bool test_run_fact_differs(const struct test_run_fact *observation)
{
    return observation->wanted.data != NULL && !span_equals(observation->wanted, observation->got);
}

#endif /* SLUICE_SIMULATION_TEST_RUN_H */
