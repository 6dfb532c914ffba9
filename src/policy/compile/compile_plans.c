/* Plans of limits. The limits of a plan are those of its rule with other rates and bursts, so they
 * have the same states: what a key has used counts on when its plan changes. Therefore a plan has
 * the periods of its rule, and all of them the same tick. */

#include "policy/compile/compile.h"
#include "policy/limit_rule.h"
#include "policy/load/node.h"

/* The number of the rule's rate with the period of @rate; n_items: none. */
static size_t find_period(const struct spec_limit *spec, const struct spec_rate *rate)
{
    const struct spec_rate *rates = spec->rates.items;
    size_t i = 0;
    while (i < spec->rates.n_items && rates[i].rate.period_us != rate->rate.period_us) {
        i++;
    }
    return i;
}

/* Whether @plan has one rate for each of the rule's. Reports an error if not. */
static bool check_periods(struct compiler *compiler, const struct spec_limit *spec,
                          const struct section_list *plan)
{
    const struct spec_rate *rates = plan->values.items;
    uint32_t found = 0;
    for (size_t i = 0; i < plan->values.n_items; i++) {
        if (rates[i].node == NULL) {
            return false; /* already reported */
        }
        found |= UINT32_C(1) << find_period(spec, &rates[i]);
    }
    if (plan->values.n_items == spec->rates.n_items &&
        found == (UINT32_C(1) << spec->rates.n_items) - 1) {
        return true;
    }
    node_error(compiler->diags, plan->position.name_node,
               "plan \"%.*s\" must have as many rates as its limit, of the same periods: what a "
               "key has used counts on when its plan changes",
               SPAN_ARGS(quote_clip(plan->position.name)));
    return false;
}

static bool is_unlimited(const struct section_list *plan)
{
    const struct spec_rate *rates = plan->values.items;
    return plan->values.n_items == 1 && rates[0].node != NULL && rates[0].rate.units == 0;
}

/* Fill the limit of @rate of a plan of @rule. Returns NULL, or the fault. */
static const char *make_limit(const struct spec_limit *spec, const struct limit *base,
                              const struct spec_rate *rate, uint32_t tick_us, struct limit *limit)
{
    struct spec_limit of_plan = *spec;
    of_plan.values.burst = 0; /* the rule's burst is of its own rate */
    const struct limit_spec values = compile_limit_spec(&of_plan, rate);
    const uint32_t index = limit->index;
    *limit = *base;
    limit->index = index;
    const char *fault = limit_init_coarse(limit, &values, tick_us);
    if (fault == NULL && values.max_wait_us % limit->tick_us != 0) {
        fault = "burst times period is so large that max_wait cannot be measured";
    }
    return fault;
}

static void compile_plan(struct compiler *compiler, const struct spec_limit *spec,
                         const struct limit_rule *rule, const struct section_list *from,
                         struct limit_plan *plan)
{
    struct policy *policy = compiler->policy;
    const struct spec_rate *rates = from->values.items;
    plan->name = compile_copy(compiler, from->position.name);
    if (!compile_check_name(compiler, "plan", from->position.name, from->position.name_node) ||
        is_unlimited(from) || !check_periods(compiler, spec, from)) {
        return;
    }
    struct limit *limits = &policy->limits[policy->n_all_limits];
    for (size_t i = 0; i < rule->n_limits; i++) {
        const size_t of = find_period(spec, &rates[i]);
        limits[of].index = (uint32_t)(policy->n_all_limits + of);
        const char *fault =
            make_limit(spec, &rule->limits[of], &rates[i], rule->limits[of].tick_us, &limits[of]);
        if (rates[i].rate.units == 0) {
            fault = "none stands alone: a plan without limits";
        }
        if (fault != NULL) {
            node_report(compiler->diags, rates[i].node, "rate", ": %s", fault);
        }
        compile_warn_of_log(compiler, spec, &rates[i]);
    }
    policy->n_all_limits += rule->n_limits;
    plan->limits = limits;
}

/* Give limit number @i of @rule and of its plans the tick that is exact for all of them. */
static void align_ticks(struct compiler *compiler, const struct spec_limit *spec,
                        struct limit_rule *rule, size_t i)
{
    struct policy *policy = compiler->policy;
    const struct spec_rate *rates = spec->rates.items;
    const struct section_list *plans = spec->plans.items;
    struct limit *base = &policy->limits[rule->limits[i].index];
    uint32_t tick_us = base->tick_us;
    for (size_t j = 0; j < rule->n_plans; j++) {
        const struct limit *limits = rule->plans[j].limits;
        tick_us = limits != NULL && limits[i].tick_us > tick_us ? limits[i].tick_us : tick_us;
    }
    const struct limit_spec values = compile_limit_spec(spec, &rates[i]);
    const char *fault = base->tick_us == tick_us ? NULL : limit_init_coarse(base, &values, tick_us);
    for (size_t j = 0; j < rule->n_plans && fault == NULL; j++) {
        const struct limit *limits = rule->plans[j].limits;
        const struct spec_rate *of_plan = plans[j].values.items;
        for (size_t k = 0; limits != NULL && k < plans[j].values.n_items && fault == NULL; k++) {
            struct limit *limit = &policy->limits[limits[i].index];
            if (find_period(spec, &of_plan[k]) == i && limit->tick_us != tick_us) {
                fault = make_limit(spec, base, &of_plan[k], tick_us, limit);
            }
        }
    }
    if (fault != NULL) {
        node_error(compiler->diags, spec->plans.node, "the rates of plans differ too much: %s",
                   fault);
    }
}

static void compile_sources(struct compiler *compiler, const struct spec_limit *spec,
                            struct limit_rule *rule)
{
    const struct plan_sources *sources = &spec->plan.sources;
    struct plan_source *copies = compile_alloc(compiler, sources->n_items, sizeof(*copies));
    for (size_t i = 0; i < sources->n_items && copies != NULL; i++) {
        const struct key_part part = {.terms = {sources->items[i].term}, .n_terms = 1};
        struct key_part copy;
        copies[i].is_tenant = sources->items[i].is_tenant;
        if (!copies[i].is_tenant) {
            compile_key_part(compiler, &part, spec->plan.node, &copy);
            copies[i].term = copy.terms[0];
        }
        compiler->policy->has_tenants |= copies[i].is_tenant;
    }
    rule->plan_sources = copies;
    rule->n_plan_sources = copies != NULL ? sources->n_items : 0;
}

/* Keep what numbers of tenants need, for a rule that looks for tenants. */
static void keep_specs(struct compiler *compiler, const struct spec_limit *spec,
                       struct limit_rule *rule)
{
    const struct spec_rate *rates = spec->rates.items;
    struct limit_spec *specs = compile_alloc(compiler, rule->n_limits, sizeof(*specs));
    for (size_t i = 0; i < rule->n_limits && specs != NULL; i++) {
        specs[i] = compile_limit_spec(spec, &rates[i]);
    }
    rule->specs = specs;
}

/* The limits of numbers of tenants are behind all others: compile_limits() has left room. */
static void prepare_numbers(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    if (!policy->has_tenants) {
        return;
    }
    policy->numbers = compile_alloc(compiler, 1, plan_numbers_bytes());
    if (policy->numbers != NULL) {
        plan_numbers_init(policy->numbers, &policy->limits[policy->n_all_limits],
                          (uint32_t)policy->n_all_limits, NUMBERED_LIMITS_MAX);
    }
}

static bool check_use(struct compiler *compiler, const struct spec_limit *spec)
{
    const struct node *plan = node_find(spec->position.node, SPAN("plan"));
    if (spec->plans.node == NULL && plan != NULL) {
        node_error(compiler->diags, plan, "plan has no meaning without plans");
    } else if (spec->plans.node != NULL && plan == NULL) {
        node_error(compiler->diags, spec->plans.node,
                   "plans need plan, which says where a key's plan is named, such as tenant");
    } else if (spec->plans.node != NULL && spec->values.algorithm->has_numbers_in_digest) {
        node_error(compiler->diags, spec->plans.node,
                   "%s has no plans: what is counted depends on its rate; token_bucket decides "
                   "alike and has them",
                   spec->values.algorithm->name);
    } else {
        return spec->plans.node != NULL && spec->plan.node != NULL;
    }
    return false;
}

static void compile_rule_plans(struct compiler *compiler, const struct spec_limit *spec,
                               struct limit_rule *rule)
{
    const struct section_items *items = &spec->plans;
    if (spec->values.algorithm == NULL || !check_use(compiler, spec) ||
        !compile_check_count(compiler, items, PLANS_PER_LIMIT_MAX, "plans must be", "plans") ||
        rule->n_limits != spec->rates.n_items) {
        return;
    }
    struct limit_plan *plans = compile_alloc(compiler, items->n_items, sizeof(*plans));
    compile_sources(compiler, spec, rule);
    for (size_t i = 0; i < items->n_items && plans != NULL; i++) {
        compile_plan(compiler, spec, rule, &((const struct section_list *)items->items)[i],
                     &plans[i]);
    }
    rule->plans = plans;
    compiler->policy->has_plans = true;
    if (limit_rule_has_tenants(rule)) {
        keep_specs(compiler, spec, rule);
    }
    rule->n_plans = plans != NULL ? items->n_items : 0;
    for (size_t i = 0; i < rule->n_limits && compiler->diags->n_errors == 0; i++) {
        align_ticks(compiler, spec, rule, i);
    }
}

static void compile_tenants(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    const struct spec_text *file = &compiler->spec->tenants;
    if (file->node == NULL) {
        return;
    }
    if (policy->store.kind == STORE_REDIS) {
        node_error(compiler->diags, file->node,
                   "tenants is for a policy without Redis: where there is one, the table of "
                   "tenants is in it, see docs/tenants.md");
    } else if (!policy->has_tenants) {
        node_error(compiler->diags, file->node,
                   "tenants has no meaning: no limit has \"plan: tenant\"");
    } else {
        policy->tenants_file = compile_copy(compiler, file->text);
        policy->tenants_path = compiler->options->folder_of != NULL
                                   ? compile_file_path(compiler, file, &policy->arena)
                                   : NULL;
    }
}

void compile_plans(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    const struct spec_limit *specs = compiler->spec->limits.items;
    policy->n_all_limits = policy->n_limits;
    for (size_t i = 0; i < policy->n_rules; i++) {
        compile_rule_plans(compiler, &specs[i], &policy->rules[i]);
    }
    compile_tenants(compiler);
    prepare_numbers(compiler);
}
