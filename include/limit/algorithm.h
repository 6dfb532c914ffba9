/* The algorithms: what each is made of, and the registry that knows them all.
 *
 * An algorithm is a few pure functions of (state, params, call): no clock, no I/O, no allocation.
 * Each has a twin in Lua that gives the same verdicts inside Redis. To add one: <name>.h, .c, .lua,
 * its test and vectors, and one row in src/limit/algorithm.c. */

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

enum {
    /* What an untouched state needs at most, of whatever algorithm. */
    LIMIT_STATE_BYTES_MAX = 512,
    /* Edges of calendar windows that go with a call: two at or before now, two after. */
    LIMIT_EDGES = 4,
    /* Parameters that an algorithm's script takes beside the rate. */
    LIMIT_SCRIPT_PARAMS_MAX = 3,
};

/* What a limit says, in the algorithm's words. An algorithm ignores what is not its own. */
struct limit_params {
    uint32_t rate;   /* units per period */
    uint32_t burst;  /* units at one instant; buckets alone */
    uint64_t period; /* ticks */
    uint64_t offset; /* ticks from the epoch to the start of some window; windows alone; < period */
    uint64_t ticks_per_s; /* 1,000,000 or 1,000 or 1 */
    uint64_t max_wait;    /* ticks; leaky_bucket: 0 polices, more shapes */
    uint64_t lease;       /* ticks; concurrency: a slot comes back after it unless renewed */
    uint32_t buckets;     /* sliding_window: sub-windows in a period */
    bool strict;          /* sliding_window: the oldest sub-window counts whole */
    bool from_first;      /* fixed_window: a window starts at the first request admitted in it */
    bool is_calendar;     /* fixed_window: windows are those of the call's edges */
    bool settles;         /* buckets: charges may be corrected later, and the state holds what that
                            * takes; no part of the digest */
};

/* One request, as an algorithm sees it. */
struct limit_call {
    uint64_t now;  /* ticks */
    uint32_t cost; /* units; 0 asks without taking */
    bool to_full;  /* charge: the request is denied and counts nevertheless; take at most what
                            * brings the state to full, and nothing for concurrency */
    const uint64_t *edges; /* LIMIT_EDGES of them, ticks, for calendar windows; NULL otherwise */
    uint64_t slot;         /* concurrency: which to take */
};

/* Lua text that the build embedded: prelude.lua tells of its two forms. */
struct script {
    const char *name;
    const char *text; /* NUL-terminated */
    size_t len;
};

struct algorithm {
    const char *name;            /* as in the policy */
    bool has_burst;              /* `burst` has a meaning */
    bool has_offset;             /* windows that the wall clock can see */
    bool has_slots;              /* takes slots, which are given back; has a lease and no period */
    bool has_rate_in_digest;     /* the state's unit depends on the rate */
    const struct script *script; /* the twin */

    /* What is wrong with @params, a static phrase fit to follow "FILE:LINE:COLUMN: error: ", or
     * NULL. */
    const char *(*check_params)(const struct limit_params *params);

    /* What the script needs of @params beside the rate, in its order; the rest of them
     * is 0 already. */
    void (*script_params)(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX]);

    /* Bytes that the state must have before @call is charged to it; @state is as it stands, NULL if
     * there is none. All zero is untouched. For most it depends on @params alone; logs and slots
     * grow, and what was added is zero. Never shrinks; a multiple of 8. */
    size_t (*state_bytes)(const void *state, const struct limit_params *params,
                          const struct limit_call *call);

    /* Judge @call and change nothing: allowed, retry_after and wait of @verdict. Cannot fail. */
    void (*judge)(const void *state, const struct limit_params *params,
                  const struct limit_call *call, struct verdict *verdict);

    /* Tell how @state stands at @call's time, whatever that costs: the
     * other members. Cannot fail. */
    void (*report)(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict);

    /* Take what @call costs. judge() has just allowed it for the same arguments, or it counts
     * to_full, or its cost is 0: then nothing is taken, and a state that is
     * ahead of now is dated to it. */
    void (*charge)(void *state, const struct limit_params *params, const struct limit_call *call);

    /* Whether @state is dated more than a second after @now: the clock was set back. Whoever judges
     * follows it with a charge of 0, so that nothing stands still until
     * the old time comes again. */
    bool (*is_ahead)(const void *state, const struct limit_params *params, uint64_t now);

    /* Make @state, LIMIT_STATE_BYTES_MAX of zeros, of the first of @n numbers, each at most 2^53,
     * that the script tells of a key. Returns how many those are; 0: they make no sense. NULL where
     * the script does not tell, and requests alike cannot be decided as one call. */
    size_t (*restore)(void *state, const struct limit_params *params, const uint64_t *told,
                      size_t n);

    /* Correct what was charged at @charged_at by @delta units: a refund, or a cost learnt later. A
     * bucket gives back what has not come back since: see limit/refill.h.
     * The state stays within 0 … the greatest exact number and does not grow. What is too late to
     * matter changes nothing. NULL where nothing can be settled. */
    void (*settle)(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta);

    /* Slots alone, NULL otherwise: keep @slot for another lease; give it back. A slot that is no
     * more, or whose lease has ended, stays gone. */
    void (*renew)(void *state, const struct limit_params *params, uint64_t now, uint64_t slot);
    void (*release)(void *state, const struct limit_params *params, uint64_t now, uint64_t slot);
};

/* Judge @call and report, both of @state as it is: all of @verdict. */
void algorithm_evaluate(const struct algorithm *algorithm, const void *state,
                        const struct limit_params *params, const struct limit_call *call,
                        struct verdict *verdict);

/* The one called @name, or NULL. */
const struct algorithm *algorithm_find(struct span name);

/* All of them, in the order of the registry; @n is how many. The index is the algorithm's number in
 * the script's arguments. */
const struct algorithm *const *algorithm_all(size_t *n);

/* Number of @algorithm in the registry, from 1. */
unsigned algorithm_number(const struct algorithm *algorithm);

#endif /* SLUICE_LIMIT_ALGORITHM_H */
