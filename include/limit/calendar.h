/* Edges of calendar windows: the times at which days, weeks (from Monday) and months begin in a
 * time zone.
 *
 * Windows differ in length because of months, leap years and daylight saving time. The rules are in
 * the system's zone database. The edges of all windows from shortly before now to about 25 years
 * ahead are therefore computed once, when a policy is loaded; each call gets the edges around it.
 * Immutable once made. */

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

/* Whether the system knows the zone @name: "UTC", or a name in its zone database such as
 * "Europe/Berlin". */
bool calendar_knows_zone(struct span name);

/* Windows of @unit in @zone around @now_us (us since the epoch). The call changes the process's
 * time zone while it runs, so no other thread may use local time meanwhile. STATUS_INVALID: there
 * is no such zone; STATUS_NO_MEMORY. */
MUST_USE enum status calendar_new(enum calendar_unit unit, struct span zone, uint64_t now_us,
                                  struct calendar **calendar);

/* NULL is a no-op. */
void calendar_free(struct calendar *calendar);

/* The edges around @now_us, us since the epoch: two at or before, two after. False: the calendar
 * does not cover that time, and *edges is untouched. Safe from any thread. */
MUST_USE bool calendar_find(const struct calendar *calendar, uint64_t now_us,
                            uint64_t edges[LIMIT_EDGES]);

#endif /* SLUICE_LIMIT_CALENDAR_H */
