/* One request under a given clock.
 *
 * evaluation ─► embedded store ─► admitted: its end is scheduled, and settled when it is due
 *           └─► banned: denied     └─► denied, or over: offences are counted, bans are set
 *
 * Failures, each with the proxy's answer: refused by request_evaluate(), denied (429), no room in
 * the store (503). */

#include "simulation/simulation.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "policy/cost.h"
#include "proxy/request_evaluate.h"
#include "proxy/settlement.h"
#include "simulation/inflight_heap.h"
#include "store/tenants.h"

/* The proxy renews a slot once and a quarter of a fourth of its lease after it was taken at the
 * latest: see slot_holders_renew(). Here no renewal is late or lost, so all that is sooner than a
 * lease decides alike. */
enum { RENEWALS_PER_LEASE = 3 };

struct simulation {
    struct simulation_options options;
    struct store *store;
    uint64_t now_us;
    uint64_t next_slot;
    uint64_t n_early_ends;
    struct inflight_heap inflight;

    struct bans *bans; /* NULL: no limit bans */
    struct bans_view bans_view;
    uint64_t (*n_bans)[BAN_RESULTS]; /* by the index of the rule's first limit */

    struct tenants_view tenants_view;

    struct evaluation evaluation; /* of the request that is being asked for */
};

static uint64_t now_of(void *context)
{
    const struct simulation *simulation = context;
    return simulation->now_us;
}

static enum memory_full full_of(enum store_full full)
{
    switch (full) {
    case STORE_FULL_SHARED_COUNTER:
        return MEMORY_FULL_OVERFLOW;
    case STORE_FULL_DENY:
        return MEMORY_FULL_DENY;
    case STORE_FULL_ALLOW:
        return MEMORY_FULL_ALLOW;
    }
    return MEMORY_FULL_OVERFLOW;
}

/* Make what counts offences and holds bans, if a limit bans. */
static enum status make_bans(struct simulation *simulation)
{
    const struct policy *policy = simulation->options.policy;
    bans_view_init(&simulation->bans_view, NULL);
    if (!policy->has_bans) {
        return STATUS_OK;
    }
    simulation->n_bans = calloc(policy->n_limits, sizeof(simulation->n_bans[0]));
    if (simulation->n_bans == NULL || bans_new(policy->max.bans, &simulation->bans) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    offences_make_repeatable(bans_offences(simulation->bans));
    bans_view_init(&simulation->bans_view, simulation->bans);
    return STATUS_OK;
}

enum status simulation_new(const struct simulation_options *options, struct simulation **simulation)
{
    struct simulation *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    const struct store_section *section = &options->policy->store;
    const struct memory_store_options memory = {
        .memory_bytes = options->memory_bytes != 0 ? options->memory_bytes : section->memory_bytes,
        .full = full_of(section->when_full),
        .now_us = now_of,
        .context = made,
    };
    made->options = *options;
    made->next_slot = 1;
    enum status status = memory_store_new(&memory, &made->store);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    tenants_view_init(&made->tenants_view, options->tenants);
    status = make_bans(made);
    if (status != STATUS_OK) {
        simulation_free(made);
        return status;
    }
    *simulation = made;
    return STATUS_OK;
}

void simulation_free(struct simulation *simulation)
{
    if (simulation != NULL) {
        inflight_heap_close(&simulation->inflight);
        bans_view_close(&simulation->bans_view);
        tenants_view_close(&simulation->tenants_view);
        bans_free(simulation->bans);
        free(simulation->n_bans);
        store_free(simulation->store);
        free(simulation);
    }
}

/* --- bans --- */

static enum ban_result set_ban(struct simulation *simulation, const struct limit_rule *rule,
                               struct span key)
{
    char bytes[BAN_REASON_BYTES_MAX];
    struct text reason = text_of(bytes, sizeof(bytes));
    struct ban_growth growth = {.bans = simulation->bans, .wall_us = simulation->now_us};
    ban_offences_describe(simulation->options.policy, rule, key, &reason, &growth);
    if (ban_growth_start(&growth, simulation->now_us) == STORE_ANSWERED && /* at once */
        growth.status == STATUS_OK) {
        return rule->ban.shadow ? BAN_IS_SHADOW : BAN_IS_SET;
    }
    return growth.status == STATUS_NOT_FOUND ? BAN_RESULTS /* the key is banned already */
                                             : BAN_HAS_FAILED;
}

static void on_offence(void *context, const struct limit_rule *rule, struct span key,
                       enum offence_result result)
{
    struct simulation *simulation = context;
    enum ban_result ban = BAN_RESULTS;
    switch (result) {
    case OFFENCE_COUNTED:
        break;
    case OFFENCE_BANS:
        ban = set_ban(simulation, rule, key);
        break;
    case OFFENCE_TOO_MANY:
        ban = BAN_IS_TOO_MANY;
        break;
    case OFFENCE_LIMIT_IS_WRONG:
        ban = BAN_LIMIT_IS_WRONG;
        break;
    }
    if (ban != BAN_RESULTS) {
        simulation->n_bans[rule->limits[0].index][ban]++;
    }
}

/* The request of @over is over. */
static void note_offences(struct simulation *simulation, const struct simulation_case *over)
{
    const struct ban_offences offences = {
        .policy = simulation->options.policy,
        .bans = simulation->bans,
        .client = &over->client,
        .now_us = simulation->now_us,
        .on_offence = on_offence,
        .context = simulation,
    };
    if (simulation->bans != NULL) {
        ban_offences_note(&offences, &over->admission, &over->outcome);
    }
}

/* --- as time passes --- */

static void settle(struct simulation *simulation, struct simulation_case *over)
{
    note_offences(simulation, over);
    settlement_make(&over->admission, &over->outcome, simulation->store);
}

static void end(struct simulation *simulation, struct simulation_case *ended)
{
    simulation->now_us = ended->end_us > simulation->now_us ? ended->end_us : simulation->now_us;
    settle(simulation, ended);
    inflight_heap_give_back(&simulation->inflight, ended);
}

/* Slots whose request goes on are kept, as the proxy keeps them; then the next look is planned. */
static void renew(struct simulation *simulation, struct simulation_case *open)
{
    simulation->now_us = open->due_us > simulation->now_us ? open->due_us : simulation->now_us;
    (void)settlement_renew(&open->admission, SETTLEMENT_ALL_SLOTS, simulation->store);
    open->due_us =
        open->renew_us < open->end_us - open->due_us ? open->due_us + open->renew_us : open->end_us;
    inflight_heap_push(&simulation->inflight, open);
}

/* Advance the time to @now_us: requests that are due end. */
static void advance(struct simulation *simulation, uint64_t now_us)
{
    struct simulation_case *due;
    while ((due = inflight_heap_pop(&simulation->inflight, now_us)) != NULL) {
        if (due->due_us < due->end_us) {
            renew(simulation, due);
        } else {
            end(simulation, due);
        }
    }
    simulation->now_us = now_us > simulation->now_us ? now_us : simulation->now_us;
}

/* --- one request --- */

static void evaluate(struct simulation *simulation, const struct simulation_client *client,
                     const struct head *head, struct simulation_case *open)
{
    const struct evaluation_context context = {
        .admission =
            {
                .policy = simulation->options.policy,
                .wall_us = simulation->now_us,
                .bans = bans_view_if_any(&simulation->bans_view),
                .tenants = tenants_view_if_any(&simulation->tenants_view),
                .now_us = simulation->now_us,
                .first_slot = simulation->next_slot,
                .left_out = simulation->options.left_out,
                .tenant_plan = client->tenant_plan,
            },
        .own_name = simulation->options.own_name,
        .tls = client->tls,
        .takes_given_token = simulation->options.knows_tokens,
        .given_token = client->token,
        .given_geo = client->geo,
        .trusts_peer = simulation->options.is_peer_trusted,
    };
    struct evaluation *evaluation = &simulation->evaluation;
    evaluation->admission = &open->admission;
    evaluation->arena = &open->arena;
    evaluation->view.client =
        (struct address){.family = ADDRESS_NONE}; /* of a head that is not read */
    simulation->next_slot += LIMITS_PER_ROUTE_MAX;
    request_evaluate(&context, head, &client->peer, evaluation);
    open->client = evaluation->view.client;
}

static void read_cost(const struct cost_spec *cost, const struct simulation_future *future,
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
    if (future->end == ANSWER_SERVER_FAILED && future->status == 0) { /* it has come to no head */
        outcome->is_cost_reported = true;
        outcome->reported_cost = cost->max;
        return;
    }
    outcome->is_cost_reported =
        cost_of_response(cost, &head, false, false, &outcome->reported_cost);
}

static struct outcome outcome_of(const struct evaluation *evaluation,
                                 const struct simulation_future *future)
{
    const struct cost_spec *cost = &evaluation->route->cost;
    struct outcome outcome = {
        .status = future->end == ANSWER_EVICTED ? 0 : future->status,
        .end = future->end,
        .is_unanswered = future->end == ANSWER_SERVER_FAILED,
        .is_doubtful =
            future->end == ANSWER_WHOLE && answer_is_doubtful(future->status, 0, false, false),
    };
    if (evaluation->status != 0) {
        return (struct outcome){
            .status = evaluation->status,
            .end = evaluation->reason != NULL && evaluation->status >= 500 ? ANSWER_SERVER_FAILED
                                                                           : ANSWER_WHOLE,
            .is_unsent = true,
        };
    }
    if (future->end == ANSWER_SERVER_FAILED && future->status == 0) {
        outcome.status = 502; /* what the client is answered in its place */
    }
    if (cost->kind == COST_RESPONSE_HEADER) {
        read_cost(cost, future, &outcome);
    }
    return outcome;
}

/* Whether anything of it is left to be done when it ends. */
static bool has_an_end(const struct admission *admission, const struct outcome *outcome)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (admission->rules[i]->ban.after > 0) {
            return true;
        }
    }
    return settlement_is_needed(admission, outcome->is_cost_reported);
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

/* It is let through, and lasts @lasts_us; true: @open is kept until its end. */
static bool plan_end(struct simulation *simulation, struct simulation_case *open, uint64_t lasts_us)
{
    if (!has_an_end(&open->admission, &open->outcome)) {
        return false;
    }
    open->end_us = lasts_us < LIMIT_NOW_MAX ? simulation->now_us + lasts_us : LIMIT_NOW_MAX;
    if (open->end_us <= simulation->now_us) {
        settle(simulation, open);
        return false;
    }
    if (inflight_heap_is_full(&simulation->inflight)) {
        struct simulation_case *first = inflight_heap_pop(&simulation->inflight, UINT64_MAX);
        settle(simulation, first);
        inflight_heap_give_back(&simulation->inflight, first);
        simulation->n_early_ends++;
    }
    open->renew_us = renewal_us(&open->admission);
    open->due_us = open->renew_us < open->end_us - simulation->now_us
                       ? simulation->now_us + open->renew_us
                       : open->end_us;
    inflight_heap_push(&simulation->inflight, open);
    return true;
}

static bool is_token_refused(const struct evaluation *evaluation)
{
    return evaluation->refused_token.status != 0;
}

/* True: @open is kept. */
static bool decide(struct simulation *simulation, struct simulation_case *open,
                   const struct simulation_future *future, struct simulation_answer *answer)
{
    struct admission *admission = &open->admission;
    answer->admission = admission;
    const enum store_outcome outcome =
        store_decide(simulation->store, &admission->decision, NULL); /* answers at once */
    if (outcome != STORE_ANSWERED || admission->decision.status != STATUS_OK) {
        answer->verdict = SIMULATION_UNDECIDED;
        answer->status = 503;
        answer->reason = status_text(admission->decision.status);
        return false;
    }
    if (!admission->decision.allowed) {
        answer->verdict = SIMULATION_DENIED;
        answer->status = deny_reply_status(admission_deny_reply(admission));
        answer->reason = NULL;
        open->outcome = (struct outcome){.status = answer->status, .end = ANSWER_WHOLE};
        note_offences(simulation, open);
        return false;
    }
    answer->verdict =
        is_token_refused(&simulation->evaluation) ? SIMULATION_REFUSED : SIMULATION_ALLOWED;
    if (!admission_find_wait(admission, &answer->wait_us)) {
        open->outcome = (struct outcome){.status = 400,
                                         .end = ANSWER_CLIENT_LEFT,
                                         .is_unsent = true,
                                         .is_before_departure = true};
        settle(simulation, open);
        *answer = (struct simulation_answer){.client = answer->client,
                                             .route = answer->route,
                                             .admission = admission,
                                             .verdict = SIMULATION_REFUSED,
                                             .status = 400,
                                             .reason = KEY_AMBIGUITY};
        return false;
    }
    open->outcome = outcome_of(&simulation->evaluation, future);
    return plan_end(simulation, open, answer->wait_us + future->takes_us);
}

/* True: @open is kept. */
static bool answer_request(struct simulation *simulation, struct simulation_case *open,
                           const struct simulation_future *future, struct simulation_answer *answer,
                           enum status *status)
{
    const struct evaluation *evaluation = &simulation->evaluation;
    answer->client = evaluation->view.client;
    answer->route = evaluation->route;
    answer->status = evaluation->status != 0 ? evaluation->status : future->status;
    answer->reason = evaluation->reason;
    switch (evaluation->result) {
    case EVALUATION_FREE:
        answer->verdict = is_token_refused(evaluation) ? SIMULATION_REFUSED : SIMULATION_FREE;
        return false;
    case EVALUATION_TO_DECIDE:
        return decide(simulation, open, future, answer);
    case EVALUATION_REFUSED:
        answer->verdict = SIMULATION_REFUSED;
        if (evaluation->admission->lacked != NULL) {
            answer->verdict = SIMULATION_DENIED;
            answer->admission = evaluation->admission;
        }
        return false;
    case EVALUATION_BANNED:
        answer->verdict = SIMULATION_DENIED;
        answer->admission = evaluation->admission;
        return false;
    case EVALUATION_FAILED:
        break;
    }
    *status = STATUS_NO_MEMORY;
    return false;
}

enum status simulation_ask(struct simulation *simulation, uint64_t now_us,
                           const struct simulation_client *client, const struct head *head,
                           const struct simulation_future *future, struct simulation_answer *answer)
{
    enum status status = STATUS_OK;
    *answer = (struct simulation_answer){.route = NULL};
    advance(simulation, now_us);
    struct simulation_case *open = inflight_heap_take(&simulation->inflight);
    if (open == NULL) {
        return STATUS_NO_MEMORY;
    }
    evaluate(simulation, client, head, open);
    if (!answer_request(simulation, open, future, answer, &status)) {
        inflight_heap_give_back(&simulation->inflight, open);
    }
    if (answer->verdict == SIMULATION_UNDECIDED &&
        answer->admission->decision.status == STATUS_INVALID) {
        return STATUS_INVALID;
    }
    return status;
}

void simulation_count(const struct simulation *simulation, struct memory_store_counters *counters)
{
    memory_store_count(simulation->store, counters);
}

const uint64_t *simulation_bans(const struct simulation *simulation, size_t limit)
{
    return simulation->n_bans != NULL ? simulation->n_bans[limit] : NULL;
}

uint64_t simulation_early_ends(const struct simulation *simulation)
{
    return simulation->n_early_ends;
}
