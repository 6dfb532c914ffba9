#include "limit/limit.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "limit/inner.h"

static const uint32_t TICKS_US[] = {1, 1000, 1000000}; /* finest first */

enum {
    US_PER_S = 1000000,
    STEPS_MIN = 100, /* ticks in which what is full refills, or a sub-window passes */
};

static const uint64_t WEEK_US = UINT64_C(7) * 24 * 3600 * US_PER_S;
/* The epoch was a Thursday: the first Monday came four days later. */
static const uint64_t MONDAY_US = UINT64_C(4) * 24 * 3600 * US_PER_S;

/* States are kept apart by what gives their numbers a unit. Rate and burst do not, but for gcra:
 * changing them in the policy helps, or hurts, at once. */
static void write_identity(struct limit *limit)
{
    char buffer[256 + 2 * NAME_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, span_of_text(limit->algorithm->name));
    const struct limit_params *params = &limit->params;
    const uint64_t numbers[] = {
        params->period,
        limit->tick_us,
        params->offset,
        params->lease,
        params->max_wait > 0,
        params->buckets,
        params->from_first,
        params->is_calendar ? params->zone : 0,
        limit->algorithm->has_numbers_in_digest ? params->rate : 0,
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        text_add_char(&text, ' ');
        text_add_u64(&text, numbers[i]);
    }
    if (limit->algorithm->has_numbers_in_digest) {
        text_add_char(&text, ' ');
        text_add_u64(&text, params->burst);
    }
    assert(!text.truncated);

    uint8_t identity[HASH_IDENTITY_BYTES];
    hash_identity(SPAN(""), text_span(&text), identity);
    struct text digest = text_of(limit->digest, sizeof(limit->digest));
    text_add_hex(&digest, identity, sizeof(limit->digest) / 2);

    text_add_char(&text, ' ');
    text_add(&text, limit->name);
    assert(!text.truncated);
    hash_identity(SPAN(""), text_span(&text), identity);
    memcpy(&limit->id, identity, sizeof(limit->id));
}

/* What the finest tick must measure: slots come back by their lease. */
static uint64_t period_of(const struct limit_spec *spec)
{
    return spec->algorithm->has_slots ? spec->lease_us : spec->period_us;
}

static struct limit_params params_in_ticks(const struct limit_spec *spec, uint32_t tick_us)
{
    const bool is_week = spec->algorithm->has_offset && !spec->from_first && !spec->is_calendar &&
                         spec->period_us == WEEK_US;
    return (struct limit_params){
        .rate = spec->rate,
        .burst = spec->algorithm->has_burst ? spec->burst : 0,
        .period = spec->algorithm->has_slots ? 0 : spec->period_us / tick_us,
        .offset = is_week ? MONDAY_US / tick_us : 0,
        .ticks_per_s = US_PER_S / tick_us,
        .max_wait = spec->algorithm->has_wait ? spec->max_wait_us / tick_us : 0,
        .lease = spec->lease_us / tick_us,
        .buckets = spec->buckets,
        .strict = spec->strict,
        .from_first = spec->from_first,
        .is_calendar = spec->is_calendar,
        .zone = spec->zone,
    };
}

const char *limit_init(struct limit *limit, const struct limit_spec *spec)
{
    return limit_init_coarse(limit, spec, TICKS_US[0]);
}

const char *limit_init_coarse(struct limit *limit, const struct limit_spec *spec, uint32_t tick_us)
{
    assert(limit->name.len > 0);

    const uint64_t period_us = period_of(spec);
    if (period_us == 0) {
        return spec->algorithm->has_slots ? "lease must be at least 1us"
                                          : "period must be at least 1us";
    }
    const char *fault = "its numbers need a finer unit of time than those of another plan";
    for (size_t i = 0; i < ARRAY_LEN(TICKS_US); i++) {
        if (TICKS_US[i] < tick_us) {
            continue;
        }
        if (period_us % TICKS_US[i] != 0) {
            break; /* no coarser tick measures the period either */
        }
        const struct limit_params params = params_in_ticks(spec, TICKS_US[i]);
        fault = algorithm_check_params(spec->algorithm, &params);
        if (fault == NULL) {
            limit->algorithm = spec->algorithm;
            limit->params = params;
            limit->tick_us = TICKS_US[i];
            limit->period_us = spec->algorithm->has_slots ? 0 : spec->period_us;
            write_identity(limit);
            return NULL;
        }
    }
    return fault;
}

uint64_t limit_room(const struct limit *limit)
{
    return limit->algorithm->room != NULL ? limit->algorithm->room(&limit->params) : UINT64_MAX;
}

bool limit_owes_all(const struct limit *limit)
{
    return limit_room(limit) >= limit->owed;
}

/* Whether a bucket refills, or a sub-window turns, in steps small enough. */
static bool is_smooth(const struct limit *limit)
{
    const struct limit_params *params = &limit->params;
    if (limit->algorithm->has_burst) {
        return params->burst * params->period / STEPS_MIN >= params->rate;
    }
    return params->period / params->buckets >= STEPS_MIN;
}

bool limit_coarsen(const struct limit *limit, uint32_t factor, struct limit *coarse)
{
    *coarse = *limit;
    struct limit_params *params = &coarse->params;
    if (limit->algorithm->room == NULL || limit->algorithm->has_numbers_in_digest ||
        params->period % factor != 0 || params->max_wait % factor != 0 ||
        limit->tick_us > TICKS_US[ARRAY_LEN(TICKS_US) - 1] / factor) {
        return false;
    }
    coarse->tick_us *= factor;
    params->ticks_per_s /= factor;
    params->period /= factor;
    params->max_wait /= factor;
    if (algorithm_check_params(coarse->algorithm, params) != NULL ||
        limit_room(coarse) <= limit_room(limit) || !is_smooth(coarse)) {
        return false;
    }
    write_identity(coarse);
    return true;
}

static uint32_t share_of(uint32_t units, uint32_t instances)
{
    return units > instances ? units / instances : 1;
}

/* The longest period for @limit's burst; for gcra a multiple of the rate, so that its interval is
 * not rounded. */
static uint64_t longest_period(const struct limit *limit)
{
    const uint64_t longest = LIMIT_UNITS_MAX / limit->params.burst;
    if (!limit->algorithm->has_numbers_in_digest) {
        return longest;
    }
    const uint64_t intervals = LIMIT_UNITS_MAX / limit->params.rate;
    return (longest < intervals ? longest : intervals) * limit->params.rate;
}

void limit_share(const struct limit *limit, uint32_t instances, struct limit *share)
{
    assert(instances >= 1);

    *share = *limit;
    if (limit->algorithm->has_burst) {
        share->params.burst = share_of(limit->params.burst, instances);
        const uint64_t longest = longest_period(share);
        share->params.period = limit->params.period <= longest / instances
                                   ? limit->params.period * instances
                                   : longest;
        share->period_us = share->params.period * limit->tick_us;
    } else {
        share->params.rate = share_of(limit->params.rate, instances);
    }
    assert(algorithm_check_params(limit->algorithm, &share->params) == NULL);
    write_identity(share);
}

bool limit_takes_identical(const struct limit *limit)
{
    return limit->algorithm->restore != NULL && limit->params.max_wait == 0 &&
           !limit->charge_denied && !limit->by_cell;
}

uint64_t limit_capacity(const struct limit *limit)
{
    return algorithm_capacity(limit->algorithm, &limit->params);
}

struct limit_call limit_call_at(const struct limit *limit, uint64_t now_us, uint32_t cost)
{
    return (struct limit_call){.now = limit_ticks(limit, now_us), .cost = cost};
}

bool limit_knows(const struct limit *limit, const struct limit_call *call)
{
    return !limit->params.is_calendar || (call->edges != NULL && call->edges[0] <= call->now &&
                                          call->now < call->edges[LIMIT_EDGES - 1]);
}

uint64_t limit_us(const struct limit *limit, uint64_t ticks)
{
    uint64_t us;
    return __builtin_mul_overflow(ticks, limit->tick_us, &us) ? UINT64_MAX : us;
}

uint64_t limit_seconds(const struct limit *limit, uint64_t ticks)
{
    return ticks >= RETRY_UNKNOWN ? ticks : divide_up(ticks, limit->params.ticks_per_s);
}

uint64_t ban_terms_length_ms(const struct ban_terms *terms, uint64_t strike)
{
    uint64_t length_ms = terms->for_ms;
    if (terms->factor <= 1) {
        return length_ms < terms->max_ms ? length_ms : terms->max_ms;
    }
    for (uint64_t i = 1; i < strike && length_ms < terms->max_ms; i++) {
        if (length_ms > terms->max_ms / terms->factor) {
            return terms->max_ms;
        }
        length_ms *= terms->factor;
    }
    return length_ms < terms->max_ms ? length_ms : terms->max_ms;
}
