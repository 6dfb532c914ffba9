/*   decide ─► cannot be batched ─► passed to the store below
 *          ─► no identical one in flight ─► new batch ─► sent at once, as a call of one
 *          ─► identical to one in flight ─► waits ─► sent after that call, with all other waiters
 *
 *   call complete ─► its waiters are answered, in order ─► waiting ones collect ─► sent
 *                                                       ─► none waits ─► the batch is freed
 *                 ─► too much at once ─► its waiters are sent one by one ─► as above
 *
 * A batch's call is a decision of its own with a copy of the charges, so a caller may cancel at any
 * time. A waiter that is cancelled before its call is sent is freed. A waiter in the current call
 * stays until the call is complete, and its charge stays too.
 *
 * The call has a deadline, in the store below. A waiter has one until its call is sent: if none was
 * answered meanwhile, Redis fails it. If one was, Redis is well and there are too many: it waits
 * on, for CLIENT_WAIT_US in all, and is then refused as one of a crowd, which is no failure. */

#include "store/layers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/memory.h"
#include "limit/identical.h"
#include "limit/limit.h"
#include "net/loop.h"
#include "store/redis_fault.h"

enum {
    BATCHES_KEPT = 256,
    WAITERS_KEPT = 1024,
    BATCHES_MAX = 4096,    /* in flight at one time; a power of two */
    KEYS_BYTES_MAX = 2048, /* of all keys of a decision; one with more is not batched */
    /* A client that was just answered sends its next request a moment later, when the upstream
     * server has answered too. The next call waits for such requests: for one loop iteration, and
     * for further ones while each adds a request. */
    COLLECTING_ITERATIONS_MAX = 4,
    COLLECTING_US = 1000, /* after this wait of the first waiter the call is sent */
};

struct coalesce_store {
    struct store store;
    struct timeout_queue deadlines;
    struct list collecting;      /* of struct batch: the next call waits for more */
    struct timer next_iteration; /* armed while collecting is not empty */
    struct pool batches;
    struct pool waiters;
    struct coalesce_meters *meters;
    struct coalesce_meters own; /* used if the caller gave none */
    /* The batches in flight, by the hash of their charges. The key of the hash is secret, so that
     * clients cannot choose requests that collide. */
    struct hash_key key;
    size_t n_batches;
    size_t n_returns_owed;            /* cancelled waiters in a call, with charges to give back */
    struct list buckets[BATCHES_MAX]; /* of struct batch */
};

enum waiter_place {
    WAITING, /* for the next call; its deadline is armed */
    IN_CALL, /* of the batch; or, if that was too much at once, to be sent by itself */
    ALONE,   /* in a call of its own; in no list */
};

/* One pending decision. */
struct waiter {
    struct batch *batch;
    struct decision *decision; /* NULL: cancelled */
    size_t n_frames;           /* of decision; the last one is the coalescing store's */
    uint32_t returned;         /* if that is NULL: its charges that are given back, as bits */
    struct timeout deadline;
    uint64_t came_us;    /* clock_monotonic_us(); 0 for the first of a batch */
    uint32_t n_answered; /* by the batch, before its deadline began */
    struct list node;    /* in its batch's waiting or in_batch, by its place */
    enum waiter_place place;
    bool was_restarted; /* its deadline, after the worker was held */
};

/* The identical requests in flight: one call, and the waiters for the next call. */
struct batch {
    struct list node; /* in its bucket */
    /* of the charges: equal for identical requests, and, with 128 bits under a secret key, for no
     * others */
    struct hash128 hash;
    struct coalesce_store *store;
    struct list collecting; /* node in the store's list, between one call and the next */
    unsigned n_iterations;  /* loop iterations that it has collected for */
    bool has_grown;         /* in this iteration */
    size_t n_waiting;       /* length of waiting */
    uint32_t n_answered;    /* calls that came back with verdicts */
    struct decision call;   /* over the batch's own copy of the charges */
    struct list in_batch;   /* of struct waiter: in the current call */
    struct list waiting;    /* of struct waiter: for the next call */
    bool is_split;          /* the call was too much at once: those in_batch are sent one by one */
    bool is_sending;        /* them, just now */
    size_t n_alone;         /* waiters that are ALONE */
    bool returns;           /* charges of cancelled waiters are to be given back: n_returned */
    uint32_t n_returned[LIMITS_PER_ROUTE_MAX]; /* waiters, by charge */
    struct list *answered; /* the latest waiter in in_batch that has its verdicts */
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    uint64_t edges[LIMITS_PER_ROUTE_MAX][LIMIT_EDGES];
    char keys[KEYS_BYTES_MAX];
};

static struct coalesce_store *coalesce_store_of(struct store *store)
{
    return CONTAINER_OF(store, struct coalesce_store, store);
}

/* The waiter of @node, a member of a batch's in_batch or waiting. */
static struct waiter *waiter_of(struct list *node)
{
    return CONTAINER_OF(node, struct waiter, node);
}

/* --- batches by their charges --- */

/* The hashed part of a charge, besides its key and its edges. */
struct asked {
    const struct limit *limit;
    uint64_t key_len;
    uint64_t cost;
};

enum {
    CHARGE_BYTES = sizeof(struct asked) + LIMIT_EDGES * sizeof(uint64_t),
    HASHED_BYTES_MAX = LIMITS_PER_ROUTE_MAX * CHARGE_BYTES + KEYS_BYTES_MAX,
};

static size_t add(char *to, const void *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return len;
}

/* The hash of @decision's limits, keys, costs and calendar windows. */
static struct hash128 hash_charges(const struct coalesce_store *store,
                                   const struct decision *decision)
{
    char buffer[HASHED_BYTES_MAX];
    size_t len = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const struct asked asked = {
            .limit = charge->limit,
            .key_len = charge->key.len,
            .cost = charge->cost,
        };
        len += add(buffer + len, &asked, sizeof(asked));
        len += add(buffer + len, charge->key.data, charge->key.len);
        if (charge->edges != NULL) {
            len += add(buffer + len, charge->edges, LIMIT_EDGES * sizeof(*charge->edges));
        }
    }
    assert(len <= sizeof(buffer));
    return hash_table(&store->key, span_of(buffer, len));
}

static struct list *bucket_of(struct coalesce_store *store, struct hash128 hash)
{
    return &store->buckets[hash.low % BATCHES_MAX];
}

/* NULL: there is none. */
static struct batch *find_batch(struct coalesce_store *store, struct hash128 hash)
{
    struct list *bucket = bucket_of(store, hash);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct batch *batch = CONTAINER_OF(node, struct batch, node);
        if (batch->hash.low == hash.low && batch->hash.high == hash.high) {
            return batch;
        }
    }
    return NULL;
}

static void copy_question(struct batch *batch, const struct decision *decision)
{
    char *key = batch->keys;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        memcpy(key, charge->key.data, charge->key.len);
        batch->charges[i] = (struct charge){
            .limit = charge->limit,
            .key = span_of(key, charge->key.len),
            .cost = charge->cost,
        };
        key += charge->key.len;
        if (charge->edges != NULL) {
            memcpy(batch->edges[i], charge->edges, sizeof(batch->edges[i]));
            batch->charges[i].edges = batch->edges[i];
        }
    }
    batch->call.n_charges = decision->n_charges;
}

/* Makes a batch for @decision's charges, without waiters. NULL: no memory. */
static struct batch *begin_batch(struct coalesce_store *store, const struct decision *decision,
                                 struct hash128 hash)
{
    assert(store->n_batches < BATCHES_MAX);

    struct batch *batch = pool_take(&store->batches);
    if (batch == NULL) {
        return NULL;
    }
    batch->store = store;
    batch->n_waiting = 0;
    batch->n_answered = 0;
    batch->is_split = false;
    batch->is_sending = false;
    batch->n_alone = 0;
    list_init(&batch->collecting);
    list_init(&batch->in_batch);
    list_init(&batch->waiting);
    copy_question(batch, decision);
    batch->hash = hash;
    list_push_front(bucket_of(store, hash), &batch->node);
    store->n_batches++;
    return batch;
}

/* Frees @batch, which must have no waiters. */
static void end_batch(struct batch *batch)
{
    list_remove(&batch->collecting);
    list_remove(&batch->node);
    batch->store->n_batches--;
    pool_give(&batch->store->batches, batch);
}

/* --- waiters --- */

/* Removes @waiter from its list and frees it. */
static void forget_waiter(struct coalesce_store *store, struct waiter *waiter)
{
    if (waiter->place == WAITING) {
        waiter->batch->n_waiting--;
    }
    timeout_disarm(&waiter->deadline);
    list_remove(&waiter->node);
    pool_give(&store->waiters, waiter);
}

/* Answers @waiter, which waits, as one that failed: @fault is that of Redis, if it has one. */
static void fail_waiter(struct waiter *waiter, enum status status, enum redis_fault fault)
{
    struct decision *decision = waiter->decision;
    store_cancel_below(decision, waiter->n_frames);
    forget_waiter(waiter->batch->store, waiter);
    decision->status = status;
    decision->source = DECISION_REDIS;
    decision->fault = fault;
    store_answer(decision);
}

static void arm_deadline(struct waiter *waiter, uint64_t now_us)
{
    waiter->n_answered = waiter->batch->n_answered;
    timeout_arm(&waiter->deadline, &waiter->batch->store->deadlines, now_us);
}

static void on_deadline(struct timeout *timeout)
{
    struct waiter *waiter = CONTAINER_OF(timeout, struct waiter, deadline);
    struct batch *batch = waiter->batch;
    const uint64_t now_us = clock_monotonic_us();
    if (timeout_restart_if_held(timeout, &batch->store->deadlines, &waiter->was_restarted)) {
        return; /* the call before it may not have left before now */
    }
    if (waiter->n_answered == batch->n_answered) {
        fail_waiter(waiter, redis_fault_row(REDIS_FAULT_DEADLINE)->status, REDIS_FAULT_DEADLINE);
    } else if (now_us - waiter->came_us < CLIENT_WAIT_US) {
        arm_deadline(waiter, now_us);
    } else {
        fail_waiter(waiter, STATUS_CROWDED, REDIS_FAULT_NONE);
    }
}

/* NULL: no memory. */
static struct waiter *take_waiter(struct coalesce_store *store, struct decision *decision)
{
    struct waiter *waiter = pool_take(&store->waiters);
    if (waiter != NULL) {
        waiter->batch = NULL;
        waiter->decision = decision;
        waiter->n_frames = decision->n_frames;
        waiter->came_us = 0;
        waiter->place = WAITING;
        waiter->was_restarted = false;
        timeout_init(&waiter->deadline, on_deadline);
        list_init(&waiter->node);
    }
    return waiter;
}

/* Adds @waiter, which has a frame of its decision, to those of the next call. */
static void add_waiter(struct batch *batch, struct waiter *waiter)
{
    struct decision *decision = waiter->decision;
    waiter->batch = batch;
    batch->n_waiting++;
    list_push_back(&batch->waiting, &waiter->node);
    decision->frames[decision->n_frames - 1].state = waiter;
}

/* --- calls --- */

/* Copies status, source, failure and fault of @call to @decision. */
static void report_call(struct decision *decision, const struct decision *call)
{
    decision->status = call->status;
    decision->source = call->source;
    decision->failure = call->failure;
    decision->fault = call->fault;
}

/* A request of @call is decided whose waiter was cancelled. */
static void note_returned(struct batch *batch, const struct waiter *waiter,
                          const struct decision *call)
{
    for (size_t k = 0; k < call->n_charges; k++) {
        if (call->charges[k].charged && (waiter->returned >> k & 1) != 0) {
            if (!batch->returns) {
                memset(batch->n_returned, 0, sizeof(batch->n_returned));
                batch->returns = true;
            }
            batch->n_returned[k]++;
        }
    }
}

/* All are decided at one time, so one settlement is enough for what they have in common. */
static void give_back(struct batch *batch)
{
    struct settlement settlements[LIMITS_PER_ROUTE_MAX];
    size_t n = 0;
    for (size_t k = 0; k < batch->call.n_charges; k++) {
        const struct charge *charge = &batch->charges[k];
        if (batch->n_returned[k] > 0) {
            settlements[n++] = (struct settlement){
                .limit = charge->limit,
                .key = charge->key,
                .client = &batch->call.client,
                .kind = SETTLE_COST,
                .delta = -(int64_t)charge->cost * batch->n_returned[k],
                .charged_at_us = charge->charged_at_us,
                .source = DECISION_REDIS,
            };
        }
    }
    store_settle(batch->store->store.below, settlements, n);
}

/* Request @i of @call has its verdicts. */
static void on_each(struct decision *call, size_t i)
{
    struct batch *batch = call->context;
    batch->returns = batch->returns && i > 0; /* not those of a call that was sent again */
    batch->answered = (i == 0 ? &batch->in_batch : batch->answered)->next;
    struct decision *decision = waiter_of(batch->answered)->decision;
    if (decision == NULL) {
        note_returned(batch, waiter_of(batch->answered), call);
        return;
    }
    decision->allowed = call->allowed;
    for (size_t k = 0; k < call->n_charges; k++) {
        decision->charges[k].verdict = call->charges[k].verdict;
        decision->charges[k].charged = call->charges[k].charged;
        decision->charges[k].charged_at_us = call->charges[k].charged_at_us;
    }
}

/* Frees @waiter, which was cancelled. */
static void drop_waiter(struct coalesce_store *store, struct waiter *waiter)
{
    store->n_returns_owed -= waiter->returned != 0;
    forget_waiter(store, waiter);
}

static void answer_batch(struct batch *batch)
{
    if (UNLIKELY(batch->returns) && batch->call.status == STATUS_OK) {
        give_back(batch);
    }
    while (!list_is_empty(&batch->in_batch)) {
        struct waiter *waiter = waiter_of(batch->in_batch.next);
        struct decision *decision = waiter->decision;
        if (decision == NULL) {
            drop_waiter(batch->store, waiter);
        } else {
            forget_waiter(batch->store, waiter);
            report_call(decision, &batch->call);
            store_answer(decision);
        }
    }
}

/* Whether @call failed as a batch in a migrating cluster slot. It has charged nothing, and its
 * decisions may succeed one by one. */
static bool is_too_much_at_once(const struct decision *call)
{
    return call->batch_size > 1 && call->fault == REDIS_FAULT_TRYAGAIN;
}

static size_t join(struct batch *batch)
{
    size_t n = 0;
    while (n < IDENTICAL_REQUESTS_MAX && !list_is_empty(&batch->waiting)) {
        struct waiter *waiter = waiter_of(batch->waiting.next);
        list_remove(&waiter->node);
        list_push_back(&batch->in_batch, &waiter->node);
        timeout_disarm(&waiter->deadline);
        waiter->place = IN_CALL;
        n++;
    }
    batch->n_waiting -= n;
    return n;
}

static void on_complete(struct decision *call);

/* Sends one call for the waiters, of which there is at least one, at @now_us (0: not known).
 * STORE_PENDING: when the call is complete, its waiters are answered, newer waiters are sent within
 * a few loop iterations, and a batch without waiters is freed. STORE_ANSWERED: the answer is in
 * batch->call, and its waiters are not answered yet. */
static enum store_outcome send_call(struct batch *batch, uint64_t now_us)
{
    struct coalesce_store *store = batch->store;
    const size_t n = join(batch);
    struct decision *call = &batch->call;
    decision_init(call, batch->charges, call->n_charges);
    call->batch_size = n;
    call->on_each = on_each;
    call->context = batch;
    call->now_us = now_us;
    batch->returns = false;
    call->client = waiter_of(batch->in_batch.next)->decision->client;
    counter_up(&store->meters->calls);
    counter_add(&store->meters->batched, n > 1 ? n : 0);
    return store_decide(store->store.below, call, on_complete);
}

static void split_batch(struct batch *batch);

/* Sends the waiters. A call that is answered at once is passed on to its waiters. If none is left,
 * the batch is freed. */
static void send_or_end(struct batch *batch)
{
    while (!list_is_empty(&batch->waiting)) {
        if (send_call(batch, 0) == STORE_PENDING) {
            return;
        }
        if (is_too_much_at_once(&batch->call)) {
            split_batch(batch);
            return;
        }
        answer_batch(batch);
    }
    end_batch(batch);
}

/* Whether the waiters may wait for another loop iteration. */
static bool may_collect(const struct batch *batch)
{
    if (list_is_empty(&batch->waiting) || batch->n_waiting >= IDENTICAL_REQUESTS_MAX ||
        batch->n_iterations == COLLECTING_ITERATIONS_MAX) {
        return false;
    }
    return clock_monotonic_us() - waiter_of(batch->waiting.next)->came_us < COLLECTING_US;
}

/* @batch goes on in the next loop iteration. */
static void make_due(struct batch *batch)
{
    struct coalesce_store *store = batch->store;
    if (list_is_empty(&store->collecting)) {
        timer_arm(&store->next_iteration, 0);
    }
    list_push_back(&store->collecting, &batch->collecting);
}

static void collect(struct batch *batch)
{
    make_due(batch);
    batch->has_grown = false;
    batch->n_iterations++;
}

static void on_complete(struct decision *call)
{
    struct batch *batch = call->context;
    const bool was_answered = call->status == STATUS_OK;
    batch->n_iterations = 0;
    batch->n_answered += was_answered;
    if (is_too_much_at_once(call)) {
        split_batch(batch);
        return;
    }
    answer_batch(batch);
    if (was_answered && may_collect(batch)) {
        collect(batch);
    } else {
        send_or_end(batch);
    }
}

/* --- calls that are too much at once --- */

static void send_alone(struct batch *batch);

static void on_own_answer(struct decision *decision)
{
    struct waiter *waiter = decision->frames[decision->n_frames - 1].state;
    struct batch *batch = waiter->batch;
    batch->n_answered += decision->status == STATUS_OK;
    batch->n_alone--;
    forget_waiter(batch->store, waiter);
    store_answer(decision);
    if (!batch->is_sending) {
        send_alone(batch);
    }
}

/* Sends waiters of a split @batch, each by itself; no more than one client may have in flight,
 * since all may be of one client. If none is left, the batch goes on with those who came meanwhile.
 */
static void send_alone(struct batch *batch)
{
    struct coalesce_store *store = batch->store;
    batch->is_sending = true;
    while (batch->n_alone < CLIENT_CALLS_MAX && !list_is_empty(&batch->in_batch)) {
        struct waiter *waiter = waiter_of(batch->in_batch.next);
        if (waiter->decision == NULL) {
            drop_waiter(store, waiter);
            continue;
        }
        if (clock_monotonic_us() - waiter->came_us >= CLIENT_WAIT_US) {
            fail_waiter(waiter, STATUS_CROWDED, REDIS_FAULT_NONE);
            continue;
        }
        list_remove(&waiter->node);
        waiter->place = ALONE;
        waiter->decision->now_us = 0; /* of the request; the call is made now */
        batch->n_alone++;
        counter_up(&store->meters->calls);
        if (store_decide(store->store.below, waiter->decision, on_own_answer) == STORE_ANSWERED) {
            on_own_answer(waiter->decision);
        }
    }
    batch->is_sending = false;
    if (batch->n_alone == 0) {
        batch->is_split = false;
        list_remove(&batch->collecting);
        send_or_end(batch);
    }
}

static void split_batch(struct batch *batch)
{
    batch->is_split = true;
    send_alone(batch);
}

/* Timer callback: sends the collecting batches, or lets them collect for another loop iteration. */
static void on_next_iteration(void *context)
{
    struct coalesce_store *store = context;
    struct list due;
    list_init(&due);
    while (!list_is_empty(&store->collecting)) {
        struct list *node = store->collecting.next;
        list_remove(node);
        list_push_back(&due, node);
    }
    while (!list_is_empty(&due)) {
        struct batch *batch = CONTAINER_OF(due.next, struct batch, collecting);
        list_remove(&batch->collecting);
        if (batch->is_split) {
            send_alone(batch);
        } else if (batch->has_grown && may_collect(batch)) {
            collect(batch);
        } else {
            send_or_end(batch);
        }
    }
}

/* --- decisions --- */

static ALWAYS_INLINE bool can_be_batched(const struct coalesce_store *store,
                                         const struct decision *decision)
{
    size_t keys_bytes = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        const bool lacks_edges = charge->limit->params.is_calendar && charge->edges == NULL;
        if (!limit_takes_identical(charge->limit) || lacks_edges) {
            return false;
        }
        keys_bytes += charge->key.len;
    }
    return keys_bytes <= KEYS_BYTES_MAX && decision->aim == DECISION_ADMIT &&
           decision->on_each == NULL && store_takes_identical(store->store.below, decision);
}

static enum store_outcome refuse(struct decision *decision, enum status status)
{
    decision->status = status;
    decision->source = DECISION_REDIS;
    decision->fault = REDIS_FAULT_NONE;
    return STORE_ANSWERED;
}

static enum store_outcome wait_for_next(struct batch *batch, struct decision *decision)
{
    struct coalesce_store *store = batch->store;
    if (store->waiters.n_taken >= REDIS_PENDING_MAX) {
        return refuse(decision, STATUS_FULL);
    }
    struct waiter *waiter = take_waiter(store, decision);
    if (waiter == NULL) {
        return refuse(decision, STATUS_NO_MEMORY);
    }
    add_waiter(batch, waiter);
    batch->has_grown = true;
    waiter->came_us = clock_monotonic_us();
    arm_deadline(waiter, waiter->came_us);
    return STORE_PENDING;
}

static enum store_outcome begin_and_send(struct coalesce_store *store, struct decision *decision,
                                         struct hash128 hash)
{
    struct waiter *waiter = take_waiter(store, decision);
    struct batch *batch = waiter != NULL ? begin_batch(store, decision, hash) : NULL;
    if (batch == NULL) {
        pool_give(&store->waiters, waiter);
        return refuse(decision, STATUS_NO_MEMORY);
    }
    add_waiter(batch, waiter);
    if (send_call(batch, decision->now_us) == STORE_PENDING) {
        return STORE_PENDING;
    }
    report_call(decision, &batch->call);
    forget_waiter(store, waiter);
    end_batch(batch);
    return STORE_ANSWERED;
}

static enum store_outcome go_straight(struct coalesce_store *store, struct decision *decision)
{
    counter_up(&store->meters->calls);
    return store_decide(store->store.below, decision, store_answer);
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    counter_up(&coalesce->meters->decisions);
    if (!can_be_batched(coalesce, decision)) {
        return go_straight(coalesce, decision);
    }
    const struct hash128 hash = hash_charges(coalesce, decision);
    struct batch *batch = find_batch(coalesce, hash);
    if (batch != NULL) {
        return wait_for_next(batch, decision);
    }
    if (coalesce->n_batches == BATCHES_MAX) {
        return go_straight(coalesce, decision);
    }
    return begin_and_send(coalesce, decision, hash);
}

static bool joins(struct store *store, const struct decision *decision)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    return can_be_batched(coalesce, decision) &&
           find_batch(coalesce, hash_charges(coalesce, decision)) != NULL;
}

static void cancel(struct store *store, struct decision *decision)
{
    struct waiter *waiter = decision->frames[decision->n_frames - 1].state;
    if (waiter == NULL) {
        return; /* it was passed to the store below, which has cancelled it already */
    }
    struct batch *batch = waiter->batch;
    if (waiter->place == IN_CALL && !batch->is_split) {
        timeout_disarm(&waiter->deadline);
        waiter->decision = NULL;
        waiter->returned = decision->returned;
        coalesce_store_of(store)->n_returns_owed += waiter->returned != 0;
        return;
    }
    if (waiter->place == ALONE) {
        batch->n_alone--;
    }
    forget_waiter(coalesce_store_of(store), waiter);
    if (batch->is_split && list_is_empty(&batch->collecting)) {
        make_due(batch);
    }
}

/* --- the store --- */

/* Frees @batch, whose waiters are all cancelled. Its call may be in flight. */
static void drop_batch(struct batch *batch)
{
    store_cancel(&batch->call);
    while (!list_is_empty(&batch->in_batch)) {
        assert(waiter_of(batch->in_batch.next)->decision == NULL);
        drop_waiter(batch->store, waiter_of(batch->in_batch.next));
    }
    end_batch(batch);
}

/* Frees the batches over @limits; NULL: all of them. */
static void drop_batches(struct coalesce_store *store, const struct limit *limits)
{
    for (size_t i = 0; i < BATCHES_MAX; i++) {
        struct list *bucket = &store->buckets[i];
        struct list *node = bucket->next;
        while (node != bucket) {
            struct batch *batch = CONTAINER_OF(node, struct batch, node);
            node = node->next;
            if (limits == NULL || limit_first(batch->charges[0].limit) == limits) {
                drop_batch(batch);
            }
        }
    }
}

static void remove_limits(struct store *store, const struct limit *limits)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    drop_batches(coalesce, limits);
    store_remove_limits(store->below, limits);
}

static bool is_settled(const struct store *store)
{
    const struct coalesce_store *coalesce = (const struct coalesce_store *)(const void *)store;
    return coalesce->n_returns_owed == 0 && store_is_settled(store->below);
}

static void free_coalesce(struct store *store)
{
    struct coalesce_store *coalesce = coalesce_store_of(store);
    drop_batches(coalesce, NULL);
    timeout_queue_close(&coalesce->deadlines);
    timer_close(&coalesce->next_iteration);
    pool_close(&coalesce->batches);
    pool_close(&coalesce->waiters);
    free(coalesce);
}

static const struct store_ops COALESCE_OPS = {
    .name = "coalesce",
    .decide = decide,
    .joins = joins,
    .cancel = cancel,
    .remove_limits = remove_limits,
    .is_settled = is_settled,
    .free = free_coalesce,
};

enum status coalesce_store_new(struct loop *loop, struct store *below, uint64_t deadline_us,
                               struct coalesce_meters *meters, struct store **store)
{
    struct coalesce_store *coalesce = malloc(sizeof(*coalesce));
    if (coalesce == NULL) {
        return STATUS_NO_MEMORY;
    }
    timer_init(&coalesce->next_iteration, loop, on_next_iteration, coalesce);
    timeout_queue_init(&coalesce->deadlines, loop, deadline_us);
    list_init(&coalesce->collecting);
    coalesce->store = (struct store){.ops = &COALESCE_OPS, .below = below};
    coalesce->own = (struct coalesce_meters){0};
    coalesce->meters = meters != NULL ? meters : &coalesce->own;
    pool_init(&coalesce->batches, sizeof(struct batch), BATCHES_KEPT);
    pool_init(&coalesce->waiters, sizeof(struct waiter), WAITERS_KEPT);
    coalesce->key = hash_key_new();
    coalesce->n_batches = 0;
    coalesce->n_returns_owed = 0;
    for (size_t i = 0; i < BATCHES_MAX; i++) {
        list_init(&coalesce->buckets[i]);
    }
    *store = &coalesce->store;
    return STATUS_OK;
}
