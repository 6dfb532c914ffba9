/* Running the tests of a policy: each step's requests are sent through a trial, and what comes of
 * them is held against what is expected. */

#ifndef SLUICE_TRIAL_STORY_H
#define SLUICE_TRIAL_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "policy/test_file.h"

enum { STORY_FAILURES_MAX = 20 }; /* of one test that are told; the rest is counted */

/* One thing that is known of an answer. */
struct story_fact {
    struct span name;   /* as in `expect` */
    struct span wanted; /* data is NULL: nothing was said of it */
    struct span got;
};

/* A step that did not go as expected. */
struct story_failure {
    const struct test_step *step;
    uint32_t number;   /* of the request, from 1; 0: the step as a whole */
    uint64_t after_us; /* the start of the test */
    const struct story_fact *facts;
    size_t n_facts;
};

struct story_result {
    const struct policy_test *test;
    uint64_t n_requests;
    uint64_t n_failures;
    struct story_failure failures[STORY_FAILURES_MAX];
    uint64_t simulated_us; /* from its first request to the last */
};

/* Run @test against @policy, which is untouched. What @result says lives in @arena and in @test.
 * STATUS_NO_MEMORY; STATUS_INVALID: the policy's calendars do not reach the test's time. */
MUST_USE enum status story_run(const struct policy *policy, const struct policy_test *test,
                               struct arena *arena, struct story_result *result);

/* Whether a fact is otherwise than wanted. */
static inline bool story_fact_differs(const struct story_fact *fact)
{
    return fact->wanted.data != NULL && !span_equals(fact->wanted, fact->got);
}

#endif /* SLUICE_TRIAL_STORY_H */
