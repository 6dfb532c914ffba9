#include "policy/compile/compile.h"

#include <stdio.h>

#include "limit/fields.h"
#include "policy/load/node.h"
#include "policy/match_fields.h"
#include "policy/parameters.h"
#include "policy/route_index.h"

enum { PROBLEM_BYTES_MAX = 256, POLICY_FIELD_BYTES_MAX = 4096 };

/* The limits of a route, or of `defaults`. */
struct rule_list {
    const struct limit_rule **rules;
    uint32_t *costs;           /* as in a route */
    const struct node **nodes; /* the node that names each rule */
    size_t n_rules;
    size_t n_limits;  /* of all rules */
    size_t n_doubled; /* limits that may charge a request under several identities */
};

/* The entry of @name in @index. NULL: reported as @what. */
static const struct name_entry *find_name(struct compiler *compiler, const struct name_index *index,
                                          const struct spec_text *name, const char *what)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct name_entry *entry = name_index_find(index, name->text);
    if (entry == NULL) {
        if (!compiler->diags->truncated) {
            name_index_suggest(index, name->text, &problem);
        }
        node_report(compiler->diags, name->node, what, "%.*s", SPAN_ARGS(text_span(&problem)));
    }
    return entry;
}

/* --- lists of limits --- */

/* The rule named @name. NULL: an error is reported. */
static const struct limit_rule *find_rule(struct compiler *compiler, const struct spec_text *name,
                                          const struct rule_list *before)
{
    const struct name_entry *entry = find_name(compiler, &compiler->limits, name, "unknown limit");
    if (entry == NULL || entry->number >= compiler->policy->n_rules) {
        return NULL; /* too many limits: reported */
    }
    const struct limit_rule *rule = &compiler->policy->rules[entry->number];
    compiler->limit_is_used[entry->number] = true;
    for (size_t i = 0; i < before->n_rules; i++) {
        if (before->rules[i] == rule) {
            node_report(compiler->diags, name->node, "limit", " is listed twice");
            return NULL;
        }
    }
    return rule;
}

/* Whether @rule holds requests. */
static bool is_shaping(const struct limit_rule *rule)
{
    return rule->n_limits > 0 && rule->limits[0].params.max_wait > 0 && !rule->limits[0].shadow;
}

/* A route may have only one limit that holds requests: a request is held once. */
static void check_shaping(struct compiler *compiler, const struct rule_list *list)
{
    const struct limit_rule *first = NULL;
    for (size_t i = 0; i < list->n_rules; i++) {
        if (!is_shaping(list->rules[i])) {
            continue;
        }
        if (first != NULL) {
            node_report(compiler->diags, list->nodes[i], "limit",
                        " holds requests, and so does \"%.*s\" beside it: one limit with max_wait "
                        "is all that a route can have",
                        SPAN_ARGS(quote_clip(first->name)));
        }
        first = list->rules[i];
    }
}

static struct rule_list compile_list(struct compiler *compiler, const struct section_items *items)
{
    struct rule_list list = {.n_rules = 0};
    const struct spec_route_limit *limits = items->items;
    bool has_costs = false;
    if (items->n_items > LIMITS_PER_ROUTE_MAX) {
        node_error(compiler->diags, items->node, "a route has at most %d limits, each rate counted",
                   LIMITS_PER_ROUTE_MAX);
        return list;
    }
    list.rules = compile_alloc(compiler, items->n_items, sizeof(const struct limit_rule *));
    list.costs = compile_alloc(compiler, items->n_items, sizeof(*list.costs));
    list.nodes = arena_calloc(compiler->scratch, items->n_items + 1, sizeof(const struct node *));
    if (list.rules == NULL || list.costs == NULL || list.nodes == NULL) {
        compiler->no_memory = true;
        return list;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        const struct limit_rule *rule =
            limits[i].name.node != NULL ? find_rule(compiler, &limits[i].name, &list) : NULL;
        if (rule != NULL) {
            compile_check_own_cost(compiler, rule, &limits[i]);
            has_costs = has_costs || limits[i].cost > 0;
            list.nodes[list.n_rules] = limits[i].name.node;
            list.costs[list.n_rules] = limits[i].cost;
            list.rules[list.n_rules++] = rule;
            list.n_limits += rule->n_limits;
            list.n_doubled += key_may_have_several(&rule->key) ? rule->n_limits : 0;
        }
    }
    list.costs = has_costs ? list.costs : NULL;
    check_shaping(compiler, &list);
    if (list.n_limits > LIMITS_PER_ROUTE_MAX) {
        node_error(compiler->diags, items->node,
                   "a route has at most %d limits, each rate counted; these are %zu",
                   LIMITS_PER_ROUTE_MAX, list.n_limits);
    } else if (list.n_limits + list.n_doubled > LIMITS_PER_ROUTE_MAX) {
        node_error(compiler->diags, items->node,
                   "a route has at most %d limits, each rate counted, and those twice of which a "
                   "request may have two values, as of a cookie; these are %zu",
                   LIMITS_PER_ROUTE_MAX, list.n_limits + list.n_doubled);
    }
    if (list.n_limits + list.n_doubled > LIMITS_PER_ROUTE_MAX) {
        list.n_rules = 0;
        list.n_limits = 0;
    }
    return list;
}

/* --- conditions between a route and its limits --- */

/* The name of a route for messages. */
static struct span shown_name(const struct spec_route *spec, const struct route *route)
{
    return quote_clip(spec->name.node != NULL ? spec->name.node->written : route->name);
}

static void report_capture(struct compiler *compiler, const struct limit_rule *rule,
                           const struct key_term *term, struct span route, const struct node *node)
{
    if (compile_is_expanded(compiler, rule)) {
        node_report(compiler->diags, node, "limit",
                    " counts by a {name} that the path of route \"%.*s\" does not have",
                    SPAN_ARGS(route));
    } else {
        node_report(compiler->diags, node, "limit",
                    " counts by path.%.*s, but the path of route \"%.*s\" has no {%.*s}",
                    SPAN_ARGS(term->name), SPAN_ARGS(route), SPAN_ARGS(term->name));
    }
}

static bool has_capture(const struct pattern *path, struct span name)
{
    for (size_t i = 0; i < path->n_captures; i++) {
        if (span_equals(path->capture_names[i], name)) {
            return true;
        }
    }
    return false;
}

/* Whether @term names a capture that a path of @route does not have. */
static bool is_lacking(const struct route *route, const struct key_term *term)
{
    const struct route_match *match = &route->match;
    bool is_in_all = match->n_paths > 0;
    for (size_t i = 0; i < match->n_paths && term->source == KEY_PATH_CAPTURE; i++) {
        is_in_all = is_in_all && has_capture(&match->paths[i], term->name);
    }
    return term->source == KEY_PATH_CAPTURE && !is_in_all;
}

const struct key_term *compile_lacking_capture(const struct route *route, const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        const struct key_part *part = &key->parts[i];
        const struct key_term *term = part->terms;
        while (term < part->terms + part->n_terms && !is_lacking(route, term)) {
            term++;
        }
        if (term < part->terms + part->n_terms) {
            return term;
        }
    }
    return NULL;
}

static void check_captures(struct compiler *compiler, const struct spec_route *spec,
                           const struct route *route, const struct limit_rule *rule,
                           const struct node *node)
{
    const bool is_reported = route->match.n_paths < spec->match.paths.n_items;
    const struct key_term *lacking =
        is_reported ? NULL : compile_lacking_capture(route, &rule->key);
    if (lacking != NULL) {
        report_capture(compiler, rule, lacking, shown_name(spec, route), node);
    }
}

static void compile_rules(struct compiler *compiler, const struct spec_route *spec,
                          const struct rule_list *defaults, struct route *route)
{
    const struct rule_list list =
        spec->limits.node != NULL ? compile_list(compiler, &spec->limits) : *defaults;
    route->rules = list.rules;
    route->costs = list.costs;
    route->n_rules = list.n_rules;
    route->n_limits = list.n_limits;
    for (size_t i = 0; i < list.n_rules; i++) {
        check_captures(compiler, spec, route, list.rules[i], list.nodes[i]);
    }
}

static void add_policy_members(struct text *text, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_limits && !rule->limits[i].shadow; i++) {
        text_add(text, text->len > 0 ? SPAN(", ") : SPAN(""));
        fields_write_policy(text, &rule->limits[i]);
    }
}

static void write_policy_field(struct compiler *compiler, struct route *route)
{
    char buffer[POLICY_FIELD_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < route->n_rules; i++) {
        add_policy_members(&text, route->rules[i]);
    }
    route->policy_field = compile_copy(compiler, text_span(&text));
}

/* --- destination --- */

static void compile_destination(struct compiler *compiler, const struct spec_route *spec,
                                struct route *route)
{
    const struct name_entry *entry =
        spec->upstream.node != NULL
            ? find_name(compiler, &compiler->upstreams, &spec->upstream, "unknown upstream")
            : NULL;
    if (entry != NULL) {
        compiler->upstream_is_used[entry->number] = true;
        route->upstream = &compiler->policy->upstreams[entry->number];
    }
}

/* Check that there is exactly one of upstream and respond. */
static void check_destination(struct compiler *compiler, const struct spec_route *spec,
                              const struct route *route)
{
    const struct node *node = spec->position.node;
    if (node == NULL) {
        return; /* the route is not a mapping: reported */
    }
    const bool has_upstream = node_find(node, SPAN("upstream")) != NULL;
    const bool has_respond = node_find(node, SPAN("respond")) != NULL;
    if (has_upstream == has_respond) {
        node_error(compiler->diags, node,
                   "route \"%.*s\" must have either \"upstream\" or \"respond\"%s",
                   SPAN_ARGS(shown_name(spec, route)), has_upstream ? ", not both" : "");
    }
}

/* The route's own, or its upstream's. */
static void compile_route_buffer(struct compiler *compiler, const struct spec_route *spec,
                                 struct route *route)
{
    const struct node *node = node_find(spec->position.node, SPAN("buffer"));
    if (node != NULL) {
        route->buffer = compile_buffer(compiler, &spec->buffer, node);
    } else if (route->upstream != NULL) {
        route->buffer = route->upstream->buffer;
    }
    if (node != NULL && spec->respond.position.node != NULL) {
        node_warn(compiler->diags, node, WARNING_NO_EFFECT,
                  "buffer has no effect where no server is asked");
    }
}

/* The route's own, or its upstream's. */
static void compile_min_download(struct compiler *compiler, const struct spec_route *spec,
                                 struct route *route)
{
    const struct node *node = node_find(spec->position.node, SPAN("min_download"));
    if (node != NULL) {
        route->min_download_bytes_per_s = spec->min_download_bytes_per_s;
    } else if (route->upstream != NULL) {
        route->min_download_bytes_per_s = route->upstream->min_download_bytes_per_s;
    }
    if (node != NULL && spec->respond.position.node != NULL) {
        node_warn(compiler->diags, node, WARNING_NO_EFFECT,
                  "min_download has no effect where no server is asked");
    }
}

/* --- routes --- */

static void name_route(struct compiler *compiler, const struct spec_route *spec,
                       struct route *route)
{
    char buffer[NAME_BYTES_MAX];
    struct text name = text_of(buffer, sizeof(buffer));
    if (spec->name.node != NULL) {
        (void)compile_check_name(compiler, "route", spec->name.text, spec->name.node);
        route->name = compile_copy(compiler, spec->name.text);
        return;
    }
    text_add_format(&name, "route-%u", route->index + 1);
    route->name = compile_copy(compiler, text_span(&name));
}

static void check_names(struct compiler *compiler, const struct spec_route *specs)
{
    struct name_index names;
    const struct policy *policy = compiler->policy;
    if (name_index_init(&names, compiler->scratch, policy->n_routes) != STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        name_index_add(&names, policy->routes[i].name, (uint32_t)i);
    }
    name_index_build(&names);
    for (const struct name_entry *entry = name_index_next_duplicate(&names, NULL); entry != NULL;
         entry = name_index_next_duplicate(&names, entry)) {
        const struct spec_route *spec = &specs[entry->number];
        const struct node *node = spec->name.node != NULL ? spec->name.node : spec->position.node;
        if (node != NULL) {
            const struct node *first = specs[entry[-1].number].position.node;
            const bool is_elsewhere = first != NULL && first->file != node->file;
            char where[PROBLEM_BYTES_MAX] = "";
            if (is_elsewhere) {
                (void)snprintf(where, sizeof(where), "; the first is at %s:%u",
                               diags_file(compiler->diags, first->file), first->line);
            }
            node_error(compiler->diags, node, "two routes are called \"%.*s\"%s",
                       SPAN_ARGS(shown_name(spec, &policy->routes[entry->number])), where);
        }
    }
}

/* The accepted upgrade protocols. A tunnel counts as one request. */
static void compile_upgrades(struct compiler *compiler, const struct section_items *items,
                             struct route *route)
{
    static const struct span WEBSOCKET = {"websocket", 9};
    route->upgrades = &WEBSOCKET;
    route->n_upgrades = 1;
    if (items->node != NULL) {
        route->upgrades = compile_texts(compiler, items, &route->n_upgrades);
    }
}

static void compile_route(struct compiler *compiler, const struct spec_route *spec,
                          const struct rule_list *defaults, struct route *route)
{
    const bool has_max_body = node_find(spec->position.node, SPAN("max_body")) != NULL;
    name_route(compiler, spec, route);
    compile_match(compiler, &spec->match, route);
    compile_rules(compiler, spec, defaults, route);
    compile_destination(compiler, spec, route);
    route->respond = compile_respond(compiler, spec);
    check_destination(compiler, spec, route);
    write_policy_field(compiler, route);
    compile_cost(compiler, &spec->cost, route);
    compile_upgrades(compiler, &spec->upgrade, route);
    compile_edits(compiler, spec, route);
    route->cors = compile_cors(compiler, spec);
    compile_route_buffer(compiler, spec, route);
    compile_min_download(compiler, spec, route);
    route->body_bytes_max =
        has_max_body ? spec->body_bytes_max : compiler->spec->max.values.body_bytes;
}

/* Whether there are routes, and not too many. */
static bool check_number(struct compiler *compiler, const struct section_items *items)
{
    static const char *const INSTEAD[] = {"routes", "upstream", "limit"};
    const struct node *root = compiler->spec->position.node;
    const struct node *position = items->node != NULL ? items->node : root;
    if (items->n_items > POLICY_ROUTES_MAX) {
        node_error(compiler->diags, position, "more than %d routes", POLICY_ROUTES_MAX);
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(INSTEAD) && items->node == NULL; i++) {
        if (node_find(root, span_of_text(INSTEAD[i])) != NULL) {
            return false; /* the list could not be read: reported */
        }
    }
    if (items->n_items == 0) {
        node_error(compiler->diags, position, "there are no routes: every request would get 404");
    }
    return items->n_items > 0;
}

/* Build the index for the matcher, if there are no errors. */
static void index_routes(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    struct route_index *index = compile_alloc(compiler, 1, sizeof(*index));
    size_t n_entries = 0;
    for (size_t i = 0; i < policy->n_routes; i++) {
        n_entries += route_index_count(&policy->routes[i].match);
    }
    if (n_entries > ROUTE_ENTRIES_MAX) {
        node_error(compiler->diags, compiler->spec->routes.node,
                   "the routes have more than %d pairs of a host and a path", ROUTE_ENTRIES_MAX);
    }
    if (compiler->diags->n_errors > 0 || index == NULL) {
        return;
    }
    if (route_index_build(index, &policy->arena, policy->routes, policy->n_routes) != STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    policy->route_index = index;
}

static void index_fields(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    if (compiler->diags->n_errors == 0 && !compiler->no_memory) {
        compiler->no_memory =
            match_field_index_build(policy->routes, policy->n_routes, &policy->arena,
                                    &policy->match_field_index) != STATUS_OK;
    }
}

static void index_parameters(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    if (compiler->diags->n_errors > 0 || compiler->no_memory) {
        return;
    }
    const enum status status = parameter_index_build(policy->routes, policy->n_routes,
                                                     &policy->arena, &policy->parameter_index);
    compiler->no_memory = status == STATUS_NO_MEMORY;
    if (status == STATUS_FULL) {
        node_error(compiler->diags, compiler->spec->routes.node,
                   "match.query of all routes has too many names and values: %d for each name and "
                   "1 for each value are more than %d",
                   PARAMETER_BITS_EACH, PARAMETER_BITS_MAX);
    }
}

void compile_routes(struct compiler *compiler)
{
    const struct section_items *items = &compiler->spec->routes;
    const struct spec_route *specs = items->items;
    struct policy *policy = compiler->policy;
    if (!check_number(compiler, items)) {
        return;
    }
    const struct rule_list defaults = compile_list(compiler, &compiler->spec->defaults.limits);
    policy->routes = compile_alloc(compiler, items->n_items, sizeof(*policy->routes));
    for (size_t i = 0; i < items->n_items && !compiler->no_memory; i++) {
        policy->routes[i].index = (uint32_t)i;
        compile_route(compiler, &specs[i], &defaults, &policy->routes[i]);
    }
    policy->n_routes = compiler->no_memory ? 0 : items->n_items;
    check_names(compiler, specs);
    index_routes(compiler);
    index_parameters(compiler);
    index_fields(compiler);
}
