#include "policy/lint/lint.h"

#include "base/text.h"
#include "policy/load/node.h"
#include "policy/route_match.h"
#include "policy/warning.h"

struct span lint_name_of_route(const struct lint *lint, size_t i)
{
    const struct node *node = lint->routes[i].name.node;
    return quote_clip(node != NULL ? node->written : lint->policy->routes[i].name);
}

void lint_find_lack(const struct route *other, const struct route *route, struct lint_lack *lack)
{
    const struct limit_rule *missing = route_limits_find_missing(other, route);
    struct text what = text_of(lack->buffer, sizeof(lack->buffer));
    if (missing != NULL) {
        text_add_format(&what, "limit \"%.*s\"", SPAN_ARGS(missing->name));
    } else {
        text_add_literal(&what, "the same cost");
    }
    lack->what = text_span(&what);
    lack->kind = missing != NULL ? SPAN("limits") : SPAN("cost");
}

bool lint_is_hidden(const struct spec_text *text)
{
    return text->node != NULL && !span_equals(text->node->written, text->text);
}

const struct node *lint_node_of_limits(const struct lint *lint, const struct spec_route *spec)
{
    const struct node *defaults = lint->spec->defaults.limits.node;
    return spec->limits.node != NULL ? spec->limits.node
           : defaults != NULL        ? defaults
                                     : spec->position.node;
}

enum status lint_policy(const struct spec_policy *spec, const struct policy *policy,
                        struct arena *scratch, struct diags *diags)
{
    /* Each row checks the policy as a whole, each limit, or each route. */
    static const struct {
        void (*check)(struct lint *);
        lint_rule_check *check_rule;
        lint_route_check *check_route;
    } LINTS[] = {
        {.check = lint_unreachable_routes},
        {.check_route = lint_unlimited_routes},
        {.check = lint_dodged_routes},
        {.check = lint_stripped_paths},
        {.check = lint_dodged_hosts},
        {.check = lint_dodged_schemes},
        {.check = lint_never_binding},
        {.check_rule = lint_bucket_quotas},
        {.check_route = lint_client_chosen_keys},
        {.check = lint_client_chosen_routes},
        {.check_rule = lint_shared_denials},
        {.check_rule = lint_stalled_buckets},
        {.check_route = lint_shared_keys},
        {.check_rule = lint_spoofable_addresses},
        {.check_rule = lint_replaced_keys},
        {.check_route = lint_replaced_conditions},
        {.check = lint_replaced_choices},
        {.check_rule = lint_unreachable_plans},
        {.check_rule = lint_lone_fingerprints},
        {.check_rule = lint_named_victims},
        {.check = lint_narrow_prefixes},
        {.check = lint_trusts_all},
        {.check = lint_missing_proxies},
        {.check = lint_default_body},
        {.check_rule = lint_fails_open},
        {.check_rule = lint_refunds_leaving},
        {.check_rule = lint_chosen_statuses},
        {.check_rule = lint_missed_guesses},
        {.check = lint_plain_secrets},
        {.check = lint_empty_secret},
        {.check = lint_providers},
        {.check = lint_any_provider},
        {.check_route = lint_passed_on_cost},
        {.check_route = lint_cheap_default},
        {.check_rule = lint_unseen_shadows},
        {.check = lint_unrouted_names},
        {.check_route = lint_unmet_connections},
        {.check_rule = lint_unasked_certificates},
        {.check = lint_any_authority},
        {.check = lint_servers_by_address},
    };
    struct lint lint = {.spec = spec,
                        .limits = spec->limits.items,
                        .routes = spec->routes.items,
                        .policy = policy,
                        .scratch = scratch,
                        .diags = diags};
    for (size_t i = 0; i < ARRAY_LEN(LINTS) && !lint.no_memory; i++) {
        if (LINTS[i].check != NULL) {
            LINTS[i].check(&lint);
        }
        for (size_t j = 0; LINTS[i].check_rule != NULL && j < policy->n_rules; j++) {
            LINTS[i].check_rule(&lint, &policy->rules[j], &lint.limits[j]);
        }
        for (size_t j = 0; LINTS[i].check_route != NULL && j < policy->n_routes; j++) {
            LINTS[i].check_route(&lint, &policy->routes[j], &lint.routes[j]);
        }
    }
    return lint.no_memory ? STATUS_NO_MEMORY : STATUS_OK;
}

/* --- the table of warnings --- */

static const struct {
    const char *name;
    const char *text;
} WARNINGS[] = {
#define WARNING_ROW(id, name, text) {name, text},
    WARNING_LIST(WARNING_ROW)
#undef WARNING_ROW
};

const char *warning_name(enum warning warning)
{
    return WARNINGS[warning].name;
}

const char *warning_text(enum warning warning)
{
    return WARNINGS[warning].text;
}
