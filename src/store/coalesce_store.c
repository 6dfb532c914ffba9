/*   decide ─► straight on, if it may not be gathered
 *          ─► the first of its kind ─► a flight ─► departs at once, as a call of one
 *          ─► alike to one in flight ─► waits ─► departs after that has landed, with all that wait
 *
 *   landed ─► all aboard are answered, in order ─► those who wait gather ─► and depart, or there
 *             are none, and the flight ends
 *
 * A flight's call is its own decision with its own copy of the question: who asked may go at any
 * time. A waiter that goes before departure is forgotten; one aboard leaves its place, and its
 * charge. */

#include "store/coalesce_store.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "limit/limit.h"
#include "store/coalesce_flight.h"
#include "store/errand.h"
#include "store/redis_fault.h"

enum {
    FLIGHTS_KEPT = 256,
    WAITERS_KEPT = 1024,
};

/* --- questions --- */

static bool is_gatherable(const struct coalesce_store *store, const struct decision *decision)
{
    size_t keys_bytes = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const bool lacks_edges = charge->limit->params.is_calendar && charge->edges == NULL;
        if (!limit_takes_alike(charge->limit) || lacks_edges) {
            return false;
        }
        keys_bytes += charge->key.len;
    }
    return keys_bytes <= COALESCE_KEYS_BYTES_MAX && decision->aim == DECISION_ADMIT &&
           decision->on_alike == NULL && store_takes_alike(store->below, decision);
}

static void on_deadline(struct timeout *timeout)
{
    struct coalesce_waiter *waiter = CONTAINER_OF(timeout, struct coalesce_waiter, deadline);
    struct decision *decision = waiter->decision;
    const struct redis_fault_row *row = redis_fault_row(REDIS_FAULT_DEADLINE);
    if (waiter->is_aboard) {
        waiter->decision = NULL;
    } else {
        store_cancel_below(decision, waiter->n_frames);
        coalesce_waiter_forget(coalesce_store_of(decision->frames[waiter->n_frames - 1].store),
                               waiter);
    }
    decision->status = row->status;
    decision->source = DECISION_REDIS;
    decision->fault = row->name;
    store_answer(decision);
}

/* NULL: no memory. */
static struct coalesce_waiter *take_waiter(struct coalesce_store *store, struct decision *decision)
{
    struct coalesce_waiter *waiter = pool_take(&store->waiters);
    if (waiter != NULL) {
        *waiter = (struct coalesce_waiter){.decision = decision, .n_frames = decision->n_frames};
        timeout_init(&waiter->deadline, on_deadline);
        list_init(&waiter->node);
    }
    return waiter;
}

static enum store_outcome refuse(struct decision *decision, enum status status)
{
    decision->status = status;
    decision->source = DECISION_REDIS;
    decision->fault = NULL;
    return STORE_ANSWERED;
}

static enum store_outcome wait_for_next(struct coalesce_flight *flight, struct decision *decision)
{
    struct coalesce_store *store = flight->store;
    if (store->waiters.n_taken >= REDIS_PENDING_MAX) {
        return refuse(decision, STATUS_FULL);
    }
    struct coalesce_waiter *waiter = take_waiter(store, decision);
    if (waiter == NULL) {
        return refuse(decision, STATUS_NO_MEMORY);
    }
    waiter->flight = flight;
    flight->has_grown = true;
    flight->n_waiting++;
    list_push_back(&flight->waiting, &waiter->node);
    timeout_arm(&waiter->deadline, &store->deadlines, clock_monotonic_us());
    decision->frames[decision->n_frames - 1].state = waiter;
    return STORE_PENDING;
}

static enum store_outcome fly(struct coalesce_store *store, struct decision *decision,
                              struct hash128 hash)
{
    struct coalesce_waiter *waiter = take_waiter(store, decision);
    struct coalesce_flight *flight =
        waiter != NULL ? coalesce_flight_begin(store, decision, hash) : NULL;
    if (flight == NULL) {
        pool_give(&store->waiters, waiter);
        return refuse(decision, STATUS_NO_MEMORY);
    }
    waiter->flight = flight;
    flight->n_waiting++;
    list_push_back(&flight->waiting, &waiter->node);
    decision->frames[decision->n_frames - 1].state = waiter;
    if (coalesce_flight_depart(flight, decision->now_us) == STORE_PENDING) {
        return STORE_PENDING;
    }
    coalesce_flight_tell(decision, &flight->call);
    coalesce_waiter_forget(store, waiter);
    coalesce_flight_end(flight);
    return STORE_ANSWERED;
}

static enum store_outcome go_straight(struct coalesce_store *store, struct decision *decision)
{
    counter_up(&store->meters->calls);
    return store_decide(store->below, decision, store_answer);
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    counter_up(&coalesce->meters->decisions);
    if (!is_gatherable(coalesce, decision)) {
        return go_straight(coalesce, decision);
    }
    const struct hash128 hash = coalesce_table_hash(&coalesce->table, decision);
    struct coalesce_entry *entry = coalesce_table_find(&coalesce->table, hash);
    if (entry != NULL) {
        return wait_for_next(CONTAINER_OF(entry, struct coalesce_flight, entry), decision);
    }
    if (coalesce->table.n == COALESCE_FLIGHTS_MAX) {
        return go_straight(coalesce, decision);
    }
    return fly(coalesce, decision, hash);
}

static void cancel(struct store *store, struct decision *decision)
{
    struct coalesce_waiter *waiter = decision->frames[decision->n_frames - 1].state;
    if (waiter == NULL) {
        return; /* it went straight, and the store below has forgotten it */
    }
    if (waiter->is_aboard) {
        timeout_disarm(&waiter->deadline);
        waiter->decision = NULL;
    } else {
        coalesce_waiter_forget(coalesce_store_of(store), waiter);
    }
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    store_settle(coalesce_store_of(store)->below, settlements, n);
}

static enum store_outcome run(struct store *store, struct store_errand *errand)
{
    return store_run(coalesce_store_of(store)->below, errand);
}

/* --- the store --- */

/* Nobody waits for it, but its call may be under way. */
static void drop_flight(struct coalesce_flight *flight)
{
    store_cancel(&flight->call);
    while (!list_is_empty(&flight->aboard)) {
        assert(coalesce_waiter_of(flight->aboard.next)->decision == NULL);
        coalesce_waiter_forget(flight->store, coalesce_waiter_of(flight->aboard.next));
    }
    coalesce_flight_end(flight);
}

/* Drop the flights over @limits; NULL: all of them. */
static void drop_flights(struct coalesce_store *store, const struct limit *limits)
{
    for (size_t i = 0; i < ARRAY_LEN(store->table.buckets); i++) {
        struct list *bucket = &store->table.buckets[i];
        struct list *node = bucket->next;
        while (node != bucket) {
            struct coalesce_entry *entry = CONTAINER_OF(node, struct coalesce_entry, node);
            struct coalesce_flight *flight = CONTAINER_OF(entry, struct coalesce_flight, entry);
            node = node->next;
            if (limits == NULL || limit_first(flight->charges[0].limit) == limits) {
                drop_flight(flight);
            }
        }
    }
}

static enum status learn(struct store *store, const struct limit *limits, size_t n_limits)
{
    return store_learn(coalesce_store_of(store)->below, limits, n_limits);
}

static void forget(struct store *store, const struct limit *limits)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    drop_flights(coalesce, limits);
    store_forget(coalesce->below, limits);
}

static bool is_ready(const struct store *store)
{
    const struct coalesce_store *coalesce =
        CONTAINER_OF((struct store *)(uintptr_t)store, struct coalesce_store, store);
    return store_is_ready(coalesce->below);
}

static bool is_settled(const struct store *store)
{
    const struct coalesce_store *coalesce =
        CONTAINER_OF((struct store *)(uintptr_t)store, struct coalesce_store, store);
    return store_is_settled(coalesce->below);
}

static void free_coalesce(struct store *store)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    drop_flights(coalesce, NULL);
    store_free(coalesce->below);
    timeout_queue_close(&coalesce->deadlines);
    timer_close(&coalesce->next_turn);
    pool_close(&coalesce->flights);
    pool_close(&coalesce->waiters);
    free(coalesce);
}

static const struct store_ops COALESCE_OPS = {
    .name = "coalesce",
    .decide = decide,
    .cancel = cancel,
    .settle = settle,
    .learn = learn,
    .forget = forget,
    .is_ready = is_ready,
    .is_settled = is_settled,
    .run = run,
    .free = free_coalesce,
};

enum status coalesce_store_new(struct loop *loop, struct store *below, uint64_t deadline_us,
                               struct coalesce_meters *meters, struct store **store)
{
    struct coalesce_store *coalesce = malloc(sizeof(*coalesce));
    if (coalesce == NULL) {
        return STATUS_NO_MEMORY;
    }
    enum status status = timer_init(&coalesce->next_turn, loop, coalesce_flight_on_turn, coalesce);
    if (status == STATUS_OK) {
        status = timeout_queue_init(&coalesce->deadlines, loop, deadline_us);
        if (status != STATUS_OK) {
            timer_close(&coalesce->next_turn);
        }
    }
    if (status != STATUS_OK) {
        free(coalesce);
        return status;
    }
    list_init(&coalesce->gathering);
    coalesce->store.ops = &COALESCE_OPS;
    coalesce->below = below;
    coalesce->own = (struct coalesce_meters){0};
    coalesce->meters = meters != NULL ? meters : &coalesce->own;
    pool_init(&coalesce->flights, sizeof(struct coalesce_flight), FLIGHTS_KEPT);
    pool_init(&coalesce->waiters, sizeof(struct coalesce_waiter), WAITERS_KEPT);
    coalesce_table_init(&coalesce->table);
    *store = &coalesce->store;
    return STATUS_OK;
}
