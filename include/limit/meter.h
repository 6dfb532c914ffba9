/* What was taken and comes back steadily: the state of the buckets.
 *
 * One unit is `period` parts, and `rate` parts come back in a tick, so that nothing is ever
 * rounded. The state is what was taken rather than what is left: an absent state is untouched, and
 * a burst that is raised in the policy helps at once. */

#ifndef SLUICE_LIMIT_METER_H
#define SLUICE_LIMIT_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "limit/algorithm.h"
#include "limit/refill.h"

/* What is remembered per key. All zero is untouched. Plain data. */
struct meter {
    uint64_t taken;       /* parts, as of updated */
    uint64_t updated;     /* time of the latest charge, ticks; 0 while nothing is taken */
    struct refill refill; /* there if the limit settles */
};

/* Whether @meter is dated more than a second after @now. */
bool meter_is_ahead(const struct meter *meter, const struct limit_params *params, uint64_t now);

/* Parts that are still taken at @now. A @now before the latest charge counts as no time passed. */
uint64_t meter_at(const struct meter *meter, uint32_t rate, uint64_t now);

/* Ticks until @meter's time goes on: the clock went back by at most a second, and no time passes
 * until it is where it was. Else 0. */
uint64_t meter_stands_still(const struct meter *meter, const struct limit_params *params,
                            uint64_t now);

/* Let @taken parts be taken as of @now, or of the latest charge if that is up to a second later. */
void meter_set(struct meter *meter, const struct limit_params *params, uint64_t now,
               uint64_t taken);

/* Take what @call costs, as the charge of struct algorithm says; burst * period parts are full. */
void meter_charge(struct meter *meter, const struct limit_params *params,
                  const struct limit_call *call);

/* Bytes of the state under @params. */
size_t meter_bytes(const struct limit_params *params);

/* Correct what was charged at @charged_at by @delta units: the settle of struct algorithm. */
void meter_settle(struct meter *meter, const struct limit_params *params, uint64_t charged_at,
                  uint64_t now, int64_t delta);

/* From the script's numbers: as the restore of struct algorithm says. */
size_t meter_restore(void *state, const struct limit_params *params, const uint64_t *told,
                     size_t n);

/* Units that fit beside @taken parts, which may be more than are full: the
 * burst may have been lowered. */
uint64_t meter_remaining(const struct limit_params *params, uint64_t taken);

/* Ticks until @cost units, at most the burst, fit beside @taken parts. */
uint64_t meter_fits_after(const struct limit_params *params, uint64_t taken, uint64_t cost);

/* What is wrong with a rate, a burst and a period, or NULL: as check_params of struct algorithm. */
const char *meter_check_params(const struct limit_params *params);

#endif /* SLUICE_LIMIT_METER_H */
