/* One decision over all limits of a request: no table, no lock, no expiry.
 *
 * The embedded store calls this under its locks, and tests compare the script with it. An enforced
 * limit that does not allow the request denies it; then only limits that count denied requests are
 * charged. A shadow limit is charged as if enforced and never denies. */

#ifndef SLUICE_LIMIT_JUDGE_H
#define SLUICE_LIMIT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "limit/limit.h"

struct judged {
    const struct limit *limit;
    void *state; /* all zero: untouched */
    struct limit_call call;
    struct verdict *verdict; /* the answer, as in struct charge of store/store.h; the caller's */
    bool charged; /* the answer: the request was admitted, and its cost was charged to this limit */
    uint64_t charged_at; /* the answer: time of the charge, ticks, as charge() returns it; else 0 */
};

/* Judge all limits without a change of state. *admitted: every enforced limit allows the request.
 * The two functions below fill the report part of the verdicts. STATUS_INVALID: the windows of a
 * calendar are not known at this time, and verdicts are undefined. */
MUST_USE enum status judge_evaluate(struct judged *judged, size_t n, bool *admitted);

/* Charge @judged, which judge_evaluate() has filled, where a charge is due, or follow a clock that
 * was set back; then report the state. */
void judge_conclude(struct judged *judged, bool admitted);

/* Report the state without a change, but for what counts no more: see trim of struct algorithm. */
void judge_report(struct judged *judged);

/* Whether a request of @cost is charged to a limit that gave @verdict: the request is @admitted and
 * the limit, enforced or shadow, allows it. */
static inline bool judge_charges(const struct verdict *verdict, uint32_t cost, bool admitted)
{
    return admitted && verdict->allowed && cost > 0;
}

/* Whether judge_conclude() will charge @judged, so that its state must have room for the charge:
 * see state_bytes of struct algorithm. */
static inline bool judge_takes(const struct judged *judged, bool admitted)
{
    const struct limit *limit = judged->limit;
    return judge_charges(judged->verdict, judged->call.cost, admitted) ||
           (limit->charge_denied && !limit->algorithm->has_slots && judged->call.cost > 0);
}

#endif /* SLUICE_LIMIT_JUDGE_H */
