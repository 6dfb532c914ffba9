/* Counters of reloads, part of the meters of the process. */

#ifndef SLUICE_PROXY_RELOAD_METERS_H
#define SLUICE_PROXY_RELOAD_METERS_H

#include <stdint.h>

#include "base/counter.h"

/* Results of reloads. One thread writes them. */
struct reload_meters {
    struct counter done;
    struct counter failed;
    struct counter last_failed; /* 1: the latest reload failed */
    struct counter loaded_us;   /* when the policy in force was loaded, since the epoch */
};

/* The same, read together. */
struct reload_counts {
    uint64_t n_done;
    uint64_t n_failed;
    uint64_t is_last_good; /* 1, or 0: of the latest reload that is counted, or of a later one */
    uint64_t loaded_us;
};

#endif /* SLUICE_PROXY_RELOAD_METERS_H */
