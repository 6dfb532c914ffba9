/*   decide ─► the client has calls to spare, or joins a batch ─► the store below
 *          ─► it has CLIENT_CALLS_MAX in flight ─► queued ─► sent when one of them has ended
 *                                                         ─► a second later: STATUS_CROWDED
 *
 * Two stores share a table of clients, see store/client_calls.h. The client queue lies over the
 * coalescing store, so that a decision that a batch takes along does not wait; the call counter
 * lies under it and counts what it sends. The calls of cancelled decisions the Redis store counts.
 * A batch is counted to the client of its first request. It may exceed the limit, since it was
 * begun below the limit: so a client keeps at most CLIENT_CALLS_MAX batches in flight. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/memory.h"
#include "net/loop.h"
#include "store/client_calls.h"
#include "store/layers.h"

enum { WAITERS_KEPT = 256 };

/* A decision that waits. */
struct waiter {
    struct list node; /* in the waiters of its client */
    struct timeout deadline;
    struct client *client;
    struct decision *decision;
    size_t n_frames; /* of decision; the last one is the client queue's */
};

struct call_counter {
    struct store store;
    struct client_calls *calls;
};

struct client_queue {
    struct store store;
    struct client_calls *calls;
    struct timeout_queue deadlines;
    struct pool waiters;
    struct client_queue_meters *meters;
    struct client_queue_meters own; /* used if the caller gave none */
};

static struct call_counter *counter_of(struct store *store)
{
    return CONTAINER_OF(store, struct call_counter, store);
}

static struct client_queue *queue_of(struct store *store)
{
    return CONTAINER_OF(store, struct client_queue, store);
}

/* --- waiters --- */

static struct waiter *waiter_of(struct list *node)
{
    return CONTAINER_OF(node, struct waiter, node);
}

static struct client_queue *queue_of_waiter(const struct waiter *waiter)
{
    return queue_of(waiter->decision->frames[waiter->n_frames - 1].store);
}

/* Takes @waiter out of its queue and frees it. Its client stays. */
static void forget_waiter(struct waiter *waiter)
{
    struct client_queue *queue = queue_of_waiter(waiter);
    waiter->decision->frames[waiter->n_frames - 1].state = NULL;
    waiter->client->n_waiters--;
    timeout_disarm(&waiter->deadline);
    list_remove(&waiter->node);
    pool_give(&queue->waiters, waiter);
}

/* The same, and the client goes if nothing of it is left. */
static void drop_waiter(struct waiter *waiter)
{
    struct client_calls *calls = queue_of_waiter(waiter)->calls;
    struct client *client = waiter->client;
    forget_waiter(waiter);
    client_calls_let_go(calls, client);
}

/* Sends the waiters of @client, as many as it has calls to spare. */
static void send_waiters(struct client_calls *calls, struct client *client)
{
    client->is_sending = true;
    for (unsigned n = client->n_waiters;
         n > 0 && client->n_waiters > 0 && client->n_calls < CLIENT_CALLS_MAX; n--) {
        struct waiter *waiter = waiter_of(client->waiters.next);
        struct decision *decision = waiter->decision;
        struct client_queue *queue = queue_of_waiter(waiter);
        forget_waiter(waiter);
        if (store_hand_on(&queue->store, decision) == STORE_ANSWERED) {
            store_answer(decision);
        }
    }
    client->is_sending = false;
    if (client->n_waiters > 0 && client->n_calls < CLIENT_CALLS_MAX) {
        client_calls_make_due(calls, client);
    }
    client_calls_let_go(calls, client);
}

/* --- the call counter --- */

/* The call of @client, NULL for one that is free, has ended. */
static void note_end(struct client_calls *calls, struct client *client)
{
    if (LIKELY(client == NULL)) {
        calls->n_free--;
    } else {
        client_calls_end(calls, client);
    }
}

static void on_answer(struct decision *decision)
{
    struct client *client = decision->frames[decision->n_frames - 1].state;
    note_end(counter_of(store_asked(decision))->calls, client);
    store_answer(decision);
}

static enum store_outcome count(struct store *store, struct decision *decision)
{
    struct client_calls *calls = counter_of(store)->calls;
    if (decision->client.family == ADDRESS_NONE) {
        return store_hand_on(store, decision);
    }
    struct client *client = NULL; /* as the state of a new frame */
    if (UNLIKELY(calls->n_free >= CLIENT_CALLS_FREE)) {
        client = client_calls_begin(calls, &decision->client);
        decision->frames[decision->n_frames - 1].state = client;
    }
    calls->n_free += client == NULL;
    const enum store_outcome outcome = store_decide(store->below, decision, on_answer);
    if (outcome == STORE_ANSWERED) {
        note_end(calls, client);
    }
    return outcome;
}

static void cancel_call(struct store *store, struct decision *decision)
{
    note_end(counter_of(store)->calls, decision->frames[decision->n_frames - 1].state);
}

static void free_counter(struct store *store)
{
    client_calls_leave(counter_of(store)->calls);
    free(counter_of(store));
}

static const struct store_ops CALL_COUNTER_OPS = {
    .name = "call_counter",
    .decide = count,
    .cancel = cancel_call,
    .free = free_counter,
};

enum status call_counter_new(struct client_calls *calls, struct store *below, struct store **store)
{
    struct call_counter *counter = malloc(sizeof(*counter));
    if (counter == NULL) {
        return STATUS_NO_MEMORY;
    }
    client_calls_join(calls);
    *counter = (struct call_counter){
        .store = {.ops = &CALL_COUNTER_OPS, .below = below},
        .calls = calls,
    };
    *store = &counter->store;
    return STATUS_OK;
}

/* --- the client queue --- */

/* Answers @decision with @status, which is not STATUS_OK. */
static void fill(struct decision *decision, enum status status)
{
    decision->status = status;
    decision->source = DECISION_REDIS;
    decision->fault = REDIS_FAULT_NONE;
}

static void on_deadline(struct timeout *timeout)
{
    struct waiter *waiter = CONTAINER_OF(timeout, struct waiter, deadline);
    struct decision *decision = waiter->decision;
    counter_up(&queue_of_waiter(waiter)->meters->refused);
    drop_waiter(waiter);
    fill(decision, STATUS_CROWDED);
    store_answer(decision);
}

static enum store_outcome refuse(struct client_queue *queue, struct decision *decision)
{
    counter_up(&queue->meters->refused);
    fill(decision, STATUS_CROWDED);
    return STORE_ANSWERED;
}

static enum store_outcome wait_in_queue(struct client_queue *queue, struct client *client,
                                        struct decision *decision)
{
    struct waiter *waiter =
        client->n_waiters < CLIENT_WAITERS_MAX ? pool_take(&queue->waiters) : NULL;
    if (waiter == NULL) {
        return refuse(queue, decision);
    }
    *waiter =
        (struct waiter){.client = client, .decision = decision, .n_frames = decision->n_frames};
    list_push_back(&client->waiters, &waiter->node);
    client->n_waiters++;
    timeout_init(&waiter->deadline, on_deadline);
    timeout_arm(&waiter->deadline, &queue->deadlines, clock_monotonic_us());
    counter_up(&queue->meters->waits);
    decision->frames[decision->n_frames - 1].state = waiter;
    decision->now_us = 0; /* of the request; the call is made later */
    return STORE_PENDING;
}

/* The client at @address, if its decision has to wait; else NULL. */
static struct client *find_crowded(struct client_calls *calls, const struct address *address)
{
    struct client *client = client_calls_find(calls, address);
    const bool waits =
        client != NULL && (client->n_calls >= CLIENT_CALLS_MAX || client->n_waiters > 0);
    return waits ? client : NULL;
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct client_queue *queue = queue_of(store);
    struct client_calls *calls = queue->calls;
    const bool none_waits = calls->n_full == 0 && list_is_empty(&calls->due);
    if (UNLIKELY(!none_waits) && decision->client.family != ADDRESS_NONE) {
        struct client *client = find_crowded(calls, &decision->client);
        if (client != NULL && !store_joins(store->below, decision)) {
            return wait_in_queue(queue, client, decision);
        }
    }
    return store_hand_on(store, decision);
}

static void cancel(struct store *store, struct decision *decision)
{
    struct waiter *waiter = decision->frames[decision->n_frames - 1].state;
    (void)store;
    if (waiter != NULL) {
        drop_waiter(waiter);
    }
}

static void free_queue(struct store *store)
{
    struct client_queue *queue = queue_of(store);
    timeout_queue_close(&queue->deadlines);
    pool_close(&queue->waiters);
    client_calls_leave(queue->calls);
    free(queue);
}

static const struct store_ops CLIENT_QUEUE_OPS = {
    .name = "client_queue",
    .decide = decide,
    .cancel = cancel,
    .free = free_queue,
};

enum status client_queue_new(struct client_calls *calls, struct store *below,
                             struct client_queue_meters *meters, struct store **store)
{
    struct client_queue *queue = malloc(sizeof(*queue));
    if (queue == NULL) {
        return STATUS_NO_MEMORY;
    }
    client_calls_join(calls);
    calls->send = send_waiters;
    *queue = (struct client_queue){
        .store = {.ops = &CLIENT_QUEUE_OPS, .below = below},
        .calls = calls,
    };
    queue->meters = meters != NULL ? meters : &queue->own;
    timeout_queue_init(&queue->deadlines, calls->loop, CLIENT_WAIT_US);
    pool_init(&queue->waiters, sizeof(struct waiter), WAITERS_KEPT);
    *store = &queue->store;
    return STATUS_OK;
}
