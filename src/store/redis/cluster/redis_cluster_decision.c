/* Happy path, all charges in one slot: the owner is asked ─► its answer is the answer.
 *
 * In several slots: all are judged at once ─► all allow ─► the first slot is charged ─► the next …
 * ─► the answer, with the verdicts of the charging calls.
 *
 * Denied by a judging call: limits that count denied requests are charged ─► denied, with the
 * verdicts of the judging calls.
 * Denied by a charging call, since other requests came in between: earlier charges are given back,
 * except those of limits that count denied requests ─► the remaining such limits are charged ─►
 * denied.
 * Failed or late at any step: earlier charges are given back ─► the failure. A charge whose call
 * got no answer stays, as with one Redis.
 * Cancelled while slots are charged: it goes on without its caller (redis_cluster_abandoned.c). At
 * any other time the calls that are under way are left to themselves.
 * TRYAGAIN: earlier charges are given back ─► the decision starts again, one part a key, once. A
 * batch of identical requests fails with TRYAGAIN instead, and the caller sends each request.
 *
 * A call to a node:
 *   MOVED                 the named node is asked, and the map is corrected and requested anew
 *   ASK                   the named node is asked, behind ASKING, for this call only
 *   too many of these     the answer is a failure, with the last redirection
 *   TRYAGAIN              the part is marked unstable: calls with one key each may succeed
 *   any other failure     the answer; the map is requested anew if it may have changed
 * Redis changes nothing before MOVED, ASK and TRYAGAIN, so the call can be repeated. */

#include <assert.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "store/redis/cluster/redis_cluster.h"
#include "store/redis_store.h"

/* Of one call: MOVED to a node that answers ASK, and the same again while the map changes. */
enum { REDIRECTIONS_MAX = 4 };

enum outcome {
    GOES_ON, /* something is pending */
    IS_OVER, /* the decision is filled */
};

static struct redis_cluster_part *part_at(const struct redis_cluster_ticket *ticket, size_t i)
{
    return &ticket->parts[i];
}

/* --- reporting to the caller --- */

/* The caller's charge that charge @i of @part is a copy of. */
static struct charge *caller_of(const struct redis_cluster_part *part, size_t i)
{
    const struct redis_cluster_ticket *ticket = part->ticket;
    const size_t at = (size_t)(&part->decision.charges[i] - ticket->spread->charges);
    return &ticket->decision->charges[ticket->spread->of[at]];
}

static void report_verdicts(const struct redis_cluster_part *part)
{
    for (size_t i = 0; i < part->decision.n_charges; i++) {
        const struct charge *charge = &part->decision.charges[i];
        struct charge *caller = caller_of(part, i);
        caller->verdict = charge->verdict;
        caller->charged = charge->charged;
        caller->charged_at_us = charge->charged_at_us;
    }
}

/* Report the limits' state after the denied request was counted; "allowed" stays as judged. */
static void report_counted(const struct redis_cluster_part *part)
{
    for (size_t i = 0; i < part->decision.n_charges; i++) {
        const struct verdict *now = &part->decision.charges[i].verdict;
        struct verdict *reported = &caller_of(part, i)->verdict;
        reported->remaining = now->remaining;
        reported->next_after = now->next_after;
        reported->reset_after = now->reset_after;
        if (!reported->allowed && !now->allowed) {
            reported->retry_after = now->retry_after;
        }
    }
}

static enum outcome end(struct redis_cluster_ticket *ticket, bool allowed)
{
    ticket->decision->status = STATUS_OK;
    ticket->decision->source = DECISION_REDIS;
    ticket->decision->fault = REDIS_FAULT_NONE;
    ticket->decision->allowed = allowed;
    if (ticket->spread != NULL && ticket->decision->on_each != NULL) {
        ticket->decision->on_each(ticket->decision, 0);
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
    return limit->charge_denied && !limit->algorithm->has_slots;
}

static struct settlement refund_of(const struct decision *decision, const struct charge *charge)
{
    const bool has_slots = charge->limit->algorithm->has_slots;
    return (struct settlement){
        .limit = charge->limit,
        .key = charge->key,
        .client = &decision->client,
        .kind = has_slots ? SETTLE_RELEASE : SETTLE_COST,
        .delta = has_slots ? 0 : -(int64_t)charge->cost,
        .charged_at_us = charge->charged_at_us,
        .slot = charge->slot,
        .source = DECISION_REDIS,
    };
}

/* Give back the charges of the charged parts; @is_denied: except those of limits that count denied
 * requests. */
static void give_back(struct redis_cluster_ticket *ticket, bool is_denied)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < ticket->n_charged; i++) {
        const struct decision *decision = &part_at(ticket, i)->decision;
        for (size_t j = 0; j < decision->n_charges; j++) {
            const struct charge *charge = &decision->charges[j];
            if (charge->charged && !(is_denied && counts_denied(charge->limit))) {
                settlements[n++] = refund_of(decision, charge);
            }
        }
    }
    ticket->n_charged = 0;
    if (n > 0) {
        ticket->cluster->counters.n_given_back++;
        redis_cluster_settle(&ticket->cluster->store, settlements, n);
    }
}

/* --- one call and its redirections --- */

static void continue_or_answer(struct redis_cluster_ticket *ticket);

static void ask_node(struct redis_cluster_part *part, struct redis_cluster_node *node, bool asking);

/* Follow the redirection of @fault and @text. False: @part was not sent on. */
static bool follow(struct redis_cluster_part *part, enum redis_fault fault, struct span text)
{
    struct redis_cluster_node *node = part->n_redirections == REDIRECTIONS_MAX
                                          ? NULL
                                          : redis_cluster_nodes_follow(part->node, fault, text);
    if (node == NULL) {
        return false;
    }
    part->n_redirections++;
    part->ticket->cluster->counters.n_redirections++;
    ask_node(part, node, fault == REDIS_FAULT_ASK);
    return true;
}

/* Whether @fault may mean that the node no longer owns the slot. */
static bool is_doubtful(enum redis_fault fault)
{
    return fault == REDIS_FAULT_DEADLINE || fault == REDIS_FAULT_CLUSTERDOWN ||
           redis_fault_row(fault)->reaction == REDIS_DROP;
}

/* The node has failed to decide. Returns whether @part was sent to another node. */
static bool try_elsewhere(struct redis_cluster_part *part)
{
    struct span text;
    const enum redis_fault fault = redis_store_fault(part->node->store, &text);
    if (fault == REDIS_FAULT_MOVED || fault == REDIS_FAULT_ASK) {
        return follow(part, fault, text);
    }
    if (fault == REDIS_FAULT_TRYAGAIN) {
        part->is_unstable = true;
        part->ticket->cluster->unstable_us = clock_monotonic_us();
    }
    if (is_doubtful(fault)) {
        redis_cluster_nodes_mark_stale(&part->ticket->cluster->nodes);
    }
    return false;
}

static void on_answer(struct decision *decision)
{
    struct redis_cluster_part *part = decision->context;
    part->is_pending = false;
    part->ticket->n_pending--;
    if (decision->status == STATUS_OK || !try_elsewhere(part) || !part->is_pending) {
        continue_or_answer(part->ticket);
    }
}

static void ask_node(struct redis_cluster_part *part, struct redis_cluster_node *node, bool asking)
{
    struct redis_store *redis = redis_store_of(node->store);
    part->node = node;
    redis->asking = asking;
    const enum store_outcome outcome = store_decide(node->store, &part->decision, on_answer);
    redis->asking = false;
    if (outcome == STORE_PENDING) {
        part->is_pending = true;
        part->ticket->n_pending++;
    } else if (part->decision.status != STATUS_OK) {
        (void)try_elsewhere(part);
    }
}

/* Send @part with @aim to the owner of its slot. Either it is pending afterwards, or its decision
 * holds the answer already. */
static void ask_part(struct redis_cluster_part *part, enum decision_aim aim)
{
    struct redis_cluster *cluster = part->ticket->cluster;
    struct redis_cluster_node *node = redis_cluster_nodes_find(&cluster->nodes, part->slot);
    part->decision.aim = aim;
    part->decision.context = part;
    part->n_redirections = 0;
    part->is_unstable = false;
    part->is_asked = true;
    if (node == NULL) {
        part->decision.status = STATUS_UNREACHABLE;
        part->decision.source = DECISION_REDIS;
    } else {
        ask_node(part, node, false);
    }
}

/* --- steps --- */

/* The deadline is one of calls that are sent at once. It begins anew with the next ones, since
 * Redis has answered in time, and clients choose how many slots their requests take. */
static void begin_deadline(struct redis_cluster_ticket *ticket)
{
    ticket->was_restarted = false;
    timeout_arm(&ticket->deadline, &ticket->cluster->deadlines, clock_monotonic_us());
}

static void begin_step(struct redis_cluster_ticket *ticket, enum redis_cluster_step step)
{
    begin_deadline(ticket);
    ticket->step = step;
    for (size_t i = 0; i < ticket->n_parts; i++) {
        part_at(ticket, i)->is_asked = false;
    }
}

static void judge(struct redis_cluster_ticket *ticket)
{
    begin_step(ticket, REDIS_CLUSTER_JUDGE);
    for (size_t i = 0; i < ticket->n_parts; i++) {
        ask_part(part_at(ticket, i), DECISION_JUDGE);
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
            ask_part(part_at(ticket, i), DECISION_DENY);
        }
    }
}

/* Start again with one part a key: a migrating slot never refuses a call with a single key. */
static enum outcome go_by_key(struct redis_cluster_ticket *ticket, const struct decision *why)
{
    const struct decision failed = *why; /* copied, since the split overwrites the parts */
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
    if (part->is_unstable && part->decision.n_charges > 1 && ticket->decision->batch_size <= 1 &&
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
        report_verdicts(part);
    }
    if (ticket->decision->aim == DECISION_JUDGE) {
        return end(ticket, allowed);
    }
    if (allowed) {
        begin_step(ticket, REDIS_CLUSTER_CHARGE);
        ask_part(part_at(ticket, 0), DECISION_ADMIT);
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
        report_verdicts(part);
        give_back(ticket, true);
        count(ticket, next);
        return GOES_ON;
    }
    if (++ticket->n_charged < ticket->n_parts) {
        begin_deadline(ticket);
        ask_part(part_at(ticket, ticket->n_charged), DECISION_ADMIT);
        return GOES_ON;
    }
    for (size_t i = 0; i < ticket->n_parts; i++) {
        report_verdicts(part_at(ticket, i));
    }
    return end(ticket, true);
}

/* A failure to count the denied request is ignored: the request is denied anyway. */
static enum outcome end_count(struct redis_cluster_ticket *ticket)
{
    for (size_t i = 0; i < ticket->n_parts; i++) {
        const struct redis_cluster_part *part = part_at(ticket, i);
        if (part->is_asked && part->decision.status == STATUS_OK) {
            report_counted(part);
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

/* Take steps until an answer is pending or the decision is filled. */
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
        ask_part(part_at(ticket, 0), aim);
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

/* Fail each pending part. The failure of one may open the breaker of its node, which then answers
 * others that wait there. So n_pending is raised until all parts have been visited. */
static void on_deadline(struct timeout *timeout)
{
    struct redis_cluster_ticket *ticket =
        CONTAINER_OF(timeout, struct redis_cluster_ticket, deadline);
    if (timeout_restart_if_held(timeout, &ticket->cluster->deadlines, &ticket->was_restarted)) {
        return; /* the calls may not have left before now */
    }
    ticket->is_late = true;
    ticket->n_pending++;
    for (size_t i = 0; i < ticket->n_parts; i++) {
        struct redis_cluster_part *part = part_at(ticket, i);
        if (part->is_pending) {
            redis_store_expire(&part->decision);
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

enum store_outcome redis_cluster_decide(struct store *store, struct decision *decision)
{
    struct redis_cluster *cluster = redis_cluster_of(store);
    struct redis_cluster_ticket *ticket = take_ticket(cluster, decision);
    if (ticket == NULL) {
        decision->status = STATUS_NO_MEMORY;
        decision->source = DECISION_REDIS;
        return STORE_ANSWERED;
    }
    decision->frames[decision->n_frames - 1].state = ticket;
    begin(ticket);
    if (go_on(ticket) == GOES_ON) {
        return STORE_PENDING;
    }
    free_ticket(ticket);
    return STORE_ANSWERED;
}

/* Which charges of @part, of a decision that is cancelled, are given back. */
static uint32_t returned_of(const struct redis_cluster_part *part)
{
    const struct decision *decision = part->ticket->decision;
    uint32_t returned = 0;
    if (part->ticket->spread == NULL) {
        return decision->returned;
    }
    for (size_t i = 0; i < part->decision.n_charges; i++) {
        const size_t at = (size_t)(caller_of(part, i) - decision->charges);
        returned |= (decision->returned >> at & 1) << i;
    }
    return returned;
}

size_t redis_cluster_refund_cancelled(const struct decision *decision, uint32_t returned,
                                      struct settlement *settlements)
{
    size_t n = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const bool is_returned = (returned >> i & 1) != 0;
        if (charge->charged && (is_returned || charge->limit->algorithm->has_slots)) {
            settlements[n++] = refund_of(decision, charge);
        }
    }
    return n;
}

void redis_cluster_end_ticket(struct redis_cluster_ticket *ticket)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < ticket->n_parts && ticket->n_pending > 0; i++) {
        struct redis_cluster_part *part = part_at(ticket, i);
        if (part->is_pending) {
            ticket->n_pending--;
            part->decision.returned = returned_of(part);
            store_cancel(&part->decision);
        }
    }
    for (size_t i = 0; i < ticket->n_charged; i++) {
        const struct redis_cluster_part *part = part_at(ticket, i);
        n += redis_cluster_refund_cancelled(&part->decision, returned_of(part), &settlements[n]);
    }
    if (n > 0) {
        redis_cluster_settle(&ticket->cluster->store, settlements, n);
    }
    free_ticket(ticket);
}

/* A client that leaves while slot after slot is charged is charged as if it had stayed. Otherwise
 * it would use up what others share and pay nothing itself. */
void redis_cluster_cancel(struct store *store, struct decision *decision)
{
    struct redis_cluster_ticket *ticket = decision->frames[decision->n_frames - 1].state;
    (void)store;
    if (ticket->step != REDIS_CLUSTER_CHARGE || !redis_cluster_abandon(ticket)) {
        redis_cluster_end_ticket(ticket);
    }
}
