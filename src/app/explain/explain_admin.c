/* For a key the API reports the verdict for a request of one unit. The cost of the request is
 * compared with the remaining units; the wait for more than one unit is therefore unknown. */

#include "app/explain/explain.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "app/ctl/ctl_client.h"
#include "base/clock.h"
#include "proxy/admission.h"
#include "store/ban_growth.h"

enum { TARGET_BYTES = 4 * KEY_TEXT_BYTES_MAX, US_PER_MS = 1000 };

/* What was told of the rates of one rule. */
struct reported_rule {
    struct verdict verdicts[RATES_PER_LIMIT_MAX];
};

/* --- the question --- */

/* Whether the plan is numbers in place of a plan, which the table of tenants alone gives. */
static bool has_numbers(const struct explained_rule *rule)
{
    return rule->plan_source != NULL && !rule->is_plan_unknown &&
           plan_find(rule->rule, rule->plan) == NULL;
}

/* Which plan counts; an empty name is none. The proxy finds numbers in its own table. */
static void write_plan(const struct explained_rule *rule, struct text *target)
{
    if (rule->rule->n_plans == 0 || has_numbers(rule)) {
        return;
    }
    text_add_literal(target, "?plan=");
    if (rule->plan_source != NULL && !rule->is_plan_unknown) {
        ctl_add_escaped(target, rule->plan);
    }
}

static void write_target(const struct explained_rule *rule, struct text *target)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text key = text_of(buffer, sizeof(buffer));
    key_print(rule->key, &key);
    text_add_literal(target, "/v1/limits/");
    ctl_add_escaped(target, rule->rule->name);
    text_add_literal(target, "/keys/");
    ctl_add_escaped(target, text_span(&key));
    write_plan(rule, target);
}

/* --- the answer --- */

static uint64_t number_of(const json_t *object, const char *name)
{
    const json_int_t number = json_integer_value(json_object_get(object, name));
    return number > 0 ? (uint64_t)number : 0;
}

/* Ticks of @limit; rounded up, as times are that people wait. */
static uint64_t ticks_of(const struct limit *limit, const json_t *object, const char *name)
{
    const uint64_t ms = number_of(object, name);
    const uint64_t us = ms < UINT64_MAX / US_PER_MS ? ms * US_PER_MS : UINT64_MAX;
    return us / limit->tick_us + (us % limit->tick_us > 0);
}

static struct verdict verdict_of(const struct limit *limit, const json_t *rate)
{
    const bool has_retry = json_is_integer(json_object_get(rate, "retry_after_ms"));
    return (struct verdict){
        .allowed = json_is_true(json_object_get(rate, "allowed")),
        .retry_after = has_retry ? ticks_of(limit, rate, "retry_after_ms") : RETRY_UNKNOWN,
        .wait = ticks_of(limit, rate, "wait_ms"),
        .limit = number_of(rate, "limit"),
        .remaining = number_of(rate, "remaining"),
        .next_after = ticks_of(limit, rate, "next_after_ms"),
        .reset_after = ticks_of(limit, rate, "reset_after_ms"),
    };
}

/* The number at the end of the reason of a ban that the limit has set; 0: an operator has. */
static uint64_t strike_of(const json_t *ban)
{
    const char *by = json_string_value(json_object_get(ban, "by"));
    const char *reason = json_string_value(json_object_get(ban, "reason"));
    const char *number = reason != NULL ? strrchr(reason, ' ') : NULL;
    uint64_t strike;
    if (by == NULL || strcmp(by, BAN_BY_POLICY) != 0 || number == NULL ||
        !span_to_u64(span_of_text(number + 1), UINT32_MAX, &strike)) {
        return 0;
    }
    return strike;
}

static void read_ban(const json_t *ban, struct explained_rule *rule)
{
    const char *kind = json_string_value(json_object_get(ban, "kind"));
    rule->has_ban = kind != NULL;
    rule->ban = kind != NULL && strcmp(kind, "exempt") == 0 ? BAN_EXEMPTS : BAN_REFUSES;
    rule->left_us = number_of(ban, "left_ms") * US_PER_MS;
    rule->strike = strike_of(ban);
}

/* False: it makes no sense. */
static bool read_rule(const struct ctl_answer *answer, struct explained_rule *rule,
                      struct reported_rule *reported)
{
    json_t *root = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const json_t *rates = json_object_get(root, "rates");
    const bool is_sound = json_array_size(rates) == rule->rule->n_limits;
    for (size_t i = 0; i < rule->rule->n_limits && is_sound; i++) {
        reported->verdicts[i] = verdict_of(&rule->rule->limits[i], json_array_get(rates, i));
    }
    read_ban(json_object_get(root, "ban"), rule);
    json_decref(root);
    return is_sound;
}

static enum status ask(const struct ctl_destination *destination, struct explained_rule *rule,
                       struct reported_rule *reported, char *why)
{
    char buffer[TARGET_BYTES];
    struct text target = text_of(buffer, sizeof(buffer));
    struct ctl_answer answer;
    write_target(rule, &target);
    enum status status = STATUS_OK;
    if (!ctl_ask(destination, "GET", text_span(&target), NULL, &answer, why)) {
        return STATUS_UNREACHABLE;
    }
    if (answer.status != 200 || !read_rule(&answer, rule, reported)) {
        (void)snprintf(why, CTL_WHY_BYTES_MAX,
                       "the proxy that runs answered %u when asked about limit \"%.*s\": does it "
                       "run with this policy, and is the token right?",
                       answer.status, SPAN_ARGS(rule->rule->name));
        status = STATUS_INVALID;
    }
    ctl_answer_close(&answer);
    return status;
}

/* Whether all plans can be asked about: numbers only where the proxy has them in its table. */
static bool check_plans(const struct explanation *explanation, char *why)
{
    for (size_t i = 0; i < explanation->n_rules; i++) {
        const struct explained_rule *rule = &explanation->rules[i];
        if (explanation->tenant_plan.data != NULL && has_numbers(rule)) {
            (void)snprintf(why, CTL_WHY_BYTES_MAX,
                           "the proxy that runs tells how a key stands under a plan by its name "
                           "alone, and limit \"%.*s\" has no plan \"%.*s\"",
                           SPAN_ARGS(rule->rule->name), SPAN_ARGS(rule->plan));
            return false;
        }
    }
    return true;
}

/* --- into the decision --- */

static void take_verdict(struct charge *charge, const struct verdict *reported)
{
    charge->verdict = *reported;
    if (reported->allowed && reported->remaining < charge->cost) {
        charge->verdict.allowed = false;
        charge->verdict.retry_after = charge->cost > reported->limit ? RETRY_NEVER : RETRY_UNKNOWN;
    }
}

static void take_verdicts(struct explanation *explanation, const struct reported_rule *reported)
{
    struct decision *decision = &explanation->admission.decision;
    decision->status = STATUS_OK;
    decision->source = DECISION_MEMORY;
    decision->allowed = true;
    for (size_t i = 0; i < explanation->n_rules; i++) {
        const struct explained_rule *rule = &explanation->rules[i];
        for (size_t j = 0; j < rule->rule->n_limits && rule->is_charged; j++) {
            struct charge *charge = &explanation->admission.charges[rule->first_charge + j];
            take_verdict(charge, &reported[i].verdicts[j]);
            decision->allowed =
                decision->allowed && (charge->limit->shadow || charge->verdict.allowed);
        }
    }
    explanation_take_state(explanation);
}

enum status explain_admin(struct explanation *explanation, const char *path,
                          char why[CTL_WHY_BYTES_MAX])
{
    static struct reported_rule reported[EXPLAINED_RULES_MAX];
    const struct ctl_options options = {.policy = path};
    struct ctl_destination destination = {.port = 0};
    if (!ctl_destination_find(&options, &destination, why)) {
        return STATUS_INVALID;
    }
    /* Evaluate again: the tenants are known now, and may change the plans. */
    enum status status = explanation_take_bans(explanation, clock_wall_us());
    if (status == STATUS_OK && !check_plans(explanation, why)) {
        return STATUS_INVALID;
    }
    for (size_t i = 0; i < explanation->n_rules && status == STATUS_OK; i++) {
        if (explanation->rules[i].outcome == RULE_JUDGES) {
            status = ask(&destination, &explanation->rules[i], &reported[i], why);
        }
    }
    if (status == STATUS_OK) {
        status = explanation_take_bans(explanation, clock_wall_us());
    }
    if (status == STATUS_OK && explanation->given.evaluation.result == EVALUATION_TO_DECIDE) {
        take_verdicts(explanation, reported);
    }
    return status;
}

void explain_admin_readiness(struct explanation *explanation, const char *path)
{
    char why[CTL_WHY_BYTES_MAX];
    const struct ctl_options options = {.policy = path};
    struct ctl_destination destination = {.port = 0};
    struct ctl_answer answer;
    struct text text = text_of(explanation->proxy_state, sizeof(explanation->proxy_state) - 1);
    if (!ctl_destination_find(&options, &destination, why) ||
        !ctl_ask(&destination, "GET", SPAN("/readyz"), NULL, &answer, why)) {
        return;
    }
    json_t *root = json_loadb(answer.body, answer.body_bytes, 0, NULL);
    const json_t *reasons = json_object_get(root, "reasons");
    size_t i;
    const json_t *reason;
    json_array_foreach(reasons, i, reason)
    {
        const char *words = json_string_value(reason);
        text_add_format(&text, "%s%s", i == 0 ? "" : "; ", words != NULL ? words : "");
    }
    explanation->proxy_state[text.len] = '\0';
    json_decref(root);
    ctl_answer_close(&answer);
}

/* --- tenants --- */

/* The plan of the key of @rule, in the arena; empty: it has none. False: it is not known. */
static bool ask_of_tenant(const struct ctl_destination *destination,
                          struct explanation *explanation, const struct explained_rule *rule,
                          struct span *plan)
{
    char buffer[TARGET_BYTES];
    char key_bytes[KEY_TEXT_BYTES_MAX];
    char why[CTL_WHY_BYTES_MAX];
    struct text target = text_of(buffer, sizeof(buffer));
    struct text key = text_of(key_bytes, sizeof(key_bytes));
    struct ctl_answer answer;
    key_print(rule->key, &key);
    text_add_literal(&target, "/v1/tenants/");
    ctl_add_escaped(&target, text_span(&key));
    if (!ctl_ask(destination, "GET", text_span(&target), NULL, &answer, why)) {
        return false;
    }
    json_t *root = json_loadb(answer.body, answer.body_bytes, 0, NULL);
    const json_t *name = json_object_get(root, "plan");
    const bool is_known = answer.status == 200 && json_is_object(root) &&
                          json_string_length(name) <= TENANT_PLAN_BYTES_MAX;
    *plan = span_of(NULL, 0);
    if (is_known && json_is_string(name)) {
        *plan = arena_copy(&explanation->arena,
                           span_of(json_string_value(name), json_string_length(name)));
    }
    json_decref(root);
    ctl_answer_close(&answer);
    return is_known;
}

/* Whether an earlier rule has the key of rule @i. */
static bool is_repeated(const struct explanation *explanation, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (span_equals(explanation->rules[j].key, explanation->rules[i].key)) {
            return true;
        }
    }
    return false;
}

enum status explain_admin_tenants(struct explanation *explanation, const char *path)
{
    static struct tenant_row rows[EXPLAINED_RULES_MAX];
    const struct ctl_options options = {.policy = path};
    struct ctl_destination destination = {.port = 0};
    char why[CTL_WHY_BYTES_MAX];
    size_t n = 0;
    bool is_known = ctl_destination_find(&options, &destination, why);
    for (size_t i = 0; i < explanation->n_rules && is_known; i++) {
        const struct explained_rule *rule = &explanation->rules[i];
        if (rule->outcome == RULE_JUDGES && limit_rule_has_tenants(rule->rule) &&
            !is_repeated(explanation, i)) {
            struct tenant_row *row = &rows[n];
            *row = (struct tenant_row){.key = rule->key};
            is_known = ask_of_tenant(&destination, explanation, rule, &row->plan);
            n += row->plan.len > 0;
        }
    }
    if (!is_known) {
        explanation->tenants_fault = "the proxy that runs with this policy does not tell";
        return STATUS_OK;
    }
    explanation->tenants_fault = NULL;
    if (explanation->tenants == NULL &&
        tenants_new(EXPLAINED_RULES_MAX, &explanation->tenants) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    return tenants_replace(explanation->tenants, rows, n, SPAN("proxy"), 0, 0);
}
