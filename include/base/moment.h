/* Moments as people and logs write them, and dates reckoned without a system's time zone. */

#ifndef SLUICE_BASE_MOMENT_H
#define SLUICE_BASE_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* A date and a time of day, of the Gregorian calendar. */
struct moment {
    unsigned year;  /* 1970 … 9999 */
    unsigned month; /* 1 … 12 */
    unsigned day;   /* 1 … 31 */
    unsigned hour;
    unsigned minute;
    unsigned second; /* 60: a leap second, taken for the next */
    unsigned us;
    int offset_s; /* of its zone, east of Greenwich */
};

/* @moment as us since the epoch. False: there is no such date or time, or
 * it is before the epoch. */
MUST_USE bool moment_to_us(const struct moment *moment, uint64_t *us);

/* Read RFC 3339: `2026-03-29T01:59:00Z`, with a fraction (what is below a us is cut), with an
 * offset (`+01:00`, `+0100`), with a space for the T. False for anything else. */
MUST_USE bool moment_parse(struct span text, uint64_t *us);

/* Write @us since the epoch in UTC: `2026-03-29T01:59:00Z`, with three or six digits of a fraction
 * where there is one. */
void moment_write(struct text *text, uint64_t us);

#endif /* SLUICE_BASE_MOMENT_H */
