#include "store/redis_answer.h"

#include <limits.h>
#include <stdlib.h>

#include "limit/judge.h"
#include "limit/script_source.h"
#include "store/redis_alike.h"

static bool read_one(const struct redis_reply *reply, struct decision *decision)
{
    if (reply->kind != REDIS_REPLY_IS_INTS ||
        reply->n_ints != SCRIPT_HEAD_INTS + decision->n_charges * SCRIPT_INTS_PER_CHARGE ||
        reply->ints[0] == LLONG_MIN) {
        return false;
    }
    bool allowed = decision->aim != DECISION_DENY;
    const long long *ints = reply->ints + SCRIPT_HEAD_INTS;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        if (!script_source_read_verdict(charge->limit, ints, &charge->verdict)) {
            return false;
        }
        allowed = allowed && (charge->limit->shadow || charge->verdict.allowed);
        charge->charged_at_us = (uint64_t)llabs(reply->ints[0]);
        ints += SCRIPT_INTS_PER_CHARGE;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        charge->charged = decision->aim == DECISION_ADMIT &&
                          judge_charges(&charge->verdict, charge->cost, allowed);
    }
    decision->allowed = allowed;
    return (reply->ints[0] > 0) == allowed;
}

bool redis_answer_read(const struct redis_reply *reply, struct decision *decision)
{
    if (decision->n_alike > 1) {
        return redis_alike_read(reply, decision);
    }
    if (!read_one(reply, decision)) {
        return false;
    }
    if (decision->on_alike != NULL) {
        decision->on_alike(decision, 0);
    }
    return true;
}
