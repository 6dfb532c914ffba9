/* Concurrency: limits the number of requests of a key that are in flight.
 *
 * A request takes a slot, named by a number that no other request has, and releases it when its
 * response has ended. A slot that is neither released nor renewed is free when its lease ends, so
 * that a proxy that crashes leaves no slot taken. At most `rate` slots are taken at a time, but
 * a request in flight takes its slot anew where the state was lost or the lease has ended. The
 * script does so in two steps: a renewal that comes behind the release must not take the slot. The
 * time at which a slot is released cannot be predicted: retry_after is RETRY_UNKNOWN, and
 * next_after and reset_after assume that all leases run out. Any cost above 0 takes one slot, and a
 * cost of 0 takes none.
 *
 * The state grows: see state_bytes of struct algorithm.
 *
 * Source: docs/policy.md "concurrency". Twin: concurrency.lua answers the same;
 * tests/data/vectors/concurrency.tsv is run through both. renew() does what the script does for
 * SETTLE_RETAKE; for SETTLE_RENEW has_slot() is asked first.
 *
 * A lease that ends more than a second after now plus the lease time is cut to that: the clock was
 * set back. Time linear in the slots. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "limit/algorithms.h"
#include "limit/inner.h"

struct concurrency_slot {
    uint64_t id;
    uint64_t ends; /* of the lease, ticks */
};

/* State of one key. All zero is untouched. */
struct concurrency {
    uint64_t n;
    struct concurrency_slot slots[]; /* in order of the end of their leases */
};

static const char *check_params(const struct limit_params *params)
{
    if (params->rate > CONCURRENCY_SLOTS_MAX) {
        return "rate must not exceed 100,000, the slots of a key";
    }
    if (params->lease == 0) {
        return "lease must be at least 1 tick";
    }
    if (params->lease > LIMIT_UNITS_MAX) {
        return "lease must not exceed 2^52 ticks";
    }
    return NULL;
}

static void script_params(const struct limit_params *params,
                          uint64_t values[LIMIT_SCRIPT_PARAMS_MAX])
{
    values[0] = params->lease;
}

static size_t state_bytes(const void *state, const struct limit_params *params,
                          const struct limit_call *call)
{
    const struct concurrency *concurrency = state;
    (void)params;
    (void)call;
    const uint64_t n = concurrency == NULL ? 0 : concurrency->n;
    return sizeof(*concurrency) + (n + 1) * sizeof(struct concurrency_slot);
}

static bool is_ahead(const void *state, const struct limit_params *params, uint64_t now)
{
    const struct concurrency *concurrency = state;
    return concurrency->n > 0 &&
           concurrency->slots[concurrency->n - 1].ends > now + params->lease + params->ticks_per_s;
}

static uint64_t count_ended(const struct concurrency *concurrency, uint64_t now)
{
    uint64_t n = 0;
    while (n < concurrency->n && concurrency->slots[n].ends <= now) {
        n++;
    }
    return n;
}

/* Ticks until the slot's lease ends; one that was dated by a later clock has a whole lease. */
static uint64_t ends_after(const struct concurrency_slot *slot, const struct limit_params *params,
                           uint64_t now, bool ahead)
{
    const uint64_t left = slot->ends - now;
    return ahead && left > params->lease ? params->lease : left;
}

static uint64_t remaining_of(const struct limit_params *params, uint64_t n)
{
    return n < params->rate ? params->rate - n : 0;
}

static uint64_t judge(const void *state, const struct limit_params *params,
                      const struct limit_call *call, uint64_t *wait)
{
    (void)wait;
    const struct concurrency *concurrency = state;
    const uint64_t n = concurrency->n - count_ended(concurrency, call->now);
    return remaining_of(params, n) > 0 ? 0 : RETRY_UNKNOWN;
}

static void report(const void *state, const struct limit_params *params,
                   const struct limit_call *call, struct verdict *verdict)
{
    const struct concurrency *concurrency = state;
    const uint64_t n_ended = count_ended(concurrency, call->now);
    const uint64_t n = concurrency->n - n_ended;

    verdict->limit = params->rate;
    verdict->remaining = remaining_of(params, n);
    verdict->next_after = 0;
    verdict->reset_after = 0;
    if (n > 0) {
        /* The rate may have been lowered: then more than one must end. */
        const uint64_t next = n_ended + (n > params->rate ? n - params->rate : 0);
        const struct concurrency_slot *last = &concurrency->slots[concurrency->n - 1];
        const bool ahead = is_ahead(concurrency, params, call->now);
        verdict->next_after = ends_after(&concurrency->slots[next], params, call->now, ahead);
        verdict->reset_after = ends_after(last, params, call->now, ahead);
    }
}

static void remove_slots(struct concurrency *concurrency, uint64_t at, uint64_t n)
{
    struct concurrency_slot *slot = &concurrency->slots[at];
    memmove(slot, slot + n, (concurrency->n - at - n) * sizeof(*slot));
    concurrency->n -= n;
}

/* Index of slot @id, or n. */
static uint64_t find(const struct concurrency *concurrency, uint64_t id)
{
    uint64_t i = 0;
    while (i < concurrency->n && concurrency->slots[i].id != id) {
        i++;
    }
    return i;
}

static void insert(struct concurrency *concurrency, uint64_t id, uint64_t ends)
{
    uint64_t at = concurrency->n;
    while (at > 0 && concurrency->slots[at - 1].ends > ends) {
        at--;
    }
    struct concurrency_slot *slot = &concurrency->slots[at];
    memmove(slot + 1, slot, (concurrency->n - at) * sizeof(*slot));
    *slot = (struct concurrency_slot){.id = id, .ends = ends};
    concurrency->n++;
}

static void follow(struct concurrency *concurrency, uint64_t latest)
{
    for (uint64_t i = concurrency->n; i > 0 && concurrency->slots[i - 1].ends > latest; i--) {
        concurrency->slots[i - 1].ends = latest;
    }
}

static uint64_t charge(void *state, const struct limit_params *params,
                       const struct limit_call *call)
{
    struct concurrency *concurrency = state;
    if (is_ahead(concurrency, params, call->now)) {
        follow(concurrency, call->now + params->lease);
    }
    if (call->cost == 0 || call->to_full) {
        return call->now;
    }
    remove_slots(concurrency, 0, count_ended(concurrency, call->now));
    const uint64_t same = find(concurrency, call->slot);
    if (same < concurrency->n) {
        remove_slots(concurrency, same, 1);
    }
    insert(concurrency, call->slot, call->now + params->lease);
    return call->now;
}

static bool has_slot(const void *state, uint64_t slot)
{
    const struct concurrency *concurrency = state;
    return find(concurrency, slot) < concurrency->n;
}

static void renew(void *state, const struct limit_params *params, uint64_t now, uint64_t slot)
{
    struct concurrency *concurrency = state;
    const uint64_t at = find(concurrency, slot);
    if (at < concurrency->n) {
        remove_slots(concurrency, at, 1);
    }
    insert(concurrency, slot, now + params->lease);
}

static void release(void *state, const struct limit_params *params, uint64_t now, uint64_t slot)
{
    struct concurrency *concurrency = state;
    const uint64_t at = find(concurrency, slot);
    (void)params;
    (void)now;
    if (at < concurrency->n) {
        remove_slots(concurrency, at, 1);
    }
}

const struct algorithm concurrency_algorithm = {
    .name = "concurrency",
    .has_slots = true,
    .script = &concurrency_script,
    .check_params = check_params,
    .script_params = script_params,
    .state_bytes = state_bytes,
    .judge = judge,
    .report = report,
    .charge = charge,
    .is_ahead = is_ahead,
    .has_slot = has_slot,
    .renew = renew,
    .release = release,
};
