#include "limit/identical.h"

#include <string.h>

static const long long REPORTED_MAX = 1LL << 53;

/* Restore the state of @limit from the first of @n_ints @ints. Returns how many were used; 0: they
 * are invalid. */
static size_t restore(struct identical *identical, size_t i, const struct limit *limit,
                      const long long *ints, size_t n_ints)
{
    uint64_t reported[LIMIT_SCRIPT_REPORTED_MAX];
    size_t n = 0;
    while (n < n_ints && n < LIMIT_SCRIPT_REPORTED_MAX) {
        if (ints[n] < 0 || ints[n] > REPORTED_MAX) {
            return 0;
        }
        reported[n] = (uint64_t)ints[n];
        n++;
    }
    memset(identical->states[i], 0, sizeof(identical->states[i]));
    return limit->algorithm->restore(identical->states[i], &limit->params, reported, n);
}

/* The times of the charges: none, or @n_ints numbers at @ints that end the reply. */
static bool read_times(struct identical *identical, uint64_t now_us, const long long *ints,
                       size_t n_ints)
{
    for (size_t i = 0; i < identical->n_judged; i++) {
        if (!script_source_read_time(identical->judged[i].limit, now_us, n_ints > 0 ? ints[i] : 0,
                                     &identical->charged_at_us[i])) {
            return false;
        }
    }
    return true;
}

bool identical_begin(struct identical *identical, uint64_t n_requests,
                     const struct script_charge *charges, size_t n_charges, const long long *ints,
                     size_t n_ints)
{
    if (n_ints < SCRIPT_IDENTICAL_HEAD_INTS || ints[0] < 0 || (uint64_t)ints[0] > n_requests ||
        ints[1] < 0 || (uint64_t)ints[1] > LIMIT_NOW_MAX) {
        return false;
    }
    size_t at = SCRIPT_IDENTICAL_HEAD_INTS;
    for (size_t i = 0; i < n_charges; i++) {
        const struct limit *limit = charges[i].limit;
        const size_t n_reported = restore(identical, i, limit, ints + at, n_ints - at);
        if (n_reported == 0) {
            return false;
        }
        at += n_reported;
        identical->judged[i] = (struct judged){
            .limit = limit,
            .state = identical->states[i],
            .call = limit_call_at(limit, (uint64_t)ints[1], charges[i].cost),
            .verdict = &identical->verdicts[i],
        };
        identical->judged[i].call.edges = charges[i].edges;
    }
    if (at != n_ints && at + n_charges != n_ints) {
        return false;
    }
    identical->n_judged = n_charges;
    identical->n_left = n_requests;
    identical->n_admitted = (uint64_t)ints[0];
    return read_times(identical, (uint64_t)ints[1], ints + at, n_ints - at);
}

bool identical_next(struct identical *identical, bool *admitted)
{
    if (identical->n_left == 0 ||
        judge_evaluate(identical->judged, identical->n_judged, admitted) != STATUS_OK ||
        *admitted != (identical->n_admitted > 0)) {
        return false;
    }
    for (size_t i = 0; i < identical->n_judged; i++) {
        judge_conclude(&identical->judged[i], *admitted);
    }
    identical->n_left--;
    identical->n_admitted -= *admitted;
    return true;
}
