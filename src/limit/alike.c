#include "limit/alike.h"

#include <string.h>

static const long long TOLD_MAX = 1LL << 53;

/* The state that the first of @n_ints @ints tell; returns how many they
 * are, 0: they make no sense. */
static size_t restore(struct alike *alike, size_t i, const struct limit *limit,
                      const long long *ints, size_t n_ints)
{
    uint64_t told[SCRIPT_TOLD_MAX];
    size_t n = 0;
    while (n < n_ints && n < SCRIPT_TOLD_MAX) {
        if (ints[n] < 0 || ints[n] > TOLD_MAX) {
            return 0;
        }
        told[n] = (uint64_t)ints[n];
        n++;
    }
    memset(alike->states[i], 0, sizeof(alike->states[i]));
    return limit->algorithm->restore(alike->states[i], &limit->params, told, n);
}

bool alike_begin(struct alike *alike, uint64_t n_requests, const struct script_charge *charges,
                 size_t n_charges, const long long *ints, size_t n_ints)
{
    if (n_ints < SCRIPT_ALIKE_HEAD_INTS || ints[0] < 0 || (uint64_t)ints[0] > n_requests ||
        ints[1] < 0 || (uint64_t)ints[1] > LIMIT_NOW_MAX) {
        return false;
    }
    size_t at = SCRIPT_ALIKE_HEAD_INTS;
    for (size_t i = 0; i < n_charges; i++) {
        const struct limit *limit = charges[i].limit;
        const size_t n_told = restore(alike, i, limit, ints + at, n_ints - at);
        if (n_told == 0) {
            return false;
        }
        at += n_told;
        alike->judged[i] = (struct judged){
            .limit = limit,
            .state = alike->states[i],
            .call = limit_call_at(limit, (uint64_t)ints[1], charges[i].cost),
            .verdict = &alike->verdicts[i],
        };
        alike->judged[i].call.edges = charges[i].edges;
    }
    alike->n_judged = n_charges;
    alike->n_left = n_requests;
    alike->n_admitted = (uint64_t)ints[0];
    return at == n_ints;
}

bool alike_next(struct alike *alike, bool *admitted)
{
    if (alike->n_left == 0 ||
        judge_evaluate(alike->judged, alike->n_judged, admitted) != STATUS_OK ||
        *admitted != (alike->n_admitted > 0)) {
        return false;
    }
    for (size_t i = 0; i < alike->n_judged; i++) {
        judge_conclude(&alike->judged[i], *admitted);
    }
    alike->n_left--;
    alike->n_admitted -= *admitted;
    return true;
}
