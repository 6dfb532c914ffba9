#include "app/explain/explanation.h"

#include <stdio.h>
#include <string.h>

/* Compare with all routes up to the one that matches, on a copy: what the
 * matcher has found stays. */
static enum status compare_routes(struct explanation *explanation)
{
    const struct policy *policy = explanation->policy;
    const struct given_request *given = &explanation->given;
    struct request_view view = given->evaluation.view;
    struct path *path = arena_alloc(&explanation->arena, sizeof(*path));
    char *buffer = arena_alloc(&explanation->arena, TARGET_BYTES_MAX + 1);
    explanation->routes =
        arena_calloc(&explanation->arena, policy->n_routes, sizeof(*explanation->routes));
    if (path == NULL || buffer == NULL || explanation->routes == NULL) {
        return STATUS_NO_MEMORY;
    }
    view.path = path;
    view.path_buffer = buffer;
    if (matcher_read_path(&view) != NULL) {
        return STATUS_OK;
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        struct explained_route *route = &explanation->routes[explanation->n_routes++];
        route->part = matcher_compare(&policy->routes[i], &view, &route->condition);
        if (route->part == MATCH_ALL) {
            break;
        }
    }
    return STATUS_OK;
}

/* The identity number @i of *n under @rule. False: no memory. */
static bool read_identity(struct explanation *explanation, const struct limit_rule *rule, size_t i,
                          size_t *n)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text key = text_of(buffer, sizeof(buffer));
    struct explained_rule *explained = &explanation->rules[explanation->n_rules++];
    explained->rule = rule;
    explained->outcome = admission_read_key(rule, &explanation->given.evaluation.view,
                                            explanation->policy->store.secret, i, n, &key);
    if (explained->outcome == RULE_IS_AMBIGUOUS) {
        *n = 1;
    } else if (explained->outcome == RULE_JUDGES) {
        explained->key = arena_copy(&explanation->arena, text_span(&key));
        return explained->key.data != NULL;
    }
    return true;
}

static enum status read_rules(struct explanation *explanation)
{
    const struct evaluation *evaluation = &explanation->given.evaluation;
    const struct route *route = evaluation->route;
    const size_t n_rules = evaluation->is_preflight ? 0 : route->n_rules;
    for (size_t i = 0; i < n_rules; i++) {
        size_t n = 1;
        for (size_t j = 0; j < n; j++) {
            if (!read_identity(explanation, route->rules[i], j, &n)) {
                return STATUS_NO_MEMORY;
            }
        }
    }
    return STATUS_OK;
}

/* Which charges of the admission are of which rule. */
static void find_charges(struct explanation *explanation)
{
    const struct admission *admission = &explanation->admission;
    for (size_t i = 0; i < explanation->n_rules; i++) {
        struct explained_rule *rule = &explanation->rules[i];
        size_t first = 0;
        while (first < admission->decision.n_charges &&
               (admission->rules[first] != rule->rule ||
                !span_equals(admission->charges[first].key, rule->key))) {
            first++;
        }
        rule->is_charged = first < admission->decision.n_charges &&
                           explanation->given.evaluation.result != EVALUATION_BANNED;
        rule->first_charge = first;
    }
}

/* --- plans --- */

static enum status choose_plan(struct explanation *explanation,
                               const struct admission_context *context, struct explained_rule *rule)
{
    struct plan_choice choice;
    plan_choose(context, rule->rule, &explanation->given.evaluation.view, rule->key, &choice);
    rule->plan_source = choice.source;
    rule->is_plan_unknown = choice.unknown_len > 0;
    rule->plan = choice.plan != NULL ? choice.plan->name : span_of(NULL, 0);
    rule->limits = choice.plan != NULL ? choice.plan->limits : rule->rule->limits;
    if (rule->is_plan_unknown) {
        rule->plan = arena_copy(&explanation->arena, span_of(choice.unknown, choice.unknown_len));
    }
    return rule->is_plan_unknown && rule->plan.data == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status choose_plans(struct explanation *explanation,
                                const struct admission_context *context)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < explanation->n_rules && status == STATUS_OK; i++) {
        struct explained_rule *rule = &explanation->rules[i];
        rule->limits = rule->rule->limits;
        if (rule->outcome == RULE_JUDGES && rule->rule->n_plans > 0) {
            status = choose_plan(explanation, context, rule);
        }
    }
    return status;
}

/* --- the end of it --- */

static void refuse(struct explanation *explanation, uint16_t status, const char *reason)
{
    explanation->answer =
        (struct explained_answer){.status = status, .is_refusal = true, .reason = reason};
}

static void deny(struct explanation *explanation)
{
    const struct admission *admission = &explanation->admission;
    refuse(explanation, deny_reply_status(admission_deny_reply(admission)), NULL);
    explanation->answer.has_retry_after =
        admission_retry_after_s(admission, &explanation->answer.retry_after_s);
}

static void find_answer(struct explanation *explanation)
{
    const struct evaluation *evaluation = &explanation->given.evaluation;
    explanation->answer = (struct explained_answer){
        .status = evaluation->status,
        .is_refusal = evaluation->reason != NULL,
        .reason = evaluation->reason,
    };
    if (evaluation->result == EVALUATION_BANNED) {
        deny(explanation);
    }
}

enum grpc_status explanation_grpc_status(const struct explanation *explanation)
{
    const struct explained_answer *answer = &explanation->answer;
    const struct given_request *given = &explanation->given;
    if (!given->is_http2 || answer->status < 400 || !grpc_is_call(&given->head)) {
        return GRPC_NONE;
    }
    return answer->is_refusal && answer->reason == NULL
               ? admission_grpc_status(&explanation->admission)
               : grpc_status_of(answer->status);
}

/* Limits are shown also where they are not asked: admission_prepare() repeats what it said where
 * it was. */
static enum status evaluate_with(struct explanation *explanation,
                                 const struct admission_context *context)
{
    struct given_request *given = &explanation->given;
    struct admission *admission = &explanation->admission;
    const enum evaluation_result result =
        given_request_evaluate(given, context, admission, &explanation->arena);
    if (result == EVALUATION_FAILED ||
        (result == EVALUATION_REFUSED && given->evaluation.route != NULL &&
         admission_prepare(admission, context, given->evaluation.route, &given->evaluation.view,
                           &explanation->arena) == ADMISSION_FAILED)) {
        return STATUS_NO_MEMORY;
    }
    find_answer(explanation);
    return choose_plans(explanation, context);
}

static enum status evaluate(struct explanation *explanation, struct bans_view *bans,
                            uint64_t wall_us, uint64_t now_us)
{
    struct tenants_view view;
    tenants_view_init(&view, explanation->tenants);
    const struct admission_context context = {
        .policy = explanation->policy,
        .wall_us = wall_us,
        .bans = bans,
        .tenants = tenants_view_if_any(&view),
        .tenant_plan = explanation->tenant_plan,
        .now_us = now_us,
        .first_slot = 1, /* nothing is taken */
    };
    const enum status status = evaluate_with(explanation, &context);
    tenants_view_close(&view);
    return status;
}

enum status explanation_make(struct explanation *explanation, const struct policy *policy,
                             uint64_t wall_us)
{
    const struct given_request *given = &explanation->given;
    explanation->policy = policy;
    arena_init(&explanation->arena, NULL, 0);
    enum status status = evaluate(explanation, NULL, wall_us, 0);
    if (status != STATUS_OK || given->head.error.status != 0) {
        return status;
    }
    (void)client_address_walk(policy, &given->peer, &given->head, &explanation->walk);
    status = compare_routes(explanation);
    if (status == STATUS_OK && given->evaluation.route != NULL) {
        status = read_rules(explanation);
        status = status == STATUS_OK ? evaluate(explanation, NULL, wall_us, 0) : status;
        find_charges(explanation);
    }
    return status;
}

void explanation_close(struct explanation *explanation)
{
    tenants_free(explanation->tenants);
    explanation->tenants = NULL;
    arena_reset(&explanation->arena);
}

/* --- bans --- */

static enum status put_bans(const struct explanation *explanation, struct bans *bans,
                            uint64_t now_us)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < explanation->n_rules && status == STATUS_OK; i++) {
        const struct explained_rule *rule = &explanation->rules[i];
        struct ban ban = {.kind = rule->ban, .limit = rule->rule->name, .identity = rule->key};
        if (rule->has_ban) {
            key_hash(rule->key, explanation->policy->store.secret, ban.hash);
            status = bans_put(bans, &ban, now_us + rule->left_us, now_us);
        }
    }
    return status;
}

enum status explanation_take_bans(struct explanation *explanation, uint64_t wall_us)
{
    const uint64_t now_us = 1; /* the ends are reckoned from it */
    struct bans *bans;
    struct bans_view view;
    enum status status = bans_new(EXPLAINED_RULES_MAX, &bans);
    if (status != STATUS_OK) {
        return status;
    }
    status = put_bans(explanation, bans, now_us);
    bans_view_init(&view, bans);
    if (status == STATUS_OK) {
        status = evaluate(explanation, bans_view_if_any(&view), wall_us, now_us);
        find_charges(explanation);
    }
    bans_view_close(&view);
    bans_free(bans);
    return status;
}

/* --- the state --- */

/* Whether a limit of the request says @on_failure. */
static bool has_on_failure(const struct admission *admission, enum on_failure on_failure)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (admission->charges[i].limit->on_failure == on_failure) {
            return true;
        }
    }
    return false;
}

void explanation_take_fault(struct explanation *explanation, const char *why)
{
    const struct admission *admission = &explanation->admission;
    const bool is_shared = explanation->policy->store.kind == STORE_REDIS;
    explanation->state = STATE_UNKNOWN;
    (void)snprintf(explanation->fault, sizeof(explanation->fault), "%s", why);
    if (is_shared && has_on_failure(admission, ON_FAILURE_DENY)) {
        refuse(explanation, 503, "Redis cannot be asked, and on_failure is deny");
    } else if (!explanation->answer.is_refusal) {
        explanation->answer.is_open = !is_shared || has_on_failure(admission, ON_FAILURE_LOCAL);
    }
}

/* What ailed Redis, and where it was looked for. */
static void take_redis_fault(struct explanation *explanation)
{
    const struct redis_section *redis = &explanation->policy->store.redis;
    const struct decision *decision = &explanation->admission.decision;
    const char *fault = decision_fault_name(decision, decision->status);
    char buffer[EXPLAINED_FAULT_BYTES];
    struct text why = text_of(buffer, sizeof(buffer) - 1);
    for (size_t i = 0; i < redis->n_endpoints; i++) {
        const struct endpoint *endpoint = &redis->endpoints[i];
        text_add(&why, i > 0 ? SPAN(", ") : SPAN(""));
        if (endpoint->unix_path.len > 0) {
            text_add_format(&why, "unix:%.*s", SPAN_ARGS(endpoint->unix_path));
        } else {
            text_add_format(&why, "%.*s:%u", SPAN_ARGS(endpoint->host), endpoint->port);
        }
    }
    text_add_format(&why, ": %s", fault);
    buffer[why.len] = '\0';
    explanation_take_fault(explanation, buffer);
}

void explanation_take_state(struct explanation *explanation)
{
    const struct decision *decision = &explanation->admission.decision;
    if (decision->status != STATUS_OK) {
        take_redis_fault(explanation);
        return;
    }
    explanation->state = STATE_KNOWN;
    if (!decision->allowed) {
        deny(explanation);
    } else if (!admission_find_wait(&explanation->admission, &explanation->answer.hold_us)) {
        refuse(explanation, 400, KEY_AMBIGUITY);
    }
}

void explanation_write_hash(const struct policy *policy, struct span key, struct text *text)
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    key_hash(key, policy->store.secret, hash);
    text_add_hex(text, hash, sizeof(hash));
}
