/* The properties of an answer next to the expected ones, both as text, so that they are compared in
 * the form in which they are shown. */

#ifndef SLUICE_SIMULATION_OBSERVATIONS_H
#define SLUICE_SIMULATION_OBSERVATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "policy/test_file.h"
#include "simulation/simulation.h"
#include "simulation/test_run.h"

enum { OBSERVATIONS_MAX = 128 };

/* Properties beyond OBSERVATIONS_MAX are left out. */
struct observations {
    struct test_run_fact items[OBSERVATIONS_MAX];
    size_t n;
};

/* The properties of @answer. Expectations for the last request of a step only are included if
 * @is_last. Texts are in @arena or in the arguments. False: no memory. */
MUST_USE bool observations_make(struct observations *observations, const struct test_expect *expect,
                                const struct policy *policy, const struct simulation_answer *answer,
                                bool is_last, struct arena *arena);

/* The numbers of requests of a step that were allowed and denied. */
MUST_USE bool observations_make_counts(struct observations *observations,
                                       const struct test_expect *expect, uint32_t n_allowed,
                                       uint32_t n_denied, struct arena *arena);

#endif /* SLUICE_SIMULATION_OBSERVATIONS_H */
