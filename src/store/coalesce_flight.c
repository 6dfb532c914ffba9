#include "store/coalesce_flight.h"

#include <string.h>

#include "base/clock.h"
#include "limit/alike.h"
#include "store/redis_fault.h"

/* Who has just been answered asks again a moment later, when the server has answered too. The next
 * call waits for those, a turn of the loop and more while each turn brings some. */
enum {
    GATHERING_TURNS_MAX = 4,
    GATHERING_US = 1000, /* nobody is put off who has waited for longer */
};

void coalesce_waiter_forget(struct coalesce_store *store, struct coalesce_waiter *waiter)
{
    if (waiter->flight != NULL && !waiter->is_aboard) {
        waiter->flight->n_waiting--;
    }
    timeout_disarm(&waiter->deadline);
    list_remove(&waiter->node);
    pool_give(&store->waiters, waiter);
}

void coalesce_flight_tell(struct decision *decision, const struct decision *call)
{
    decision->status = call->status;
    decision->source = call->source;
    decision->failure = call->failure;
    decision->fault = call->fault;
}

/* Request @i of @call has its verdicts. */
static void on_alike(struct decision *call, size_t i)
{
    struct coalesce_flight *flight = call->context;
    flight->answered = (i == 0 ? &flight->aboard : flight->answered)->next;
    struct decision *decision = coalesce_waiter_of(flight->answered)->decision;
    if (decision == NULL) {
        return;
    }
    decision->allowed = call->allowed;
    for (size_t k = 0; k < call->n_charges; k++) {
        decision->charges[k].verdict = call->charges[k].verdict;
        decision->charges[k].charged = call->charges[k].charged;
        decision->charges[k].charged_at_us = call->charges[k].charged_at_us;
    }
}

static void answer_aboard(struct coalesce_flight *flight)
{
    while (!list_is_empty(&flight->aboard)) {
        struct coalesce_waiter *waiter = coalesce_waiter_of(flight->aboard.next);
        struct decision *decision = waiter->decision;
        coalesce_waiter_forget(flight->store, waiter);
        if (decision != NULL) {
            coalesce_flight_tell(decision, &flight->call);
            store_answer(decision);
        }
    }
}

/* To one who asked by itself. */
static void on_own_answer(struct decision *decision)
{
    const size_t own = decision->n_frames - 1;
    coalesce_waiter_forget(coalesce_store_of(decision->frames[own].store),
                           decision->frames[own].state);
    store_answer(decision);
}

/* All aboard go straight on, each by itself, and within its own deadline. */
static void part_aboard(struct coalesce_flight *flight)
{
    struct coalesce_store *store = flight->store;
    while (!list_is_empty(&flight->aboard)) {
        struct coalesce_waiter *waiter = coalesce_waiter_of(flight->aboard.next);
        if (waiter->decision == NULL) {
            coalesce_waiter_forget(store, waiter);
            continue;
        }
        list_remove(&waiter->node);
        waiter->is_aboard = false;
        waiter->flight = NULL;
        counter_up(&store->meters->calls);
        if (store_decide(store->below, waiter->decision, on_own_answer) == STORE_ANSWERED) {
            on_own_answer(waiter->decision);
        }
    }
}

/* A slot of a cluster that is on the move has taken nothing of @call, and may take it for each. */
static bool is_too_much_at_once(const struct decision *call)
{
    return call->n_alike > 1 && call->fault == redis_fault_row(REDIS_FAULT_TRYAGAIN)->name;
}

static size_t board(struct coalesce_flight *flight)
{
    size_t n = 0;
    while (n < ALIKE_REQUESTS_MAX && !list_is_empty(&flight->waiting)) {
        struct coalesce_waiter *waiter = coalesce_waiter_of(flight->waiting.next);
        list_remove(&waiter->node);
        list_push_back(&flight->aboard, &waiter->node);
        waiter->is_aboard = true;
        n++;
    }
    flight->n_waiting -= n;
    return n;
}

static void on_landed(struct decision *call);

enum store_outcome coalesce_flight_depart(struct coalesce_flight *flight, uint64_t now_us)
{
    struct coalesce_store *store = flight->store;
    const size_t n = board(flight);
    flight->call = (struct decision){
        .charges = flight->charges,
        .n_charges = flight->call.n_charges,
        .n_alike = n,
        .on_alike = on_alike,
        .context = flight,
        .now_us = now_us,
    };
    counter_up(&store->meters->calls);
    counter_add(&store->meters->gathered, n > 1 ? n : 0);
    return store_decide(store->below, &flight->call, on_landed);
}

void coalesce_flight_end(struct coalesce_flight *flight)
{
    list_remove(&flight->gathering);
    coalesce_table_remove(&flight->store->table, &flight->entry);
    pool_give(&flight->store->flights, flight);
}

static void answer_or_part(struct coalesce_flight *flight)
{
    if (is_too_much_at_once(&flight->call)) {
        part_aboard(flight);
    } else {
        answer_aboard(flight);
    }
}

/* Those who wait depart, and what cannot be asked is answered; nobody left: that was the flight. */
static void depart_or_end(struct coalesce_flight *flight)
{
    while (!list_is_empty(&flight->waiting)) {
        if (coalesce_flight_depart(flight, 0) == STORE_PENDING) {
            return;
        }
        answer_or_part(flight);
    }
    coalesce_flight_end(flight);
}

/* Whether those who wait may be kept for another turn. */
static bool may_gather(const struct coalesce_flight *flight)
{
    if (list_is_empty(&flight->waiting) || flight->n_waiting >= ALIKE_REQUESTS_MAX ||
        flight->n_turns == GATHERING_TURNS_MAX) {
        return false;
    }
    const struct timeout *deadline = &coalesce_waiter_of(flight->waiting.next)->deadline;
    const uint64_t came_us = deadline->deadline_us - flight->store->deadlines.length_us;
    return clock_monotonic_us() - came_us < GATHERING_US;
}

static void gather(struct coalesce_flight *flight)
{
    struct coalesce_store *store = flight->store;
    if (list_is_empty(&store->gathering)) {
        timer_arm(&store->next_turn, 0);
    }
    list_push_back(&store->gathering, &flight->gathering);
    flight->has_grown = false;
    flight->n_turns++;
}

static void on_landed(struct decision *call)
{
    struct coalesce_flight *flight = call->context;
    const bool was_answered = call->status == STATUS_OK;
    flight->n_turns = 0;
    answer_or_part(flight);
    if (was_answered && may_gather(flight)) {
        gather(flight);
    } else {
        depart_or_end(flight);
    }
}

void coalesce_flight_on_turn(void *context)
{
    struct coalesce_store *store = context;
    struct list due;
    list_init(&due);
    while (!list_is_empty(&store->gathering)) {
        struct list *node = store->gathering.next;
        list_remove(node);
        list_push_back(&due, node);
    }
    while (!list_is_empty(&due)) {
        struct coalesce_flight *flight = CONTAINER_OF(due.next, struct coalesce_flight, gathering);
        list_remove(&flight->gathering);
        if (flight->has_grown && may_gather(flight)) {
            gather(flight);
        } else {
            depart_or_end(flight);
        }
    }
}

static void copy_question(struct coalesce_flight *flight, const struct decision *decision)
{
    char *key = flight->keys;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        memcpy(key, charge->key.data, charge->key.len);
        flight->charges[i] = (struct charge){
            .limit = charge->limit,
            .key = span_of(key, charge->key.len),
            .cost = charge->cost,
        };
        key += charge->key.len;
        if (charge->edges != NULL) {
            memcpy(flight->edges[i], charge->edges, sizeof(flight->edges[i]));
            flight->charges[i].edges = flight->edges[i];
        }
    }
    flight->call.n_charges = decision->n_charges;
}

struct coalesce_flight *coalesce_flight_begin(struct coalesce_store *store,
                                              const struct decision *decision, struct hash128 hash)
{
    struct coalesce_flight *flight = pool_take(&store->flights);
    if (flight == NULL) {
        return NULL;
    }
    flight->store = store;
    flight->n_waiting = 0;
    list_init(&flight->gathering);
    list_init(&flight->aboard);
    list_init(&flight->waiting);
    copy_question(flight, decision);
    coalesce_table_add(&store->table, &flight->entry, hash);
    return flight;
}
