#include "store/redis_alike.h"

#include "limit/alike.h"

static bool begin(struct alike *alike, const struct redis_reply *reply,
                  const struct decision *decision)
{
    struct script_charge charges[LIMITS_PER_ROUTE_MAX];
    if (reply->kind != REDIS_REPLY_IS_INTS) {
        return false;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        charges[i] = (struct script_charge){
            .limit = charge->limit,
            .cost = charge->cost,
            .edges = charge->edges,
        };
    }
    return alike_begin(alike, decision->n_alike, charges, decision->n_charges, reply->ints,
                       reply->n_ints);
}

bool redis_alike_read(const struct redis_reply *reply, struct decision *decision)
{
    struct alike alike;
    if (!begin(&alike, reply, decision)) {
        return false;
    }
    for (size_t request = 0; request < decision->n_alike; request++) {
        if (!alike_next(&alike, &decision->allowed)) {
            return false;
        }
        for (size_t i = 0; i < decision->n_charges; i++) {
            decision->charges[i].verdict = alike.verdicts[i];
            decision->charges[i].charged = alike.judged[i].charged;
            decision->charges[i].charged_at_us = (uint64_t)reply->ints[1];
        }
        decision->on_alike(decision, request);
    }
    return true;
}
