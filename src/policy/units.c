#include "policy/units.h"

#include <stddef.h>

#include "policy/quote.h"
#include "policy/suggest.h"

struct unit {
    struct span name;
    uint64_t worth; /* us, or bytes */
};

struct unit_table {
    const struct unit *units; /* greatest first */
    size_t n_units;
    struct span names; /* for people */
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

/* The first bytes of @span that are digits, or, if @digits is false, that are none. */
static struct span cut_run(struct span *span, bool digits)
{
    size_t len = 0;
    while (len < span->len && is_digit(span->data[len]) == digits) {
        len++;
    }
    const struct span run = span_of(span->data, len);
    *span = span_of(span->data + len, span->len - len);
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

/* Cut one number with its unit off @rest: *worth is what it stands for. NULL: @problem says why. */
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
        text_add_format(problem, "needs a unit; did you mean \"%.*ss\" or \"%.*sms\"?",
                        SPAN_ARGS(number), SPAN_ARGS(number));
        return false;
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
            text_add_literal(problem, "must name each unit once, the greatest first");
            return false;
        }
        before = unit;
        sum += worth;
    } while (rest.len > 0);

    if (sum > UNITS_DURATION_US_MAX) {
        text_add_literal(problem, "is too large");
        return false;
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
        text_add_literal(problem, "\"?");
        return false;
    }
    struct span rest = span;
    if (cut_quantity(&rest, &SIZES, &value, problem) == NULL) {
        return false;
    }
    if (rest.len > 0) {
        text_add_literal(problem, "must be one number with one unit");
        return false;
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
