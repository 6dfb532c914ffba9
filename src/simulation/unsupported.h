/* Limits of a policy that cannot be judged because the logs lack data. */

#ifndef SLUICE_SIMULATION_UNSUPPORTED_H
#define SLUICE_SIMULATION_UNSUPPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "simulation/log_fields.h"
#include "simulation/replay_options.h"

/* The data that the logs have. */
struct gaps_reported {
    uint32_t parts; /* bit set of enum log_part */
    bool has_query; /* targets have their query */
    bool has_host;
    const struct log_fields *fields; /* with the headers that the logs have */
};

struct unsupported {
    bool *left_out; /* by index of the limit */
    struct span notes[REPLAY_NOTES_MAX];
    size_t n_notes;
};

/* Find the parts of @policy that need data beyond @reported. Texts are in @arena.
 * STATUS_NO_MEMORY. */
MUST_USE enum status unsupported_find(struct unsupported *unsupported, const struct policy *policy,
                                      const struct gaps_reported *reported, struct arena *arena);

#endif /* SLUICE_SIMULATION_UNSUPPORTED_H */
