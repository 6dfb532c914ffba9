/* Timestamps: dates and times to and from text, computed without the system's time zone. */

#ifndef SLUICE_BASE_TIMESTAMP_H
#define SLUICE_BASE_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

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

#endif /* SLUICE_BASE_TIMESTAMP_H */
