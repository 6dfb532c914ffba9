/* One decision of all the limits of a request, and nothing else: no table, no lock, no expiry.
 *
 * What the embedded store does under its locks, and what the script is held against. A limit that
 * is enforced and does not allow denies the request; then nothing is charged but to those that
 * count denied requests. A shadow limit is charged as if it were real and denies nobody. */

#ifndef SLUICE_LIMIT_JUDGE_H
#define SLUICE_LIMIT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "limit/limit.h"
#include "limit/verdict.h"

struct judged {
    const struct limit *limit;
    void *state; /* all zero: untouched */
    struct limit_call call;
    struct verdict *verdict; /* the answer, as in struct charge of store/store.h; the caller's */
    bool charged; /* the answer: the request was admitted, and this limit took its cost */
};

/* Judge all and change no state: *admitted when every enforced limit allows. What verdicts report
 * is left for the two below. STATUS_INVALID: the windows of a calendar are not known at this time,
 * and verdicts are undefined. */
MUST_USE enum status judge_evaluate(struct judged *judged, size_t n, bool *admitted);

/* Charge @judged, which judge_evaluate() has filled, if it is to be, or follow a clock that was set
 * back; then report how things stand. */
void judge_conclude(struct judged *judged, bool admitted);

/* Change nothing, and report how things stand. */
void judge_report(struct judged *judged);

/* Whether a request of @cost that was @admitted, or not, was charged to a limit that answered
 * @verdict: one that is enforced, or a shadow that would have let it pass. */
static inline bool judge_charges(const struct verdict *verdict, uint32_t cost, bool admitted)
{
    return admitted && verdict->allowed && cost > 0;
}

/* Whether judge_conclude() will take something from @judged, so that its state must have room for
 * it: see state_bytes of struct algorithm. */
static inline bool judge_takes(const struct judged *judged, bool admitted)
{
    const struct limit *limit = judged->limit;
    return judge_charges(judged->verdict, judged->call.cost, admitted) ||
           (limit->count_denied && !limit->algorithm->has_slots && judged->call.cost > 0);
}

#endif /* SLUICE_LIMIT_JUDGE_H */
