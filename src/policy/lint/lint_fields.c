/* Finds conditions and keys by fields that the server gets otherwise. */

#include "http/field.h"
#include "policy/lint/lint.h"
#include "policy/load/node.h"
#include "policy/read_fields.h"
#include "policy/route_match.h"

/* --- fields that are replaced --- */

/* Where a proxy is trusted, the field counts from it alone, as the policy wants it. */
static bool is_never_read(const struct lint *lint, struct span name)
{
    return lint->policy->n_trusted_proxies == 0 && field_needs_trust(field_identify(name), name);
}

static void warn_of_replaced(struct lint *lint, const struct node *node, struct span name)
{
    node_warn(lint->diags, node, WARNING_REPLACED_FIELD,
              "no peer is trusted, so that %.*s counts as absent in every request, as servers "
              "never get it from clients: name your proxies in trusted_proxies, or read what "
              "sluice knows by itself, as host, scheme or client.ip",
              SPAN_ARGS(quote_clip(name)));
}

/* True: warned. */
static bool check_term(struct lint *lint, const struct key_term *term, const struct node *node)
{
    const bool is_replaced =
        KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_HEADER && is_never_read(lint, term->name);
    if (is_replaced) {
        warn_of_replaced(lint, node, term->name);
    }
    return is_replaced;
}

/* Warns once. */
static void check_part(struct lint *lint, const struct key_part *part, const struct node *node)
{
    bool is_warned = false;
    for (size_t i = 0; i < part->n_terms && !is_warned; i++) {
        const struct key_term *term = &part->terms[i];
        is_warned = term->position == NULL ? check_term(lint, term, node)
                                           : check_term(lint, &term->position->latitude, node) ||
                                                 check_term(lint, &term->position->longitude, node);
    }
}

void lint_replaced_keys(struct lint *lint, const struct limit_rule *rule,
                        const struct spec_limit *spec)
{
    const struct spec_key_part *parts = spec->key.items;
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        check_part(lint, &rule->key.parts[i], parts[i].node);
    }
}

void lint_replaced_conditions(struct lint *lint, const struct route *route,
                              const struct spec_route *spec)
{
    const struct section_list *headers = spec->match.headers.items;
    for (size_t i = 0; i < spec->match.headers.n_items; i++) {
        if (is_never_read(lint, headers[i].position.name)) {
            warn_of_replaced(lint, headers[i].position.name_node, headers[i].position.name);
        }
    }
    if (route->cost.kind == COST_REQUEST_HEADER && route->cost.trust_any && /* untrusted-cost */
        is_never_read(lint, route->cost.field)) {
        warn_of_replaced(lint, spec->cost.from.node, route->cost.field);
    }
}

/* By such fields servers are chosen, or tokens sent. */
void lint_replaced_choices(struct lint *lint)
{
    const struct spec_upstream *upstreams = lint->spec->upstreams.items;
    const struct spec_jwt *providers = lint->spec->jwt.items;
    for (size_t i = 0; i < lint->spec->upstreams.n_items; i++) {
        const struct spec_balance *balance = &upstreams[i].balance;
        for (size_t j = 0; j < balance->key.n_parts; j++) {
            check_part(lint, &balance->key.parts[j], balance->node);
        }
    }
    for (size_t i = 0; i < lint->spec->jwt.n_items; i++) {
        const struct spec_key_part *from = providers[i].from.items;
        for (size_t j = 0; j < providers[i].from.n_items; j++) {
            check_part(lint, &from[j].part, from[j].node);
        }
    }
}
