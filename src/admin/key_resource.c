/* GET /v1/limits/{limit}/keys/{key}: how one key of one limit stands, without charging it.
 *
 * Happy path: the key is read as people write it, the store judges a request of one unit, which
 * changes nothing, and the verdicts are told. Failures: a key that is none of this limit's (400), a
 * store that cannot answer (503). */

#include "admin/key_resource.h"

#include <stdlib.h>
#include <string.h>

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/known_key.h"
#include "admin/limits_resource.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "base/hash.h"
#include "limit/calendar.h"
#include "store/store.h"

/* One question, while the store is asked. */
struct question {
    struct admin_request *request;
    const struct limit_rule *rule;
    struct key_given given;
    struct decision decision;
    struct charge charges[RATES_PER_LIMIT_MAX];
    uint64_t edges[RATES_PER_LIMIT_MAX][LIMIT_EDGES];
};

/* --- the key --- */

const struct limit_rule *key_resource_read(struct admin_request *request, struct key_given *given)
{
    const struct limit_rule *rule = limits_resource_find(request);
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
    if (!key_parse(&rule->key, request->policy->store.secret, written, given, &problem)) {
        answer_problem(request, 400, "key: %.*s", SPAN_ARGS(text_span(&problem)));
        answer_note(request, "no key of the limit"); /* the log is not told what it was */
        return NULL;
    }
    return rule;
}

bool key_resource_needs_identity(struct admin_request *request, const struct limit_rule *rule,
                                 struct key_given *given)
{
    const struct meters *meters = request->admin->options.meters;
    if (given->len > 0 || known_key_find(meters, rule, request->policy->store.secret, given)) {
        return true;
    }
    answer_problem(request, 404,
                   "no key with this hash was denied lately; give the key itself, as sluice "
                   "explain prints it");
    return false;
}

bool key_resource_may_wait(struct admin_request *request)
{
    if (request->admin->n_changes < ADMIN_CHANGES_MAX) {
        return true;
    }
    answer_problem(request, 503,
                   "%d changes wait for the store that is shared; nothing was changed: try again "
                   "when it answers",
                   ADMIN_CHANGES_MAX);
    return false;
}

json_t *key_resource_describe(const struct limit_rule *rule, const struct key_given *given)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    char hash[2 * HASH_IDENTITY_BYTES];
    struct text key = text_of(shown, sizeof(shown));
    struct text hex = text_of(hash, sizeof(hash));
    json_t *json = json_object();
    text_add_hex(&hex, given->hash, sizeof(given->hash));
    describe_set(&json, "limit", json_of_span(rule->name));
    if (given->len > 0) {
        key_print(key_given_identity(given), &key);
        describe_set(&json, "key", json_of_span(text_span(&key)));
    }
    describe_set(&json, "hash", json_of_span(text_span(&hex)));
    return json;
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

static const char *source_word(enum decision_source source)
{
    switch (source) {
    case DECISION_MEMORY:
        return "memory";
    case DECISION_REDIS:
        return "redis";
    case DECISION_CACHE:
        return "cache";
    case DECISION_LOCAL:
        return "local";
    case DECISION_SKIPPED:
        return "skipped";
    case DECISION_BAN:
        return "ban";
    }
    return "memory";
}

static void tell(const struct question *question)
{
    const struct decision *decision = &question->decision;
    json_t *json = key_resource_describe(question->rule, &question->given);
    json_t *rates = json_array();
    json_t *ban = key_resource_describe_ban(question->request->admin->options.bans, question->rule,
                                            &question->given);
    const char *kind = json_string_value(json_object_get(ban, "kind"));
    const bool is_ban = kind != NULL && strcmp(kind, "ban") == 0;
    const bool shadow = question->rule->limits[0].shadow;
    bool allowed = true; /* shadows are told as they judge */
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &question->charges[i];
        allowed = allowed && (charge->untold || charge->verdict.allowed);
        describe_append(&rates, describe_verdict(charge));
    }
    if (ban != NULL) {
        allowed = is_ban ? shadow && allowed : true;
        describe_set(&json, "ban", ban);
    }
    describe_set(&json, "allowed", json_boolean(allowed));
    describe_set(&json, "source", json_string(source_word(decision->source)));
    describe_set(&json, "rates", rates);
    answer_json(question->request, 200, json);
}

static void conclude(struct question *question)
{
    const struct decision *decision = &question->decision;
    question->request->on_gone = NULL;
    if (decision->status == STATUS_OK && decision->source != DECISION_SKIPPED) {
        tell(question);
    } else {
        const char *fault =
            decision->fault != NULL
                ? decision->fault
                : status_text(decision->status != STATUS_OK ? decision->status : decision->failure);
        answer_problem(question->request, 503, "the store does not answer: %s", fault);
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

static void fill_charges(struct question *question)
{
    const struct limit_rule *rule = question->rule;
    const uint64_t wall_us = clock_wall_us();
    for (size_t i = 0; i < rule->n_limits; i++) {
        question->charges[i] = (struct charge){
            .limit = &rule->limits[i],
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
    question->rule = key_resource_read(request, &question->given);
    if (question->rule == NULL ||
        !key_resource_needs_identity(request, question->rule, &question->given)) {
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
