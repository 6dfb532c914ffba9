/* GET /v1/limits/{limit}/keys/{key}: the state of one key of one limit, without a charge, under the
 * plan that it has as a tenant or that `plan` in the query names. DELETE: its counts are deleted,
 * for all rates of the limit.
 *
 * Happy path: the key is parsed in the form that people write, the store judges a request of one
 * unit without a change of state, and the verdicts are reported. For a reset it runs an admin
 * operation for each rate; when all are done the request is answered. Failures: a key that does not
 * fit this limit, a plan that it does not have (400), a store that cannot answer (503). A reset
 * deletes the counts of this process nevertheless, and the answer says so. */

#include "admin/key_resource.h"

#include <stdlib.h>
#include <string.h>

#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "base/hash.h"
#include "limit/calendar.h"
#include "proxy/admission.h"
#include "store/operation.h"
#include "store/store.h"

/* One question, while the store is asked. */
struct question {
    struct admin_request *request;
    const struct limit_rule *rule;
    struct key_given given;
    const struct limit_plan *plan; /* that counts; NULL: none */
    struct decision decision;
    struct charge charges[RATES_PER_LIMIT_MAX];
    uint64_t edges[RATES_PER_LIMIT_MAX][LIMIT_EDGES];
};

/* --- the key --- */

/* The limit that the first capture names and, in @given, the key of the second capture. NULL: there
 * is no such limit, or the key does not fit it, and the request was answered. */
static const struct limit_rule *read_key(struct admin_request *request, struct key_given *given)
{
    const struct limit_rule *rule = request_find_limit(request);
    const struct span written = request->captures[1];
    char buffer[ADMIN_DETAIL_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (rule == NULL) {
        return NULL;
    }
    if (written.len > KEY_GIVEN_BYTES_MAX) {
        answer_problem(request, 400, "the key is longer than any");
        return NULL;
    }
    if (!key_parse(request->policy, &rule->key, written, given, &problem)) {
        answer_problem(request, 400, "key: %.*s", SPAN_ARGS(text_span(&problem)));
        answer_note(request, "no key of the limit"); /* the key itself is not logged */
        return NULL;
    }
    return rule;
}

/* Whether @given is one key, whose identity is known. If only its hash is known, the keys that
 * @rule denied recently are searched, and a match fills in @given. False: the request was answered.
 */
static bool needs_identity(struct admin_request *request, const struct limit_rule *rule,
                           struct key_given *given)
{
    const struct meters *meters = request->admin->options.meters;
    if (given->is_prefix) {
        answer_problem(request, 400,
                       "key: a prefix has bans and exemptions, and no counts: give an address");
        return false;
    }
    if (given->len > 0 || top_find_key(meters, rule, request->policy->store.secret, given)) {
        return true;
    }
    answer_problem(request, 404,
                   "no key with this hash was denied lately; give the key itself, as sluice "
                   "explain prints it");
    return false;
}

json_t *key_resource_describe(const struct limit_rule *rule, const struct key_given *given)
{
    json_t *json = json_object();
    describe_set(&json, "limit", json_of_span(rule->name));
    describe_identity(&json, key_given_identity(given), given->hash);
    return json;
}

struct span key_resource_show(const struct key_given *given, char *shown)
{
    struct text key = text_of(shown, KEY_SHOWN_BYTES);
    if (given->len > 0) {
        key_print(key_given_identity(given), &key);
    } else {
        text_add_hex(&key, given->hash, sizeof(given->hash));
    }
    return text_span(&key);
}

/* --- the answer --- */

static json_t *describe_ticks(const struct limit *limit, uint64_t ticks)
{
    if (ticks == RETRY_NEVER || ticks == RETRY_UNKNOWN) {
        return json_null();
    }
    const uint64_t ms = limit_us(limit, ticks) / 1000;
    return json_integer(ms < INT64_MAX ? (json_int_t)ms : INT64_MAX);
}

static json_t *describe_verdict(const struct charge *charge)
{
    const struct limit *limit = charge->limit;
    const struct verdict *verdict = &charge->verdict;
    json_t *json = json_object();
    describe_set(&json, "name", json_of_span(limit->name));
    describe_set(&json, "allowed", json_boolean(verdict->allowed));
    describe_set(&json, "limit", json_integer((json_int_t)verdict->limit));
    describe_set(&json, "remaining", json_integer((json_int_t)verdict->remaining));
    describe_set(&json, "retry_after_ms", describe_ticks(limit, verdict->retry_after));
    describe_set(&json, "next_after_ms", describe_ticks(limit, verdict->next_after));
    describe_set(&json, "reset_after_ms", describe_ticks(limit, verdict->reset_after));
    if (verdict->wait > 0) {
        describe_set(&json, "wait_ms", describe_ticks(limit, verdict->wait));
    }
    return json;
}

static void report(const struct question *question)
{
    const struct decision *decision = &question->decision;
    json_t *json = key_resource_describe(question->rule, &question->given);
    json_t *rates = json_array();
    json_t *ban = key_resource_describe_ban(question->request->admin->options.bans, question->rule,
                                            &question->given);
    const char *kind = json_string_value(json_object_get(ban, "kind"));
    const bool is_ban = kind != NULL && strcmp(kind, "ban") == 0;
    const bool shadow = question->rule->limits[0].shadow;
    bool allowed = true; /* shadow limits are reported with their own judgement */
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &question->charges[i];
        allowed = allowed && (charge->unreported || charge->verdict.allowed);
        describe_append(&rates, describe_verdict(charge));
    }
    if (ban != NULL) {
        allowed = is_ban ? shadow && allowed : true;
        describe_set(&json, "ban", ban);
    }
    if (question->plan != NULL) {
        describe_set(&json, "plan", json_of_span(question->plan->name));
        allowed = (is_ban && !shadow) || question->plan->limits != NULL ? allowed : true;
    }
    describe_set(&json, "allowed", json_boolean(allowed));
    describe_set(&json, "source", json_of_span(decision_source_name(decision->source)));
    describe_set(&json, "rates", rates);
    answer_json(question->request, 200, json);
}

static void conclude(struct question *question)
{
    const struct decision *decision = &question->decision;
    question->request->on_gone = NULL;
    if (decision->status == STATUS_OK && decision->source != DECISION_SKIPPED) {
        report(question);
    } else {
        const enum status why =
            decision->status != STATUS_OK ? decision->status : decision->failure;
        answer_problem(question->request, 503, "the store does not answer: %s",
                       decision_fault_name(decision, why));
    }
    free(question);
}

static void on_answer(struct decision *decision)
{
    conclude(decision->context);
}

static void on_gone(struct admin_request *request)
{
    struct question *question = request->context;
    store_cancel(&question->decision);
    free(question);
}

/* --- the question --- */

/* The plan that the key has as a tenant, if the rule looks for those. */
static const struct limit_plan *find_tenant_plan(struct admin_request *request,
                                                 const struct limit_rule *rule,
                                                 const struct key_given *given)
{
    const struct limit_plan *plan = NULL;
    struct tenants_view view;
    char bytes[TENANT_PLAN_BYTES_MAX];
    tenants_view_init(&view, request->admin->options.tenants);
    for (size_t i = 0; i < rule->n_plan_sources && plan == NULL; i++) {
        if (rule->plan_sources[i].is_tenant) {
            plan = plan_of_tenant(request->policy, rule,
                                  tenants_view_find(&view, key_given_identity(given),
                                                    request->policy->store.secret,
                                                    clock_monotonic_us(), bytes));
        }
    }
    tenants_view_close(&view);
    return plan;
}

static void answer_no_plan(struct admin_request *request, const struct limit_rule *rule,
                           struct span name)
{
    char buffer[ADMIN_DETAIL_BYTES_MAX];
    struct text known = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < rule->n_plans; i++) {
        text_add(&known, i == 0 ? SPAN(": it has ") : SPAN(", "));
        text_add(&known, rule->plans[i].name);
    }
    answer_problem(request, 400, "plan: limit \"%.*s\" has no plan \"%.*s\"%.*s",
                   SPAN_ARGS(rule->name), SPAN_ARGS(name), SPAN_ARGS(text_span(&known)));
}

/* Find the plan that counts: the one that the request names, of which an empty name is none, else
 * the one of the tenant. False: the limit has no such plan, and the request was answered. */
static bool choose_plan(struct question *question)
{
    struct admin_request *request = question->request;
    char buffer[NAME_BYTES_MAX + 1]; /* a name that is cut is longer than any */
    struct span name;
    if (!request_find_query(request, SPAN("plan"), buffer, sizeof(buffer), &name)) {
        question->plan = find_tenant_plan(request, question->rule, &question->given);
        return true;
    }
    question->plan = plan_find(question->rule, name);
    if (question->plan == NULL && name.len > 0) {
        answer_no_plan(request, question->rule, name);
        return false;
    }
    return true;
}

static void fill_charges(struct question *question)
{
    const struct limit_rule *rule = question->rule;
    const uint64_t wall_us = clock_wall_us();
    const struct limit *limits = question->plan != NULL ? question->plan->limits : NULL;
    limits = limits != NULL ? limits : rule->limits;
    for (size_t i = 0; i < rule->n_limits; i++) {
        question->charges[i] = (struct charge){
            .limit = &limits[i],
            .key = key_given_identity(&question->given),
            .cost = 1,
        };
        hash_random(&question->charges[i].slot, sizeof(question->charges[i].slot));
        if (rule->limits[i].params.is_calendar &&
            calendar_find(rule->calendars[i], wall_us, question->edges[i])) {
            question->charges[i].edges = question->edges[i];
        }
    }
    question->decision = (struct decision){
        .charges = question->charges,
        .n_charges = rule->n_limits,
        .aim = DECISION_JUDGE,
        .context = question,
    };
}

void key_handle(struct admin_request *request)
{
    struct store *store = admin_store(request->admin, request->policy);
    struct question *question = malloc(sizeof(*question));
    if (store == NULL || question == NULL) {
        free(question);
        answer_problem(request, 503, "out of memory");
        return;
    }
    question->request = request;
    question->rule = read_key(request, &question->given);
    if (question->rule == NULL || !needs_identity(request, question->rule, &question->given) ||
        !choose_plan(question)) {
        free(question);
        return;
    }
    fill_charges(question);
    if (store_decide(store, &question->decision, on_answer) == STORE_ANSWERED) {
        conclude(question);
        return;
    }
    request->context = question;
    request->on_gone = on_gone;
}

/* --- changes --- */

bool key_change_begin(struct key_change *change, struct admin_request *request)
{
    change->admin = request->admin;
    change->request = request;
    change->rule = read_key(request, &change->given);
    return change->rule != NULL;
}

bool key_change_may_wait(const struct key_change *change)
{
    if (change->admin->n_changes < ADMIN_CHANGES_MAX) {
        return true;
    }
    answer_problem(change->request, 503,
                   "%d changes wait for the shared store; nothing was changed: try again "
                   "when it answers",
                   ADMIN_CHANGES_MAX);
    return false;
}

static void on_change_gone(struct admin_request *request)
{
    struct key_change *change = request->context;
    change->policy = request_keep_policy(request);
    change->request = NULL;
}

/* The change waits for the store: until that has answered it is counted in admin->n_changes. */
static void await_change(struct key_change *change)
{
    change->admin->n_changes++;
    change->request->context = change;
    change->request->on_gone = on_change_gone;
}

/* Whether the request is gone; then what was kept for the change is given back. */
static bool is_gone(const struct key_change *change)
{
    const struct admin_options *options = &change->admin->options;
    if (change->request == NULL) {
        options->give_policy(options->context, change->policy);
    }
    return change->request == NULL;
}

static void answer_failed(struct key_change *change)
{
    const struct table_change *table = change->table;
    if (table->status == STATUS_NOT_FOUND || table->status == STATUS_FULL) {
        change->answer_refused(change);
    } else if (table->status == STATUS_INVALID) {
        answer_problem(change->request, 400, "it would be over already: until lies in the past");
    } else {
        answer_problem(change->request, 503, "the shared store does not answer: %s; %s%s",
                       table->fault != NULL ? table->fault : status_text(table->status),
                       table->may_be_made
                           ? "the change may have been made, or be made yet: see GET "
                           : "nothing was changed",
                       table->may_be_made ? change->list : "");
    }
}

static void conclude_change(struct key_change *change)
{
    if (is_gone(change)) {
        /* no connection waits for the answer */
    } else if (change->table->status == STATUS_OK) {
        change->answer_done(change);
    } else {
        answer_failed(change);
    }
    free(change);
}

static void on_change_done(struct table_change *table)
{
    struct key_change *change = table->context;
    change->admin->n_changes--;
    conclude_change(change);
}

void key_change_run(struct key_change *change, enum store_outcome (*start)(struct key_change *))
{
    const struct policy *policy = change->request->policy;
    struct table_change *table = change->table;
    const bool is_shared = policy->store.kind == STORE_REDIS;
    table->prefix = policy->store.prefix;
    table->store = is_shared ? admin_store(change->admin, policy) : NULL;
    table->on_done = on_change_done;
    table->context = change;
    memcpy(change->by, change->request->by, sizeof(change->by));
    if (is_shared && table->store == NULL) {
        table->status = STATUS_NO_MEMORY;
        conclude_change(change);
    } else if (start(change) == STORE_ANSWERED) {
        conclude_change(change);
    } else {
        await_change(change);
    }
}

/* --- the reset --- */

struct reset {
    struct key_change change;
    struct store_operation operations[RATES_PER_LIMIT_MAX];
    size_t n_pending;
};

/* The first that failed, or the first. */
static const struct store_operation *worst(const struct reset *reset)
{
    for (size_t i = 0; i < reset->change.rule->n_limits; i++) {
        if (reset->operations[i].status != STATUS_OK) {
            return &reset->operations[i];
        }
    }
    return &reset->operations[0];
}

/* Whether some of it was done, or may be yet, where the store is. */
static bool may_be_done(const struct reset *reset)
{
    for (size_t i = 0; i < reset->change.rule->n_limits; i++) {
        if (reset->operations[i].status == STATUS_OK || reset->operations[i].may_be_done) {
            return true;
        }
    }
    return false;
}

static void answer_done(struct reset *reset)
{
    char shown[KEY_SHOWN_BYTES];
    const struct span key = key_resource_show(&reset->change.given, shown);
    json_t *json = key_resource_describe(reset->change.rule, &reset->change.given);
    describe_set(&json, "reset", json_true());
    answer_note(reset->change.request, "reset %.*s", SPAN_ARGS(key));
    answer_json(reset->change.request, 200, json);
}

static void conclude_reset(struct reset *reset)
{
    const struct store_operation *operation = worst(reset);
    if (is_gone(&reset->change)) {
        /* no connection waits for the answer */
    } else if (operation->status == STATUS_OK) {
        answer_done(reset);
    } else {
        answer_problem(reset->change.request, 503, "the shared store does not answer: %s; %s%s",
                       operation->fault != NULL ? operation->fault : status_text(operation->status),
                       may_be_done(reset) ? "the key may have been reset there, or be yet"
                                          : "nothing was reset there",
                       operation->was_local ? "; what this process counted itself is forgotten"
                                            : "");
    }
    free(reset);
}

static void on_reset(struct store_operation *operation)
{
    struct reset *reset = operation->context;
    if (--reset->n_pending == 0) {
        reset->change.admin->n_changes--;
        conclude_reset(reset);
    }
}

static void run(struct reset *reset, struct store *store)
{
    reset->n_pending = 1; /* this function */
    for (size_t i = 0; i < reset->change.rule->n_limits; i++) {
        struct store_operation *operation = &reset->operations[i];
        *operation = (struct store_operation){
            .kind = OPERATION_RESET,
            .limit = &reset->change.rule->limits[i],
            .key = key_given_identity(&reset->change.given),
            .on_done = on_reset,
            .context = reset,
        };
        reset->n_pending += store_run(store, operation) == STORE_PENDING ? 1 : 0;
    }
    if (--reset->n_pending == 0) {
        conclude_reset(reset);
        return;
    }
    await_change(&reset->change);
}

void reset_handle(struct admin_request *request)
{
    struct store *store = admin_store(request->admin, request->policy);
    struct reset *reset = malloc(sizeof(*reset));
    if (store == NULL || reset == NULL) {
        free(reset);
        answer_problem(request, 503, "out of memory");
        return;
    }
    if (!key_change_begin(&reset->change, request) ||
        !needs_identity(request, reset->change.rule, &reset->change.given) ||
        !key_change_may_wait(&reset->change)) {
        free(reset);
        return;
    }
    run(reset, store);
}
