#include "proxy/admission.h"

#include <string.h>

#include "jwt/token.h"
#include "policy/limit_rule.h"

/* The name that @source, which is not of tenants, has in @request; empty: none. Borrowed from the
 * request. */
static struct span read_name(const struct plan_source *source, const struct request_view *request)
{
    if (KEY_SOURCE_ROWS[source->term.source].origin == KEY_FROM_TOKEN) {
        return request->claims != NULL
                   ? jwt_claim_text(&request->claims->claims[source->term.claim])
                   : SPAN("");
    }
    return request->peer_is_trusted ? head_find_only(request->head, source->term.name) : SPAN("");
}

const struct limit_plan *plan_find(const struct limit_rule *rule, struct span name)
{
    for (size_t i = 0; i < rule->n_plans; i++) {
        if (span_equals(rule->plans[i].name, name)) {
            return &rule->plans[i];
        }
    }
    return NULL;
}

const struct limit_plan *plan_of_tenant(const struct policy *policy, const struct limit_rule *rule,
                                        struct span name)
{
    const struct limit_plan *plan = plan_find(rule, name);
    return plan != NULL || name.len == 0 ? plan : plan_numbers_find(policy, rule, name);
}

static void note(struct plan_choice *choice, const struct policy *policy,
                 const struct limit_rule *rule, struct span name)
{
    choice->plan =
        choice->source->is_tenant ? plan_of_tenant(policy, rule, name) : plan_find(rule, name);
    if (choice->plan == NULL) {
        choice->unknown_len = name.len < NAME_BYTES_MAX ? name.len : NAME_BYTES_MAX;
        memcpy(choice->unknown, name.data, choice->unknown_len);
    }
}

/* The name of the plan that the table of tenants has for @key, in @buffer; empty: none. */
static struct span find_tenant(const struct admission_context *context, struct span key,
                               char buffer[TENANT_PLAN_BYTES_MAX])
{
    if (context->tenant_plan.data != NULL) {
        return context->tenant_plan;
    }
    return context->tenants != NULL
               ? tenants_view_find(context->tenants, key, context->policy->store.secret,
                                   context->now_us, buffer)
               : SPAN("");
}

void plan_choose(const struct admission_context *context, const struct limit_rule *rule,
                 const struct request_view *request, struct span key, struct plan_choice *choice)
{
    choice->plan = NULL;
    choice->source = NULL;
    choice->unknown_len = 0;
    for (size_t i = 0; i < rule->n_plan_sources && choice->source == NULL; i++) {
        const struct plan_source *source = &rule->plan_sources[i];
        char buffer[TENANT_PLAN_BYTES_MAX];
        const struct span name =
            source->is_tenant ? find_tenant(context, key, buffer) : read_name(source, request);
        if (name.len > 0) {
            choice->source = source;
            note(choice, context->policy, rule, name);
        }
    }
}
