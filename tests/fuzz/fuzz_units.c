/* Durations, sizes and rates as people write them: what is read is within its bounds, is read again
 * as it is written, and what is refused has a reason. */

#include <stdint.h>

#include "fuzz/must_hold.h"
#include "policy/units.h"

enum { TEXT_BYTES = 512 }; /* a problem may quote what it is about twice */

typedef bool (*parse_units)(struct span span, uint64_t *value, struct text *problem);
typedef void (*write_units)(struct text *text, uint64_t value);

static void check_units(struct span input, parse_units parse, write_units write, uint64_t max)
{
    char problem_bytes[TEXT_BYTES];
    char written_bytes[TEXT_BYTES];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct text written = text_of(written_bytes, sizeof(written_bytes));
    uint64_t value = UINT64_MAX;
    uint64_t again = 0;
    if (!parse(input, &value, &problem)) {
        MUST_HOLD(value == UINT64_MAX && problem.len > 0 && !problem.truncated);
        return;
    }
    MUST_HOLD(value <= max && problem.len == 0);
    write(&written, value);
    MUST_HOLD(!written.truncated);
    MUST_HOLD(parse(text_span(&written), &again, &problem));
    MUST_HOLD(value == again);
}

static void check_rate(struct span input)
{
    char problem_bytes[TEXT_BYTES];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct rate rate;
    if (!rate_parse(input, &rate, &problem)) {
        MUST_HOLD(problem.len > 0 && !problem.truncated);
        return;
    }
    MUST_HOLD(rate.units >= 1);
    MUST_HOLD(rate.period_us <= UNITS_DURATION_US_MAX);
    MUST_HOLD((rate.period_us == 0) == (span_find(input, '/') == input.len));
    MUST_HOLD(rate.calendar == RATE_CALENDAR_NONE || rate.period_us > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span input = span_of((const char *)data, size);

    check_units(input, units_parse_duration, units_write_duration, UNITS_DURATION_US_MAX);
    check_units(input, units_parse_size, units_write_size, UINT64_MAX);
    check_rate(input);
    return 0;
}
