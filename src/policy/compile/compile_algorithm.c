/* The parameters of a limit's algorithm: which keys it supports, alone and in combination, and the
 * calendars of a policy, one for each unit and zone. */

#include "base/hash.h"
#include "limit/algorithms.h"
#include "limit/calendar.h"
#include "policy/compile/compile.h"
#include "policy/load/node.h"

enum { PROBLEM_BYTES_MAX = 256, REFERENCES_MAX = 3 };

/* Keys that only some algorithms support. */
static const struct {
    const char *key;
    const char *references[REFERENCES_MAX];
} KEYS[] = {
    {"burst", {"token_bucket", "leaky_bucket", "gcra"}},
    {"max_wait", {"leaky_bucket"}},
    {"align", {"fixed_window"}},
    {"timezone", {"fixed_window"}},
    {"buckets", {"sliding_window"}},
    {"strict", {"sliding_window"}},
    {"lease", {"concurrency"}},
};

/* Keys without meaning for limits whose requests take a slot and return it. */
static const char *const NOT_OF_SLOTS[] = {"charge_on", "refund_on", "charge_denied"};

static bool is_algorithm(const struct spec_limit *spec, const char *name)
{
    return span_equals(span_of_text(spec->values.algorithm->name), span_of_text(name));
}

static const struct node *find_key(const struct spec_limit *spec, const char *key)
{
    return node_find(spec->position.node, span_of_text(key));
}

/* --- keys --- */

static size_t count_references(const char *const *references)
{
    size_t n = 0;
    while (n < REFERENCES_MAX && references[n] != NULL) {
        n++;
    }
    return n;
}

static bool is_taken(const struct spec_limit *spec, const char *const *references)
{
    for (size_t i = 0; i < count_references(references); i++) {
        if (is_algorithm(spec, references[i])) {
            return true;
        }
    }
    return false;
}

static void report_key(struct compiler *compiler, const struct spec_limit *spec, const char *key,
                       const char *const *references, const struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    const size_t n_references = count_references(references);
    text_add_format(&message, "%s has no meaning for %s; ", key, spec->values.algorithm->name);
    for (size_t i = 0; i < n_references; i++) {
        const char *joint = i == 0 ? "" : i + 1 < n_references ? ", " : " and ";
        text_add_format(&message, "%s%s", joint, references[i]);
    }
    text_add(&message, n_references == 1 ? SPAN(" takes it") : SPAN(" take it"));
    node_error(compiler->diags, node, "%.*s", SPAN_ARGS(text_span(&message)));
}

static void check_keys(struct compiler *compiler, const struct spec_limit *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const struct node *node = find_key(spec, KEYS[i].key);
        if (node != NULL && !is_taken(spec, KEYS[i].references)) {
            report_key(compiler, spec, KEYS[i].key, KEYS[i].references, node);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(NOT_OF_SLOTS); i++) {
        const struct node *node = find_key(spec, NOT_OF_SLOTS[i]);
        if (node != NULL && spec->values.algorithm->has_slots) {
            node_error(compiler->diags, node,
                       "%s has no meaning for concurrency: every slot is given back when its "
                       "response has ended",
                       NOT_OF_SLOTS[i]);
        }
    }
}

/* --- bursts --- */

/* Report that the burst at @node does not say which of several rates it is of. */
static void report_which_burst(struct compiler *compiler, const struct spec_limit *spec,
                               const struct node *node)
{
    const struct spec_rate *rates = spec->rates.items;
    char buffer[PROBLEM_BYTES_MAX];
    struct text advice = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < spec->rates.n_items; i++) {
        const bool is_shown = rates[i].node != NULL;
        const struct span rate = is_shown ? quote_clip(rates[i].node->written) : SPAN("N/period");
        text_add_format(&advice, i == 0 ? "{rate: %.*s" : ", %.*s", SPAN_ARGS(rate));
        if (i == 0) {
            text_add_format(&advice, ", burst: %.*s}", SPAN_ARGS(quote_clip(node->written)));
        }
    }
    node_error(
        compiler->diags, node,
        "burst does not say which of the %zu rates it is of; write it beside its rate, as in "
        "rate: [%.*s]",
        spec->rates.n_items, SPAN_ARGS(text_span(&advice)));
}

static void check_bursts(struct compiler *compiler, const struct spec_limit *spec)
{
    static const char *const TAKERS[] = {"token_bucket", "leaky_bucket", "gcra"};
    const struct spec_rate *rates = spec->rates.items;
    const struct node *single = find_key(spec, "burst");
    if (single != NULL && spec->rates.n_items > 1 && spec->values.algorithm->has_burst) {
        report_which_burst(compiler, spec, single);
    }
    for (size_t i = 0; i < spec->rates.n_items; i++) {
        const struct node *node = node_find(rates[i].position.node, SPAN("burst"));
        if (node != NULL && !spec->values.algorithm->has_burst) {
            report_key(compiler, spec, "burst", TAKERS, node);
        } else if (node != NULL && single != NULL && spec->rates.n_items == 1) {
            node_error(compiler->diags, single,
                       "the rate has a burst of its own: write one of them");
        }
    }
}

/* --- combinations --- */

static void check_departures(struct compiler *compiler, const struct spec_limit *spec)
{
    const struct node *rates = spec->rates.node;
    if (spec->rates.n_items > 1 && spec->values.max_wait_us > 0) {
        node_error(compiler->diags, rates,
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

static void check_timezone(struct compiler *compiler, const struct spec_limit *spec)
{
    const struct node *zone = spec->timezone.node;
    if (zone == NULL || !is_algorithm(spec, "fixed_window")) {
        return;
    }
    if (!calendar_knows_zone(spec->timezone.text)) {
        node_report(compiler->diags, zone, "timezone",
                    ": the system's zone database has no such zone; write one as in Europe/Berlin");
    } else if (spec->align == SPEC_ALIGN_FIRST) {
        node_error(compiler->diags, zone,
                   "timezone has no meaning with \"align: first\": such windows are not the "
                   "clock's");
    } else if (!has_calendar_rate(spec)) {
        node_error(compiler->diags, zone,
                   "timezone only has a meaning for a rate per day, week or month");
    }
}

void compile_parameters(struct compiler *compiler, const struct spec_limit *spec)
{
    if (spec->values.algorithm == NULL || spec->position.node == NULL) {
        return;
    }
    check_keys(compiler, spec);
    check_bursts(compiler, spec);
    check_departures(compiler, spec);
    check_timezone(compiler, spec);
}

static struct span zone_of(const struct spec_limit *spec)
{
    return spec->timezone.node != NULL ? spec->timezone.text : SPAN("UTC");
}

/* The same in every process, and not 0. */
static uint64_t zone_number(struct span zone)
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    uint64_t number = 0;
    hash_identity(SPAN(""), zone, hash);
    for (size_t i = 0; i < sizeof(number); i++) {
        number = number << 8 | hash[i];
    }
    return number | 1;
}

struct limit_spec compile_limit_spec(const struct spec_limit *spec,
                                     const struct spec_rate *spec_rate)
{
    const struct rate *rate = &spec_rate->rate;
    struct limit_spec values = spec->values;
    values.rate = rate->units;
    values.period_us = rate->period_us;
    values.from_first = spec->align == SPEC_ALIGN_FIRST;
    values.is_calendar = is_algorithm(spec, "fixed_window") && !values.from_first &&
                         (rate->calendar == RATE_CALENDAR_MONTH ||
                          (spec->timezone.node != NULL && rate->calendar != RATE_CALENDAR_NONE));
    values.zone = values.is_calendar ? zone_number(zone_of(spec)) : 0;
    if (spec_rate->burst > 0) {
        values.burst = spec_rate->burst;
    } else if (values.burst == 0) {
        values.burst = rate_default_burst(rate, values.max_wait_us);
    }
    return values;
}

/* --- calendars --- */

static const enum calendar_unit UNITS[] = {
    [RATE_CALENDAR_DAY] = CALENDAR_DAY,
    [RATE_CALENDAR_WEEK] = CALENDAR_WEEK,
    [RATE_CALENDAR_MONTH] = CALENDAR_MONTH,
};

/* The existing calendar, or NULL. */
static const struct calendar *find(const struct compiler *compiler, enum calendar_unit unit,
                                   struct span zone)
{
    for (size_t i = 0; i < compiler->policy->n_calendars; i++) {
        const struct compiled_calendar *calendar = &compiler->calendars[i];
        if (calendar->unit == unit && span_equals(calendar->zone, zone)) {
            return compiler->policy->calendars[i];
        }
    }
    return NULL;
}

/* Allocate room for one calendar per rate. False: no memory. */
static bool make_room(struct compiler *compiler)
{
    if (compiler->policy->calendars == NULL) {
        compiler->policy->calendars =
            compile_alloc(compiler, POLICY_LIMITS_MAX, sizeof(struct calendar *));
        compiler->calendars =
            arena_calloc(compiler->scratch, POLICY_LIMITS_MAX, sizeof(struct compiled_calendar));
        compiler->no_memory = compiler->no_memory || compiler->calendars == NULL;
    }
    return !compiler->no_memory;
}

const struct calendar *compile_calendar(struct compiler *compiler, const struct spec_limit *spec,
                                        enum rate_calendar rate)
{
    const enum calendar_unit unit = UNITS[rate];
    const struct span zone = zone_of(spec);
    const struct calendar *found = find(compiler, unit, zone);
    if (found != NULL || !make_room(compiler)) {
        return found;
    }
    struct policy *policy = compiler->policy;
    struct calendar *calendar = NULL;
    const enum status status = calendar_new(unit, zone, compiler->options->now_us, &calendar);
    if (status != STATUS_OK) {
        compiler->no_memory = compiler->no_memory || status == STATUS_NO_MEMORY;
        return NULL;
    }
    compiler->calendars[policy->n_calendars] =
        (struct compiled_calendar){.unit = unit, .zone = zone};
    policy->calendars[policy->n_calendars++] = calendar;
    return calendar;
}

void compile_warn_of_log(struct compiler *compiler, const struct spec_limit *spec,
                         const struct spec_rate *rate)
{
    const bool is_log =
        span_equals(span_of_text(spec->values.algorithm->name), SPAN("sliding_log"));
    if (is_log && rate->rate.units > SLIDING_LOG_ENTRIES_MANY) {
        node_warn(compiler->diags, rate->node, WARNING_LARGE_LOG,
                  "sliding_log remembers each request of a period, here more than %d of each key; "
                  "sliding_window needs the same memory for any rate",
                  SLIDING_LOG_ENTRIES_MANY);
    }
}
