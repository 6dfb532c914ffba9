/* The cost of a route: one number, a number by method, or what a header field says. */

#include <inttypes.h>

#include "http/field.h"
#include "limit/gcra.h"
#include "policy/link.h"
#include "policy/quote.h"
#include "policy/value_types.h"

enum { PROBLEM_BYTES_MAX = 256 };

static const char *const NOUNS[] = {
    [COST_FIXED] = "a fixed cost",
    [COST_BY_METHOD] = "a cost by method",
    [COST_REQUEST_HEADER] = "a cost from the request",
    [COST_RESPONSE_HEADER] = "a cost from the response",
};

#define KIND(kind) (1U << COST_##kind)

/* Which kinds of cost a key belongs to. */
static const struct {
    const char *key;
    unsigned kinds;
} KEYS[] = {
    {"max", KIND(REQUEST_HEADER) | KIND(RESPONSE_HEADER)},
    {"trust", KIND(REQUEST_HEADER)},
    {"estimate", KIND(RESPONSE_HEADER)},
    {"strip", KIND(RESPONSE_HEADER)},
};

static const struct node *find_key(const struct spec_cost *spec, const char *key)
{
    return node_find(spec->place.node, span_of_text(key));
}

static void report_place(struct linker *linker, const struct spec_cost *spec, const char *text)
{
    const struct node *node = spec->place.node;
    diags_add(linker->diags, DIAG_ERROR, node->line, node->column, "%s", text);
}

/* --- its form --- */

/* Whether the keys of @spec make one cost, and which. */
static bool find_kind(struct linker *linker, const struct spec_cost *spec, enum cost_kind *kind)
{
    const bool is_from = find_key(spec, "from") != NULL;
    const bool is_by_method = spec->methods.n_items > 0 || find_key(spec, "default") != NULL;
    if (is_from && is_by_method) {
        report_place(linker, spec, "cost is either \"from\" a header or by method, not both");
        return false;
    }
    if (!is_from && !is_by_method) {
        report_place(linker, spec, "cost must be a number, units by method, or \"from\" a header");
        return false;
    }
    *kind = is_by_method ? COST_BY_METHOD : spec->from.kind;
    return is_by_method || spec->from.node != NULL;
}

static void check_keys(struct linker *linker, const struct spec_cost *spec, enum cost_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const struct node *value = find_key(spec, KEYS[i].key);
        if (value != NULL && (KEYS[i].kinds & (1U << kind)) == 0) {
            diags_add(linker->diags, DIAG_ERROR, value->line, value->column,
                      "\"%s\" in cost has no meaning for %s", KEYS[i].key, NOUNS[kind]);
        }
    }
}

/* --- against the limits --- */

/* Most units that a request may take of @rule's smallest limit. A slot is
 * one, whatever the cost. */
static uint64_t capacity_of(const struct limit_rule *rule)
{
    uint64_t least = LIMIT_COST_MAX;
    for (size_t i = 0; i < rule->n_limits; i++) {
        const uint64_t capacity = limit_capacity(&rule->limits[i]);
        if (!rule->limits[i].algorithm->has_slots && capacity < least) {
            least = capacity;
        }
    }
    return least;
}

/* What the smallest of the limits of @route holds. */
static uint32_t least_capacity(const struct route *route)
{
    uint64_t least = LIMIT_COST_MAX;
    for (size_t i = 0; i < route->n_rules; i++) {
        const uint64_t capacity = capacity_of(route->rules[i]);
        least = capacity < least ? capacity : least;
    }
    return (uint32_t)least;
}

static void report_capacity(struct linker *linker, const struct limit_rule *rule, uint64_t capacity,
                            const char *what, const struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    text_add_format(&problem, ": limit \"%.*s\" never holds as much",
                    SPAN_ARGS(quote_clip(rule->name)));
    if (!link_is_expanded(linker, rule)) {
        text_add_format(&problem, ", but at most %llu", (unsigned long long)capacity);
    }
    text_add_literal(&problem, ": such a request can never be admitted");
    link_report(linker, node, what, &problem);
}

/* @units, said at @node as @what, must fit each limit of @route. */
static void check_capacity(struct linker *linker, const struct route *route, uint32_t units,
                           const char *what, const struct node *node)
{
    for (size_t i = 0; i < route->n_rules && node != NULL; i++) {
        const uint64_t capacity = capacity_of(route->rules[i]);
        if (units > capacity) {
            report_capacity(linker, route->rules[i], capacity, what, node);
        }
    }
}

/* --- its kinds --- */

static void link_fixed(struct linker *linker, const struct spec_cost *spec, struct route *route)
{
    route->cost.units = spec->from.units;
    route->cost.max = spec->from.units;
    check_capacity(linker, route, spec->from.units, "cost", spec->from.node);
}

static void check_method(struct linker *linker, const struct node *method)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    text_add_literal(&problem, ": ");
    if (!value_check_method(method->text, &problem)) {
        link_report(linker, method, "method", &problem);
    }
}

static void link_by_method(struct linker *linker, const struct spec_cost *spec, struct route *route)
{
    const struct spec_method_cost *specs = spec->methods.items;
    struct cost_spec *cost = &route->cost;
    cost->units = spec->units;
    cost->max = spec->units;
    check_capacity(linker, route, spec->units, "default", find_key(spec, "default"));
    cost->methods = link_alloc(linker, spec->methods.n_items, sizeof(*cost->methods));
    for (size_t i = 0; i < spec->methods.n_items && cost->methods != NULL; i++) {
        check_method(linker, specs[i].place.name_node);
        if (specs[i].node == NULL) {
            continue;
        }
        cost->methods[cost->n_methods++] = (struct method_cost){
            .method = link_copy(linker, specs[i].place.name),
            .units = specs[i].units,
        };
        cost->max = specs[i].units > cost->max ? specs[i].units : cost->max;
        check_capacity(linker, route, specs[i].units, "cost", specs[i].node);
    }
}

static void link_request_header(struct linker *linker, const struct spec_cost *spec,
                                struct route *route)
{
    struct cost_spec *cost = &route->cost;
    cost->field = link_copy(linker, spec->from.field);
    cost->trust_any = spec->trust == 1;
    cost->max = spec->max > 0 ? spec->max : least_capacity(route);
    cost->units = cost->max;
    check_capacity(linker, route, cost->max, "max", find_key(spec, "max"));
    if (!cost->trust_any && linker->spec->trusted_proxies.node == NULL) {
        diags_warn(linker->diags, warning_name(WARNING_UNBELIEVED_COST), spec->from.node->line,
                   spec->from.node->column,
                   "nobody is believed, so that every request costs the most: name "
                   "\"trusted_proxies\", or say \"trust: any\" beside \"from\"");
    }
}

static void check_response(struct linker *linker, const struct spec_cost *spec,
                           const struct route *route)
{
    const struct node *estimate = find_key(spec, "estimate");
    const struct node *from = spec->from.node;
    const struct node *strip = find_key(spec, "strip");
    if (estimate == NULL) {
        diags_add(linker->diags, DIAG_ERROR, from->line, from->column,
                  "a cost from the response needs an estimate, which is taken before it comes: "
                  "write {from: response.header.NAME, estimate: N}");
    } else if (spec->max > 0 && spec->estimate > spec->max) {
        struct text problem = text_of(NULL, 0);
        link_report(linker, estimate, "max is less than estimate", &problem);
    }
    if (route->upstream == NULL) {
        diags_add(linker->diags, DIAG_ERROR, from->line, from->column,
                  "a cost from the response needs an upstream that says it");
    }
    if (spec->strip && field_identify(spec->from.field) != FIELD_OTHER) {
        diags_add(linker->diags, DIAG_ERROR, strip->line, strip->column,
                  "strip: this field has a meaning for the client and cannot be left out");
    }
}

/* What a gcra limit may owe is bounded by a full bucket. */
static void warn_of_forgiven(struct linker *linker, const struct route *route,
                             const struct node *node)
{
    for (size_t i = 0; node != NULL && i < route->n_rules; i++) {
        const struct limit_rule *rule = route->rules[i];
        for (size_t j = 0; j < rule->n_limits; j++) {
            const struct limit *limit = &rule->limits[j];
            if (limit->algorithm == &gcra_algorithm && route->cost.max > limit->params.burst) {
                diags_warn(
                    linker->diags, warning_name(WARNING_FORGIVEN_COST), node->line, node->column,
                    "what the response says beyond the burst of limit \"%.*s\" is forgiven: "
                    "gcra owes at most a full bucket; take token_bucket, or a max of %" PRIu32,
                    SPAN_ARGS(quote_clip(rule->name)), limit->params.burst);
                return;
            }
        }
    }
}

static void link_response_header(struct linker *linker, const struct spec_cost *spec,
                                 struct route *route)
{
    struct cost_spec *cost = &route->cost;
    cost->field = link_copy(linker, spec->from.field);
    cost->strip = spec->strip;
    cost->units = spec->estimate > 0 ? spec->estimate : 1;
    cost->max = spec->max > 0 ? spec->max : least_capacity(route);
    check_response(linker, spec, route);
    check_capacity(linker, route, cost->units, "estimate", find_key(spec, "estimate"));
    warn_of_forgiven(linker, route, spec->place.node);
}

void link_cost(struct linker *linker, const struct spec_cost *spec, struct route *route)
{
    static void (*const LINK[])(struct linker *, const struct spec_cost *, struct route *) = {
        [COST_FIXED] = link_fixed,
        [COST_BY_METHOD] = link_by_method,
        [COST_REQUEST_HEADER] = link_request_header,
        [COST_RESPONSE_HEADER] = link_response_header,
    };
    route->cost = (struct cost_spec){.kind = COST_FIXED, .units = 1, .max = 1};
    if (spec->place.node != NULL && find_kind(linker, spec, &route->cost.kind)) {
        check_keys(linker, spec, route->cost.kind);
        LINK[route->cost.kind](linker, spec, route);
    }
}
