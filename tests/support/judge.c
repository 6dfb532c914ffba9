#include "support/judge.h"

#include <check.h>

#include "base/limits.h"
#include "limit/judge.h"

static void make_room(struct judged *judged, struct judge_state *state)
{
    const struct limit *limit = judged->limit;
    const size_t bytes = limit->algorithm->state_bytes(state->exists ? state->words : NULL,
                                                       &limit->params, &judged->call);
    ck_assert_uint_le(bytes, sizeof(state->words));
    ck_assert_uint_eq(bytes % 8, 0);
    state->exists = true;
}

bool judge_decide(struct judge_charge *charges, size_t n_charges, uint64_t now_us)
{
    return judge_decide_as(charges, n_charges, now_us, DECISION_ADMIT);
}

bool judge_decide_as(struct judge_charge *charges, size_t n_charges, uint64_t now_us,
                     enum decision_aim aim)
{
    struct judged judged[LIMITS_PER_ROUTE_MAX];
    bool admitted;
    for (size_t i = 0; i < n_charges; i++) {
        judged[i] = (struct judged){
            .limit = charges[i].limit,
            .state = charges[i].state->words,
            .call = limit_call_at(charges[i].limit, now_us, charges[i].cost),
            .verdict = &charges[i].verdict,
        };
        judged[i].call.edges = charges[i].edges;
        judged[i].call.slot = charges[i].slot;
    }
    ck_assert_int_eq(judge_evaluate(judged, n_charges, &admitted), STATUS_OK);
    admitted = admitted && aim != DECISION_DENY;
    for (size_t i = 0; i < n_charges; i++) {
        if (aim != DECISION_JUDGE && judge_takes(&judged[i], admitted)) {
            make_room(&judged[i], charges[i].state);
        }
        if (aim == DECISION_JUDGE) {
            judge_report(&judged[i]);
        } else {
            judge_conclude(&judged[i], admitted);
        }
        charges[i].charged = judged[i].charged;
        charges[i].charged_at_us =
            limit_charged_at_us(judged[i].limit, now_us, judged[i].charged_at);
    }
    return admitted;
}

/* Whether the lease of @slot ends at @ends. The state is a number of slots, then of each its id and
 * the end of its lease. */
static bool ends_at(const struct judge_state *state, uint64_t slot, uint64_t ends)
{
    for (uint64_t i = 0; i < state->words[0]; i++) {
        if (state->words[1 + 2 * i] == slot) {
            return state->words[2 + 2 * i] == ends;
        }
    }
    return false;
}

bool judge_settlement(const struct settlement *settlement, struct judge_state *state,
                      uint64_t now_us)
{
    const struct limit *limit = settlement->limit;
    const struct algorithm *algorithm = limit->algorithm;
    const uint64_t now = limit_ticks(limit, now_us);
    const struct limit_call call = {.now = now};
    bool is_gone = false;
    switch (settlement->kind) {
    case SETTLE_COST:
        ck_assert_uint_le(algorithm->state_bytes(state->words, &limit->params, &call),
                          sizeof(state->words));
        algorithm->settle(state->words, &limit->params,
                          limit_ticks(limit, settlement->charged_at_us), now, settlement->delta);
        state->exists = true;
        break;
    case SETTLE_RELEASE:
        algorithm->release(state->words, &limit->params, now, settlement->slot);
        break;
    case SETTLE_RENEW:
        is_gone = !algorithm->has_slot(state->words, settlement->slot);
        if (is_gone) {
            break; /* SETTLE_RETAKE follows if it is held */
        }
        is_gone = ends_at(state, settlement->slot, now + limit->params.lease);
        algorithm->renew(state->words, &limit->params, now, settlement->slot);
        break;
    case SETTLE_RETAKE:
        ck_assert_uint_le(algorithm->state_bytes(state->words, &limit->params, &call),
                          sizeof(state->words));
        state->exists = true;
        algorithm->renew(state->words, &limit->params, now, settlement->slot);
        break;
    }
    return is_gone;
}
