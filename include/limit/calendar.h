/* The edges of a calendar's windows: where days, weeks (from Monday) and
 * months begin in a time zone.
 *
 * Windows differ in length, by months, leap years and the hours that summer time takes and gives,
 * and the rules for that stand in the system's zone database. So the edges of all windows from
 * shortly before now to about 25 years ahead are reckoned once, when a policy is loaded; each call
 * is then given those around it. Immutable once made. */

#ifndef SLUICE_LIMIT_CALENDAR_H
#define SLUICE_LIMIT_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/algorithm.h"

enum calendar_unit {
    CALENDAR_DAY,
    CALENDAR_WEEK,
    CALENDAR_MONTH,
};

struct calendar;

/* Whether the system knows the zone @name: "UTC", or one of its zone
 * database, as "Europe/Berlin". */
bool calendar_knows_zone(struct span name);

/* Windows of @unit in @zone around @now_us (us since the epoch). The process's time zone is changed
 * meanwhile, so no other thread may be asking for local time. STATUS_INVALID: there is no such
 * zone; STATUS_NO_MEMORY. */
MUST_USE enum status calendar_new(enum calendar_unit unit, struct span zone, uint64_t now_us,
                                  struct calendar **calendar);

/* NULL is a no-op. */
void calendar_free(struct calendar *calendar);

/* The edges around @now_us, us since the epoch: two at or before, two after. False when the
 * calendar does not reach there, and *edges is untouched. Safe from any thread. */
MUST_USE bool calendar_find(const struct calendar *calendar, uint64_t now_us,
                            uint64_t edges[LIMIT_EDGES]);

#endif /* SLUICE_LIMIT_CALENDAR_H */
