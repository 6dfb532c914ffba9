#include "limit/judge.h"

enum status judge_evaluate(struct judged *judged, size_t n, bool *admitted)
{
    for (size_t i = 0; i < n; i++) {
        if (!limit_knows(judged[i].limit, &judged[i].call)) {
            return STATUS_INVALID;
        }
    }
    *admitted = true;
    for (size_t i = 0; i < n; i++) {
        const struct limit *limit = judged[i].limit;
        judged[i].charged = false;
        limit->algorithm->evaluate(judged[i].state, &limit->params, &judged[i].call,
                                   &judged[i].verdict);
        *admitted = *admitted && (limit->shadow || judged[i].verdict.allowed);
    }
    return STATUS_OK;
}

static bool counts_denied(const struct judged *judged, bool admitted)
{
    return judged->limit->count_denied && !judged->limit->algorithm->has_slots &&
           !(admitted && judged->verdict.allowed) && judged->call.cost > 0;
}

bool judge_takes(const struct judged *judged, bool admitted)
{
    return judge_charges(&judged->verdict, judged->call.cost, admitted) ||
           counts_denied(judged, admitted);
}

/* allowed and wait stay as they were before the charge, and so does retry_after unless the denied
 * request took something itself: who waits no longer than that would be denied for ever. */
static void ask_again(struct judged *judged)
{
    const struct limit *limit = judged->limit;
    struct limit_call call = judged->call;
    struct verdict now;
    if (!judged->verdict.allowed) {
        limit->algorithm->evaluate(judged->state, &limit->params, &call, &now);
        judged->verdict.retry_after = now.retry_after;
    }
    call.cost = 0;
    limit->algorithm->evaluate(judged->state, &limit->params, &call, &now);
    judged->verdict.remaining = now.remaining;
    judged->verdict.next_after = now.next_after;
    judged->verdict.reset_after = now.reset_after;
}

void judge_conclude(struct judged *judged, bool admitted)
{
    const struct limit *limit = judged->limit;
    struct limit_call call = judged->call;

    judged->charged = judge_charges(&judged->verdict, call.cost, admitted);
    if (judge_takes(judged, admitted)) {
        call.to_full = !judged->charged;
        limit->algorithm->charge(judged->state, &limit->params, &call);
        ask_again(judged);
    } else if (limit->algorithm->is_ahead(judged->state, &limit->params, call.now)) {
        call.cost = 0;
        limit->algorithm->charge(judged->state, &limit->params, &call);
    }
}
