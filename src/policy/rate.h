/* Rates as people write them: `100/minute`, `10/s`, `5/1h30m`. */

#ifndef SLUICE_POLICY_RATE_H
#define SLUICE_POLICY_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

struct rate {
    uint32_t units;          /* >= 1 */
    uint64_t period_us;      /* >= 1; a month is 30 days */
    bool is_month;           /* the period was said as a month */
    struct span period_name; /* "1m" or as written: static, or part of what was parsed */
};

/* False: @problem says what is wrong, fit to follow `rate "VALUE": `. */
MUST_USE bool rate_parse(struct span span, struct rate *rate, struct text *problem);

#endif /* SLUICE_POLICY_RATE_H */
