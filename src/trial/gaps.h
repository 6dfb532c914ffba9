/* What a log does not tell, and what of a policy therefore cannot be judged. */

#ifndef SLUICE_TRIAL_GAPS_H
#define SLUICE_TRIAL_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "trial/log_fields.h"
#include "trial/replay.h"

/* What the logs tell. */
struct gaps_told {
    uint32_t parts; /* bit set of enum log_part */
    bool has_query; /* targets have their query */
    bool has_host;
    const struct log_fields *fields; /* which headers there are */
};

struct gaps {
    bool *left_out; /* by index of the limit */
    struct span notes[REPLAY_NOTES_MAX];
    size_t n_notes;
};

/* Find what of @policy goes beyond what is @told. Texts live in @arena. STATUS_NO_MEMORY. */
MUST_USE enum status gaps_find(struct gaps *gaps, const struct policy *policy,
                               const struct gaps_told *told, struct arena *arena);

#endif /* SLUICE_TRIAL_GAPS_H */
