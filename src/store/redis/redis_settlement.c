/* Happy path: encoded ─► few are in flight ─► sent ─► a reply.
 *                     ─► many are ─► joins one that waits, or waits ─► sent after the reply to an
 * earlier one.
 *
 * NOSCRIPT ─► EVAL, once, ahead of those that wait. A message that cannot be sent or gets no reply,
 * or that finds too many waiting, in all or of its client ─► lost, and its charges stay. When the
 * link is lost, so are all that wait. Not logged: the decision path on the same link reports the
 * same fault.
 *
 * Most are in flight as REDIS_SETTLEMENTS_FREE and decisions together, so a decision has no more
 * than that before it. */

#include "store/redis/redis_settlement_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "limit/script_source.h"
#include "store/redis/redis_store_inner.h"

enum { CORRECTION_EVERY = 4 }; /* messages that waited; the others are of slots */

struct redis_settlement {
    struct redis_request request;
    bool was_eval;          /* sent with the script */
    struct redis_tail tail; /* points into bytes */
    struct address client;  /* ADDRESS_NONE: not known */
    unsigned n_requests;    /* whose settlements it has */
    struct list node;       /* in a list of a share */
    struct list in_bucket;  /* and in one of its buckets, if it takes others along */
    struct hash128 hash;    /* of bytes without the deltas, while it is in a bucket */
    size_t n_deltas;        /* 0: it can neither join another nor take one along */
    uint32_t delta_at[LIMITS_PER_ROUTE_MAX]; /* indices of bytes */
    char bytes[];
};

static struct redis_settlement *settlement_of(struct redis_request *request)
{
    return CONTAINER_OF(request, struct redis_settlement, request);
}

/* --- sending --- */

static bool send_settlement(struct redis_request *request)
{
    const struct redis_settlement *message = settlement_of(request);
    struct redis_store *store = request->store;
    if (!redis_request_send(
            request, redis_command_with_tail(&store->command, message->tail, message->was_eval))) {
        return false;
    }
    store->counters.n_settlements++;
    counter_up(&store->meters->settlements);
    return true;
}

static void count_lost(struct redis_store *store, unsigned n)
{
    store->counters.n_settlements_lost += n;
    counter_add(&store->meters->settlements_lost, n);
}

static void on_settled(struct redis_request *request, const struct redis_reply *reply)
{
    (void)reply;
    free(settlement_of(request));
}

static void refuse(struct redis_settlement *message)
{
    count_lost(message->request.store, message->n_requests);
    free(message);
}

static void lose(struct redis_request *request)
{
    ++*request->store->n_losses;
    refuse(settlement_of(request));
}

static void on_settlement_fault(struct redis_request *request, enum redis_fault fault)
{
    struct redis_settlement *message = settlement_of(request);
    const bool is_again = fault == REDIS_FAULT_NOSCRIPT && !message->was_eval;
    message->was_eval = message->was_eval || is_again;
    if (!is_again || !send_settlement(request)) {
        lose(request);
    }
}

/* --- joining --- */

static double read_delta(const struct redis_settlement *message, size_t i)
{
    double delta;
    script_source_unpack(message->bytes + message->delta_at[i], 1, &delta);
    return delta;
}

static void write_delta(struct redis_settlement *message, size_t i, double delta)
{
    script_source_pack(&delta, 1, message->bytes + message->delta_at[i]);
}

/* Messages with the same hash settle the same charges: limit, key and time. */
static struct hash128 hash_charges(const struct redis_settlement_queue *queue,
                                   struct redis_settlement *message)
{
    double deltas[LIMITS_PER_ROUTE_MAX];
    for (size_t i = 0; i < message->n_deltas; i++) {
        deltas[i] = read_delta(message, i);
        write_delta(message, i, 0);
    }
    const struct hash128 hash = hash_table(&queue->key, message->tail.wire);
    for (size_t i = 0; i < message->n_deltas; i++) {
        write_delta(message, i, deltas[i]);
    }
    return hash;
}

/* Whether they settle the same charges, and the sums of the deltas do what these would do one after
 * another: refunds and further charges stay apart, and no sum is greater than a cost may be. */
static bool fits(const struct redis_settlement *into, const struct redis_settlement *message)
{
    if (into->hash.low != message->hash.low || into->hash.high != message->hash.high) {
        return false;
    }
    for (size_t i = 0; i < message->n_deltas; i++) {
        const double before = read_delta(into, i);
        const double delta = read_delta(message, i);
        const double sum = before + delta;
        if ((before < 0) != (delta < 0) || sum > UINT32_MAX || sum < -(double)UINT32_MAX) {
            return false;
        }
    }
    return true;
}

/* False: @message, which has its hash, joins no other in @bucket. */
static bool join(struct list *bucket, struct redis_settlement *message)
{
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct redis_settlement *into = CONTAINER_OF(node, struct redis_settlement, in_bucket);
        if (fits(into, message)) {
            for (size_t i = 0; i < message->n_deltas; i++) {
                write_delta(into, i, read_delta(into, i) + read_delta(message, i));
            }
            into->n_requests += message->n_requests;
            free(message);
            return true;
        }
    }
    return false;
}

/* --- waiting --- */

static bool is_room(const struct redis_store *store)
{
    return store->n_requests < REDIS_SETTLEMENTS_FREE + store->tickets.n_taken;
}

/* Where those of the client at @address (NULL: not known) wait in @list. */
static struct redis_settlement_share *share_of(const struct redis_settlement_queue *queue,
                                               struct redis_settlement_list *list,
                                               const struct address *address)
{
    if (address == NULL || address->family == ADDRESS_NONE) {
        return &list->shares[REDIS_SETTLEMENT_SHARES];
    }
    const struct address client = address_of_client(address);
    const struct hash128 hash =
        hash_table(&queue->key, span_of((const char *)&client, sizeof(client)));
    return &list->shares[hash.low % REDIS_SETTLEMENT_SHARES];
}

/* Whether a message may be added to @share that has @n_before before it. */
static bool has_place(const struct redis_settlement_list *list,
                      const struct redis_settlement_share *share, size_t n_before)
{
    const size_t n_taken = list->n + n_before;
    const bool is_bounded = share != &list->shares[REDIS_SETTLEMENT_SHARES];
    return n_taken < REDIS_PENDING_MAX &&
           (!is_bounded || share->n + n_before < REDIS_PENDING_MAX - n_taken);
}

static bool is_raise(const struct redis_settlement *message)
{
    size_t i = 0;
    while (i < message->n_deltas && read_delta(message, i) <= 0) {
        i++;
    }
    return i < message->n_deltas;
}

static void add(struct redis_settlement_list *list, struct redis_settlement_share *share,
                struct redis_settlement *message)
{
    if (share->n == 0) {
        list_init(&share->raises);
        list_init(&share->others);
        list_push_back(&list->turns, &share->turn);
    }
    list_push_back(is_raise(message) ? &share->raises : &share->others, &message->node);
    share->n++;
    list->n++;
}

/* The message of @list, which has one, whose turn it is. */
static struct redis_settlement *take(struct redis_settlement_list *list)
{
    struct redis_settlement_share *share =
        CONTAINER_OF(list->turns.next, struct redis_settlement_share, turn);
    struct list *node = list_is_empty(&share->raises) ? share->others.next : share->raises.next;
    list_remove(node);
    list_remove(&share->turn);
    share->n--;
    list->n--;
    if (share->n > 0) {
        list_push_back(&list->turns, &share->turn);
    }
    return CONTAINER_OF(node, struct redis_settlement, node);
}

bool redis_settlement_has_room(struct redis_store *store, const struct settlement *settlement)
{
    struct redis_settlement_queue *queue = &store->settlements;
    struct redis_settlement_list *list =
        settlement->kind == SETTLE_COST ? &queue->corrections : &queue->slots;
    return has_place(list, share_of(queue, list, settlement->client), LIMITS_PER_ROUTE_MAX - 1);
}

static void wait_for_room(struct redis_store *store, struct redis_settlement *message)
{
    struct redis_settlement_queue *queue = &store->settlements;
    struct redis_settlement_list *list =
        message->n_deltas > 0 ? &queue->corrections : &queue->slots;
    if (message->n_deltas > 0) {
        message->hash = hash_charges(queue, message);
        struct list *bucket = &queue->buckets[message->hash.low % REDIS_SETTLEMENT_BUCKETS];
        if (join(bucket, message)) {
            return;
        }
        list_push_front(bucket, &message->in_bucket);
    }
    struct redis_settlement_share *share = share_of(queue, list, &message->client);
    if (has_place(list, share, 0)) {
        add(list, share, message);
    } else {
        list_remove(&message->in_bucket);
        refuse(message);
    }
}

/* Slots mostly: a client can have any number of corrections, and no more releases than slots. */
static struct redis_settlement *take_next(struct redis_settlement_queue *queue)
{
    const bool is_turn = queue->n_sent++ % CORRECTION_EVERY == 0;
    struct redis_settlement_list *list =
        queue->slots.n == 0 || (is_turn && queue->corrections.n > 0) ? &queue->corrections
                                                                     : &queue->slots;
    struct redis_settlement *message = take(list);
    list_remove(&message->in_bucket);
    return message;
}

static size_t n_waiting(const struct redis_settlement_queue *queue)
{
    return queue->slots.n + queue->corrections.n;
}

void redis_settlements_send_waiting(struct redis_store *store)
{
    struct redis_settlement_queue *queue = &store->settlements;
    while (n_waiting(queue) > 0 && is_room(store)) {
        struct redis_settlement *message = take_next(queue);
        if (!send_settlement(&message->request)) {
            lose(&message->request);
        }
    }
    assert(n_waiting(queue) == 0 || store->n_requests > 0);
}

void redis_settlement_queue_init(struct redis_settlement_queue *queue)
{
    queue->key = hash_key_new();
    queue->n_sent = 0;
    queue->slots.n = 0;
    queue->corrections.n = 0;
    list_init(&queue->slots.turns);
    list_init(&queue->corrections.turns);
    for (size_t i = 0; i < REDIS_SETTLEMENT_BUCKETS; i++) {
        list_init(&queue->buckets[i]);
    }
}

/* --- messages --- */

/* Whether all correct costs: a slot has one settlement of a kind, and so nothing to join. */
static bool are_costs(const struct settlement *settlements, size_t n)
{
    size_t i = 0;
    while (i < n && settlements[i].kind == SETTLE_COST) {
        i++;
    }
    return i == n;
}

struct redis_settlement *redis_settlement_write(struct redis_store *store,
                                                const struct settlement *settlements, size_t n)
{
    static const struct redis_request_ops OPS = {
        .send = send_settlement,
        .on_reply = on_settled,
        .on_fault = on_settlement_fault,
        .on_lost = lose,
    };
    uint32_t delta_at[LIMITS_PER_ROUTE_MAX];
    const struct redis_tail tail = redis_command_settle(&store->command, settlements, n, delta_at);
    struct redis_settlement *message =
        tail.wire.len > 0 ? malloc(sizeof(*message) + tail.wire.len) : NULL;
    if (message != NULL) {
        *message = (struct redis_settlement){
            .request = {.store = store, .ops = &OPS},
            .tail = {.wire = span_of(message->bytes, tail.wire.len), .n = tail.n},
            .n_requests = 1,
            .n_deltas = are_costs(settlements, n) ? n : 0,
        };
        list_init(&message->node);
        list_init(&message->in_bucket);
        if (settlements[0].client != NULL) {
            message->client = *settlements[0].client;
        }
        memcpy(message->bytes, tail.wire.data, tail.wire.len);
        memcpy(message->delta_at, delta_at, n * sizeof(delta_at[0]));
    }
    return message;
}

void redis_settlement_send(struct redis_store *store, struct redis_settlement *message)
{
    if (message == NULL) {
        ++*store->n_losses;
        count_lost(store, 1);
    } else if (n_waiting(&store->settlements) > 0 || !is_room(store)) {
        /* Behind those that wait: a slot that is given back must not be renewed afterwards. */
        wait_for_room(store, message);
        redis_settlements_send_waiting(store);
    } else if (!send_settlement(&message->request)) {
        lose(&message->request);
    }
}
