/* The algorithms: what each is made of, and the registry that knows them all.
 *
 * An algorithm is a few pure functions of (state, params, now, cost): no clock, no I/O, no
 * allocation. Each has a twin in Lua that gives the same verdicts inside Redis. To add one:
 * <name>.h, .c, .lua, its test and vectors, and one row in src/limit/algorithm.c. */

#ifndef SLUICE_LIMIT_ALGORITHM_H
#define SLUICE_LIMIT_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "limit/verdict.h"

/* Greatest burst * period: twice that is still an exact Lua number (2^53). */
#define LIMIT_UNITS_MAX (UINT64_C(1) << 52)

/* Greatest cost of one request, and greatest rate and burst. */
#define LIMIT_COST_MAX UINT32_MAX

/* Latest time that can be judged, us since the epoch (the year 2112) or ticks: added to a period it
 * is still an exact Lua number. Whoever reads a clock for a limit cuts it to this. */
#define LIMIT_NOW_MAX (UINT64_C(1) << 52)

/* What a limit says, in the algorithm's words. An algorithm ignores what is not its own. */
struct limit_params {
    uint32_t rate;   /* units per period */
    uint32_t burst;  /* units at one instant; buckets alone */
    uint64_t period; /* ticks */
    uint64_t offset; /* ticks from the epoch to the start of some window; windows alone; < period */
    uint64_t ticks_per_s; /* 1,000,000 or 1,000 or 1 */
};

/* Lua text that the build embedded. It defines one local table named like the algorithm. */
struct script {
    const char *name;
    const char *text; /* NUL-terminated */
    size_t len;
};

struct algorithm {
    const char *name;            /* as in the policy */
    size_t state_bytes;          /* of what is remembered per key; all zero is untouched */
    bool has_burst;              /* `burst` has a meaning */
    bool has_offset;             /* windows that the wall clock can see */
    const struct script *script; /* the twin */

    /* What is wrong with @params, a static phrase fit to follow "FILE:LINE:COLUMN: error: ", or
     * NULL. */
    const char *(*check_params)(const struct limit_params *params);

    /* Judge a request of @cost at @now (ticks) and change nothing. Cannot fail. */
    void (*evaluate)(const void *state, const struct limit_params *params, uint64_t now,
                     uint32_t cost, struct verdict *verdict);

    /* Take @cost at @now. evaluate() has just allowed it for the same arguments, or @cost is 0: then
     * nothing is taken, and a state that is ahead of @now is dated to it. */
    void (*charge)(void *state, const struct limit_params *params, uint64_t now, uint32_t cost);

    /* Whether @state is dated more than a second after @now: the clock was set back. Whoever judges
     * follows it with a charge of 0, so that nothing stands still until the old time comes again. */
    bool (*is_ahead)(const void *state, const struct limit_params *params, uint64_t now);
};

/* The one called @name, or NULL. */
const struct algorithm *algorithm_find(struct span name);

/* All of them, in the order of the registry; @n is how many. The index is the algorithm's number in
 * the script's arguments. */
const struct algorithm *const *algorithm_all(size_t *n);

/* Number of @algorithm in the registry, from 1. */
unsigned algorithm_number(const struct algorithm *algorithm);

#endif /* SLUICE_LIMIT_ALGORITHM_H */
