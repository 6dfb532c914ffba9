/* Which keys of a limit have a meaning for which algorithms, and what goes together. */

#include "policy/link.h"

enum { PROBLEM_BYTES_MAX = 256, TAKERS_MAX = 3 };

/* Keys that some algorithms alone take. */
static const struct {
    const char *key;
    const char *takers[TAKERS_MAX];
} KEYS[] = {
    {"burst", {"token_bucket", "leaky_bucket", "gcra"}},
    {"max_wait", {"leaky_bucket"}},
    {"align", {"fixed_window"}},
    {"timezone", {"fixed_window"}},
    {"buckets", {"sliding_window"}},
    {"strict", {"sliding_window"}},
    {"lease", {"concurrency"}},
};

/* Keys that mean nothing where a request takes a slot and gives it back. */
static const char *const NOT_OF_SLOTS[] = {"count", "refund", "count_denied"};

static bool is_algorithm(const struct spec_limit *spec, const char *name)
{
    return span_equals(span_of_text(spec->algorithm->name), span_of_text(name));
}

static const struct node *find_key(const struct spec_limit *spec, const char *key)
{
    return node_find(spec->place.node, span_of_text(key));
}

static void report(struct linker *linker, const struct node *node, const struct text *message)
{
    diags_add(linker->diags, DIAG_ERROR, node->line, node->column, "%.*s",
              SPAN_ARGS(text_span(message)));
}

/* --- keys --- */

static size_t count_takers(const char *const *takers)
{
    size_t n = 0;
    while (n < TAKERS_MAX && takers[n] != NULL) {
        n++;
    }
    return n;
}

static bool is_taken(const struct spec_limit *spec, const char *const *takers)
{
    for (size_t i = 0; i < count_takers(takers); i++) {
        if (is_algorithm(spec, takers[i])) {
            return true;
        }
    }
    return false;
}

static void report_key(struct linker *linker, const struct spec_limit *spec, const char *key,
                       const char *const *takers, const struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    const size_t n_takers = count_takers(takers);
    text_add_format(&message, "%s has no meaning for %s; ", key, spec->algorithm->name);
    for (size_t i = 0; i < n_takers; i++) {
        const char *joint = i == 0 ? "" : i + 1 < n_takers ? ", " : " and ";
        text_add_format(&message, "%s%s", joint, takers[i]);
    }
    text_add(&message, n_takers == 1 ? SPAN(" takes it") : SPAN(" take it"));
    report(linker, node, &message);
}

static void check_keys(struct linker *linker, const struct spec_limit *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const struct node *node = find_key(spec, KEYS[i].key);
        if (node != NULL && !is_taken(spec, KEYS[i].takers)) {
            report_key(linker, spec, KEYS[i].key, KEYS[i].takers, node);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(NOT_OF_SLOTS); i++) {
        const struct node *node = find_key(spec, NOT_OF_SLOTS[i]);
        if (node != NULL && spec->algorithm->has_slots) {
            diags_add(linker->diags, DIAG_ERROR, node->line, node->column,
                      "%s has no meaning for concurrency: every slot is given back when its "
                      "response has ended",
                      NOT_OF_SLOTS[i]);
        }
    }
}

/* --- what goes together --- */

static void check_departures(struct linker *linker, const struct spec_limit *spec)
{
    const struct node *rates = spec->rates.node;
    if (spec->rates.n_items > 1 && spec->max_wait_us > 0) {
        diags_add(linker->diags, DIAG_ERROR, rates->line, rates->column,
                  "a limit with max_wait has one rate: a request waits for one departure alone");
    }
}

static bool has_calendar_rate(const struct spec_limit *spec)
{
    const struct spec_rate *rates = spec->rates.items;
    for (size_t i = 0; i < spec->rates.n_items; i++) {
        if (rates[i].node == NULL || rates[i].rate.calendar != RATE_CALENDAR_NONE) {
            return true;
        }
    }
    return spec->rates.n_items == 0;
}

static void check_timezone(struct linker *linker, const struct spec_limit *spec)
{
    const struct node *timezone = spec->timezone.node;
    if (timezone == NULL || !is_algorithm(spec, "fixed_window")) {
        return;
    }
    if (!calendar_knows_zone(spec->timezone.text)) {
        char buffer[PROBLEM_BYTES_MAX];
        struct text problem = text_of(buffer, sizeof(buffer));
        text_add_literal(&problem, ": the system's zone database has no such zone; write one as in "
                                   "Europe/Berlin");
        link_report(linker, timezone, "timezone", &problem);
    } else if (spec->align == SPEC_ALIGN_FIRST) {
        diags_add(linker->diags, DIAG_ERROR, timezone->line, timezone->column,
                  "timezone has no meaning with \"align: first\": such windows are not the "
                  "clock's");
    } else if (!has_calendar_rate(spec)) {
        diags_add(linker->diags, DIAG_ERROR, timezone->line, timezone->column,
                  "timezone has a meaning for a rate per day, week or month alone");
    }
}

void link_parameters(struct linker *linker, const struct spec_limit *spec)
{
    if (spec->algorithm == NULL || spec->place.node == NULL) {
        return;
    }
    check_keys(linker, spec);
    check_departures(linker, spec);
    check_timezone(linker, spec);
}

/* What waits at most, and the one that goes. */
static uint32_t queue_of(uint64_t max_wait_us, const struct rate *rate)
{
    const uint64_t waiting = max_wait_us * rate->units;
    const uint64_t units = waiting / rate->period_us + (waiting % rate->period_us > 0) + 1;
    return units < LIMIT_COST_MAX ? (uint32_t)units : LIMIT_COST_MAX;
}

struct limit_spec link_limit_spec(const struct spec_limit *spec, const struct rate *rate)
{
    uint32_t burst = spec->burst;
    if (burst == 0) {
        const bool is_shaping = spec->max_wait_us > 0 && rate->period_us > 0;
        burst = is_shaping ? queue_of(spec->max_wait_us, rate) : rate->units;
    }
    const bool from_first = spec->align == SPEC_ALIGN_FIRST;
    const bool is_calendar =
        is_algorithm(spec, "fixed_window") && !from_first &&
        (rate->calendar == RATE_CALENDAR_MONTH ||
         (spec->timezone.node != NULL && rate->calendar != RATE_CALENDAR_NONE));
    return (struct limit_spec){
        .algorithm = spec->algorithm,
        .rate = rate->units,
        .burst = burst,
        .period_us = rate->period_us,
        .max_wait_us = spec->max_wait_us,
        .lease_us = spec->lease_us,
        .buckets = spec->buckets,
        .strict = spec->strict,
        .from_first = from_first,
        .is_calendar = is_calendar,
    };
}
