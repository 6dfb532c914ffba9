/* Finds conditions and keys by fields that the server gets otherwise, or that it hardly reads. */

#include "http/field.h"
#include "policy/lint/lint.h"
#include "policy/load/node.h"
#include "policy/read_fields.h"
#include "policy/route_index.h"
#include "policy/route_match.h"

/* --- fields that are replaced --- */

/* Whether the server gets the field @name of a peer that is not trusted as sluice writes it, or not
 * at all. Lists of addresses in keys are left to lint_spoofable_addresses(). */
static bool is_replaced(struct span name, bool with_lists)
{
    const enum field_id id = field_identify(name);
    if (id == FIELD_X_FORWARDED_FOR || id == FIELD_FORWARDED) {
        return with_lists;
    }
    return id == FIELD_X_REQUEST_ID || field_is_x_forwarded(name);
}

static void warn_of_replaced(struct lint *lint, const struct node *node, struct span name)
{
    node_warn(lint->diags, node, WARNING_REPLACED_FIELD,
              "no peer is trusted, so that servers never get the %.*s of a client that is read "
              "here: name your proxies in trusted_proxies, or read what sluice knows by itself, as "
              "host, scheme or client.ip",
              SPAN_ARGS(quote_clip(name)));
}

void lint_replaced_keys(struct lint *lint, const struct limit_rule *rule,
                        const struct spec_limit *spec)
{
    const struct spec_key_part *parts = spec->key.items;
    for (size_t i = 0; i < rule->key.n_parts && lint->policy->n_trusted_proxies == 0; i++) {
        const struct key_part *part = &rule->key.parts[i];
        for (size_t j = 0; j < part->n_terms; j++) {
            if (part->terms[j].source == KEY_HEADER && is_replaced(part->terms[j].name, false)) {
                warn_of_replaced(lint, parts[i].node, part->terms[j].name);
                break;
            }
        }
    }
}

/* A route that answers by itself has no server that reads the field. */
void lint_replaced_conditions(struct lint *lint, const struct route *route,
                              const struct spec_route *spec)
{
    const struct section_list *headers = spec->match.headers.items;
    const bool can_be_replaced = lint->policy->n_trusted_proxies == 0 && route->upstream != NULL;
    for (size_t i = 0; i < spec->match.headers.n_items && can_be_replaced; i++) {
        if (is_replaced(headers[i].position.name, true)) {
            warn_of_replaced(lint, headers[i].position.name_node, headers[i].position.name);
        }
    }
}

/* --- routes that a client leaves by a field --- */

/* Only a policy built to be slow needs more. */
static const uint64_t STEPS_MAX = UINT64_C(5000000);

/* Whether servers do the same without the field @name, or with another spelling of its value. */
static bool is_hardly_read(struct span name)
{
    static const char *const NAMES[] = {"accept",       "accept-encoding", "accept-language",
                                        "content-type", "user-agent",      "x-requested-with"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (span_equals_ignore_case(name, span_of_text(NAMES[i]))) {
            return true;
        }
    }
    return false;
}

/* The first such field that @route asks for, or NULL. */
static const struct section_position *find_hardly_read(const struct lint *lint,
                                                       const struct route *route)
{
    const struct spec_match *spec = &lint->routes[route->index].match;
    const struct section_list *headers = spec->headers.items;
    for (size_t i = 0; i < spec->headers.n_items; i++) {
        if (route->match.fields[i].kind != VALUE_MATCH_ABSENT &&
            is_hardly_read(headers[i].position.name)) {
            return &headers[i].position;
        }
    }
    return NULL;
}

/* The first route behind @entry that takes all its requests, whatever their fields and query. */
static const struct route *find_behind(const struct policy *policy, const struct route_entry *entry,
                                       uint64_t *steps)
{
    const struct route_index *index = policy->route_index;
    const struct route_entry *end = index->entries + index->n_entries;
    const struct route_match *match = &policy->routes[entry->route].match;
    const struct cover_part part = {.method = match->n_methods > 0 ? match->methods[0] : SPAN("")};
    for (const struct route_entry *other = entry + 1; other<end && * steps> 0; other++, --*steps) {
        const struct route *route = &policy->routes[other->route];
        if (other->route != entry->route &&
            route->match.n_fields + route->match.n_parameters == 0 &&
            cover_takes(policy, other, entry, &part)) {
            return route;
        }
    }
    return NULL;
}

/* A route behind it that has other limits in place of those is another choice, and no gap. */
void lint_left_routes(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct route_entry *entry = policy->route_index->entries;
    uint64_t steps = STEPS_MAX;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const struct section_position *position =
            route->upstream != NULL ? find_hardly_read(lint, route) : NULL;
        const struct route *other = position != NULL ? find_behind(policy, entry, &steps) : NULL;
        entry += route_index_count(&route->match);
        if (other == NULL || other->upstream != route->upstream ||
            !route_limits_hold(route, other) || route_limits_hold(other, route)) {
            continue;
        }
        const struct limit_rule *missing = route_limits_find_missing(other, route);
        node_warn(
            lint->diags, position->name_node, WARNING_CLIENT_CHOSEN_ROUTE,
            "a request without %.*s, or with another spelling of its value, which many servers "
            "take for the same, takes route \"%.*s\", which lacks %s%.*s%s of route "
            "\"%.*s\"; give it the same %s, or do not match by this field",
            SPAN_ARGS(quote_clip(position->name)),
            SPAN_ARGS(lint_name_of_route(lint, other->index)),
            missing != NULL ? "limit \"" : "the cost",
            SPAN_ARGS(missing != NULL ? missing->name : SPAN("")), missing != NULL ? "\"" : "",
            SPAN_ARGS(lint_name_of_route(lint, i)), missing != NULL ? "limits" : "cost");
    }
}
