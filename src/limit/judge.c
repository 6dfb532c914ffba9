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
        limit->algorithm->judge(judged[i].state, &limit->params, &judged[i].call,
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

void judge_report(struct judged *judged)
{
    const struct limit *limit = judged->limit;
    limit->algorithm->report(judged->state, &limit->params, &judged->call, &judged->verdict);
}

/* What a denied request takes makes it wait longer: who waits no longer than was said before would be
 * denied for ever. */
static void ask_again(struct judged *judged)
{
    const struct limit *limit = judged->limit;
    struct verdict now;
    limit->algorithm->judge(judged->state, &limit->params, &judged->call, &now);
    judged->verdict.retry_after = now.retry_after;
}

void judge_conclude(struct judged *judged, bool admitted)
{
    const struct limit *limit = judged->limit;
    struct limit_call call = judged->call;

    judged->charged = judge_charges(&judged->verdict, call.cost, admitted);
    if (judge_takes(judged, admitted)) {
        call.to_full = !judged->charged;
        limit->algorithm->charge(judged->state, &limit->params, &call);
        if (!judged->verdict.allowed) {
            ask_again(judged);
        }
    } else if (limit->algorithm->is_ahead(judged->state, &limit->params, call.now)) {
        call.cost = 0;
        limit->algorithm->charge(judged->state, &limit->params, &call);
    }
    judge_report(judged);
}
