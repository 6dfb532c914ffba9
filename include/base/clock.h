/* The clocks, and timestamps as text. No other module reads a clock; other modules take the time as
 * an argument. */

#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* Time since an arbitrary start, in us; never goes backwards. For deadlines and durations. */
uint64_t clock_monotonic_us(void);

/* Time since the Unix epoch, in us; may jump. For display and for windows that users can see. */
uint64_t clock_wall_us(void);

/* The values of the three clocks at one moment, us. */
struct clock_reading {
    uint64_t monotonic_us; /* as clock_monotonic_us(); stops while the machine is suspended */
    uint64_t boot_us;      /* the same, but advances meanwhile */
    uint64_t wall_us;      /* as clock_wall_us() */
};

/* Read all three clocks as close to each other as possible: usually within a microsecond, even if
 * this thread is interrupted between the reads. */
void clock_read(struct clock_reading *reading);

/* Seconds since 1970; cheaper than clock_wall_us(), and up to 10 ms late. For output with a
 * resolution of a second. */
uint64_t clock_wall_s(void);

/* --- timestamps: to and from text, without the system's time zone --- */

/* A date and a time of day in the Gregorian calendar. */
struct timestamp {
    unsigned year;  /* 1970 … 9999 */
    unsigned month; /* 1 … 12 */
    unsigned day;   /* 1 … 31 */
    unsigned hour;
    unsigned minute;
    unsigned second; /* 60: a leap second, read as the next second */
    unsigned us;
    int offset_s; /* of the time zone, east of Greenwich */
};

/* Convert @timestamp to us since the epoch. False: there is no such date or time, or it is before
 * the epoch. */
MUST_USE bool timestamp_to_us(const struct timestamp *timestamp, uint64_t *us);

/* Parse RFC 3339: `2026-03-29T01:59:00Z`, with a fraction (digits below a us are cut), with an
 * offset (`+01:00`, `+0100`), with a space in place of the T. False for anything else. */
MUST_USE bool timestamp_parse(struct span text, uint64_t *us);

/* Write @us since the epoch in UTC: `2026-03-29T01:59:00Z`, with a fraction of three or six digits
 * if it is not zero. */
void timestamp_write(struct text *text, uint64_t us);

#endif /* SLUICE_BASE_CLOCK_H */
