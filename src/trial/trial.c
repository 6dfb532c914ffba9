/* One request under a clock that is told.
 *
 * route ─► admission ─► embedded store ─► let through: its end is planned, and
 * settled when time has come
 *
 * Failures, each with the proxy's answer: a path that is refused, also for a prefix that is to be
 * stripped (400), no route (404), too large a body
 * (413), a missing key (403), denied (429), no room in the store (503). */

#include "trial/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "policy/cost.h"
#include "policy/edits.h"
#include "policy/matcher.h"
#include "proxy/client_address.h"
#include "proxy/settlement.h"
#include "trial/ends.h"

enum { RENEWALS_PER_LEASE = 3 }; /* as the proxy does */

struct trial {
    struct trial_options options;
    struct store *store;
    uint64_t now_us;
    uint64_t next_slot;
    uint64_t n_early_ends;
    struct ends ends;

    /* of the request that is being asked for */
    struct path path;
    char path_buffer[TARGET_BYTES_MAX + 1];
    char stripped_buffer[TARGET_BYTES_MAX + 1];
    char host[HOST_BYTES_MAX];
    struct request_view view;
};

static uint64_t now_of(void *context)
{
    const struct trial *trial = context;
    return trial->now_us;
}

static enum memory_full full_of(enum store_full full)
{
    switch (full) {
    case STORE_FULL_OVERFLOW:
        return MEMORY_FULL_OVERFLOW;
    case STORE_FULL_DENY:
        return MEMORY_FULL_DENY;
    case STORE_FULL_ALLOW:
        return MEMORY_FULL_ALLOW;
    }
    return MEMORY_FULL_OVERFLOW;
}

enum status trial_new(const struct trial_options *options, struct trial **trial)
{
    struct trial *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    const struct store_section *section = &options->policy->store;
    const struct memory_store_options memory = {
        .memory_bytes = options->memory_bytes != 0 ? options->memory_bytes : section->memory_bytes,
        .full = full_of(section->full),
        .now_us = now_of,
        .context = made,
    };
    made->options = *options;
    made->next_slot = 1;
    const enum status status = memory_store_new(&memory, &made->store);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    *trial = made;
    return STATUS_OK;
}

void trial_free(struct trial *trial)
{
    if (trial != NULL) {
        ends_close(&trial->ends);
        store_free(trial->store);
        free(trial);
    }
}

/* --- as time passes --- */

static void end(struct trial *trial, struct trial_case *ended)
{
    trial->now_us = ended->ends_us > trial->now_us ? ended->ends_us : trial->now_us;
    settlement_make(&ended->admission, &ended->outcome, trial->store);
    ends_give_back(&trial->ends, ended);
}

/* Slots whose request goes on are kept, as the proxy keeps them; then the next look is planned. */
static void renew(struct trial *trial, struct trial_case *open)
{
    trial->now_us = open->due_us > trial->now_us ? open->due_us : trial->now_us;
    settlement_renew(&open->admission, trial->store);
    open->due_us = open->renew_us < open->ends_us - open->due_us ? open->due_us + open->renew_us
                                                                 : open->ends_us;
    ends_push(&trial->ends, open);
}

void trial_advance(struct trial *trial, uint64_t now_us)
{
    struct trial_case *due;
    while ((due = ends_pop(&trial->ends, now_us)) != NULL) {
        if (due->due_us < due->ends_us) {
            renew(trial, due);
        } else {
            end(trial, due);
        }
    }
    trial->now_us = now_us > trial->now_us ? now_us : trial->now_us;
}

/* --- one request --- */

static void fill_view(struct trial *trial, const struct address *peer, const struct head *head)
{
    const struct policy *policy = trial->options.policy;
    trial->view.head = head;
    trial->view.host = target_normalise_host(head->host, trial->host);
    trial->view.client = client_address_find(policy, peer, head);
    trial->view.peer_is_trusted =
        trial->options.is_peer_trusted ||
        address_is_in(peer, policy->trusted_proxies, policy->n_trusted_proxies);
    trial->view.path = &trial->path;
    trial->view.path_buffer = trial->path_buffer;
    trial->view.n_captures = 0;
}

static void refuse(struct trial_answer *answer, enum trial_verdict verdict, uint16_t status,
                   const char *reason)
{
    answer->verdict = verdict;
    answer->status = status;
    answer->reason = reason;
}

/* Why the path cannot go without the prefix that its route strips; NULL: it can. */
static const char *strip_fault(struct trial *trial, const struct route *route)
{
    struct span left;
    return route->edits != NULL && route->edits->prefix.len > 0
               ? edits_strip_prefix(route, &trial->view, trial->stripped_buffer, &left)
               : NULL;
}

/* False: it is refused. */
static bool find_route(struct trial *trial, const struct head *head, struct trial_answer *answer)
{
    const char *refusal = matcher_find_route(trial->options.policy, &trial->view, &answer->route);
    if (refusal == NULL && answer->route != NULL) {
        refusal = strip_fault(trial, answer->route);
    }
    if (refusal != NULL) {
        refuse(answer, TRIAL_BAD_PATH, 400, refusal);
    } else if (answer->route == NULL) {
        refuse(answer, TRIAL_NO_ROUTE, 404, "no route matches");
    } else if (head->body == BODY_LENGTH && head->content_length > answer->route->body_bytes_max) {
        refuse(answer, TRIAL_TOO_LARGE, 413, "the request's body is too large");
    } else {
        return true;
    }
    return false;
}

/* @route without the rules that are not to be judged: they refuse nothing either. */
static struct route leave_out(const struct route *route, const bool *left_out,
                              const struct limit_rule *judged[LIMITS_PER_ROUTE_MAX])
{
    struct route rest = *route;
    rest.rules = judged;
    rest.n_rules = 0;
    for (size_t i = 0; i < route->n_rules; i++) {
        if (!left_out[route->rules[i]->limits[0].index]) {
            judged[rest.n_rules++] = route->rules[i];
        }
    }
    return rest;
}

static enum admission_result prepare(struct trial *trial, const struct trial_answer *answer,
                                     struct trial_case *open)
{
    const struct route *route = answer->route;
    const struct limit_rule *judged[LIMITS_PER_ROUTE_MAX];
    struct route rest;
    const struct admission_context context = {
        .policy = trial->options.policy,
        .wall_us = trial->now_us,
        .first_slot = trial->next_slot,
    };
    trial->next_slot += LIMITS_PER_ROUTE_MAX;
    if (trial->options.left_out != NULL) {
        rest = leave_out(route, trial->options.left_out, judged);
        route = &rest;
    }
    const enum admission_result result =
        admission_prepare(&open->admission, &context, route, &trial->view, &open->arena);
    if (route->n_rules < answer->route->n_rules) {
        open->admission.is_complete = false;
    }
    return result;
}

static void read_cost(const struct cost_spec *cost, const struct trial_future *future,
                      struct outcome *outcome)
{
    struct field fields[HEAD_FIELDS_MAX];
    size_t n = future->n_fields < HEAD_FIELDS_MAX ? future->n_fields : HEAD_FIELDS_MAX;
    if (future->cost.data != NULL) {
        fields[0] = (struct field){.name = cost->field, .value = future->cost};
        n = 1;
    } else if (n > 0) {
        memcpy(fields, future->fields, n * sizeof(fields[0]));
    }
    const struct head head = {.status = future->status, .fields = fields, .n_fields = n};
    outcome->is_cost_told = cost_of_response(cost, &head, &outcome->told_cost);
}

static struct outcome outcome_of(const struct route *route, const struct trial_future *future)
{
    struct outcome outcome = {.status = future->status, .end = future->end};
    if (route->respond != NULL) {
        return (struct outcome){.status = route->respond->status, .end = ANSWER_WHOLE};
    }
    if (future->end == ANSWER_SERVER_FAILED && future->status == 0) {
        outcome.status = 502; /* what the client is answered in its place */
    }
    if (route->cost.kind == COST_RESPONSE_HEADER) {
        read_cost(&route->cost, future, &outcome);
    }
    return outcome;
}

/* Whether anything of it is left to be done when it ends. */
static bool has_an_end(const struct admission *admission, const struct outcome *outcome)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct limit_rule *rule = admission->rules[i];
        if (admission->charges[i].charged &&
            (admission->charges[i].slot != 0 || rule->count.is_said || rule->refund.is_said ||
             outcome->is_cost_told)) {
            return true;
        }
    }
    return false;
}

/* A third of the shortest lease of its slots; UINT64_MAX: it has none. */
static uint64_t renewal_us(const struct admission *admission)
{
    uint64_t shortest_us = UINT64_MAX;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        if (charge->slot != 0 && charge->charged) {
            const uint64_t us =
                limit_us(charge->limit, charge->limit->params.lease) / RENEWALS_PER_LEASE;
            shortest_us = us < shortest_us ? us : shortest_us;
        }
    }
    return shortest_us;
}

/* It is let through; true: @open is kept until its end. */
static bool plan_end(struct trial *trial, struct trial_case *open,
                     const struct trial_answer *answer, const struct trial_future *future)
{
    open->outcome = outcome_of(answer->route, future);
    if (!has_an_end(&open->admission, &open->outcome)) {
        return false;
    }
    const uint64_t lasts_us = answer->wait_us + future->takes_us;
    open->ends_us = lasts_us < LIMIT_NOW_MAX ? trial->now_us + lasts_us : LIMIT_NOW_MAX;
    if (open->ends_us <= trial->now_us) {
        settlement_make(&open->admission, &open->outcome, trial->store);
        return false;
    }
    if (ends_is_full(&trial->ends)) {
        struct trial_case *first = ends_pop(&trial->ends, UINT64_MAX);
        settlement_make(&first->admission, &first->outcome, trial->store);
        ends_give_back(&trial->ends, first);
        trial->n_early_ends++;
    }
    open->renew_us = renewal_us(&open->admission);
    open->due_us = open->renew_us < open->ends_us - trial->now_us ? trial->now_us + open->renew_us
                                                                  : open->ends_us;
    ends_push(&trial->ends, open);
    return true;
}

static uint16_t denied_status(const struct admission *admission)
{
    const struct deny_reply *reply = admission_deny_reply(admission);
    return reply != NULL ? reply->status : 429;
}

/* True: @open is kept. */
static bool decide(struct trial *trial, struct trial_case *open, const struct trial_future *future,
                   struct trial_answer *answer)
{
    struct admission *admission = &open->admission;
    answer->admission = admission;
    const enum store_outcome outcome =
        store_decide(trial->store, &admission->decision, NULL); /* answers at once */
    if (outcome != STORE_ANSWERED || admission->decision.status != STATUS_OK) {
        refuse(answer, TRIAL_UNDECIDED, 503, status_text(admission->decision.status));
        return false;
    }
    if (!admission->decision.allowed) {
        answer->verdict = TRIAL_DENIED;
        answer->status = denied_status(admission);
        return false;
    }
    answer->verdict = TRIAL_ALLOWED;
    answer->wait_us = admission_wait_us(admission);
    return plan_end(trial, open, answer, future);
}

/* True: @open is kept. */
static bool admit(struct trial *trial, struct trial_case *open, const struct trial_future *future,
                  struct trial_answer *answer, enum status *status)
{
    const struct respond_spec *respond = answer->route->respond;
    answer->status = respond != NULL ? respond->status : future->status;
    switch (prepare(trial, answer, open)) {
    case ADMISSION_FREE:
        answer->verdict = TRIAL_FREE;
        return false;
    case ADMISSION_TO_DECIDE:
        return decide(trial, open, future, answer);
    case ADMISSION_REFUSED:
        refuse(answer, TRIAL_LACKS_KEY, 403, "what the request is to be counted by is missing");
        return false;
    case ADMISSION_AMBIGUOUS:
        refuse(answer, TRIAL_BAD_PATH, 400, KEY_AMBIGUITY);
        return false;
    case ADMISSION_BANNED: /* a trial knows of no bans */
    case ADMISSION_FAILED:
        break;
    }
    *status = STATUS_NO_MEMORY;
    return false;
}

enum status trial_ask(struct trial *trial, uint64_t now_us, const struct address *peer,
                      const struct head *head, const struct trial_future *future,
                      struct trial_answer *answer)
{
    enum status status = STATUS_OK;
    *answer = (struct trial_answer){.route = NULL};
    trial_advance(trial, now_us);
    fill_view(trial, peer, head);
    answer->client = trial->view.client;
    if (!find_route(trial, head, answer)) {
        return STATUS_OK;
    }
    struct trial_case *open = ends_take(&trial->ends);
    if (open == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (!admit(trial, open, future, answer, &status)) {
        ends_give_back(&trial->ends, open);
    }
    if (answer->verdict == TRIAL_UNDECIDED &&
        answer->admission->decision.status == STATUS_INVALID) {
        return STATUS_INVALID;
    }
    return status;
}

void trial_count(const struct trial *trial, struct memory_store_counters *counters)
{
    memory_store_count(trial->store, counters);
}

uint64_t trial_early_ends(const struct trial *trial)
{
    return trial->n_early_ends;
}
