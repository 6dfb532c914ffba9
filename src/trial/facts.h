/* What is known of an answer, beside what is expected of it: each as text, so that it is
 * compared as it is shown. */

#ifndef SLUICE_TRIAL_FACTS_H
#define SLUICE_TRIAL_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "policy/test_file.h"
#include "trial/story.h"
#include "trial/trial.h"

enum { FACTS_MAX = 128 };

/* More than FACTS_MAX are left out. */
struct facts {
    struct story_fact items[FACTS_MAX];
    size_t n;
};

/* The facts of @answer. What is expected of the last request of a step alone is looked at where it
 * @is_last. Texts live in @arena, or in what is given. False: no memory. */
MUST_USE bool facts_make(struct facts *facts, const struct test_expect *expect,
                         const struct policy *policy, const struct trial_answer *answer,
                         bool is_last, struct arena *arena);

/* How many requests of a step were allowed and denied. */
MUST_USE bool facts_make_counts(struct facts *facts, const struct test_expect *expect,
                                uint32_t n_allowed, uint32_t n_denied, struct arena *arena);

#endif /* SLUICE_TRIAL_FACTS_H */
