#include "policy/policy_tenants.h"

static bool looks_for_tenants(const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        if (rule->plan_sources[i].is_tenant) {
            return true;
        }
    }
    return false;
}

bool policy_parse_tenant(const struct policy *policy, struct span written, struct key_given *given,
                         struct text *problem)
{
    char buffer[512];
    for (size_t i = 0; i < policy->n_rules; i++) {
        struct text own = text_of(buffer, sizeof(buffer));
        if (!looks_for_tenants(&policy->rules[i])) {
            continue;
        }
        if (key_parse(policy, &policy->rules[i].key, written, given, &own) && !given->is_prefix) {
            return true;
        }
        text_add(problem, problem->len == 0 ? text_span(&own) : SPAN(""));
    }
    return false;
}

bool policy_has_tenant_plan(const struct policy *policy, struct span name)
{
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit_rule *rule = &policy->rules[i];
        for (size_t j = 0; j < rule->n_plans && looks_for_tenants(rule); j++) {
            if (span_equals(rule->plans[j].name, name)) {
                return true;
            }
        }
    }
    return false;
}
