/* The calendars of a policy's windows: one for each unit and zone that it speaks of. */

#include "limit/calendar.h"
#include "policy/link.h"

static const enum calendar_unit UNITS[] = {
    [RATE_CALENDAR_DAY] = CALENDAR_DAY,
    [RATE_CALENDAR_WEEK] = CALENDAR_WEEK,
    [RATE_CALENDAR_MONTH] = CALENDAR_MONTH,
};

/* The one there is already, or NULL. */
static const struct calendar *find(const struct linker *linker, enum calendar_unit unit,
                                   struct span zone)
{
    for (size_t i = 0; i < linker->policy->n_calendars; i++) {
        const struct linked_calendar *calendar = &linker->calendars[i];
        if (calendar->unit == unit && span_equals(calendar->zone, zone)) {
            return linker->policy->calendars[i];
        }
    }
    return NULL;
}

/* Room for one a rate; false: no memory. */
static bool make_room(struct linker *linker)
{
    if (linker->policy->calendars == NULL) {
        linker->policy->calendars =
            link_alloc(linker, POLICY_LIMITS_MAX, sizeof(struct calendar *));
        linker->calendars =
            arena_calloc(linker->scratch, POLICY_LIMITS_MAX, sizeof(struct linked_calendar));
        linker->no_memory = linker->no_memory || linker->calendars == NULL;
    }
    return !linker->no_memory;
}

const struct calendar *link_calendar(struct linker *linker, const struct spec_limit *spec,
                                     enum rate_calendar rate)
{
    const enum calendar_unit unit = UNITS[rate];
    const struct span zone = spec->timezone.node != NULL ? spec->timezone.text : SPAN("UTC");
    const struct calendar *found = find(linker, unit, zone);
    if (found != NULL || !make_room(linker)) {
        return found;
    }
    struct policy *policy = linker->policy;
    struct calendar *calendar = NULL;
    const enum status status = calendar_new(unit, zone, linker->now_us, &calendar);
    if (status != STATUS_OK) {
        linker->no_memory = linker->no_memory || status == STATUS_NO_MEMORY;
        return NULL;
    }
    linker->calendars[policy->n_calendars] = (struct linked_calendar){.unit = unit, .zone = zone};
    policy->calendars[policy->n_calendars++] = calendar;
    return calendar;
}
