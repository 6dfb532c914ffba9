#include "story.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/algorithm.h"
#include "limit/algorithms.h"
#include "support/judge.h"

#include "chance.h"
#include "random_limit.h"

static const uint64_t START_US = UINT64_C(1763667890123456);
static const uint64_t S = 1000000;

enum { BURST_STEP_US = 100 }; /* between two requests of a burst */

static uint32_t at_most_u32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* --- costs and calendars --- */

static uint32_t make_cost(const struct limit *limit)
{
    const uint64_t capacity = limit_capacity(limit);
    switch (random_below(8)) {
    case 0:
        return 0;
    case 1:
        return at_most_u32(capacity);
    case 2:
        return at_most_u32(capacity + 1);
    case 3:
        return one_in(4) ? UINT32_MAX : 1;
    case 4:
        return at_most_u32(random_size(capacity));
    default:
        return 1;
    }
}

/* Edge @k of a calendar whose windows differ in length. */
static uint64_t edge_at(const struct limit *limit, uint64_t k)
{
    return k * limit->params.period + (k % 3) * (limit->params.period / 4);
}

/* As a proxy tells whose clock may be a window off, or whose zone database says a later edge. */
static void make_edges(const struct limit *limit, uint64_t now_us, uint64_t edges[LIMIT_EDGES])
{
    uint64_t k = now_us / limit->params.period;
    while (k > 0 && edge_at(limit, k) > now_us) {
        k--;
    }
    const uint64_t off = one_in(8) ? 2 : (one_in(8) ? 0 : 1);
    for (uint64_t i = 0; i < LIMIT_EDGES; i++) {
        edges[i] = k + i > off ? edge_at(limit, k + i - off) : 0;
    }
    const uint64_t later_us =
        off == 1 && k > 0 && one_in(4) ? random_below(limit->params.period / 2 + 1) : 0;
    for (size_t i = 0; i < LIMIT_EDGES; i++) {
        edges[i] += later_us;
    }
}

/* --- time --- */

static uint64_t ahead(uint64_t now_us, uint64_t us)
{
    return us < LIMIT_NOW_MAX - now_us ? now_us + us : LIMIT_NOW_MAX;
}

static uint64_t back(uint64_t now_us, uint64_t us, struct tally *tally)
{
    if (us > S) {
        tally->n_followed++;
    } else {
        tally->n_back++;
    }
    return us < now_us ? now_us - us : 1;
}

/* When something that the last verdict told of comes true, or one tick before. */
static uint64_t at_an_edge(uint64_t now_us, const struct limit *limit, const struct verdict *last)
{
    const uint64_t times[] = {last->retry_after, last->next_after, last->reset_after};
    const uint64_t ticks = times[random_below(ARRAY_LEN(times))];
    if (ticks >= RETRY_UNKNOWN || ticks == 0) {
        return now_us;
    }
    return ahead(now_us, limit_us(limit, one_in(2) ? ticks : ticks - 1));
}

static uint64_t next_time(uint64_t now_us, const struct limit *limit, const struct verdict *last,
                          struct tally *tally)
{
    switch (random_below(16)) {
    case 0:
    case 1:
        return ahead(now_us, random_below(100));
    case 2:
    case 3:
        return ahead(now_us, random_below(3 * S));
    case 4:
    case 5:
    case 6:
    case 7:
        return at_an_edge(now_us, limit, last);
    case 8:
        return ahead(now_us,
                     random_size(limit_us(limit, limit->params.period + limit->params.lease)));
    case 9:
        return one_in(4) ? ahead(now_us, random_size(UINT64_C(1) << 50)) : now_us;
    case 10:
        return back(now_us, 1 + random_below(S), tally);
    case 11:
        return back(now_us, one_in(2) ? S : S + 1 + random_below(10), tally);
    case 12:
        return back(now_us, random_size(UINT64_C(1) << (one_in(3) ? 50 : 34)), tally);
    default:
        return now_us;
    }
}

/* --- decisions --- */

static void judge_step(struct step *step, struct judge_state states[STORY_LIMITS][STORY_KEYS])
{
    struct judge_charge charges[STORY_LIMITS];
    for (size_t i = 0; i < step->n_charges; i++) {
        charges[i] = (struct judge_charge){
            .limit = &step->limits[i],
            .state = &states[i][step->key[i]],
            .cost = step->cost[i],
            .edges = step->edges[i],
            .slot = step->slot[i],
        };
    }
    for (size_t request = 0; request < step->batch_size; request++) {
        step->allowed[request] = judge_decide_as(charges, step->n_charges, step->now_us, step->aim);
        for (size_t i = 0; i < step->n_charges; i++) {
            step->expected[request][i] = charges[i].verdict;
            if (request == 0) {
                step->charged_at_us[i] = charges[i].charged_at_us;
            }
        }
    }
}

static size_t make_batch_size(const struct step *step)
{
    for (size_t i = 0; i < step->n_charges; i++) {
        if (!limit_takes_identical(&step->limits[i])) {
            return 1;
        }
    }
    return one_in(3) ? 2 + random_below(STORY_IDENTICAL - 1) : 1;
}

static enum decision_aim make_aim(void)
{
    if (one_in(10)) {
        return DECISION_JUDGE;
    }
    return one_in(10) ? DECISION_DENY : DECISION_ADMIT;
}

static void make_decision(struct story *story, struct step *step, bool is_of_burst,
                          struct judge_state states[STORY_LIMITS][STORY_KEYS])
{
    step->settles = false;
    step->aim = is_of_burst ? DECISION_ADMIT : make_aim();
    step->n_charges = is_of_burst ? story->n_limits : 1 + random_below(story->n_limits);
    for (size_t i = 0; i < step->n_charges; i++) {
        step->key[i] = is_of_burst ? 0 : one_in(5);
        step->cost[i] = is_of_burst ? 1 + (uint32_t)random_below(story->burst_cost)
                                    : make_cost(&step->limits[i]);
        step->slot[i] = one_in(4) ? UINT64_MAX - random_below(9) : random_below(12);
        if (step->limits[i].params.is_calendar) {
            make_edges(&step->limits[i], step->now_us, step->edges[i]);
        }
    }
    step->batch_size = step->aim == DECISION_ADMIT ? make_batch_size(step) : 1;
    judge_step(step, states);
}

/* --- settlements --- */

static int64_t make_delta(uint32_t cost)
{
    switch (random_below(6)) {
    case 0:
        return -(int64_t)random_size(UINT32_MAX);
    case 1:
        return (int64_t)random_size(UINT32_MAX);
    case 2:
        return (int64_t)random_below(5);
    case 3:
        return -(int64_t)random_below(5);
    default:
        return -(int64_t)cost;
    }
}

/* Of something that one of the steps before @step charged. */
static void make_settlement(struct story *story, struct step *step,
                            struct judge_state states[STORY_LIMITS][STORY_KEYS])
{
    const struct step *then = step;
    do {
        then = &story->steps[random_below((uint64_t)(step - story->steps))];
    } while (then->settles);
    const size_t of = random_below(then->n_charges);
    const struct limit *limit = &step->limits[of];

    step->settles = true;
    step->n_charges = 0;
    step->batch_size = 0;
    step->of = of;
    step->key[0] = then->key[of];
    step->settlement = (struct settlement){
        .limit = limit,
        .key = span_of_text(story->keys[of][step->key[0]]),
        .kind = SETTLE_COST,
        .charged_at_us = then->charged_at_us[of],
        .slot = then->slot[of],
    };
    if (limit->algorithm->has_slots) {
        static const enum settlement_kind KINDS[] = {SETTLE_RELEASE, SETTLE_RENEW, SETTLE_RETAKE};
        step->settlement.kind = KINDS[random_below(ARRAY_LEN(KINDS))];
    } else {
        step->settlement.delta = make_delta(then->cost[of]);
    }
    step->is_gone = judge_settlement(&step->settlement, &states[of][step->key[0]], step->now_us);
}

/* --- stories --- */

static void make_limits(struct story *story, const struct algorithm *only, uint64_t number)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    story->n_limits = only != NULL ? 1 : 1 + random_below(STORY_LIMITS);
    for (size_t i = 0; i < story->n_limits; i++) {
        random_limit(&story->limits[0][i],
                     only != NULL ? only : algorithms[random_below(n_algorithms)]);
        for (size_t k = 1; k < STORY_POLICIES; k++) {
            random_limit_change(&story->limits[0][i], &story->limits[k][i]);
        }
        for (size_t j = 0; j < STORY_KEYS; j++) {
            snprintf(story->keys[i][j], STORY_KEY_BYTES, "{d}:%" PRIu64 ":%zu:%zu", number, i, j);
        }
    }
}

/* A time at which a part of the burst that ends at @now_us has left the period of a limit. */
static uint64_t as_it_leaves(const struct story *story, uint64_t now_us)
{
    const struct limit *limit = &story->limits[0][random_below(story->n_limits)];
    const uint64_t first_us = story->steps[0].now_us;
    return ahead(first_us, limit_us(limit, limit->params.period) +
                               random_below(now_us - first_us + BURST_STEP_US));
}

void story_make(struct story *story, const struct algorithm *only, uint64_t number,
                struct tally *tally)
{
    static struct judge_state states[STORY_LIMITS][STORY_KEYS];
    memset(states, 0, sizeof(states));
    make_limits(story, only, number);
    const struct step *burst_end = story->steps + (one_in(4) ? 10 + random_below(30) : 0);
    story->burst_cost = one_in(2) ? 1 : 3;
    size_t policy = 0;
    uint64_t now_us = one_in(20) ? 1 + random_below(10 * S) : START_US + random_below(S);
    for (struct step *step = story->steps; step < story->steps + STORY_STEPS; step++) {
        step->now_us = now_us;
        if (step < burst_end) {
            step->limits = story->limits[0];
            make_decision(story, step, true, states);
            now_us = ahead(now_us, random_below(BURST_STEP_US));
            if (step + 1 == burst_end) {
                now_us = as_it_leaves(story, now_us);
            }
            continue;
        }
        policy = one_in(10) ? random_below(STORY_POLICIES) : policy;
        step->limits = story->limits[policy];
        if (step > story->steps && one_in(5)) {
            make_settlement(story, step, states);
            now_us = one_in(2) ? now_us : ahead(now_us, random_below(S));
            continue;
        }
        make_decision(story, step, false, states);
        const size_t reported = random_below(step->n_charges);
        now_us = next_time(now_us, &step->limits[reported],
                           &step->expected[step->batch_size - 1][reported], tally);
    }
}
