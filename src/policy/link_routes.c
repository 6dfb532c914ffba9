#include "policy/link.h"

#include "limit/fields.h"
#include "policy/link_edits.h"
#include "policy/link_match.h"
#include "policy/quote.h"
#include "policy/route_index.h"

enum { PROBLEM_BYTES_MAX = 256, POLICY_FIELD_BYTES_MAX = 4096 };

/* The limits of a route, or of `defaults`. */
struct rule_list {
    const struct limit_rule **rules;
    const struct node **nodes; /* where each is named */
    size_t n_rules;
    size_t n_limits;  /* of all together */
    size_t n_doubled; /* of them that a request may be charged to under several identities */
};

/* --- lists of limits --- */

/* The rule that @name means, NULL after telling what is wrong. */
static const struct limit_rule *find_rule(struct linker *linker, const struct spec_text *name,
                                          const struct rule_list *before)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct name_entry *entry = name_index_find(&linker->limits, name->text);
    if (entry == NULL) {
        if (!linker->diags->truncated) {
            name_index_suggest(&linker->limits, name->text, &problem);
        }
        link_report(linker, name->node, "unknown limit", &problem);
        return NULL;
    }
    if (entry->number >= linker->policy->n_rules) {
        return NULL; /* too many limits: told */
    }
    const struct limit_rule *rule = &linker->policy->rules[entry->number];
    linker->limit_is_used[entry->number] = true;
    for (size_t i = 0; i < before->n_rules; i++) {
        if (before->rules[i] == rule) {
            text_add_literal(&problem, " is listed twice");
            link_report(linker, name->node, "limit", &problem);
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

/* A request has one departure. */
static void check_shaping(struct linker *linker, const struct rule_list *list)
{
    const struct limit_rule *first = NULL;
    for (size_t i = 0; i < list->n_rules; i++) {
        if (!is_shaping(list->rules[i])) {
            continue;
        }
        if (first != NULL) {
            char buffer[PROBLEM_BYTES_MAX];
            struct text problem = text_of(buffer, sizeof(buffer));
            text_add_format(&problem,
                            " holds requests, and so does \"%.*s\" beside it: one limit with "
                            "max_wait is all that a route can have",
                            SPAN_ARGS(quote_clip(first->name)));
            link_report(linker, list->nodes[i], "limit", &problem);
        }
        first = list->rules[i];
    }
}

static struct rule_list link_list(struct linker *linker, const struct section_items *items)
{
    struct rule_list list = {.n_rules = 0};
    const struct spec_text *names = items->items;
    if (items->n_items > LIMITS_PER_ROUTE_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "a route has at most %d limits, each rate counted", LIMITS_PER_ROUTE_MAX);
        return list;
    }
    list.rules = link_alloc(linker, items->n_items, sizeof(const struct limit_rule *));
    list.nodes = arena_calloc(linker->scratch, items->n_items + 1, sizeof(const struct node *));
    if (list.rules == NULL || list.nodes == NULL) {
        linker->no_memory = true;
        return list;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        const struct limit_rule *rule =
            names[i].node != NULL ? find_rule(linker, &names[i], &list) : NULL;
        if (rule != NULL) {
            list.nodes[list.n_rules] = names[i].node;
            list.rules[list.n_rules++] = rule;
            list.n_limits += rule->n_limits;
            list.n_doubled += key_may_have_several(&rule->key) ? rule->n_limits : 0;
        }
    }
    check_shaping(linker, &list);
    if (list.n_limits > LIMITS_PER_ROUTE_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "a route has at most %d limits, each rate counted; these are %zu",
                  LIMITS_PER_ROUTE_MAX, list.n_limits);
    } else if (list.n_limits + list.n_doubled > LIMITS_PER_ROUTE_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
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

/* --- what a route and its limits must agree on --- */

/* What messages may call a route. */
static struct span shown_name(const struct spec_route *spec, const struct route *route)
{
    return quote_clip(spec->name.node != NULL ? spec->name.node->written : route->name);
}

static void report_capture(struct linker *linker, const struct limit_rule *rule,
                           const struct key_term *term, struct span route, const struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (link_is_expanded(linker, rule)) {
        text_add_format(&problem,
                        " counts by a {name} that the path of route \"%.*s\" does not have",
                        SPAN_ARGS(route));
    } else {
        text_add_format(&problem,
                        " counts by path.%.*s, but the path of route \"%.*s\" has no {%.*s}",
                        SPAN_ARGS(term->name), SPAN_ARGS(route), SPAN_ARGS(term->name));
    }
    link_report(linker, node, "limit", &problem);
}

/* Whether @term is a {name} that @route does not have. */
static bool is_lacking(const struct route *route, const struct key_term *term)
{
    for (size_t i = 0; i < route->n_captures; i++) {
        if (span_equals(route->capture_names[i], term->name)) {
            return false;
        }
    }
    return term->source == KEY_PATH_CAPTURE;
}

const struct key_term *link_lacking_capture(const struct route *route, const struct key *key)
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

static void check_captures(struct linker *linker, const struct spec_route *spec,
                           const struct route *route, const struct limit_rule *rule,
                           const struct node *node)
{
    const bool is_told = spec->match.path.node != NULL && route->match.segments == NULL;
    const struct key_term *lacking = is_told ? NULL : link_lacking_capture(route, &rule->key);
    if (lacking != NULL) {
        report_capture(linker, rule, lacking, shown_name(spec, route), node);
    }
}

static void link_rules(struct linker *linker, const struct spec_route *spec,
                       const struct rule_list *defaults, struct route *route)
{
    const struct rule_list list =
        spec->limits.node != NULL ? link_list(linker, &spec->limits) : *defaults;
    route->rules = list.rules;
    route->n_rules = list.n_rules;
    route->n_limits = list.n_limits;
    for (size_t i = 0; i < list.n_rules; i++) {
        check_captures(linker, spec, route, list.rules[i], list.nodes[i]);
    }
}

static void add_policy_members(struct text *text, const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_limits && !rule->limits[i].shadow; i++) {
        text_add(text, text->len > 0 ? SPAN(", ") : SPAN(""));
        fields_write_policy(text, &rule->limits[i]);
    }
}

static void write_policy_field(struct linker *linker, struct route *route)
{
    char buffer[POLICY_FIELD_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < route->n_rules; i++) {
        add_policy_members(&text, route->rules[i]);
    }
    route->policy_field = link_copy(linker, text_span(&text));
}

/* --- where a route leads --- */

static void link_destination(struct linker *linker, const struct spec_route *spec,
                             struct route *route)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const struct name_entry *entry = name_index_find(&linker->upstreams, spec->upstream.text);
    if (spec->upstream.node == NULL) {
        return;
    }
    if (entry == NULL) {
        if (!linker->diags->truncated) {
            name_index_suggest(&linker->upstreams, spec->upstream.text, &problem);
        }
        link_report(linker, spec->upstream.node, "unknown upstream", &problem);
        return;
    }
    linker->upstream_is_used[entry->number] = true;
    route->upstream = &linker->policy->upstreams[entry->number];
}

static void link_respond(struct linker *linker, const struct spec_reply *spec, struct route *route)
{
    if (spec->place.node == NULL) {
        return;
    }
    struct respond_spec *respond = link_alloc(linker, 1, sizeof(*respond));
    if (respond != NULL) {
        respond->status = (uint16_t)spec->status;
        respond->body = link_copy(linker, spec->body.text);
        respond->content_type = link_copy(linker, spec->content_type.text);
    }
    route->respond = respond;
    if ((spec->status == 204 || spec->status == 304) && spec->body.text.len > 0) {
        diags_add(linker->diags, DIAG_ERROR, spec->body.node->line, spec->body.node->column,
                  "an answer of status %u has no body", (unsigned)spec->status);
    }
}

/* Exactly one of upstream and respond. */
static void check_destination(struct linker *linker, const struct spec_route *spec,
                              const struct route *route)
{
    const struct node *node = spec->place.node;
    if (node == NULL) {
        return; /* the route is no mapping: told */
    }
    const bool has_upstream = node_find(node, SPAN("upstream")) != NULL;
    const bool has_respond = node_find(node, SPAN("respond")) != NULL;
    if (has_upstream == has_respond) {
        diags_add(linker->diags, DIAG_ERROR, node->line, node->column,
                  "route \"%.*s\" must have either \"upstream\" or \"respond\"%s",
                  SPAN_ARGS(shown_name(spec, route)), has_upstream ? ", not both" : "");
    }
}

/* --- routes --- */

static void name_route(struct linker *linker, const struct spec_route *spec, struct route *route)
{
    char buffer[NAME_BYTES_MAX];
    struct text name = text_of(buffer, sizeof(buffer));
    if (spec->name.node != NULL) {
        (void)link_check_name(linker, "route", spec->name.text, spec->name.node);
        route->name = link_copy(linker, spec->name.text);
        return;
    }
    text_add_format(&name, "route-%u", route->index + 1);
    route->name = link_copy(linker, text_span(&name));
}

static void check_names(struct linker *linker, const struct spec_route *specs)
{
    struct name_index names;
    const struct policy *policy = linker->policy;
    if (name_index_init(&names, linker->scratch, policy->n_routes) != STATUS_OK) {
        linker->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        name_index_add(&names, policy->routes[i].name, (uint32_t)i);
    }
    name_index_build(&names);
    for (const struct name_entry *entry = name_index_next_duplicate(&names, NULL); entry != NULL;
         entry = name_index_next_duplicate(&names, entry)) {
        const struct spec_route *spec = &specs[entry->number];
        const struct node *node = spec->name.node != NULL ? spec->name.node : spec->place.node;
        if (node != NULL) {
            diags_add(linker->diags, DIAG_ERROR, node->line, node->column,
                      "two routes are called \"%.*s\"",
                      SPAN_ARGS(shown_name(spec, &policy->routes[entry->number])));
        }
    }
}

/* The protocols that pass. What such a tunnel carries is counted as one request. */
static void link_upgrades(struct linker *linker, const struct section_items *items,
                          struct route *route)
{
    static const struct spec_text WEBSOCKET = {.text = {"websocket", 9}};
    const struct spec_text *protocols = items->node != NULL ? items->items : &WEBSOCKET;
    const size_t n_protocols = items->node != NULL ? items->n_items : 1;
    route->upgrades = link_alloc(linker, n_protocols, sizeof(*route->upgrades));
    for (size_t i = 0; i < n_protocols && route->upgrades != NULL; i++) {
        if (protocols[i].text.len > 0) {
            route->upgrades[route->n_upgrades++] = link_copy(linker, protocols[i].text);
        }
    }
}

static void link_route(struct linker *linker, const struct spec_route *spec,
                       const struct rule_list *defaults, struct route *route)
{
    const bool has_max_body =
        spec->place.node != NULL && node_find(spec->place.node, SPAN("max_body")) != NULL;
    name_route(linker, spec, route);
    link_match(linker, &spec->match, route);
    link_rules(linker, spec, defaults, route);
    link_destination(linker, spec, route);
    link_respond(linker, &spec->respond, route);
    check_destination(linker, spec, route);
    write_policy_field(linker, route);
    link_cost(linker, &spec->cost, route);
    link_upgrades(linker, &spec->upgrade, route);
    link_edits(linker, spec, route);
    route->body_bytes_max =
        has_max_body ? spec->body_bytes_max : linker->spec->max.values.body_bytes;
}

/* Whether there are routes, and not too many. */
static bool check_number(struct linker *linker, const struct section_items *items)
{
    static const char *const INSTEAD[] = {"routes", "upstream", "limit"};
    const struct node *root = linker->spec->place.node;
    const struct node *place = items->node != NULL ? items->node : root;
    if (items->n_items > POLICY_ROUTES_MAX) {
        diags_add(linker->diags, DIAG_ERROR, place->line, place->column, "more than %d routes",
                  POLICY_ROUTES_MAX);
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(INSTEAD) && items->node == NULL; i++) {
        if (node_find(root, span_of_text(INSTEAD[i])) != NULL) {
            return false; /* they could not be read: told */
        }
    }
    if (items->n_items == 0) {
        diags_add(linker->diags, DIAG_ERROR, place->line, place->column,
                  "there are no routes: every request would get 404");
    }
    return items->n_items > 0;
}

/* For the matcher, once all is well. */
static void index_routes(struct linker *linker)
{
    struct policy *policy = linker->policy;
    struct route_index *index = link_alloc(linker, 1, sizeof(*index));
    if (linker->diags->n_errors > 0 || index == NULL) {
        return;
    }
    if (route_index_build(index, &policy->arena, policy->routes, policy->n_routes) != STATUS_OK) {
        linker->no_memory = true;
        return;
    }
    policy->route_index = index;
}

void link_routes(struct linker *linker)
{
    const struct section_items *items = &linker->spec->routes;
    const struct spec_route *specs = items->items;
    struct policy *policy = linker->policy;
    if (!check_number(linker, items)) {
        return;
    }
    const struct rule_list defaults = link_list(linker, &linker->spec->defaults.limits);
    policy->routes = link_alloc(linker, items->n_items, sizeof(*policy->routes));
    for (size_t i = 0; i < items->n_items && !linker->no_memory; i++) {
        policy->routes[i].index = (uint32_t)i;
        link_route(linker, &specs[i], &defaults, &policy->routes[i]);
    }
    policy->n_routes = linker->no_memory ? 0 : items->n_items;
    check_names(linker, specs);
    index_routes(linker);
}
