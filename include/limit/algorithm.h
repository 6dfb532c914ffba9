/* The interface of a rate-limiting algorithm.
 *
 * An algorithm is a few pure functions of (state, params, call): no clock, no I/O, no allocation.
 * Each has a Lua twin that gives the same verdicts inside Redis. To add one: <name>.c, <name>.lua,
 * its test and vectors, and one row in src/limit/algorithm.c. */

#ifndef SLUICE_LIMIT_ALGORITHM_H
#define SLUICE_LIMIT_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Greatest burst * period: twice that is still an exact Lua number (2^53). */
#define LIMIT_UNITS_MAX (UINT64_C(1) << 52)
/* Greatest cost of one request, and greatest rate and burst. */
#define LIMIT_COST_MAX UINT32_MAX

/* Latest time that can be judged, us since the epoch (the year 2112) or ticks: added to a period it
 * is still an exact Lua number. Code that reads a clock for a limit clamps the time to this. */
#define LIMIT_NOW_MAX (UINT64_C(1) << 52)

enum {
    /* Greatest size of an untouched state, over all algorithms. */
    LIMIT_STATE_BYTES_MAX = 512,
    /* Edges of calendar windows in a call: two at or before now, two after. */
    LIMIT_EDGES = 4,
    /* Parameters of an algorithm's script besides the rate. */
    LIMIT_SCRIPT_PARAMS_MAX = 3,
    /* Most numbers that the script reports of a state: a sliding window reports its number and its
     * counters. */
    LIMIT_SCRIPT_REPORTED_MAX = 102,
};

/* Parameters of a limit. An algorithm ignores those that belong to other algorithms. */
struct limit_params {
    uint32_t rate;   /* units per period */
    uint32_t burst;  /* units at one instant; buckets alone */
    uint64_t period; /* ticks */
    uint64_t offset; /* ticks from the epoch to the start of some window; windows alone; < period */
    uint64_t ticks_per_s; /* 1,000,000 or 1,000 or 1 */
    uint64_t max_wait;    /* ticks; leaky_bucket: 0 polices, more shapes */
    uint64_t lease;       /* ticks; concurrency: a slot is released after it unless renewed */
    uint32_t buckets;     /* sliding_window: sub-windows in a period */
    bool strict;          /* sliding_window: the oldest sub-window counts whole */
    bool from_first;      /* fixed_window: a window starts at the first request admitted in it */
    bool is_calendar;     /* fixed_window: the call's edges define the windows */
    uint64_t zone;        /* of the calendar's time zone, in the digest alone */
    bool settles; /* buckets: the state holds what corrections of charges need; not in the digest */
};

/* One request, as an algorithm sees it. */
struct limit_call {
    uint64_t now;  /* ticks */
    uint32_t cost; /* units; 0 queries without charging */
    /* charge: a denied request counts too; take at most the units that fill the state, and nothing
     * for concurrency */
    bool to_full;
    const uint64_t *edges; /* LIMIT_EDGES of them, ticks, for calendar windows; NULL otherwise */
    uint64_t slot;         /* concurrency: the slot to take */
};

/* Value of retry_after when waiting cannot help: the cost exceeds the limit. */
#define RETRY_NEVER UINT64_MAX

/* Value of retry_after when the time is unknown: a slot is free when a request ends. */
#define RETRY_UNKNOWN (UINT64_MAX - 1)

/* The answer of one limit to one request, the same for every algorithm and store. Times are in
 * ticks, the unit of time of the limit: see struct limit_params. */
struct verdict {
    /* The judgement of the request, before it is charged. */
    bool allowed;
    uint64_t retry_after; /* 0 if allowed, else the wait for the same cost, or a value above */
    uint64_t wait;        /* an admitted request is delayed by this; shaping only */

    /* The report of the state. */
    uint64_t limit;       /* units that pass at once when the quota is untouched */
    uint64_t remaining;   /* units that would pass now; <= limit */
    uint64_t next_after;  /* wait until remaining is one more; 0 if untouched */
    uint64_t reset_after; /* wait until the quota is untouched if no other call comes */
};

/* Lua text that the build embeds. prelude.lua describes its two forms. */
struct script {
    const char *name;
    const char *text; /* NUL-terminated */
    size_t len;
};

struct algorithm {
    const char *name;            /* as in the policy */
    bool has_burst;              /* `burst` is used */
    bool has_offset;             /* windows are aligned to the wall clock */
    bool has_slots;              /* takes and releases slots; has a lease and no period */
    bool has_wait;               /* `max_wait` is used */
    bool has_numbers_in_digest;  /* the state's meaning depends on the rate and the burst */
    const struct script *script; /* the twin */

    /* See algorithm_check_params(): what it has not checked yet. */
    const char *(*check_params)(const struct limit_params *params);

    /* Units that settle() takes beyond the capacity before it forgives the rest. NULL: all. */
    uint64_t (*room)(const struct limit_params *params);

    /* Write what the script takes besides the rate, in its order, to @values, which are all 0. */
    void (*script_params)(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX]);

    /* Bytes that the state must have before @call is charged to it. @state is the current state,
     * NULL if there is none; all zero is untouched. For most algorithms the size depends on @params
     * alone. Logs and slots grow; added bytes are zero. Never shrinks; a multiple of 8. */
    size_t (*state_bytes)(const void *state, const struct limit_params *params,
                          const struct limit_call *call);

    /* Ticks until @call, of a cost above 0 that can pass at some time, would be allowed, without a
     * change of state: see retry_after of struct verdict. If that is 0, *wait may be set, which is
     * 0 before. Cannot fail. */
    uint64_t (*judge)(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait);

    /* Report @state at @call's time; @call's cost is ignored. Sets the report of @verdict. Cannot
     * fail. */
    void (*report)(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict);

    /* Charge the cost of @call. Either judge() has just allowed the same arguments, or to_full is
     * set, or the cost is 0. A cost of 0 takes nothing; a state that is ahead of now is dated to
     * now. Returns the time of the charge: now, or that of the state's last change where the clock
     * is up to a second behind it. A settlement of the charge takes this time. */
    uint64_t (*charge)(void *state, const struct limit_params *params,
                       const struct limit_call *call);

    /* Whether @state is dated more than a second after @now: the clock was set back. The caller
     * then charges a cost of 0, so that the state does not stand still until the old time is
     * reached again. */
    bool (*is_ahead)(const void *state, const struct limit_params *params, uint64_t now);

    /* Drop what counts no more at @now, if there is much of it. No answer changes. NULL: the state
     * holds nothing such. */
    void (*trim)(void *state, const struct limit_params *params, uint64_t now);

    /* Fill @state, LIMIT_STATE_BYTES_MAX zero bytes, from the first of the @n numbers that the
     * script reports of a key, each at most 2^53. Returns how many numbers were used; 0: they are
     * invalid. NULL: the script does not report the state, and identical requests cannot be decided
     * by one call. */
    size_t (*restore)(void *state, const struct limit_params *params, const uint64_t *reported,
                      size_t n);

    /* Correct the charge of @charged_at by @delta units: a refund, or a cost known later. What is
     * taken counts as of @now, as a charge of @now would, in the room of state_bytes(); also where
     * the charge counts no more. What is given back counts as of the charge, or no more; a bucket
     * refunds only the part that has not refilled since: see limit/refill.h. The state stays within
     * 0 … the greatest exact number. NULL: the algorithm cannot settle. */
    void (*settle)(void *state, const struct limit_params *params, uint64_t charged_at,
                   uint64_t now, int64_t delta);

    /* For slots, else NULL: renew() gives @slot, of a request in flight, another lease, beyond the
     * rate too; it is added if !has_slot(), in the room of state_bytes(). release() removes it. */
    bool (*has_slot)(const void *state, uint64_t slot);
    void (*renew)(void *state, const struct limit_params *params, uint64_t now, uint64_t slot);
    void (*release)(void *state, const struct limit_params *params, uint64_t now, uint64_t slot);
};

/* NULL if @params are valid, else the fault: a phrase that can follow "FILE:LINE: error: ". */
const char *algorithm_check_params(const struct algorithm *algorithm,
                                   const struct limit_params *params);

/* Units that pass at once when the quota is untouched. */
static inline uint32_t algorithm_capacity(const struct algorithm *algorithm,
                                          const struct limit_params *params)
{
    return algorithm->has_burst ? params->burst : params->rate;
}

/* Judge @call without a change of state: sets the judgement of @verdict. */
static inline void algorithm_judge(const struct algorithm *algorithm, const void *state,
                                   const struct limit_params *params, const struct limit_call *call,
                                   struct verdict *verdict)
{
    verdict->wait = 0;
    verdict->retry_after = 0;
    if (call->cost > algorithm_capacity(algorithm, params) && !algorithm->has_slots) {
        verdict->retry_after = RETRY_NEVER;
    } else if (call->cost > 0) {
        verdict->retry_after = algorithm->judge(state, params, call, &verdict->wait);
    }
    verdict->allowed = verdict->retry_after == 0;
}

/* Judge @call and report @state, which does not change. Sets all of @verdict. */
static inline void algorithm_evaluate(const struct algorithm *algorithm, const void *state,
                                      const struct limit_params *params,
                                      const struct limit_call *call, struct verdict *verdict)
{
    algorithm_judge(algorithm, state, params, call, verdict);
    algorithm->report(state, params, call, verdict);
}

#endif /* SLUICE_LIMIT_ALGORITHM_H */
