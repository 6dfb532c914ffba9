/* Rates as people write them: `100/minute`, `10/s`, `5/1h30m`; where nothing comes back
 * with time, a number alone. */

#ifndef SLUICE_POLICY_RATE_H
#define SLUICE_POLICY_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

/* What the period is on a calendar, if it was said in the word for it and not as a duration. */
enum rate_calendar {
    RATE_CALENDAR_NONE,
    RATE_CALENDAR_DAY,
    RATE_CALENDAR_WEEK,
    RATE_CALENDAR_MONTH,
};

struct rate {
    uint32_t units;          /* >= 1 */
    uint64_t period_us;      /* a month is 30 days; 0: a number alone, without a period */
    struct span period_name; /* "1m" or as written: static, or part of what was parsed */
    enum rate_calendar calendar;
};

/* False: @problem says what is wrong, fit to follow `rate "VALUE": `. */
MUST_USE bool rate_parse(struct span span, struct rate *rate, struct text *problem);

#endif /* SLUICE_POLICY_RATE_H */
