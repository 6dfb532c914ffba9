#include "policy/compile/compile.h"

#include <string.h>

#include "limit/algorithms.h"

enum { LIMIT_NAME_BYTES_MAX = 2 * NAME_BYTES_MAX };

/* --- keys --- */

static void compile_key(struct compiler *compiler, const struct spec_limit *spec, struct key *key)
{
    const struct spec_key_part *parts = spec->key.items;
    if (!compile_check_count(compiler, &spec->key, KEY_PARTS_MAX, "key must have",
                             "parts; \"global\" is one counter for all")) {
        return;
    }
    key->parts = compile_alloc(compiler, spec->key.n_items, sizeof(*key->parts));
    for (size_t i = 0; i < spec->key.n_items && key->parts != NULL; i++) {
        if (parts[i].node != NULL) {
            compile_key_part(compiler, &parts[i].part, parts[i].node, &key->parts[key->n_parts++]);
        }
    }
}

/* --- rates --- */

/* Whether an earlier rate has the same period as rate number @i. */
static bool is_repeated(const struct spec_limit *spec, size_t i)
{
    const struct spec_rate *rates = spec->rates.items;
    for (size_t j = 0; j < i; j++) {
        if (rates[j].node != NULL && rates[j].rate.period_us == rates[i].rate.period_us) {
            return true;
        }
    }
    return false;
}

/* Whether rate number @i of @spec is valid with its algorithm and the other rates; reports an error
 * if not. */
static bool check_rate(struct compiler *compiler, const struct spec_limit *spec, size_t i)
{
    const struct spec_rate *rate = &((const struct spec_rate *)spec->rates.items)[i];
    const struct algorithm *algorithm = spec->values.algorithm;
    const bool has_period = rate->rate.period_us > 0;
    struct diags *diags = compiler->diags;
    if (algorithm->has_slots && i > 0) {
        node_report(diags, rate->node, "rate", ": %s has only one rate", algorithm->name);
    } else if (algorithm->has_slots && has_period) {
        node_report(diags, rate->node, "rate",
                    ": %s has no period: its rate is how many requests may be under way at once: "
                    "write a number without a period",
                    algorithm->name);
    } else if (!algorithm->has_slots && !has_period && rate->node->expanded) {
        node_report(diags, rate->node, "rate", ": has no period; write it as in 100/minute");
    } else if (!algorithm->has_slots && !has_period) {
        node_report(diags, rate->node, "rate", ": has no period; did you mean \"%u/minute\"?",
                    (unsigned)rate->rate.units);
    } else if (has_period && is_repeated(spec, i)) {
        node_report(diags, rate->node, "rate", ": two rates of one limit have the same period");
    } else {
        return true;
    }
    return false;
}

/* A limit with an invalid name gets another one, so that its other errors are reported too. */
static struct span name_limit(struct compiler *compiler, const struct spec_limit *spec,
                              const struct rate *rate)
{
    char buffer[LIMIT_NAME_BYTES_MAX];
    struct text name = text_of(buffer, sizeof(buffer));
    if (spec->position.name.len > 0 && spec->position.name.len <= NAME_BYTES_MAX) {
        text_add(&name, spec->position.name);
    } else {
        text_add_format(&name, "unnamed %zu", compiler->policy->n_limits);
    }
    if (spec->rates.n_items > 1) {
        text_add_literal(&name, ".");
        text_add(&name, rate->period_name);
    }
    return compile_copy(compiler, text_span(&name));
}

/* A shadow limit refuses no request, even while Redis is unavailable. */
static enum on_failure find_on_failure(const struct compiler *compiler,
                                       const struct spec_limit *spec)
{
    const enum on_failure on_failure = spec->on_failure == SPEC_ON_FAILURE_INHERIT
                                           ? compiler->policy->store.on_failure
                                           : (enum on_failure)spec->on_failure;
    return spec->shadow && on_failure == ON_FAILURE_DENY ? ON_FAILURE_ALLOW : on_failure;
}

/* Compile one rate; n_limits grows only if the limit is valid. */
static void compile_rate(struct compiler *compiler, const struct spec_limit *spec, size_t i,
                         struct limit_rule *rule)
{
    struct policy *policy = compiler->policy;
    const struct spec_rate *rate = &((const struct spec_rate *)spec->rates.items)[i];
    struct limit *limit = &policy->limits[policy->n_limits];
    if (rate->node == NULL || spec->values.algorithm == NULL) {
        return;
    }
    const struct limit_spec limit_spec = compile_limit_spec(spec, rate);
    if (!check_rate(compiler, spec, i)) {
        return;
    }
    limit->name = name_limit(compiler, spec, &rate->rate);
    const char *fault = limit_init(limit, &limit_spec);
    if (fault == NULL && limit_spec.max_wait_us % limit->tick_us != 0) {
        fault = "burst times period is so large that max_wait cannot be measured";
    }
    if (fault != NULL) {
        node_report(compiler->diags, rate->node, "rate", ": %s", fault);
        return;
    }
    if (limit->params.is_calendar) {
        const struct calendar *calendar = compile_calendar(compiler, spec, rate->rate.calendar);
        rule->calendars[rule->n_limits] = calendar;
        if (calendar == NULL) {
            return;
        }
    }
    compile_warn_of_log(compiler, spec, rate);
    limit->index = (uint32_t)policy->n_limits;
    limit->base = limit->index;
    limit->shadow = spec->shadow;
    limit->charge_denied = spec->charge_denied;
    limit->on_failure = find_on_failure(compiler, spec);
    policy->n_limits++;
    rule->n_limits++;
}

static void compile_rates(struct compiler *compiler, const struct spec_limit *spec,
                          struct limit_rule *rule)
{
    const struct section_items *rates = &spec->rates;
    rule->limits = &compiler->policy->limits[compiler->policy->n_limits];
    rule->calendars = compile_alloc(compiler, rates->n_items, sizeof(const struct calendar *));
    if (!compile_check_count(compiler, rates, RATES_PER_LIMIT_MAX, "rate must have", "rates")) {
        return;
    }
    for (size_t i = 0; i < rates->n_items; i++) {
        compile_rate(compiler, spec, i, rule);
    }
}

/* --- the rest of a rule --- */

/* Warn of on_failure in a limit if the store is not Redis. */
static void check_on_failure(struct compiler *compiler, const struct spec_limit *spec)
{
    const struct node *on_failure = node_find(spec->position.node, SPAN("on_failure"));
    if (on_failure != NULL &&
        node_find(compiler->spec->store.position.node, SPAN("redis")) == NULL) {
        node_warn(compiler->diags, on_failure, WARNING_NO_EFFECT,
                  "on_failure has no effect without \"redis\" in store");
    }
}

static void compile_answers(struct compiler *compiler, const char *key,
                            const struct section_items *items, struct answer_set *set)
{
    const struct spec_answer *answers = items->items;
    if (items->node != NULL && items->n_items == 0) {
        node_error(compiler->diags, items->node, "%s must name at least one answer", key);
    }
    for (size_t i = 0; i < items->n_items; i++) {
        if (answers[i].node == NULL) {
            continue;
        }
        switch (answers[i].end) {
        case ANSWER_WHOLE:
            answer_set_add(set, answers[i].first, answers[i].last);
            break;
        case ANSWER_CLIENT_LEFT:
            set->client_left = true;
            break;
        case ANSWER_SERVER_FAILED:
            set->server_failed = true;
            break;
        case ANSWER_REFUSED: /* they have no names */
        case ANSWER_EVICTED:
            break;
        }
        set->is_said = true;
    }
}

/* A shadow limit refuses no request, even one without its key. */
static enum key_missing find_missing(const struct spec_limit *spec)
{
    const struct node *node = spec->missing.position.node;
    const enum key_missing missing = node != NULL && node_find(node, SPAN("action")) == NULL
                                         ? KEY_MISSING_DENY
                                         : (enum key_missing)spec->missing.missing;
    return spec->shadow && missing == KEY_MISSING_DENY ? KEY_MISSING_SKIP : missing;
}

/* The first key in @node that says something of an answer by HTTP, or NULL. */
static const struct node *find_reply(const struct node *node)
{
    static const char *const KEYS[] = {"status", "body", "content_type", "set"};
    const struct node *said = NULL;
    for (size_t i = 0; i < ARRAY_LEN(KEYS) && said == NULL; i++) {
        said = node_find(node, span_of_text(KEYS[i]));
    }
    return said;
}

/* A section that has only `grpc` leaves other requests the problem document. */
static const struct reply_spec *compile_deny_reply(struct compiler *compiler,
                                                   const struct spec_reply *spec)
{
    const struct node *node = spec->position.node;
    const bool is_of_grpc = node_find(node, SPAN("grpc")) != NULL && find_reply(node) == NULL;
    return is_of_grpc ? NULL : compile_denial(compiler, spec);
}

/* The answer to a request that lacks the key. A section that has only an action says none. */
static const struct reply_spec *compile_missing_reply(struct compiler *compiler,
                                                      const struct spec_limit *spec)
{
    const struct node *node = spec->missing.position.node;
    const struct node *said = find_reply(node);
    if (said == NULL) {
        return NULL;
    }
    if (node_find(node, SPAN("action")) != NULL && spec->missing.missing != KEY_MISSING_DENY) {
        node_error(compiler->diags, said, "an answer has no meaning where missing does not deny");
    }
    return compile_denial(compiler, &spec->missing);
}

/* A client of HTTP/2 resets a thousand requests in one packet, and would take nothing. */
static void check_refund(struct compiler *compiler, const struct spec_limit *spec,
                         const struct limit_rule *rule)
{
    bool takes_http2 = false;
    for (size_t i = 0; i < compiler->policy->n_listeners; i++) {
        takes_http2 = takes_http2 || compiler->policy->listeners[i].versions & HTTP_VERSION_2;
    }
    if (rule->refund_on.client_left && takes_http2 && !spec->shadow) {
        node_error(compiler->diags, spec->refund_on.node,
                   "refund_on: client_left lets clients of HTTP/2 go past the limit by resets; "
                   "leave it out, or let every listener say http: 1.1");
    }
}

static void compile_rule(struct compiler *compiler, const struct spec_limit *spec,
                         struct limit_rule *rule)
{
    (void)compile_check_name(compiler, "limit", spec->position.name, spec->position.name_node);
    rule->name = compile_copy(compiler, spec->position.name);
    rule->missing = find_missing(spec);
    rule->except = compile_prefixes(compiler, &spec->except.clients, &rule->n_except);
    rule->deny = compile_deny_reply(compiler, &spec->deny);
    rule->grpc_denial = (enum grpc_denial)spec->deny.grpc;
    rule->missing_reply = compile_missing_reply(compiler, spec);
    compile_answers(compiler, "charge_on", &spec->charge_on, &rule->charge_on);
    compile_answers(compiler, "refund_on", &spec->refund_on, &rule->refund_on);
    check_refund(compiler, spec, rule);
    compile_key(compiler, spec, &rule->key);
    rule->key.duplicates = (enum key_duplicates)spec->duplicates;
    compile_rates(compiler, spec, rule);
    compile_parameters(compiler, spec);
    check_on_failure(compiler, spec);
}

/* A limit "a" with several rates may create "a.1s", which may also be the name of another limit. */
static void check_names(struct compiler *compiler)
{
    struct name_index names;
    const struct spec_limit *specs = compiler->spec->limits.items;
    if (name_index_init(&names, compiler->scratch, compiler->policy->n_limits) != STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    for (size_t i = 0; i < compiler->policy->n_rules; i++) {
        const struct limit_rule *rule = &compiler->policy->rules[i];
        for (size_t j = 0; j < rule->n_limits; j++) {
            name_index_add(&names, rule->limits[j].name, (uint32_t)i);
        }
    }
    name_index_build(&names);
    for (const struct name_entry *entry = name_index_next_duplicate(&names, NULL); entry != NULL;
         entry = name_index_next_duplicate(&names, entry)) {
        node_report(compiler->diags, specs[entry->number].position.name_node, "limit",
                    ": another limit of several rates, which are named by their periods, makes the "
                    "same name");
    }
}

bool compile_is_expanded(const struct compiler *compiler, const struct limit_rule *rule)
{
    const struct spec_limit *specs = compiler->spec->limits.items;
    const struct spec_limit *spec = &specs[rule - compiler->policy->rules];
    const struct spec_key_part *parts = spec->key.items;
    const struct spec_rate *rates = spec->rates.items;
    const struct node *burst = node_find(spec->position.node, SPAN("burst"));
    bool expanded = burst != NULL && burst->expanded;
    for (size_t i = 0; i < spec->key.n_items; i++) {
        expanded = expanded || (parts[i].node != NULL && parts[i].node->expanded);
    }
    for (size_t i = 0; i < spec->rates.n_items; i++) {
        const struct node *own = node_find(rates[i].position.node, SPAN("burst"));
        expanded = expanded || (rates[i].node != NULL && rates[i].node->expanded) ||
                   (own != NULL && own->expanded);
    }
    return expanded;
}

/* The room that numbers of tenants need behind all limits: see limit_rule.h. */
static size_t count_numbered(const struct spec_limit *specs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct plan_sources *sources = &specs[i].plan.sources;
        for (size_t j = 0; j < sources->n_items; j++) {
            if (sources->items[j].is_tenant) {
                return NUMBERED_LIMITS_MAX;
            }
        }
    }
    return 0;
}

void compile_limits(struct compiler *compiler)
{
    const struct section_items *items = &compiler->spec->limits;
    const struct spec_limit *specs = items->items;
    struct policy *policy = compiler->policy;
    size_t n_rates = 0;
    size_t n_plan_rates = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        n_rates += specs[i].rates.n_items;
        n_plan_rates += specs[i].plans.n_items * specs[i].rates.n_items;
    }
    if (items->n_items > POLICY_LIMITS_MAX || n_rates + n_plan_rates > POLICY_LIMITS_MAX) {
        node_error(compiler->diags, items->node,
                   "more than %d limits, each rate counted, also those of plans",
                   POLICY_LIMITS_MAX);
        return;
    }
    const size_t n_all = n_rates + n_plan_rates + count_numbered(specs, items->n_items);
    policy->limits = compile_alloc(compiler, n_all + 1, sizeof(*policy->limits));
    policy->rules = compile_alloc(compiler, items->n_items, sizeof(*policy->rules));
    if (policy->limits == NULL || policy->rules == NULL) {
        return;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        compile_rule(compiler, &specs[i], &policy->rules[i]);
    }
    policy->n_rules = items->n_items;
    check_names(compiler);
}
