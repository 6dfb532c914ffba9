/*   decide ─► the client has calls to spare, or joins a batch ─► the store below
 *          ─► it has CLIENT_CALLS_MAX in flight ─► queued ─► sent when one of them has ended
 *                                                         ─► a second later: STATUS_CROWDED
 *
 * Two stores share a table of clients. The client queue lies over the coalescing store, so that a
 * decision that a batch takes along does not wait; the call counter lies under it and counts what
 * it sends. A batch is counted to the client of its first request. It may exceed the limit, since
 * it was begun below the limit: so a client keeps at most CLIENT_CALLS_MAX batches in flight. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/memory.h"
#include "net/loop.h"
#include "store/layers.h"

enum {
    BUCKETS = 1024, /* a power of two */
    CLIENTS_KEPT = 256,
    WAITERS_KEPT = 256,
};

/* A client with a call in flight, or a decision that waits. */
struct client {
    struct list node; /* in its bucket */
    struct address address;
    unsigned n_calls; /* in flight, but for those that are free */
    unsigned n_waiters;
    bool is_sending;     /* its waiters are being sent, so it stays */
    struct list waiters; /* of struct waiter, the oldest first */
    struct list due;     /* node in call_counter.due */
};

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
    struct loop *loop;
    struct hash_key key; /* secret, so that clients cannot choose addresses that collide */
    struct pool clients;
    size_t n_free;         /* calls in flight that are counted to no client */
    size_t n_full;         /* clients with CLIENT_CALLS_MAX calls or more */
    struct list due;       /* of struct client: have waiters, and a call has ended */
    struct loop_task task; /* sends the waiters of due */
    struct list buckets[BUCKETS];
};

struct client_queue {
    struct store store;
    struct call_counter *counter; /* of a store below */
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

static struct client *client_of_node(struct list *node)
{
    return CONTAINER_OF(node, struct client, node);
}

/* --- clients --- */

static struct list *bucket_of(struct call_counter *counter, const struct address *address)
{
    const struct span bytes = span_of((const char *)address, sizeof(*address));
    return &counter->buckets[hash_table(&counter->key, bytes).low % BUCKETS];
}

/* NULL: it is not in @bucket. */
static struct client *find_in(struct list *bucket, const struct address *address)
{
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        if (memcmp(&client_of_node(node)->address, address, sizeof(*address)) == 0) {
            return client_of_node(node);
        }
    }
    return NULL;
}

/* Adds a client without calls. NULL: no memory. */
static struct client *add_client(struct call_counter *counter, struct list *bucket,
                                 const struct address *address)
{
    struct client *client = pool_take(&counter->clients);
    if (client != NULL) {
        *client = (struct client){.address = *address};
        list_init(&client->waiters);
        list_init(&client->due);
        list_push_front(bucket, &client->node);
    }
    return client;
}

/* Frees @client if nothing of it is left. */
static void let_go(struct call_counter *counter, struct client *client)
{
    if (client->n_calls == 0 && client->n_waiters == 0 && !client->is_sending) {
        list_remove(&client->due);
        list_remove(&client->node);
        pool_give(&counter->clients, client);
    }
}

/* Counts one more call of the client at @address. NULL: no memory, nothing is counted. */
static struct client *begin_call(struct call_counter *counter, const struct address *address)
{
    const struct address of_client = address_of_client(address);
    struct list *bucket = bucket_of(counter, &of_client);
    struct client *client = find_in(bucket, &of_client);
    if (client == NULL) {
        client = add_client(counter, bucket, &of_client);
    }
    if (client != NULL) {
        client->n_calls++;
        counter->n_full += client->n_calls == CLIENT_CALLS_MAX;
    }
    return client;
}

static void make_due(struct call_counter *counter, struct client *client)
{
    if (list_is_empty(&client->due)) {
        list_push_back(&counter->due, &client->due);
        loop_at_iteration_end(counter->loop, &counter->task);
    }
}

static void end_call(struct call_counter *counter, struct client *client)
{
    counter->n_full -= client->n_calls == CLIENT_CALLS_MAX;
    client->n_calls--;
    if (client->n_waiters > 0) {
        make_due(counter, client);
    } else {
        let_go(counter, client);
    }
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
    struct call_counter *counter = queue_of_waiter(waiter)->counter;
    struct client *client = waiter->client;
    forget_waiter(waiter);
    let_go(counter, client);
}

/* Sends the waiters of @client, as many as it has calls to spare. */
static void send_waiters(struct call_counter *counter, struct client *client)
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
        make_due(counter, client);
    }
    let_go(counter, client);
}

static void send_due(struct loop_task *task)
{
    struct call_counter *counter = CONTAINER_OF(task, struct call_counter, task);
    struct list due;
    list_move_all(&due, &counter->due);
    while (!list_is_empty(&due)) {
        struct client *client = CONTAINER_OF(due.next, struct client, due);
        list_remove(&client->due);
        send_waiters(counter, client);
    }
}

/* --- the call counter --- */

/* The call of @client, NULL for one that is free, has ended. */
static void note_end(struct call_counter *counter, struct client *client)
{
    if (LIKELY(client == NULL)) {
        counter->n_free--;
    } else {
        end_call(counter, client);
    }
}

static void on_answer(struct decision *decision)
{
    struct client *client = decision->frames[decision->n_frames - 1].state;
    note_end(counter_of(store_asked(decision)), client);
    store_answer(decision);
}

static enum store_outcome count(struct store *store, struct decision *decision)
{
    struct call_counter *counter = counter_of(store);
    if (decision->client.family == ADDRESS_NONE) {
        return store_hand_on(store, decision);
    }
    struct client *client = NULL; /* as the state of a new frame */
    if (UNLIKELY(counter->n_free >= CLIENT_CALLS_FREE)) {
        client = begin_call(counter, &decision->client);
        decision->frames[decision->n_frames - 1].state = client;
    }
    counter->n_free += client == NULL;
    const enum store_outcome outcome = store_decide(store->below, decision, on_answer);
    if (outcome == STORE_ANSWERED) {
        note_end(counter, client);
    }
    return outcome;
}

static void cancel_call(struct store *store, struct decision *decision)
{
    note_end(counter_of(store), decision->frames[decision->n_frames - 1].state);
}

static void free_counter(struct store *store)
{
    struct call_counter *counter = counter_of(store);
    loop_task_cancel(&counter->task);
    pool_close(&counter->clients);
    free(counter);
}

static const struct store_ops CALL_COUNTER_OPS = {
    .name = "call_counter",
    .decide = count,
    .cancel = cancel_call,
    .free = free_counter,
};

enum status call_counter_new(struct loop *loop, struct store *below, struct store **store)
{
    struct call_counter *counter = malloc(sizeof(*counter));
    if (counter == NULL) {
        return STATUS_NO_MEMORY;
    }
    counter->store = (struct store){.ops = &CALL_COUNTER_OPS, .below = below};
    counter->loop = loop;
    counter->key = hash_key_new();
    counter->n_free = 0;
    counter->n_full = 0;
    pool_init(&counter->clients, sizeof(struct client), CLIENTS_KEPT);
    list_init(&counter->due);
    loop_task_init(&counter->task, send_due);
    for (size_t i = 0; i < BUCKETS; i++) {
        list_init(&counter->buckets[i]);
    }
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
static struct client *find_crowded(struct call_counter *counter, const struct address *address)
{
    const struct address of_client = address_of_client(address);
    struct client *client = find_in(bucket_of(counter, &of_client), &of_client);
    const bool waits =
        client != NULL && (client->n_calls >= CLIENT_CALLS_MAX || client->n_waiters > 0);
    return waits ? client : NULL;
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct client_queue *queue = queue_of(store);
    struct call_counter *counter = queue->counter;
    const bool none_waits = counter->n_full == 0 && list_is_empty(&counter->due);
    if (UNLIKELY(!none_waits) && decision->client.family != ADDRESS_NONE) {
        struct client *client = find_crowded(counter, &decision->client);
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
    free(queue);
}

static const struct store_ops CLIENT_QUEUE_OPS = {
    .name = "client_queue",
    .decide = decide,
    .cancel = cancel,
    .free = free_queue,
};

enum status client_queue_new(struct loop *loop, struct store *below, struct store *call_counter,
                             struct client_queue_meters *meters, struct store **store)
{
    assert(call_counter->ops == &CALL_COUNTER_OPS);

    struct client_queue *queue = malloc(sizeof(*queue));
    if (queue == NULL) {
        return STATUS_NO_MEMORY;
    }
    *queue = (struct client_queue){
        .store = {.ops = &CLIENT_QUEUE_OPS, .below = below},
        .counter = counter_of(call_counter),
    };
    queue->meters = meters != NULL ? meters : &queue->own;
    timeout_queue_init(&queue->deadlines, loop, CLIENT_WAIT_US);
    pool_init(&queue->waiters, sizeof(struct waiter), WAITERS_KEPT);
    *store = &queue->store;
    return STATUS_OK;
}
