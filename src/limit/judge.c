#include "limit/judge.h"

enum status judge_evaluate(struct judged *judged, size_t n, bool *admitted)
{
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        const struct limit *limit = judged[i].limit;
        if (!limit_knows(limit, &judged[i].call)) {
            return STATUS_INVALID;
        }
        judged[i].charged = false;
        judged[i].charged_at = 0;
        algorithm_judge(limit->algorithm, judged[i].state, &limit->params, &judged[i].call,
                        judged[i].verdict);
        all = all && (limit->shadow || judged[i].verdict->allowed);
    }
    *admitted = all;
    return STATUS_OK;
}

void judge_report(struct judged *judged)
{
    const struct limit *limit = judged->limit;
    if (limit->algorithm->trim != NULL) {
        limit->algorithm->trim(judged->state, &limit->params, judged->call.now);
    }
    limit->algorithm->report(judged->state, &limit->params, &judged->call, judged->verdict);
}

/* The charge of a denied request makes its wait longer: a client that waits only for the former
 * time would be denied forever. */
static void ask_again(struct judged *judged)
{
    const struct limit *limit = judged->limit;
    struct verdict now;
    algorithm_judge(limit->algorithm, judged->state, &limit->params, &judged->call, &now);
    judged->verdict->retry_after = now.retry_after;
}

static void follow_clock(struct judged *judged)
{
    const struct limit *limit = judged->limit;
    struct limit_call call = judged->call;
    call.cost = 0;
    (void)limit->algorithm->charge(judged->state, &limit->params, &call);
}

void judge_conclude(struct judged *judged, bool admitted)
{
    const struct limit *limit = judged->limit;

    judged->charged = judge_charges(judged->verdict, judged->call.cost, admitted);
    judged->call.to_full = !judged->charged;
    if (judge_takes(judged, admitted)) {
        judged->charged_at = limit->algorithm->charge(judged->state, &limit->params, &judged->call);
        if (!judged->verdict->allowed) {
            ask_again(judged);
        }
    } else if (limit->algorithm->is_ahead(judged->state, &limit->params, judged->call.now)) {
        follow_clock(judged);
    }
    judge_report(judged);
}
