#include "proxy/settlement.h"

#include <stddef.h>

#include "policy/answer_set.h"

/* A client that leaves would choose whether its answer counts: no status of it does. */
static bool is_in(const struct answer_set *set, const struct outcome *outcome)
{
    switch (outcome->end) {
    case ANSWER_WHOLE:
        return answer_set_has(set, outcome->status);
    case ANSWER_CLIENT_LEFT:
        return set->client_left;
    case ANSWER_SERVER_FAILED:
        return set->server_failed || answer_set_has(set, outcome->status);
    }
    return false;
}

/* A client can also make an answer unreadable: it sends a long value that the server repeats in
 * its fields. So an answer that nobody knows is counted. */
static bool is_counted(const struct limit_rule *rule, const struct outcome *outcome)
{
    return !rule->count.is_said || outcome->end == ANSWER_CLIENT_LEFT || outcome->is_unreadable ||
           is_in(&rule->count, outcome);
}

/* What @charge should have cost. docs/policy.md has the table. */
static uint32_t final_cost(const struct charge *charge, const struct limit_rule *rule,
                           const struct outcome *outcome)
{
    if (!is_counted(rule, outcome)) {
        return 0;
    }
    if (rule->refund.is_said && is_in(&rule->refund, outcome)) {
        return 0;
    }
    return outcome->is_cost_told ? outcome->told_cost : charge->cost;
}

/* The settlement of one charge; false: it is right as it is. */
static bool settle_charge(const struct admission *admission, size_t i,
                          const struct outcome *outcome, struct settlement *settlement)
{
    const struct charge *charge = &admission->charges[i];
    *settlement = (struct settlement){
        .kind = SETTLE_RELEASE,
        .limit = charge->limit,
        .key = charge->key,
        .slot = charge->slot,
        .charged_at_us = charge->charged_at_us,
        .overflowed = charge->overflowed,
        .instances = charge->instances,
        .source = admission->decision.source,
    };
    if (!charge->charged) {
        return false;
    }
    if (charge->slot != 0) {
        return true;
    }
    const uint32_t units = final_cost(charge, admission->rules[i], outcome);
    settlement->kind = SETTLE_COST;
    settlement->delta = (int64_t)units - (int64_t)charge->cost;
    return settlement->delta != 0;
}

static void make(struct admission *admission, const struct outcome *outcome, bool with_slots,
                 struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (!with_slots && admission->charges[i].slot != 0) {
            continue;
        }
        if (settle_charge(admission, i, outcome, &settlements[n])) {
            n++;
        }
        admission->charges[i].charged = false; /* once */
    }
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}

void settlement_make(struct admission *admission, const struct outcome *outcome,
                     struct store *store)
{
    make(admission, outcome, true, store);
}

void settlement_make_costs(struct admission *admission, const struct outcome *outcome,
                           struct store *store)
{
    make(admission, outcome, false, store);
}

void settlement_renew(const struct admission *admission, struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        if (charge->charged && charge->slot != 0) {
            settlements[n++] = (struct settlement){
                .kind = SETTLE_RENEW,
                .limit = charge->limit,
                .key = charge->key,
                .slot = charge->slot,
                .overflowed = charge->overflowed,
                .instances = charge->instances,
                .source = admission->decision.source,
            };
        }
    }
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}
