/* Gives back the slots of keys that clients share while a request waits before a server is chosen,
 * for its departure or for its body, and takes them again at the end of the wait. So requests that
 * are not at a server, such as those of a client that sends no body, take no slots from others.
 *
 * Happy path: the second decision, over these slots alone, allows, and a server is chosen.
 *
 * Failures, each with its answer: the slots are taken by others meanwhile (429), no decision (503).
 * Both give back what the first decision has charged. */

#include "proxy/exchange/exchange_buffer.h"

#include "base/clock.h"
#include "proxy/exchange/reply.h"
#include "proxy/settlement.h"

struct exchange_loan {
    struct exchange *exchange;
    struct decision decision; /* the second one */
    uint64_t asked_us;        /* monotonic */
    bool is_pending;          /* decision */
    struct charge charges[];
};

void exchange_lend_slots(struct exchange *exchange)
{
    struct admission *admission = &exchange->admission;
    const size_t n = settlement_count_lendable(admission);
    struct exchange_loan *loan =
        n == 0 ? NULL
               : arena_calloc(&exchange->arena, 1, sizeof(*loan) + n * sizeof(struct charge));
    if (loan == NULL) { /* without memory the slots are kept */
        return;
    }
    loan->exchange = exchange;
    decision_init(&loan->decision, loan->charges, n);
    settlement_lend(admission, loan->charges, exchange->config->store);
    if (!admission_has_slots(admission)) {
        list_remove(&exchange->slots.node);
    }
    exchange->loan = loan;
}

void exchange_hold_slots(struct exchange *exchange, uint64_t now_us)
{
    slot_holders_add(&exchange->config->slot_holders, &exchange->slots, &exchange->admission,
                     now_us);
}

/* --- the second decision --- */

static void on_decided(struct exchange *exchange, struct exchange_loan *loan, uint64_t now_us)
{
    struct admission *admission = &exchange->admission;
    const struct decision *decision = &loan->decision;
    const bool is_admitted = decision->status == STATUS_OK && decision->allowed;
    exchange->loan = NULL;
    exchange->decide_us += now_us - loan->asked_us;
    if (!is_admitted) {
        settlement_undo(admission, exchange->config->store);
        list_remove(&exchange->slots.node);
    }
    settlement_retake(admission, decision);
    counting_note_second_decision(exchange, now_us - loan->asked_us);
    if (is_admitted) {
        if (list_is_empty(&exchange->slots.node) && admission_has_slots(admission)) {
            exchange_hold_slots(exchange, now_us);
        }
        exchange_connect(exchange, now_us);
    } else if (decision->status == STATUS_OK) {
        exchange_reply(exchange, reply_denied(exchange));
    } else {
        exchange->fault = status_text(decision->status);
        exchange_reply(exchange, reply_undecided(exchange));
    }
}

static void on_answer(struct decision *decision)
{
    struct exchange_loan *loan = decision->context;
    loan->is_pending = false;
    on_decided(loan->exchange, loan, clock_monotonic_us());
}

void exchange_take_slots(struct exchange *exchange, uint64_t now_us)
{
    struct exchange_loan *loan = exchange->loan;
    struct decision *decision = &loan->decision;
    const uint64_t first_slot = proxy_env_new_slots(exchange->env);
    exchange_set_state(exchange, EXCHANGE_DECIDE);
    for (size_t i = 0; i < decision->n_charges; i++) {
        loan->charges[i].slot = first_slot + i;
    }
    loan->asked_us = now_us;
    decision->context = loan;
    decision->now_us = now_us;
    decision->client = exchange->admission.decision.client;
    switch (store_decide(exchange->config->store, decision, on_answer)) {
    case STORE_ANSWERED:
        on_decided(exchange, loan, now_us);
        return;
    case STORE_PENDING:
        loan->is_pending = true;
        return;
    }
}

void exchange_drop_loan(struct exchange *exchange)
{
    if (exchange->loan->is_pending) {
        store_cancel(&exchange->loan->decision);
    }
    exchange->loan = NULL;
}
