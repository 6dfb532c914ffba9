/* Durations and sizes in text form: always with a unit. Rates: `100/minute`, `10/s`, `5/1h30m`; a
 * number alone for limits that do not refill with time. */

#ifndef SLUICE_POLICY_UNITS_H
#define SLUICE_POLICY_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* Longest duration: ten years of 365 days. */
#define UNITS_DURATION_US_MAX (UINT64_C(3650) * 24 * 3600 * 1000000)

/* Read `500ms`, `10s`, `1h30m` …: whole numbers with us, ms, s, m, h, d or w, largest unit first,
 * each at most once. False: @problem describes the error, for use after `"VALUE": `. */
MUST_USE bool units_parse_duration(struct span span, uint64_t *us, struct text *problem);

/* Read `16KiB`: a whole number with B, KiB, MiB, GiB or TiB. False: as above. */
MUST_USE bool units_parse_size(struct span span, uint64_t *bytes, struct text *problem);

/* Write the value in the shortest form with one unit. */
void units_write_duration(struct text *text, uint64_t us);
void units_write_size(struct text *text, uint64_t bytes);

/* --- rates --- */

/* The calendar unit of the period, if it is written as a word and not as a duration. */
enum rate_calendar {
    RATE_CALENDAR_NONE,
    RATE_CALENDAR_DAY,
    RATE_CALENDAR_WEEK,
    RATE_CALENDAR_MONTH,
};

struct rate {
    uint32_t units;          /* >= 1 */
    uint64_t period_us;      /* a month is 30 days; 0: no period */
    struct span period_name; /* "1m" or as written: static, or part of the parsed span */
    enum rate_calendar calendar;
};

/* False: @problem describes the error, for use after `rate "VALUE": `. */
MUST_USE bool rate_parse(struct span span, struct rate *rate, struct text *problem);

/* The burst of a limit that says none: the units of @rate; where requests wait for at most
 * @max_wait_us, as many as may wait, and the one that leaves. */
uint32_t rate_default_burst(const struct rate *rate, uint64_t max_wait_us);

#endif /* SLUICE_POLICY_UNITS_H */
