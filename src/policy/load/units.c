#include "policy/units.h"

#include <stddef.h>

#include "base/diag.h"
#include "limit/algorithm.h"
#include "policy/load/node.h"

struct unit {
    struct span name;
    uint64_t worth; /* us, or bytes */
};

struct unit_table {
    const struct unit *units; /* largest first */
    size_t n_units;
    struct span names; /* for messages */
    uint64_t max;      /* of a value */
};

static const struct unit DURATION_UNITS[] = {
    {{"w", 1}, UINT64_C(7) * 24 * 3600 * 1000000},
    {{"d", 1}, UINT64_C(24) * 3600 * 1000000},
    {{"h", 1}, UINT64_C(3600) * 1000000},
    {{"m", 1}, UINT64_C(60) * 1000000},
    {{"s", 1}, UINT64_C(1000000)},
    {{"ms", 2}, UINT64_C(1000)},
    {{"us", 2}, UINT64_C(1)},
};
static const struct unit_table DURATIONS = {DURATION_UNITS,
                                            ARRAY_LEN(DURATION_UNITS),
                                            {"us, ms, s, m, h, d, w", 21},
                                            UNITS_DURATION_US_MAX};

static const struct unit SIZE_UNITS[] = {
    {{"TiB", 3}, UINT64_C(1) << 40}, {{"GiB", 3}, UINT64_C(1) << 30},
    {{"MiB", 3}, UINT64_C(1) << 20}, {{"KiB", 3}, UINT64_C(1) << 10},
    {{"B", 1}, UINT64_C(1)},
};
static const struct unit_table SIZES = {
    SIZE_UNITS, ARRAY_LEN(SIZE_UNITS), {"B, KiB, MiB, GiB, TiB", 21}, INT64_MAX};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Remove and return the leading digits of @span, or its leading other bytes if @digits is false. */
static struct span cut_run(struct span *span, bool digits)
{
    size_t len = 0;
    while (len < span->len && is_digit(span->data[len]) == digits) {
        len++;
    }
    const struct span run = span_of(span->data, len);
    *span = span_from(*span, len);
    return run;
}

static const struct unit *find_unit(const struct unit_table *table, struct span name,
                                    struct text *problem)
{
    struct suggest suggest;
    suggest_init(&suggest, span_trim(name));
    for (size_t i = 0; i < table->n_units; i++) {
        if (span_equals(table->units[i].name, name)) {
            return &table->units[i];
        }
        suggest_offer(&suggest, table->units[i].name);
    }
    text_add_literal(problem, "unknown unit ");
    quote_write(problem, name);
    suggest_write(&suggest, problem);
    if (suggest.best.len == 0) {
        text_add_literal(problem, "; write one of ");
        text_add(problem, table->names);
    }
    return NULL;
}

/* Remove one number with its unit from @rest; *worth is its value. NULL: @problem says why. */
static const struct unit *cut_quantity(struct span *rest, const struct unit_table *table,
                                       uint64_t *worth, struct text *problem)
{
    const struct span number = cut_run(rest, true);
    const struct span name = cut_run(rest, false);
    uint64_t count = 0;
    if (number.len == 0) {
        text_add_literal(problem, "must be a whole number with a unit");
        return NULL;
    }
    const struct unit *unit = find_unit(table, name, problem);
    if (unit == NULL) {
        return NULL;
    }
    if (!span_to_u64(number, table->max / unit->worth, &count)) {
        text_add_literal(problem, "is too large");
        return NULL;
    }
    *worth = count * unit->worth;
    return unit;
}

static bool is_bare_number(struct span span)
{
    cut_run(&span, true);
    return span.len == 0;
}

bool units_parse_duration(struct span span, uint64_t *us, struct text *problem)
{
    if (span.len > 0 && is_bare_number(span)) {
        const struct span number = quote_clip(span);
        return text_refuse(problem, "needs a unit; did you mean \"%.*ss\" or \"%.*sms\"?",
                           SPAN_ARGS(number), SPAN_ARGS(number));
    }
    uint64_t sum = 0;
    const struct unit *before = NULL;
    struct span rest = span;
    do {
        uint64_t worth = 0;
        const struct unit *unit = cut_quantity(&rest, &DURATIONS, &worth, problem);
        if (unit == NULL) {
            return false;
        }
        if (before != NULL && unit <= before) {
            return text_refuse(problem, "must name each unit once, the greatest first");
        }
        before = unit;
        sum += worth;
    } while (rest.len > 0);

    if (sum > UNITS_DURATION_US_MAX) {
        return text_refuse(problem, "is too large");
    }
    *us = sum;
    return true;
}

static void write_in_units(struct text *text, const struct unit_table *table, uint64_t value)
{
    const struct unit *unit = table->units;
    while (unit < table->units + table->n_units - 1 && (value == 0 || value % unit->worth != 0)) {
        unit++;
    }
    text_add_u64(text, value / unit->worth);
    text_add(text, unit->name);
}

bool units_parse_size(struct span span, uint64_t *bytes, struct text *problem)
{
    uint64_t value = 0;
    if (span_to_u64(span, UINT64_MAX, &value)) {
        text_add_literal(problem, "needs a unit; did you mean \"");
        units_write_size(problem, value);
        return text_refuse(problem, "\"?");
    }
    struct span rest = span;
    if (cut_quantity(&rest, &SIZES, &value, problem) == NULL) {
        return false;
    }
    if (rest.len > 0) {
        return text_refuse(problem, "must be one number with one unit");
    }
    *bytes = value;
    return true;
}

void units_write_duration(struct text *text, uint64_t us)
{
    write_in_units(text, &DURATIONS, us);
}

void units_write_size(struct text *text, uint64_t bytes)
{
    write_in_units(text, &SIZES, bytes);
}

/* --- rates --- */

struct period {
    struct span word;
    struct span name; /* in the name of a limit of several rates */
    uint64_t us;
    enum rate_calendar calendar;
};

#define SECONDS(n) (UINT64_C(1000000) * (n))
#define DAY_S (UINT64_C(24) * 3600)

static const struct period PERIODS[] = {
    {{"s", 1}, {"1s", 2}, SECONDS(1), RATE_CALENDAR_NONE},
    {{"sec", 3}, {"1s", 2}, SECONDS(1), RATE_CALENDAR_NONE},
    {{"second", 6}, {"1s", 2}, SECONDS(1), RATE_CALENDAR_NONE},
    {{"m", 1}, {"1m", 2}, SECONDS(60), RATE_CALENDAR_NONE},
    {{"min", 3}, {"1m", 2}, SECONDS(60), RATE_CALENDAR_NONE},
    {{"minute", 6}, {"1m", 2}, SECONDS(60), RATE_CALENDAR_NONE},
    {{"h", 1}, {"1h", 2}, SECONDS(3600), RATE_CALENDAR_NONE},
    {{"hour", 4}, {"1h", 2}, SECONDS(3600), RATE_CALENDAR_NONE},
    {{"d", 1}, {"1d", 2}, SECONDS(DAY_S), RATE_CALENDAR_DAY},
    {{"day", 3}, {"1d", 2}, SECONDS(DAY_S), RATE_CALENDAR_DAY},
    {{"w", 1}, {"1w", 2}, SECONDS(7 * DAY_S), RATE_CALENDAR_WEEK},
    {{"week", 4}, {"1w", 2}, SECONDS(7 * DAY_S), RATE_CALENDAR_WEEK},
    {{"mo", 2}, {"1mo", 3}, SECONDS(30 * DAY_S), RATE_CALENDAR_MONTH},
    {{"month", 5}, {"1mo", 3}, SECONDS(30 * DAY_S), RATE_CALENDAR_MONTH},
};

static const struct period *find_period(struct span word, struct suggest *suggest)
{
    suggest_init(suggest, word);
    for (size_t i = 0; i < ARRAY_LEN(PERIODS); i++) {
        if (span_equals(PERIODS[i].word, word)) {
            return &PERIODS[i];
        }
        if (PERIODS[i].word.len > 2) {
            suggest_offer(suggest, PERIODS[i].word);
        }
    }
    return NULL;
}

static bool parse_period(struct span span, struct rate *rate, struct text *problem)
{
    struct suggest suggest;
    const struct period *period = find_period(span, &suggest);
    if (period != NULL) {
        rate->period_us = period->us;
        rate->period_name = period->name;
        rate->calendar = period->calendar;
        return true;
    }
    if (span.len == 0 || span.data[0] < '0' || span.data[0] > '9') {
        text_add_literal(problem, "unknown period ");
        quote_write(problem, span);
        suggest_write(&suggest, problem);
        if (suggest.best.len == 0) {
            text_add_literal(problem, "; write s, minute, hour, day, week, month or a duration");
        }
        return false;
    }
    text_add_literal(problem, "period ");
    quote_write(problem, span);
    text_add_literal(problem, ": ");
    rate->period_name = span;
    if (!units_parse_duration(span, &rate->period_us, problem)) {
        return false;
    }
    if (rate->period_us == 0) {
        return text_refuse(problem, "must not be 0");
    }
    return true;
}

bool rate_parse(struct span span, struct rate *rate, struct text *problem)
{
    const size_t slash = span_find(span, '/');
    uint64_t units = 0;
    const struct span number = span_trim(span_of(span.data, slash));
    if (!span_to_u64(number, UINT64_MAX, &units)) {
        return text_refuse(problem, "must be a whole number and a period, such as 100/minute");
    }
    if (units == 0) {
        return text_refuse(problem, "must be at least 1; to refuse everything, use a route that "
                                    "responds");
    }
    if (units > LIMIT_COST_MAX) {
        return text_refuse(problem, "must be at most %u", (unsigned)LIMIT_COST_MAX);
    }
    struct rate parsed = {.units = (uint32_t)units};
    if (slash == span.len) {
        *rate = parsed;
        return true;
    }
    if (!parse_period(span_trim(span_from(span, slash + 1)), &parsed, problem)) {
        return false;
    }
    *rate = parsed;
    return true;
}

uint32_t rate_default_burst(const struct rate *rate, uint64_t max_wait_us)
{
    if (max_wait_us == 0 || rate->period_us == 0) {
        return rate->units;
    }
    const uint64_t waiting = max_wait_us * rate->units;
    const uint64_t units = waiting / rate->period_us + (waiting % rate->period_us > 0) + 1;
    return units < LIMIT_COST_MAX ? (uint32_t)units : LIMIT_COST_MAX;
}
