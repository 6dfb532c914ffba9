/* Compiles the cost of a route: one number, a number by method, or the value of a header field. */

#include <inttypes.h>

#include "http/field.h"
#include "http/method.h"
#include "policy/compile/compile.h"
#include "policy/load/node.h"
#include "policy/load/value_types.h"

enum { PROBLEM_BYTES_MAX = 256 }; /* of a problem with a method */

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
    return node_find(spec->position.node, span_of_text(key));
}

/* --- its form --- */

/* Find the kind of cost that the keys of @spec describe. False: they do not fit together. */
static bool find_kind(struct compiler *compiler, const struct spec_cost *spec, enum cost_kind *kind)
{
    const bool is_from = find_key(spec, "from") != NULL;
    const bool is_by_method = spec->methods.n_items > 0 || find_key(spec, "default") != NULL;
    if (is_from && is_by_method) {
        node_error(compiler->diags, spec->position.node,
                   "cost is either \"from\" a header or by method, not both");
        return false;
    }
    if (!is_from && !is_by_method) {
        node_error(compiler->diags, spec->position.node,
                   "cost must be a number, units by method, or \"from\" a header");
        return false;
    }
    *kind = is_by_method ? COST_BY_METHOD : spec->from.kind;
    return is_by_method || spec->from.node != NULL;
}

static void check_keys(struct compiler *compiler, const struct spec_cost *spec, enum cost_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const struct node *value = find_key(spec, KEYS[i].key);
        if (value != NULL && (KEYS[i].kinds & (1U << kind)) == 0) {
            node_error(compiler->diags, value, "\"%s\" in cost has no meaning for %s", KEYS[i].key,
                       NOUNS[kind]);
        }
    }
}

/* --- against the limits --- */

/* The maximum units that a request may take from @rule's smallest limit. A slot counts as one for
 * every cost. */
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

/* The smallest capacity among the limits of @route without a cost of their own. */
static uint32_t least_capacity(const struct route *route)
{
    uint64_t least = LIMIT_COST_MAX;
    for (size_t i = 0; i < route->n_rules; i++) {
        const uint64_t capacity = capacity_of(route->rules[i]);
        least = capacity < least && route_own_cost(route, i) == 0 ? capacity : least;
    }
    return (uint32_t)least;
}

static void report_capacity(struct compiler *compiler, const struct limit_rule *rule,
                            uint64_t capacity, const char *what, const struct node *node)
{
    char at_most[32] = "";
    if (!compile_is_expanded(compiler, rule)) {
        (void)snprintf(at_most, sizeof(at_most), ", but at most %" PRIu64, capacity);
    }
    node_report(compiler->diags, node, what,
                ": limit \"%.*s\" never holds as much%s: such a request can never be admitted",
                SPAN_ARGS(quote_clip(rule->name)), at_most);
}

void compile_check_own_cost(struct compiler *compiler, const struct limit_rule *rule,
                            const struct spec_route_limit *spec)
{
    const struct node *node = spec->cost > 0 ? node_find(spec->position.node, SPAN("cost")) : NULL;
    if (node != NULL && rule->n_limits > 0 && rule->limits[0].algorithm->has_slots) {
        node_error(compiler->diags, node,
                   "cost has no meaning for a limit of concurrency, of which a request takes one "
                   "slot");
    } else if (node != NULL && spec->cost > capacity_of(rule)) {
        report_capacity(compiler, rule, capacity_of(rule), "cost", node);
    }
}

/* Check that @units, given at @node as @what, fits each limit of @route that takes it. */
static void check_capacity(struct compiler *compiler, const struct route *route, uint32_t units,
                           const char *what, const struct node *node)
{
    for (size_t i = 0; i < route->n_rules && node != NULL; i++) {
        const uint64_t capacity = capacity_of(route->rules[i]);
        if (units > capacity && route_own_cost(route, i) == 0) {
            report_capacity(compiler, route->rules[i], capacity, what, node);
        }
    }
}

/* --- its kinds --- */

static void compile_fixed(struct compiler *compiler, const struct spec_cost *spec,
                          struct route *route)
{
    route->cost.units = spec->from.units;
    route->cost.max = spec->from.units;
    check_capacity(compiler, route, spec->from.units, "cost", spec->from.node);
}

static void check_method(struct compiler *compiler, const struct node *method)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (!value_check_method(method->text, &problem)) {
        node_report(compiler->diags, method, "method", ": %.*s", SPAN_ARGS(text_span(&problem)));
    }
}

/* HEAD costs what GET costs, unless it is named. */
static void add_cost_of_head(struct cost_spec *cost)
{
    const struct method_cost *get = NULL;
    for (size_t i = 0; i < cost->n_methods; i++) {
        const enum method_id id = method_identify(cost->methods[i].method);
        if (id == METHOD_HEAD) {
            return;
        }
        get = id == METHOD_GET ? &cost->methods[i] : get;
    }
    if (get != NULL) {
        cost->methods[cost->n_methods++] =
            (struct method_cost){.method = SPAN("HEAD"), .units = get->units};
    }
}

static void compile_by_method(struct compiler *compiler, const struct spec_cost *spec,
                              struct route *route)
{
    const struct spec_method_cost *specs = spec->methods.items;
    struct cost_spec *cost = &route->cost;
    cost->units = spec->units;
    cost->max = spec->units;
    check_capacity(compiler, route, spec->units, "default", find_key(spec, "default"));
    cost->methods = compile_alloc(compiler, spec->methods.n_items + 1, sizeof(*cost->methods));
    for (size_t i = 0; i < spec->methods.n_items && cost->methods != NULL; i++) {
        check_method(compiler, specs[i].position.name_node);
        if (specs[i].position.node == NULL) {
            continue;
        }
        cost->methods[cost->n_methods++] = (struct method_cost){
            .method = compile_copy(compiler, specs[i].position.name),
            .units = specs[i].units,
        };
        cost->max = specs[i].units > cost->max ? specs[i].units : cost->max;
        check_capacity(compiler, route, specs[i].units, "cost", specs[i].position.node);
    }
    if (find_key(spec, "default") == NULL) {
        cost->units = cost->max; /* many servers run the same handler for any method */
    }
    add_cost_of_head(cost);
}

static void compile_request_header(struct compiler *compiler, const struct spec_cost *spec,
                                   struct route *route)
{
    struct cost_spec *cost = &route->cost;
    cost->field = compile_copy(compiler, spec->from.field);
    cost->trust_any = spec->trust == 1;
    cost->max = spec->max > 0 ? spec->max : least_capacity(route);
    cost->units = cost->max;
    check_capacity(compiler, route, cost->max, "max", find_key(spec, "max"));
    if (!cost->trust_any && compiler->spec->trusted_proxies.n_items == 0) {
        node_warn(compiler->diags, spec->from.node, WARNING_UNTRUSTED_COST,
                  "no peer is trusted, so that every request costs the most: name "
                  "\"trusted_proxies\", or say \"trust: any\" beside \"from\"");
    }
}

static void check_response(struct compiler *compiler, const struct spec_cost *spec,
                           const struct route *route)
{
    const struct node *estimate = find_key(spec, "estimate");
    const struct node *from = spec->from.node;
    const struct node *strip = find_key(spec, "strip");
    if (estimate == NULL) {
        node_error(compiler->diags, from,
                   "a cost from the response needs an estimate, which is taken before it comes: "
                   "write {from: response.header.NAME, estimate: N}");
    } else if (spec->max > 0 && spec->estimate > spec->max) {
        node_report(compiler->diags, estimate, "max is less than estimate", "%s", "");
    }
    if (route->upstream == NULL) {
        node_error(compiler->diags, from,
                   "a cost from the response needs an upstream that says it");
    }
    if (spec->strip && field_identify(spec->from.field) != FIELD_OTHER) {
        node_error(compiler->diags, strip,
                   "strip: this field has a meaning for the client and cannot be left out");
    }
}

static void compile_response_header(struct compiler *compiler, const struct spec_cost *spec,
                                    struct route *route)
{
    struct cost_spec *cost = &route->cost;
    cost->field = compile_copy(compiler, spec->from.field);
    cost->strip = spec->strip;
    cost->units = spec->estimate > 0 ? spec->estimate : 1;
    cost->max = spec->max > 0 ? spec->max : least_capacity(route);
    check_response(compiler, spec, route);
    check_capacity(compiler, route, cost->units, "estimate", find_key(spec, "estimate"));
}

void compile_cost(struct compiler *compiler, const struct spec_cost *spec, struct route *route)
{
    static void (*const LINK[])(struct compiler *, const struct spec_cost *, struct route *) = {
        [COST_FIXED] = compile_fixed,
        [COST_BY_METHOD] = compile_by_method,
        [COST_REQUEST_HEADER] = compile_request_header,
        [COST_RESPONSE_HEADER] = compile_response_header,
    };
    route->cost = (struct cost_spec){.kind = COST_FIXED, .units = 1, .max = 1};
    if (spec->position.node != NULL && find_kind(compiler, spec, &route->cost.kind)) {
        check_keys(compiler, spec, route->cost.kind);
        LINK[route->cost.kind](compiler, spec, route);
    }
}
