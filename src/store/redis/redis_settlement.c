/* Happy path: encoded ─► few are in flight ─► sent ─► a reply.
 *                     ─► many are ─► joins one that waits, or waits ─► sent after the reply to an
 * earlier one, or before a decision on a slot that it gives back.
 *
 * A renewal whose slot Redis has lost ─► the slot is taken anew, if it is still held.
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

enum { TURNS = 4 }; /* of those that waited: see next_list() */

/* A slot that a message gives back or renews. */
struct redis_slot {
    struct list node; /* in a bucket of given_back, while it waits, or of the renewals */
    struct redis_settlement *message;
    uint64_t id; /* the slot to renew; of one that is given back, the hash of its key */
};

struct redis_settlement {
    struct redis_request request;
    enum redis_settlement_kind kind;
    bool was_eval;          /* sent with the script */
    bool is_raise;          /* it charges more than was */
    struct redis_tail tail; /* points to bytes */
    struct address client;  /* ADDRESS_NONE: not known */
    unsigned n_requests;    /* whose settlements it has */
    struct list node;       /* in a list of a share, while it waits */
    struct list in_bucket;  /* and in one of its buckets, if it takes others along */
    struct hash128 hash;    /* of bytes without the deltas, while it is in a bucket */
    size_t n;               /* settlements */
    uint32_t delta_at[LIMITS_PER_ROUTE_MAX]; /* indices of bytes */
    char *bytes;                             /* behind the slots */
    size_t n_held;                           /* slots to renew that are not given back */
    size_t n_slots;
    struct redis_slot slots[];
};

static struct redis_settlement *settlement_of(struct redis_request *request)
{
    return CONTAINER_OF(request, struct redis_settlement, request);
}

static void discard(struct redis_settlement *message)
{
    for (size_t i = 0; i < message->n_slots; i++) {
        list_remove(&message->slots[i].node);
    }
    message->request.store->renewals->n -= message->n_held;
    list_remove(&message->in_bucket);
    free(message);
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

static void refuse(struct redis_settlement *message)
{
    count_lost(message->request.store, message->n_requests);
    discard(message);
}

static void lose(struct redis_request *request)
{
    ++*request->store->n_losses;
    refuse(settlement_of(request));
}

/* --- numbers of a message --- */

enum { AT_KIND = -SCRIPT_NUMBER_BYTES }; /* of a settlement, from its delta */

static enum settlement_kind read_kind(const struct redis_settlement *message, size_t i)
{
    double number;
    script_source_unpack(message->bytes + message->delta_at[i] + AT_KIND, 1, &number);
    return (enum settlement_kind)number;
}

static void write_kind(struct redis_settlement *message, size_t i, enum settlement_kind kind)
{
    const double number = kind;
    script_source_pack(&number, 1, message->bytes + message->delta_at[i] + AT_KIND);
}

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

/* --- replies --- */

/* Redis has renewed no slot that @reply names: it has lost them. Those that are still held are
 * taken anew. False: there are none. */
static bool retake(struct redis_settlement *message, const struct redis_reply *reply)
{
    bool is_any = false;
    for (size_t i = SCRIPT_HEAD_INTS; i < reply->n_ints; i++) {
        const long long number = reply->ints[i]; /* from 1 on */
        if (number >= 1 && (unsigned long long)number <= message->n &&
            read_kind(message, (size_t)number - 1) == SETTLE_RENEW) {
            write_kind(message, (size_t)number - 1, SETTLE_RETAKE);
            is_any = true;
        }
    }
    message->was_eval = false;
    if (is_any && !send_settlement(&message->request)) {
        lose(&message->request);
    }
    return is_any;
}

static void on_settled(struct redis_request *request, const struct redis_reply *reply)
{
    struct redis_settlement *message = settlement_of(request);
    if (LIKELY(message->kind != REDIS_RENEWS) || !retake(message, reply)) {
        discard(message);
    }
}

static void on_settlement_fault(struct redis_request *request, enum redis_fault fault)
{
    struct redis_settlement *message = settlement_of(request);
    const bool is_again = fault == REDIS_FAULT_NOSCRIPT && !message->was_eval;
    message->was_eval = message->was_eval || is_again;
    if (message->kind == REDIS_RENEWS && message->n_held == 0) {
        discard(message); /* its slots have been given back */
    } else if (!is_again || !send_settlement(request)) {
        lose(request);
    }
}

/* --- joining --- */

/* Messages with the same hash settle the same charges: limit, key and time. */
static struct hash128 hash_charges(const struct redis_settlement_queue *queue,
                                   struct redis_settlement *message)
{
    double deltas[LIMITS_PER_ROUTE_MAX];
    for (size_t i = 0; i < message->n; i++) {
        deltas[i] = read_delta(message, i);
        write_delta(message, i, 0);
    }
    const struct hash128 hash = hash_table(&queue->key, message->tail.wire);
    for (size_t i = 0; i < message->n; i++) {
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
    for (size_t i = 0; i < message->n; i++) {
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
            for (size_t i = 0; i < message->n; i++) {
                write_delta(into, i, read_delta(into, i) + read_delta(message, i));
            }
            into->n_requests += message->n_requests;
            discard(message);
            return true;
        }
    }
    return false;
}

/* --- waiting --- */

/* Whether one more may be in flight, and @n_reserved others then. */
static bool is_room(const struct redis_store *store, size_t n_reserved)
{
    return store->n_requests + n_reserved < REDIS_SETTLEMENTS_FREE + store->tickets.n_taken;
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

static void add(struct redis_settlement_list *list, struct redis_settlement_share *share,
                struct redis_settlement *message)
{
    if (share->n == 0) {
        list_init(&share->raises);
        list_init(&share->others);
        list_push_back(&list->turns, &share->turn);
    }
    list_push_back(message->is_raise ? &share->raises : &share->others, &message->node);
    share->n++;
    list->n++;
}

static bool is_waiting(const struct redis_settlement *message)
{
    return !list_is_empty(&message->node);
}

/* Take @message, which waits, out of its queue. */
static void leave_queue(struct redis_settlement *message)
{
    struct redis_settlement_queue *queue = &message->request.store->settlements;
    struct redis_settlement_list *list = &queue->lists[message->kind];
    struct redis_settlement_share *share = share_of(queue, list, &message->client);
    list_remove(&message->node);
    list_remove(&message->in_bucket);
    for (size_t i = 0; message->kind == REDIS_GIVES_BACK && i < message->n_slots; i++) {
        list_remove(&message->slots[i].node);
    }
    share->n--;
    list->n--;
    if (share->n == 0) {
        list_remove(&share->turn);
    }
}

/* The message of @list, which has one, whose turn it is. */
static struct redis_settlement *take(struct redis_settlement_list *list)
{
    struct redis_settlement_share *share =
        CONTAINER_OF(list->turns.next, struct redis_settlement_share, turn);
    struct list *node = list_is_empty(&share->raises) ? share->others.next : share->raises.next;
    struct redis_settlement *message = CONTAINER_OF(node, struct redis_settlement, node);
    list_remove(&share->turn);
    list_push_back(&list->turns, &share->turn);
    leave_queue(message);
    return message;
}

static struct redis_settlement_list *list_for(struct redis_settlement_queue *queue,
                                              enum settlement_kind kind)
{
    switch (kind) {
    case SETTLE_COST:
        return &queue->lists[REDIS_CORRECTS];
    case SETTLE_RENEW:
    case SETTLE_RETAKE:
        return &queue->lists[REDIS_RENEWS];
    case SETTLE_RELEASE:
        break;
    }
    return &queue->lists[REDIS_GIVES_BACK];
}

bool redis_settlement_has_room(struct redis_store *store, const struct settlement *settlement)
{
    struct redis_settlement_queue *queue = &store->settlements;
    struct redis_settlement_list *list = list_for(queue, settlement->kind);
    return has_place(list, share_of(queue, list, settlement->client), LIMITS_PER_ROUTE_MAX - 1);
}

static size_t bucket_of(uint64_t id)
{
    const uint64_t mixed = id * UINT64_C(0x9e3779b97f4a7c15); /* slots are numbered in steps */
    return mixed >> (64 - REDIS_SETTLEMENT_BUCKET_BITS);
}

static void wait_for_room(struct redis_store *store, struct redis_settlement *message)
{
    struct redis_settlement_queue *queue = &store->settlements;
    struct redis_settlement_list *list = &queue->lists[message->kind];
    if (message->kind == REDIS_CORRECTS) {
        message->hash = hash_charges(queue, message);
        struct list *bucket = &queue->buckets[message->hash.low % REDIS_SETTLEMENT_BUCKETS];
        if (join(bucket, message)) {
            return;
        }
        list_push_front(bucket, &message->in_bucket);
    }
    struct redis_settlement_share *share = share_of(queue, list, &message->client);
    if (!has_place(list, share, 0)) {
        refuse(message);
        return;
    }
    add(list, share, message);
    for (size_t i = 0; message->kind == REDIS_GIVES_BACK && i < message->n_slots; i++) {
        struct redis_slot *slot = &message->slots[i];
        list_push_back(&queue->given_back[bucket_of(slot->id)], &slot->node);
    }
}

/* The list whose turn it is; NULL: nothing may be sent. Mostly what gives back slots: a client can
 * have any number of corrections, and no more of these than slots. Renewals have time, but not for
 * ever; while nothing else waits they leave room for what comes. */
static struct redis_settlement_list *next_list(struct redis_store *store)
{
    struct redis_settlement_queue *queue = &store->settlements;
    struct redis_settlement_list *gives_back = &queue->lists[REDIS_GIVES_BACK];
    struct redis_settlement_list *renewals = &queue->lists[REDIS_RENEWS];
    struct redis_settlement_list *corrections = &queue->lists[REDIS_CORRECTS];
    const unsigned turn = queue->n_sent % TURNS;
    if (!is_room(store, 0)) {
        return NULL;
    }
    if (corrections->n > 0 && (turn == 0 || gives_back->n + renewals->n == 0)) {
        return corrections;
    }
    if (renewals->n > 0 && turn == 1 && gives_back->n + corrections->n > 0) {
        return renewals;
    }
    if (gives_back->n > 0) {
        return gives_back;
    }
    if (renewals->n > 0 && (corrections->n > 0 || is_room(store, REDIS_SETTLEMENTS_RESERVED))) {
        return renewals;
    }
    return NULL;
}

static size_t n_waiting(const struct redis_settlement_queue *queue)
{
    size_t n = 0;
    for (size_t i = 0; i < REDIS_SETTLEMENT_KINDS; i++) {
        n += queue->lists[i].n;
    }
    return n;
}

void redis_settlements_send_waiting(struct redis_store *store)
{
    struct redis_settlement_queue *queue = &store->settlements;
    struct redis_settlement_list *list;
    while (n_waiting(queue) > 0 && (list = next_list(store)) != NULL) {
        struct redis_settlement *message = take(list);
        queue->n_sent++;
        if (!send_settlement(&message->request)) {
            lose(&message->request);
        }
    }
    assert(n_waiting(queue) == 0 || store->n_requests > 0);
}

/* The oldest that gives back a slot of the key of @charge; NULL: none waits. */
static struct redis_settlement *find_given_back(struct redis_settlement_queue *queue,
                                                const struct charge *charge)
{
    const uint64_t id = charge_hash(charge).low;
    struct list *bucket = &queue->given_back[bucket_of(id)];
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        const struct redis_slot *slot = CONTAINER_OF(node, struct redis_slot, node);
        if (slot->id == id) {
            return slot->message;
        }
    }
    return NULL;
}

void redis_settlements_send_before(struct redis_store *store, const struct decision *decision)
{
    struct redis_settlement_queue *queue = &store->settlements;
    for (size_t i = 0; i < decision->n_charges && queue->lists[REDIS_GIVES_BACK].n > 0; i++) {
        const struct charge *charge = &decision->charges[i];
        struct redis_settlement *message = charge->limit->algorithm->has_slots && charge->cost > 0
                                               ? find_given_back(queue, charge)
                                               : NULL;
        if (message != NULL) {
            leave_queue(message);
            if (!send_settlement(&message->request)) {
                lose(&message->request);
            }
        }
    }
}

void redis_settlement_queue_init(struct redis_settlement_queue *queue)
{
    queue->key = hash_key_new();
    queue->n_sent = 0;
    for (size_t i = 0; i < REDIS_SETTLEMENT_KINDS; i++) {
        queue->lists[i].n = 0;
        list_init(&queue->lists[i].turns);
    }
    for (size_t i = 0; i < REDIS_SETTLEMENT_BUCKETS; i++) {
        list_init(&queue->buckets[i]);
        list_init(&queue->given_back[i]);
    }
}

/* --- renewals --- */

void redis_renewals_init(struct redis_renewals *renewals)
{
    renewals->n = 0;
    for (size_t i = 0; i < REDIS_SETTLEMENT_BUCKETS; i++) {
        list_init(&renewals->buckets[i]);
    }
}

static void begin_renewals(struct redis_renewals *renewals, struct redis_settlement *message)
{
    for (size_t i = 0; i < message->n_slots; i++) {
        struct redis_slot *slot = &message->slots[i];
        list_push_back(&renewals->buckets[bucket_of(slot->id)], &slot->node);
    }
    message->n_held = message->n_slots;
    renewals->n += message->n_held;
}

static bool is_waiting_for(const struct redis_renewals *renewals, uint64_t slot_id)
{
    const struct list *bucket = &renewals->buckets[bucket_of(slot_id)];
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        const struct redis_slot *slot = CONTAINER_OF(node, struct redis_slot, node);
        if (slot->id == slot_id && is_waiting(slot->message)) {
            return true;
        }
    }
    return false;
}

/* Whether renewals of all slots of @message wait already, where Redis is slower than they come. */
static bool is_repeated(const struct redis_renewals *renewals,
                        const struct redis_settlement *message)
{
    size_t i = 0;
    while (i < message->n_slots && is_waiting_for(renewals, message->slots[i].id)) {
        i++;
    }
    return i == message->n_slots;
}

/* The renewal of @slot, which is given back, is void: if its message is sent, for other slots of
 * the request or once more, it gives it back. */
static void end_renewal(struct redis_renewals *renewals, struct redis_slot *slot)
{
    struct redis_settlement *message = slot->message;
    write_kind(message, (size_t)(slot - message->slots), SETTLE_RELEASE);
    list_remove(&slot->node);
    renewals->n--;
    message->n_held--;
    if (message->n_held == 0 && is_waiting(message)) {
        leave_queue(message);
        discard(message);
    }
}

void redis_renewals_end(struct redis_store *store, const struct settlement *settlements, size_t n)
{
    struct redis_renewals *renewals = store->renewals;
    for (size_t i = 0; i < n && renewals->n > 0; i++) {
        struct list *bucket = &renewals->buckets[bucket_of(settlements[i].slot)];
        struct list *next;
        for (struct list *node = bucket->next; node != bucket; node = next) {
            struct redis_slot *slot = CONTAINER_OF(node, struct redis_slot, node);
            next = node->next;
            if (settlements[i].kind == SETTLE_RELEASE && slot->id == settlements[i].slot) {
                end_renewal(renewals, slot);
            }
        }
    }
}

/* --- messages --- */

/* What @n settlements of a request do together. */
static enum redis_settlement_kind kind_of(const struct settlement *settlements, size_t n)
{
    size_t n_of[SETTLE_RETAKE + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        n_of[settlements[i].kind]++;
    }
    assert(n_of[SETTLE_RENEW] == 0 || n_of[SETTLE_RENEW] == n);
    return n_of[SETTLE_RENEW] > 0   ? REDIS_RENEWS
           : n_of[SETTLE_COST] == n ? REDIS_CORRECTS
                                    : REDIS_GIVES_BACK;
}

static bool is_raise(const struct settlement *settlements, size_t n)
{
    size_t i = 0;
    while (i < n && (settlements[i].kind != SETTLE_COST || settlements[i].delta <= 0)) {
        i++;
    }
    return i < n;
}

static bool may_send(const struct redis_store *store, enum redis_settlement_kind kind)
{
    return n_waiting(&store->settlements) == 0 &&
           is_room(store, kind == REDIS_RENEWS ? REDIS_SETTLEMENTS_RESERVED : 0);
}

static void fill_slots(struct redis_settlement *message, const struct settlement *settlements)
{
    for (size_t i = 0; i < message->n_slots; i++) {
        const struct settlement *settlement = &settlements[i];
        message->slots[i].message = message;
        message->slots[i].id =
            message->kind == REDIS_RENEWS ? settlement->slot : hash_shared(settlement->key).low;
        list_init(&message->slots[i].node);
    }
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
    const enum redis_settlement_kind kind = kind_of(settlements, n);
    /* What gives slots back is found by its keys while it waits alone. */
    const bool has_slots =
        kind == REDIS_RENEWS || (kind == REDIS_GIVES_BACK && !may_send(store, kind));
    const size_t n_slots = has_slots ? n : 0;
    uint32_t delta_at[LIMITS_PER_ROUTE_MAX];
    const struct redis_tail tail = redis_command_settle(&store->command, settlements, n, delta_at);
    struct redis_settlement *message = NULL;
    const size_t head_bytes = sizeof(*message) + n_slots * sizeof(message->slots[0]);
    if (tail.wire.len > 0) {
        message = malloc(head_bytes + tail.wire.len);
    }
    if (message != NULL) {
        char *bytes = (char *)message + head_bytes;
        *message = (struct redis_settlement){
            .request = {.store = store, .ops = &OPS},
            .kind = kind,
            .is_raise = is_raise(settlements, n),
            .tail = {.wire = span_of(bytes, tail.wire.len), .n = tail.n},
            .n_requests = 1,
            .n = n,
            .bytes = bytes,
            .n_slots = n_slots,
        };
        list_init(&message->node);
        list_init(&message->in_bucket);
        fill_slots(message, settlements);
        if (settlements[0].client != NULL) {
            message->client = *settlements[0].client;
        }
        memcpy(bytes, tail.wire.data, tail.wire.len);
        memcpy(message->delta_at, delta_at, n * sizeof(delta_at[0]));
    }
    return message;
}

void redis_settlement_send(struct redis_store *store, struct redis_settlement *message)
{
    if (message == NULL) {
        ++*store->n_losses;
        count_lost(store, 1);
        return;
    }
    if (message->kind == REDIS_RENEWS) {
        if (is_repeated(store->renewals, message)) {
            discard(message);
            return;
        }
        begin_renewals(store->renewals, message);
    }
    if (!may_send(store, message->kind)) {
        wait_for_room(store, message);
        redis_settlements_send_waiting(store);
    } else if (!send_settlement(&message->request)) {
        lose(&message->request);
    }
}
