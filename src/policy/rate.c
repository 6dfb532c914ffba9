#include "policy/rate.h"

#include <stddef.h>

#include "limit/algorithm.h"
#include "policy/quote.h"
#include "policy/suggest.h"
#include "policy/units.h"

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
        text_add_literal(problem, "must not be 0");
        return false;
    }
    return true;
}

bool rate_parse(struct span span, struct rate *rate, struct text *problem)
{
    const size_t slash = span_find(span, '/');
    uint64_t units = 0;
    const struct span number = span_trim(span_of(span.data, slash));
    if (!span_to_u64(number, UINT64_MAX, &units)) {
        text_add_literal(problem, "must be a whole number and a period, such as 100/minute");
        return false;
    }
    if (units == 0) {
        text_add_literal(problem, "must be at least 1; to refuse everything, use a route that "
                                  "responds");
        return false;
    }
    if (units > LIMIT_COST_MAX) {
        text_add_format(problem, "must be at most %u", (unsigned)LIMIT_COST_MAX);
        return false;
    }
    struct rate parsed = {.units = (uint32_t)units};
    if (slash == span.len) {
        *rate = parsed;
        return true;
    }
    if (!parse_period(span_trim(span_of(span.data + slash + 1, span.len - slash - 1)), &parsed,
                      problem)) {
        return false;
    }
    *rate = parsed;
    return true;
}
