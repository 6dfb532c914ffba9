/* The ban of a limit, as the tables of sections read it. */

#ifndef SLUICE_POLICY_LOAD_SPEC_BAN_H
#define SLUICE_POLICY_LOAD_SPEC_BAN_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/load/section.h"
#include "policy/units.h"

/* A rate that has a period. */
struct spec_period_rate {
    const struct node *node; /* NULL: it could not be read */
    struct rate rate;
};

struct spec_ban {
    struct section_position position;
    struct spec_period_rate after;
    uint64_t for_us, max_us, forget_us;
    uint32_t factor;
    bool shadow;
};

#endif /* SLUICE_POLICY_LOAD_SPEC_BAN_H */
