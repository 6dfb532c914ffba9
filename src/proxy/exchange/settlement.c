#include "proxy/settlement.h"

#include <stddef.h>

#include "base/compiler.h"
#include "policy/answer_set.h"
#include "policy/key.h"
#include "proxy/exchange/exchange_config.h"

/* The status is ignored if the client left: otherwise it could choose whether its answer counts. */
static bool is_in(const struct answer_set *set, const struct outcome *outcome)
{
    switch (outcome->end) {
    case ANSWER_WHOLE:
        return answer_set_has(set, outcome->status);
    case ANSWER_CLIENT_LEFT:
        return set->client_left;
    case ANSWER_SERVER_FAILED:
        return set->server_failed || answer_set_has(set, outcome->status);
    case ANSWER_EVICTED: /* which its client can bring about: only the server's own head counts */
        return answer_set_has(set, outcome->status);
    case ANSWER_REFUSED:
        return false;
    }
    return false;
}

/* Whether the request may have been acted on though the client was answered 502 to 504. A client
 * can cause that: by a long value that the server repeats in its fields, by a byte that no field
 * may have, by a body that the server does not read. A gateway between answers so for the same, and
 * refuses a body of which the server works on the beginning. */
static bool is_lost(const struct outcome *outcome)
{
    return outcome->is_unreadable || outcome->is_doubtful;
}

/* Whether the status is of a server's head, not of sluice. */
static bool is_of_server(const struct outcome *outcome)
{
    return !outcome->is_unsent && !outcome->is_unanswered;
}

static bool is_refunded(const struct limit_rule *rule, const struct outcome *outcome)
{
    const struct answer_set *set = &rule->refund_on;
    const bool has_answer = outcome->end != ANSWER_CLIENT_LEFT && outcome->end != ANSWER_REFUSED;
    if (has_answer && (is_lost(outcome) ||
                       (answer_needs_name(outcome->status, false) && is_of_server(outcome)))) {
        return answer_set_names(set, outcome->status);
    }
    return set->is_said && is_in(set, outcome);
}

/* Whether the answer may stand in place of one that @rule charges, of a server that has done the
 * work or has refused the client. A 304 stands for a 200. */
static bool may_hide_status(const struct limit_rule *rule, const struct outcome *outcome)
{
    const struct answer_set *set = &rule->charge_on;
    return is_of_server(outcome) && ((set->has_answers && answer_hides_status(outcome->status)) ||
                                     (outcome->status == 304 && answer_set_has(set, 200)));
}

/* Whether the request ended with a place in a queue that clients share, of a limit with max_wait,
 * before a server was sent any of it. One by several values has a place in the queue of each, and
 * perhaps only one of these is its client's. */
static bool has_left_queue(const struct admission *admission, const struct outcome *outcome)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        if (charge->limit->params.max_wait > 0 && !charge->limit->shadow &&
            (admission->has_several || key_is_shared(charge->key))) {
            return outcome->is_unsent && outcome->end != ANSWER_WHOLE;
        }
    }
    return false;
}

/* What a client sent to a server is counted though the client left, or the server did not answer:
 * it may have been acted on, now or later. What no server was sent is no attempt at anything, and
 * a client could make any number of them, which would fill what clients share. But its place in a
 * queue is gone, and nothing else than a limit of its own would stop a client from taking all. */
static bool is_counted(const struct admission *admission, size_t i, const struct outcome *outcome)
{
    const struct limit_rule *rule = admission->rules[i];
    const bool has_left = outcome->end == ANSWER_CLIENT_LEFT && !outcome->is_unsent;
    const bool is_unanswered = outcome->end == ANSWER_SERVER_FAILED && outcome->is_unanswered;
    const bool is_evicted =
        outcome->end == ANSWER_EVICTED && outcome->status == 0 && !outcome->is_unsent;
    return !rule->charge_on.is_said || has_left || is_unanswered || is_evicted ||
           outcome->end == ANSWER_REFUSED || is_lost(outcome) || may_hide_status(rule, outcome) ||
           is_in(&rule->charge_on, outcome) ||
           (has_left_queue(admission, outcome) && !key_is_shared(admission->charges[i].key));
}

/* Whether charge @i is kept, whatever its limit refunds: a client that got it back at once,
 * while its place in a queue that all share is still to come, could take any number of them. */
static bool is_kept(const struct admission *admission, size_t i, const struct outcome *outcome)
{
    return UNLIKELY(outcome->is_before_departure) && has_left_queue(admission, outcome) &&
           !key_is_shared(admission->charges[i].key);
}

static bool is_free_by_status(const struct admission *admission, size_t i,
                              const struct outcome *outcome)
{
    return !is_counted(admission, i, outcome) ||
           (is_refunded(admission->rules[i], outcome) && !is_kept(admission, i, outcome));
}

/* @outcome by the other of its statuses. */
static struct outcome by_http_status(const struct outcome *outcome)
{
    struct outcome other = *outcome;
    other.status = outcome->http_status;
    return other;
}

/* Whether charge @i is nothing for @outcome, by whichever of its statuses. */
static bool is_free(const struct admission *admission, size_t i, const struct outcome *outcome)
{
    if (!is_free_by_status(admission, i, outcome)) {
        return false;
    }
    if (LIKELY(outcome->http_status == 0)) {
        return true;
    }
    const struct outcome other = by_http_status(outcome);
    return is_free_by_status(admission, i, &other);
}

static bool is_charged_status(const struct limit_rule *rule, const struct outcome *outcome)
{
    const struct answer_set *set = &rule->charge_on;
    const bool is_shown = outcome->end == ANSWER_CLIENT_LEFT && !outcome->is_unsent &&
                          answer_set_has(set, outcome->status);
    return is_shown || outcome->is_unreadable || is_in(set, outcome);
}

/* Unlike a charge, which a client that left pays whatever the answer was. */
bool settlement_is_charged_answer(const struct limit_rule *rule, const struct outcome *outcome)
{
    if (!rule->charge_on.is_said) {
        return false;
    }
    const struct outcome other = by_http_status(outcome);
    return is_charged_status(rule, outcome) ||
           (outcome->http_status != 0 && is_charged_status(rule, &other));
}

bool settlement_is_needed(const struct admission *admission, bool is_cost_known)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const struct limit_rule *rule = admission->rules[i];
        if (charge->charged && (charge->slot != 0 || is_cost_known || rule->charge_on.is_said ||
                                rule->refund_on.is_said)) {
            return true;
        }
    }
    return false;
}

/* The units that charge @i has taken. */
static uint32_t taken_cost(const struct admission *admission, size_t i)
{
    const bool is_raised = (admission->raised >> i & 1) != 0;
    return is_raised ? admission->raised_cost : admission->charges[i].cost;
}

/* The final cost of charge @i; docs/policy.md has the table. */
static uint32_t final_cost(const struct admission *admission, size_t i,
                           const struct outcome *outcome)
{
    const bool is_own = (admission->own_costs >> i & 1) != 0;
    if (is_free(admission, i, outcome)) {
        return 0;
    }
    return outcome->is_cost_reported && !is_own ? outcome->reported_cost : taken_cost(admission, i);
}

static struct settlement settlement_of(const struct admission *admission, size_t i,
                                       enum settlement_kind kind)
{
    const struct charge *charge = &admission->charges[i];
    const bool is_second = (admission->lent >> i & 1) != 0;
    return (struct settlement){
        .kind = kind,
        .limit = charge->limit,
        .key = charge->key,
        .client = &admission->decision.client,
        .slot = charge->slot,
        .charged_at_us = charge->charged_at_us,
        .overflowed = charge->overflowed,
        .instances = charge->instances,
        .source = is_second ? admission->second_source : admission->decision.source,
    };
}

/* Make the settlement of one charge; false: none is needed. */
static bool settle_charge(const struct admission *admission, size_t i,
                          const struct outcome *outcome, struct settlement *settlement)
{
    const struct charge *charge = &admission->charges[i];
    if (!charge->charged) {
        return false;
    }
    if (charge->slot != 0) {
        *settlement = settlement_of(admission, i, SETTLE_RELEASE);
        return true;
    }
    const uint32_t units = final_cost(admission, i, outcome);
    const uint32_t taken = taken_cost(admission, i);
    if (units == taken) {
        return false;
    }
    *settlement = settlement_of(admission, i, SETTLE_COST);
    settlement->delta = (int64_t)units - (int64_t)taken;
    return true;
}

static bool awaits_cost(const struct admission *admission, size_t i)
{
    const struct charge *charge = &admission->charges[i];
    return charge->charged && charge->slot == 0 && (admission->own_costs >> i & 1) == 0;
}

void settlement_raise(struct admission *admission, const struct outcome *outcome,
                      struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const uint32_t units = final_cost(admission, i, outcome);
        if (!awaits_cost(admission, i) || units <= charge->cost) {
            continue;
        }
        settlements[n] = settlement_of(admission, i, SETTLE_COST);
        settlements[n].delta = (int64_t)units - (int64_t)charge->cost;
        if (store_can_settle(store, &settlements[n])) { /* else the end settles alone */
            admission->raised |= UINT32_C(1) << i;
            n++;
        }
    }
    admission->raised_cost = outcome->reported_cost;
    admission->raised_losses = store_count_losses(store, admission->decision.source);
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}

/* Give back what raised charges have taken too much beyond their estimates. It was taken later than
 * these, and so is given back apart. What may have been lost on its way was perhaps never taken: it
 * is not given back, or a bucket would be filled with what other requests have taken. A bucket
 * knows if it has forgiven a part of a charge; another limit that may have keeps it all. */
COLD static void lower(struct admission *admission, const struct outcome *outcome,
                       struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    const bool may_be_lost =
        store_count_losses(store, admission->decision.source) != admission->raised_losses;
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const uint32_t bit = UINT32_C(1) << i;
        if ((admission->raised & bit) == 0 || !admission->charges[i].charged) {
            continue;
        }
        const uint32_t units = final_cost(admission, i, outcome);
        if (units >= admission->charges[i].cost) {
            continue;
        }
        admission->raised &= ~bit;
        const struct limit *limit = admission->charges[i].limit;
        if (limit->algorithm->has_burst || limit_owes_all(limit)) {
            settlements[n] = settlement_of(admission, i, SETTLE_COST);
            settlements[n].charged_at_us += outcome->reported_after_us;
            settlements[n].delta =
                (int64_t)admission->charges[i].cost - (int64_t)admission->raised_cost;
            n += !may_be_lost;
        }
    }
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}

static void make(struct admission *admission, const struct outcome *outcome, bool with_slots,
                 struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    if (admission->decision.n_charges > 0 && UNLIKELY(admission->raised != 0)) {
        lower(admission, outcome, store);
    }
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (!with_slots && admission->charges[i].slot != 0) {
            continue;
        }
        if (settle_charge(admission, i, outcome, &settlements[n])) {
            n++;
        }
        admission->charges[i].charged = false; /* once */
    }
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}

void settlement_make(struct admission *admission, const struct outcome *outcome,
                     struct store *store)
{
    make(admission, outcome, true, store);
}

void settlement_make_costs(struct admission *admission, const struct outcome *outcome,
                           struct store *store)
{
    make(admission, outcome, false, store);
}

static bool is_slot(const struct charge *charge)
{
    return charge->charged && charge->slot != 0;
}

static bool is_lendable(const struct charge *charge)
{
    return is_slot(charge) && key_is_shared(charge->key);
}

size_t settlement_count_lendable(const struct admission *admission)
{
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        n += is_lendable(&admission->charges[i]);
    }
    return n;
}

void settlement_lend(struct admission *admission, struct charge *charges, struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        struct charge *charge = &admission->charges[i];
        if (!is_lendable(charge)) {
            continue;
        }
        settlements[n] = settlement_of(admission, i, SETTLE_RELEASE);
        charge->charged = false;
        charges[n++] = *charge;
        admission->lent |= UINT32_C(1) << i;
    }
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}

void settlement_retake(struct admission *admission, const struct decision *second)
{
    struct decision *decision = &admission->decision;
    size_t n = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        if ((admission->lent >> i & 1) != 0) {
            admission->charges[i] = second->charges[n++];
        }
    }
    admission->second_source = second->source;
    if (second->status != STATUS_OK || !second->allowed) {
        decision->status = second->status;
        decision->allowed = false;
        decision->source = second->source;
        decision->fault = second->fault;
        decision->failure = second->failure;
    }
}

uint32_t settlement_returned(const struct admission *admission, const struct outcome *outcome)
{
    uint32_t returned = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const bool is_returned =
            charge->slot == 0 && charge->cost > 0 && final_cost(admission, i, outcome) == 0;
        returned |= (uint32_t)is_returned << i;
    }
    return returned;
}

void settlement_undo(struct admission *admission, struct store *store)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        struct charge *charge = &admission->charges[i];
        if (is_slot(charge)) {
            settlements[n++] = settlement_of(admission, i, SETTLE_RELEASE);
        } else if (charge->charged && !charge->limit->charge_denied) {
            settlements[n] = settlement_of(admission, i, SETTLE_COST);
            settlements[n++].delta = -(int64_t)charge->cost;
        }
        charge->charged = false;
    }
    if (n > 0) {
        store_settle(store, settlements, n);
    }
}

uint32_t settlement_renew(const struct admission *admission, uint32_t which, struct store *store)
{
    struct settlement renewals[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    uint32_t left = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if ((which >> i & 1) == 0 || !is_slot(&admission->charges[i])) {
            continue;
        }
        renewals[n] = settlement_of(admission, i, SETTLE_RENEW);
        if (store_can_settle(store, &renewals[n])) {
            n++;
        } else {
            left |= UINT32_C(1) << i;
        }
    }
    if (n > 0) {
        store_settle(store, renewals, n);
    }
    return left;
}

/* --- holders of slots --- */

void slot_holders_init(struct slot_holders *holders, struct loop *loop,
                       void (*renew)(void *context), void *context, uint64_t tick_us)
{
    *holders = (struct slot_holders){.tick_us = tick_us};
    for (size_t i = 0; i < SLOT_PHASES; i++) {
        list_init(&holders->phases[i]);
    }
    list_init(&holders->due);
    list_init(&holders->waiting);
    timer_init(&holders->timer, loop, renew, context);
}

void slot_holders_close(struct slot_holders *holders)
{
    timer_close(&holders->timer);
}

bool slot_holders_are_none(const struct slot_holders *holders)
{
    unsigned n = 0;
    while (n < SLOT_PHASES && list_is_empty(&holders->phases[n])) {
        n++;
    }
    return n == SLOT_PHASES && list_is_empty(&holders->due) && list_is_empty(&holders->waiting);
}

void slot_holders_tick(struct slot_holders *holders, uint64_t delay_us)
{
    holders->is_ticking = !slot_holders_are_none(holders);
    if (holders->is_ticking) {
        timer_arm(&holders->timer, delay_us);
    }
}

void slot_holders_add(struct slot_holders *holders, struct slot_holder *holder,
                      const struct admission *admission, uint64_t now_us)
{
    holder->admission = admission;
    holder->renewed_us = now_us;
    holder->left = 0;
    holder->phase = holders->n_added++ % SLOT_PHASES;
    list_push_back(&holders->phases[holder->phase], &holder->node);
    if (UNLIKELY(!holders->is_ticking)) {
        slot_holders_tick(holders, holders->tick_us);
    }
}

/* The slots of a cluster may be at several nodes: those whose renewal was sent are due again after
 * @period_us, though the others still wait. */
static void renew(struct slot_holders *holders, struct list *node, struct store *store,
                  uint64_t now_us, uint64_t period_us)
{
    struct slot_holder *holder = CONTAINER_OF(node, struct slot_holder, node);
    if (holder->left == 0 || now_us >= holder->renewed_us + period_us) {
        holder->left = SETTLEMENT_ALL_SLOTS;
        holder->renewed_us = now_us;
    }
    list_remove(node);
    holder->left = settlement_renew(holder->admission, holder->left, store);
    if (holder->left != 0) {
        list_push_back(&holders->waiting, node);
        return;
    }
    holder->renewed_us = now_us; /* of all */
    list_push_back(&holders->phases[holder->phase], node);
}

/* The next phase has come: all but the youngest of its holders are due. */
static void begin_phase(struct slot_holders *holders, uint64_t now_us, uint64_t period_us)
{
    struct list *phase = &holders->phases[holders->next_phase];
    holders->next_phase = (holders->next_phase + 1) % SLOT_PHASES;
    struct list *next;
    for (struct list *node = phase->next; node != phase; node = next) {
        const struct slot_holder *holder = CONTAINER_OF(node, struct slot_holder, node);
        next = node->next;
        if (now_us >= holder->renewed_us + period_us / 4) {
            list_remove(node);
            list_push_back(&holders->due, node);
        }
    }
}

static void begin_phases(struct slot_holders *holders, uint64_t now_us, uint64_t period_us)
{
    const uint64_t phase_us = period_us / SLOT_PHASES + 1;
    unsigned n = 0;
    for (; n < SLOT_PHASES && holders->next_us <= now_us; n++) {
        begin_phase(holders, now_us, period_us);
        holders->next_us += phase_us;
    }
    if (n == SLOT_PHASES) { /* it has not been called for so long */
        holders->next_us = now_us + phase_us;
    }
}

/* While any wait, those that become due have half of the tries: clients whose settlements have no
 * room may hold any number of slots. */
bool slot_holders_renew(struct slot_holders *holders, struct store *store, uint64_t now_us,
                        uint64_t period_us)
{
    const struct list *last = holders->waiting.prev; /* behind it are those that fail now */
    bool are_waiting = last != &holders->waiting;
    const unsigned n_due_max = are_waiting ? SLOT_RENEWALS_MAX / 2 : SLOT_RENEWALS_MAX;
    unsigned n_tried = 0;
    begin_phases(holders, now_us, period_us);
    for (; n_tried < n_due_max && !list_is_empty(&holders->due); n_tried++) {
        renew(holders, holders->due.next, store, now_us, period_us);
    }
    for (; are_waiting && n_tried < SLOT_RENEWALS_MAX; n_tried++) {
        struct list *node = holders->waiting.next;
        are_waiting = node != last;
        renew(holders, node, store, now_us, period_us);
    }
    return !list_is_empty(&holders->waiting) || !list_is_empty(&holders->due);
}

bool settlement_awaits_cost(const struct admission *admission)
{
    size_t i = 0;
    while (i < admission->decision.n_charges && !awaits_cost(admission, i)) {
        i++;
    }
    return i < admission->decision.n_charges;
}

void settlement_move(struct admission *from, struct admission *to, bool with_costs)
{
    *to = *from;
    to->decision.charges = to->charges;
    for (size_t i = 0; i < from->decision.n_charges; i++) {
        const bool is_moved = is_slot(&from->charges[i]) || (with_costs && awaits_cost(from, i));
        to->charges[i].charged = is_moved;
        from->charges[i].charged = from->charges[i].charged && !is_moved;
    }
}

void settlement_forget_slots(struct admission *admission)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        struct charge *charge = &admission->charges[i];
        charge->charged = charge->charged && charge->slot == 0;
    }
}
