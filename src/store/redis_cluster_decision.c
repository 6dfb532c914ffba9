/* Happy path, all charges in one slot: the owner is asked ─► its answer is the answer.
 *
 * In several slots: all are judged at once ─► all allow ─► the first slot is charged ─► the next …
 * ─► the answer, which is what the charging calls told.
 *
 * Denied when judged: those that count denied requests are charged ─► denied, with what was judged.
 * Denied when charged, since others came between: what was charged is given back, but to those that
 * count denied requests ─► the others of those are charged ─► denied.
 * Failed, or too late, at any step: what was charged is given back ─► the failure. A charge whose
 * call got no answer stays, as with one Redis.
 * TRYAGAIN: what was charged is given back ─► all anew, key by key, once. Several requests alike
 * are not asked so: the failure says TRYAGAIN, and whoever gathered them asks for each. */

#include <assert.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "store/redis_cluster.h"

enum outcome {
    GOES_ON, /* something is pending */
    IS_OVER, /* the decision is filled */
};

static struct redis_cluster_part *part_at(const struct redis_cluster_ticket *ticket, size_t i)
{
    return &ticket->parts[i];
}

/* --- what is told to the caller --- */

/* Which of the caller's charges the @i-th of @part is. */
static struct charge *caller_of(const struct redis_cluster_part *part, size_t i)
{
    const struct redis_cluster_ticket *ticket = part->ticket;
    const size_t at = (size_t)(&part->decision.charges[i] - ticket->spread->charges);
    return &ticket->decision->charges[ticket->spread->of[at]];
}

static void tell_verdicts(const struct redis_cluster_part *part)
{
    for (size_t i = 0; i < part->decision.n_charges; i++) {
        const struct charge *charge = &part->decision.charges[i];
        struct charge *caller = caller_of(part, i);
        caller->verdict = charge->verdict;
        caller->charged = charge->charged;
        caller->charged_at_us = charge->charged_at_us;
    }
}

/* How things stand now that the denied request was counted; what was judged before stands. */
static void tell_counted(const struct redis_cluster_part *part)
{
    for (size_t i = 0; i < part->decision.n_charges; i++) {
        const struct verdict *now = &part->decision.charges[i].verdict;
        struct verdict *told = &caller_of(part, i)->verdict;
        told->remaining = now->remaining;
        told->next_after = now->next_after;
        told->reset_after = now->reset_after;
        if (!told->allowed && !now->allowed) {
            told->retry_after = now->retry_after;
        }
    }
}

static enum outcome end(struct redis_cluster_ticket *ticket, bool allowed)
{
    ticket->decision->status = STATUS_OK;
    ticket->decision->source = DECISION_REDIS;
    ticket->decision->fault = NULL;
    ticket->decision->allowed = allowed;
    if (ticket->spread != NULL && ticket->decision->on_alike != NULL) {
        ticket->decision->on_alike(ticket->decision, 0);
    }
    return IS_OVER;
}

static enum outcome fail(struct redis_cluster_ticket *ticket, const struct decision *why)
{
    ticket->decision->status = why->status;
    ticket->decision->source = DECISION_REDIS;
    ticket->decision->fault = why->fault;
    return IS_OVER;
}

static enum outcome deny(struct redis_cluster_ticket *ticket)
{
    for (size_t i = 0; i < ticket->decision->n_charges; i++) {
        ticket->decision->charges[i].charged = false;
    }
    return end(ticket, false);
}

/* --- giving back --- */

static bool counts_denied(const struct limit *limit)
{
    return limit->count_denied && !limit->algorithm->has_slots;
}

/* Undo the charges of the parts that were charged; @is_denied: but not to those that count it. */
static void give_back(struct redis_cluster_ticket *ticket, bool is_denied)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < ticket->n_charged; i++) {
        const struct decision *decision = &part_at(ticket, i)->decision;
        for (size_t j = 0; j < decision->n_charges; j++) {
            const struct charge *charge = &decision->charges[j];
            const bool has_slots = charge->limit->algorithm->has_slots;
            if (charge->charged && !(is_denied && counts_denied(charge->limit))) {
                settlements[n++] = (struct settlement){
                    .limit = charge->limit,
                    .key = charge->key,
                    .kind = has_slots ? SETTLE_RELEASE : SETTLE_COST,
                    .delta = has_slots ? 0 : -(int64_t)charge->cost,
                    .charged_at_us = charge->charged_at_us,
                    .slot = charge->slot,
                    .source = DECISION_REDIS,
                };
            }
        }
    }
    ticket->n_charged = 0;
    if (n > 0) {
        ticket->cluster->counters.n_given_back++;
        redis_cluster_settle(ticket->cluster, settlements, n);
    }
}

/* --- steps --- */

static void begin_step(struct redis_cluster_ticket *ticket, enum redis_cluster_step step)
{
    ticket->step = step;
    for (size_t i = 0; i < ticket->n_parts; i++) {
        part_at(ticket, i)->is_asked = false;
    }
}

static void judge(struct redis_cluster_ticket *ticket)
{
    begin_step(ticket, REDIS_CLUSTER_JUDGE);
    for (size_t i = 0; i < ticket->n_parts; i++) {
        redis_cluster_ask(part_at(ticket, i), DECISION_JUDGE);
    }
}

static bool any_counts_denied(const struct redis_cluster_part *part)
{
    for (size_t i = 0; i < part->decision.n_charges; i++) {
        if (counts_denied(part->decision.charges[i].limit)) {
            return true;
        }
    }
    return false;
}

/* Count the denied request from the part @first on. */
static void count(struct redis_cluster_ticket *ticket, size_t first)
{
    begin_step(ticket, REDIS_CLUSTER_COUNT);
    for (size_t i = first; i < ticket->n_parts; i++) {
        if (any_counts_denied(part_at(ticket, i))) {
            redis_cluster_ask(part_at(ticket, i), DECISION_DENY);
        }
    }
}

/* All anew, key by key: a call of one key is never too much for a slot on the move. */
static enum outcome go_by_key(struct redis_cluster_ticket *ticket, const struct decision *why)
{
    const struct decision failed = *why; /* it is one of the parts that are laid anew */
    give_back(ticket, false);
    ticket->cluster->counters.n_spread += ticket->spread == NULL;
    ticket->cluster->counters.n_by_key++;
    if (redis_cluster_split_by_key(ticket) != STATUS_OK) {
        return fail(ticket, &failed);
    }
    judge(ticket);
    return GOES_ON;
}

/* @part could not be decided. */
static enum outcome end_failed(struct redis_cluster_ticket *ticket,
                               const struct redis_cluster_part *part)
{
    if (part->is_unstable && part->decision.n_charges > 1 && ticket->decision->n_alike <= 1 &&
        !ticket->is_late) {
        return go_by_key(ticket, &part->decision);
    }
    give_back(ticket, false);
    return fail(ticket, &part->decision);
}

static enum outcome end_alone(struct redis_cluster_ticket *ticket)
{
    const struct redis_cluster_part *part = part_at(ticket, 0);
    if (part->decision.status != STATUS_OK) {
        return end_failed(ticket, part);
    }
    return end(ticket, part->decision.allowed);
}

static enum outcome end_judge(struct redis_cluster_ticket *ticket)
{
    bool allowed = ticket->decision->aim != DECISION_DENY;
    for (size_t i = 0; i < ticket->n_parts; i++) {
        const struct redis_cluster_part *part = part_at(ticket, i);
        if (part->decision.status != STATUS_OK) {
            return end_failed(ticket, part);
        }
        allowed = allowed && part->decision.allowed;
        tell_verdicts(part);
    }
    if (ticket->decision->aim == DECISION_JUDGE) {
        return end(ticket, allowed);
    }
    if (allowed) {
        begin_step(ticket, REDIS_CLUSTER_CHARGE);
        redis_cluster_ask(part_at(ticket, 0), DECISION_ADMIT);
    } else {
        count(ticket, 0);
    }
    return GOES_ON;
}

static enum outcome end_charge(struct redis_cluster_ticket *ticket)
{
    struct redis_cluster_part *part = part_at(ticket, ticket->n_charged);
    if (part->decision.status != STATUS_OK) {
        return end_failed(ticket, part);
    }
    if (!part->decision.allowed) {
        const size_t next = ticket->n_charged + 1;
        tell_verdicts(part);
        give_back(ticket, true);
        count(ticket, next);
        return GOES_ON;
    }
    if (++ticket->n_charged < ticket->n_parts) {
        redis_cluster_ask(part_at(ticket, ticket->n_charged), DECISION_ADMIT);
        return GOES_ON;
    }
    for (size_t i = 0; i < ticket->n_parts; i++) {
        tell_verdicts(part_at(ticket, i));
    }
    return end(ticket, true);
}

/* What could not be counted is not: the request is denied all the same. */
static enum outcome end_count(struct redis_cluster_ticket *ticket)
{
    for (size_t i = 0; i < ticket->n_parts; i++) {
        const struct redis_cluster_part *part = part_at(ticket, i);
        if (part->is_asked && part->decision.status == STATUS_OK) {
            tell_counted(part);
        }
    }
    return deny(ticket);
}

static enum outcome end_step(struct redis_cluster_ticket *ticket)
{
    switch (ticket->step) {
    case REDIS_CLUSTER_ALONE:
        return end_alone(ticket);
    case REDIS_CLUSTER_JUDGE:
        return end_judge(ticket);
    case REDIS_CLUSTER_CHARGE:
        return end_charge(ticket);
    case REDIS_CLUSTER_COUNT:
        return end_count(ticket);
    }
    return IS_OVER;
}

/* As far as it goes without waiting. */
static enum outcome go_on(struct redis_cluster_ticket *ticket)
{
    enum outcome outcome = GOES_ON;
    while (outcome == GOES_ON && ticket->n_pending == 0) {
        outcome = end_step(ticket);
    }
    return outcome;
}

static void begin(struct redis_cluster_ticket *ticket)
{
    const enum decision_aim aim = ticket->decision->aim;
    if (ticket->n_parts == 1) {
        begin_step(ticket, REDIS_CLUSTER_ALONE);
        redis_cluster_ask(part_at(ticket, 0), aim);
        return;
    }
    ticket->cluster->counters.n_spread++;
    judge(ticket);
}

/* --- the ticket --- */

static void free_ticket(struct redis_cluster_ticket *ticket)
{
    struct redis_cluster *cluster = ticket->cluster;
    timeout_disarm(&ticket->deadline);
    pool_give(&cluster->spreads, ticket->spread);
    pool_give(&cluster->tickets, ticket);
}

/* @ticket may be gone afterwards. */
static void continue_or_answer(struct redis_cluster_ticket *ticket)
{
    if (ticket->n_pending == 0 && go_on(ticket) == IS_OVER) {
        struct decision *decision = ticket->decision;
        free_ticket(ticket);
        store_answer(decision);
    }
}

void redis_cluster_on_part(struct redis_cluster_part *part)
{
    continue_or_answer(part->ticket);
}

/* Each part that is pending fails. The failure of one may open the breaker of its node, which
 * answers others that wait there: the ticket is held until all have been looked at. */
static void on_deadline(struct timeout *timeout)
{
    struct redis_cluster_ticket *ticket =
        CONTAINER_OF(timeout, struct redis_cluster_ticket, deadline);
    ticket->is_late = true;
    ticket->n_pending++;
    for (size_t i = 0; i < ticket->n_parts; i++) {
        struct redis_cluster_part *part = part_at(ticket, i);
        if (part->is_pending) {
            redis_node_expire(&part->decision);
        }
    }
    ticket->n_pending--;
    continue_or_answer(ticket);
}

static struct redis_cluster_ticket *take_ticket(struct redis_cluster *cluster,
                                                struct decision *decision)
{
    struct redis_cluster_ticket *ticket = pool_take(&cluster->tickets);
    if (ticket == NULL) {
        return NULL;
    }
    ticket->cluster = cluster;
    ticket->decision = decision;
    ticket->n_pending = 0;
    ticket->n_charged = 0;
    ticket->is_late = false;
    ticket->spread = NULL;
    timeout_init(&ticket->deadline, on_deadline);
    if (redis_cluster_split(ticket) != STATUS_OK) {
        free_ticket(ticket);
        return NULL;
    }
    return ticket;
}

enum store_outcome redis_cluster_decide(struct redis_cluster *cluster, struct decision *decision)
{
    struct redis_cluster_ticket *ticket = take_ticket(cluster, decision);
    if (ticket == NULL) {
        decision->status = STATUS_NO_MEMORY;
        decision->source = DECISION_REDIS;
        return STORE_ANSWERED;
    }
    decision->frames[decision->n_frames - 1].state = ticket;
    timeout_arm(&ticket->deadline, &cluster->deadlines, clock_monotonic_us());
    begin(ticket);
    if (go_on(ticket) == GOES_ON) {
        return STORE_PENDING;
    }
    free_ticket(ticket);
    return STORE_ANSWERED;
}

void redis_cluster_cancel(struct redis_cluster *cluster, struct decision *decision)
{
    struct redis_cluster_ticket *ticket = decision->frames[decision->n_frames - 1].state;
    (void)cluster;
    for (size_t i = 0; i < ticket->n_parts && ticket->n_pending > 0; i++) {
        struct redis_cluster_part *part = part_at(ticket, i);
        if (part->is_pending) {
            ticket->n_pending--;
            store_cancel(&part->decision);
        }
    }
    give_back(ticket, false);
    free_ticket(ticket);
}
