#include "support/judge.h"

static void charge_one(struct judge_charge *charge, uint64_t now)
{
    const struct limit *limit = charge->limit;
    const struct verdict before = charge->verdict;

    limit->algorithm->charge(charge->state, &limit->params, now, charge->cost);
    limit->algorithm->evaluate(charge->state, &limit->params, now, 0, &charge->verdict);
    charge->verdict.allowed = before.allowed;
    charge->verdict.retry_after = before.retry_after;
}

bool judge_decide(struct judge_charge *charges, size_t n_charges, uint64_t now_us)
{
    bool allowed = true;
    for (size_t i = 0; i < n_charges; i++) {
        const struct limit *limit = charges[i].limit;
        limit->algorithm->evaluate(charges[i].state, &limit->params, limit_ticks(limit, now_us),
                                   charges[i].cost, &charges[i].verdict);
        allowed = allowed && charges[i].verdict.allowed;
    }
    for (size_t i = 0; i < n_charges; i++) {
        const struct limit *limit = charges[i].limit;
        const uint64_t now = limit_ticks(limit, now_us);
        if (allowed && charges[i].cost > 0) {
            charge_one(&charges[i], now);
        } else if (limit->algorithm->is_ahead(charges[i].state, &limit->params, now)) {
            limit->algorithm->charge(charges[i].state, &limit->params, now, 0);
        }
    }
    return allowed;
}
