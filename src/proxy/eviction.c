#include "proxy/eviction.h"

#include <assert.h>
#include <stdlib.h>

#include "base/limits.h"

enum {
    SLOTS_MIN = 64,
    CONNECTIONS_MANY = 16,  /* more than a browser opens to one host */
    HEAP_LOOKS = 32,        /* clients with the most silent connections, looked at for an old one */
    SKIPPED_US = 10 * 1000, /* how long a client without a victim is not looked at again */
};

#define NOT_IN_HEAP UINT32_MAX

struct eviction_client {
    struct eviction_client *next; /* in its slot */
    struct list node;             /* in eviction->skipped */
    struct address address;
    uint64_t hash;
    uint32_t n[EVICTION_RANKS];  /* connections that count for the rank */
    uint32_t at[EVICTION_RANKS]; /* in the heap; or NOT_IN_HEAP */
    struct list silent;          /* struct eviction_candidate, oldest first */
    struct list spoken;
};

/* --- heaps --- */

static void heap_put(struct eviction_heap *heap, enum eviction_rank rank, size_t at,
                     struct eviction_client *client)
{
    heap->clients[at] = client;
    client->at[rank] = (uint32_t)at;
}

static void heap_sift_up(struct eviction_heap *heap, enum eviction_rank rank, size_t at)
{
    struct eviction_client *client = heap->clients[at];
    while (at > 0 && heap->clients[(at - 1) / 2]->n[rank] < client->n[rank]) {
        heap_put(heap, rank, at, heap->clients[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(heap, rank, at, client);
}

static void heap_sift_down(struct eviction_heap *heap, enum eviction_rank rank, size_t at)
{
    struct eviction_client *client = heap->clients[at];
    for (size_t child = 2 * at + 1; child < heap->n; child = 2 * at + 1) {
        if (child + 1 < heap->n &&
            heap->clients[child + 1]->n[rank] > heap->clients[child]->n[rank]) {
            child++;
        }
        if (heap->clients[child]->n[rank] <= client->n[rank]) {
            break;
        }
        heap_put(heap, rank, at, heap->clients[child]);
        at = child;
    }
    heap_put(heap, rank, at, client);
}

static void heap_insert(struct eviction *eviction, enum eviction_rank rank,
                        struct eviction_client *client)
{
    struct eviction_heap *heap = &eviction->heaps[rank];
    assert(heap->n < eviction->n_room);
    heap_put(heap, rank, heap->n++, client);
    heap_sift_up(heap, rank, heap->n - 1);
}

static void heap_remove(struct eviction *eviction, enum eviction_rank rank,
                        struct eviction_client *client)
{
    struct eviction_heap *heap = &eviction->heaps[rank];
    const size_t at = client->at[rank];
    struct eviction_client *last = heap->clients[--heap->n];
    client->at[rank] = NOT_IN_HEAP;
    if (last != client) {
        heap_put(heap, rank, at, last);
        heap_sift_up(heap, rank, at);
        heap_sift_down(heap, rank, last->at[rank]);
    }
}

/* @client has one connection more or less (@step) that counts for @rank. */
static void change_count(struct eviction *eviction, enum eviction_rank rank,
                         struct eviction_client *client, int step)
{
    struct eviction_heap *heap = &eviction->heaps[rank];
    const bool is_skipped = rank == RANK_BY_ALL && !list_is_empty(&client->node);
    client->n[rank] += (uint32_t)step;
    if (client->n[rank] == 0) {
        if (client->at[rank] != NOT_IN_HEAP) {
            heap_remove(eviction, rank, client);
        }
    } else if (client->at[rank] == NOT_IN_HEAP) {
        if (!is_skipped) {
            heap_insert(eviction, rank, client);
        }
    } else if (step > 0) {
        heap_sift_up(heap, rank, client->at[rank]);
    } else {
        heap_sift_down(heap, rank, client->at[rank]);
    }
}

/* --- clients --- */

static size_t slot_of(const struct eviction *eviction, uint64_t hash)
{
    return (size_t)hash & (eviction->n_slots - 1);
}

/* Room for one client more. False: no memory. */
static bool make_room(struct eviction *eviction)
{
    if (eviction->n_clients < eviction->n_room) {
        return true;
    }
    const size_t n_room = eviction->n_room == 0 ? SLOTS_MIN : 2 * eviction->n_room;
    for (size_t rank = 0; rank < EVICTION_RANKS; rank++) {
        struct eviction_client **clients =
            realloc(eviction->heaps[rank].clients, n_room * sizeof(struct eviction_client *));
        if (clients == NULL) {
            return false;
        }
        eviction->heaps[rank].clients = clients;
    }
    struct eviction_client **before = eviction->slots;
    const size_t n_before = eviction->n_slots;
    struct eviction_client **slots = calloc(n_room, sizeof(struct eviction_client *));
    if (slots == NULL) {
        return false;
    }
    eviction->slots = slots;
    eviction->n_slots = n_room;
    eviction->n_room = n_room;
    for (size_t i = 0; i < n_before; i++) {
        while (before[i] != NULL) {
            struct eviction_client *client = before[i];
            before[i] = client->next;
            client->next = slots[slot_of(eviction, client->hash)];
            slots[slot_of(eviction, client->hash)] = client;
        }
    }
    free(before);
    return true;
}

static struct eviction_client *new_client(struct eviction *eviction, const struct address *address,
                                          uint64_t hash)
{
    struct eviction_client *client = make_room(eviction) ? malloc(sizeof(*client)) : NULL;
    if (client == NULL) {
        return NULL;
    }
    *client = (struct eviction_client){
        .next = eviction->slots[slot_of(eviction, hash)],
        .address = *address,
        .hash = hash,
        .at = {NOT_IN_HEAP, NOT_IN_HEAP},
    };
    list_init(&client->node);
    list_init(&client->silent);
    list_init(&client->spoken);
    eviction->slots[slot_of(eviction, hash)] = client;
    eviction->n_clients++;
    return client;
}

/* NULL: no memory for a new one. */
static struct eviction_client *find_client(struct eviction *eviction, const struct address *address)
{
    const struct address client_address =
        address->family == ADDRESS_IPV6 ? address_mask(*address, CLIENT_IPV6_BITS) : *address;
    const uint64_t hash =
        hash_table(&eviction->key, span_of((const char *)&client_address, sizeof(client_address)))
            .low;
    struct eviction_client *client =
        eviction->n_slots > 0 ? eviction->slots[slot_of(eviction, hash)] : NULL;
    while (client != NULL && !address_equals(&client->address, &client_address)) {
        client = client->next;
    }
    return client != NULL ? client : new_client(eviction, &client_address, hash);
}

static void free_client(struct eviction *eviction, struct eviction_client *client)
{
    struct eviction_client **link = &eviction->slots[slot_of(eviction, client->hash)];
    while (*link != client) {
        link = &(*link)->next;
    }
    *link = client->next;
    list_remove(&client->node);
    eviction->n_clients--;
    free(client);
}

/* --- candidates --- */

void eviction_init(struct eviction *eviction)
{
    *eviction = (struct eviction){.key = hash_key_new()};
    pthread_mutex_init(&eviction->lock, NULL);
    list_init(&eviction->skipped);
    atomic_init(&eviction->n_pending, 0);
}

void eviction_close(struct eviction *eviction)
{
    assert(eviction->n_clients == 0);
    pthread_mutex_destroy(&eviction->lock);
    free(eviction->slots);
    for (size_t rank = 0; rank < EVICTION_RANKS; rank++) {
        free(eviction->heaps[rank].clients);
    }
}

void eviction_candidate_init(struct eviction_candidate *candidate, struct list *victims)
{
    *candidate = (struct eviction_candidate){.victims = victims};
    list_init(&candidate->node);
    atomic_init(&candidate->evictable_from_us, EVICTION_NEVER);
}

void eviction_add(struct eviction *eviction, struct eviction_candidate *candidate,
                  const struct address *address, uint64_t evictable_from_us)
{
    assert(candidate->client == NULL && !candidate->is_victim);
    eviction_publish(candidate, evictable_from_us);
    pthread_mutex_lock(&eviction->lock);
    struct eviction_client *client = find_client(eviction, address);
    if (client != NULL) {
        candidate->client = client;
        list_push_back(candidate->has_spoken ? &client->spoken : &client->silent, &candidate->node);
        change_count(eviction, RANK_BY_ALL, client, 1);
        if (!candidate->has_spoken) {
            change_count(eviction, RANK_BY_SILENT, client, 1);
        }
    }
    pthread_mutex_unlock(&eviction->lock);
}

void eviction_note_spoken(struct eviction *eviction, struct eviction_candidate *candidate)
{
    pthread_mutex_lock(&eviction->lock);
    if (candidate->client != NULL && !candidate->has_spoken) {
        list_remove(&candidate->node);
        list_push_back(&candidate->client->spoken, &candidate->node);
        change_count(eviction, RANK_BY_SILENT, candidate->client, -1);
    }
    candidate->has_spoken = true;
    pthread_mutex_unlock(&eviction->lock);
}

/* No longer a candidate. */
static void remove_candidate(struct eviction *eviction, struct eviction_candidate *candidate)
{
    struct eviction_client *client = candidate->client;
    list_remove(&candidate->node);
    candidate->client = NULL;
    change_count(eviction, RANK_BY_ALL, client, -1);
    if (!candidate->has_spoken) {
        change_count(eviction, RANK_BY_SILENT, client, -1);
    }
    if (client->n[RANK_BY_ALL] == 0) {
        free_client(eviction, client);
    }
}

/* Out of the list of victims. */
static void leave_victims(struct eviction *eviction, struct eviction_candidate *candidate)
{
    list_remove(&candidate->node);
    candidate->is_victim = false;
    atomic_fetch_sub_explicit(&eviction->n_pending, 1, memory_order_relaxed);
}

void eviction_remove(struct eviction *eviction, struct eviction_candidate *candidate)
{
    pthread_mutex_lock(&eviction->lock);
    if (candidate->is_victim) {
        leave_victims(eviction, candidate);
    } else if (candidate->client != NULL) {
        remove_candidate(eviction, candidate);
    }
    pthread_mutex_unlock(&eviction->lock);
}

/* --- victims --- */

static struct eviction_candidate *candidate_at(struct list *node)
{
    return CONTAINER_OF(node, struct eviction_candidate, node);
}

static uint64_t evictable_from(const struct eviction_candidate *candidate)
{
    return atomic_load_explicit(&candidate->evictable_from_us, memory_order_relaxed);
}

/* The oldest silent connection of the client with the most of them, if its grace is over. */
static struct eviction_candidate *choose_silent(const struct eviction *eviction, uint64_t now_us)
{
    const struct eviction_heap *heap = &eviction->heaps[RANK_BY_SILENT];
    const size_t n_looks = heap->n < HEAP_LOOKS ? heap->n : HEAP_LOOKS;
    struct eviction_candidate *chosen = NULL;
    uint32_t n_most = 0;
    for (size_t i = 0; i < n_looks; i++) {
        const struct eviction_client *client = heap->clients[i];
        struct eviction_candidate *oldest = candidate_at(client->silent.next);
        if (client->n[RANK_BY_SILENT] > n_most && evictable_from(oldest) <= now_us) {
            n_most = client->n[RANK_BY_SILENT];
            chosen = oldest;
        }
    }
    return chosen;
}

/* Of @client the connection that has waited longest. Where none has waited long enough and it has
 * several: the oldest silent one. Where it has none of these and many others: one that has waited
 * less, since a client could open new ones faster than the grace of the old ones ends. Takes what
 * it looks at off @n_looks. */
static struct eviction_candidate *choose_of(struct eviction_client *client, uint64_t now_us,
                                            unsigned *n_looks)
{
    struct eviction_candidate *chosen = NULL;
    struct eviction_candidate *young = NULL;
    struct eviction_candidate *silent =
        list_is_empty(&client->silent) ? NULL : candidate_at(client->silent.next);
    uint64_t longest_us = now_us + 1;
    uint64_t young_us = EVICTION_NEVER;
    struct list *end = client->spoken.prev; /* those that were looked at go behind it */
    for (struct list *node = client->spoken.next; node != &client->spoken && *n_looks > 0;
         --*n_looks) {
        struct list *next = node->next;
        const uint64_t from_us = evictable_from(candidate_at(node));
        if (from_us < longest_us) {
            longest_us = from_us;
            chosen = candidate_at(node);
        } else if (from_us < young_us) {
            young_us = from_us;
            young = candidate_at(node);
        }
        list_remove(node);
        list_push_back(&client->spoken, node);
        if (node == end) {
            break;
        }
        node = next;
    }
    if (silent != NULL && evictable_from(silent) < longest_us) {
        chosen = silent;
    }
    if (chosen == NULL && silent != NULL && client->n[RANK_BY_ALL] > 1) {
        return silent;
    }
    return chosen == NULL && client->n[RANK_BY_ALL] >= CONNECTIONS_MANY ? young : chosen;
}

/* Clients in which nothing could be evicted come back. */
static void unskip(struct eviction *eviction, uint64_t now_us)
{
    if (now_us < eviction->skipped_until_us) {
        return;
    }
    while (!list_is_empty(&eviction->skipped)) {
        struct eviction_client *client =
            CONTAINER_OF(eviction->skipped.next, struct eviction_client, node);
        list_remove(&client->node);
        heap_insert(eviction, RANK_BY_ALL, client);
    }
}

static void skip(struct eviction *eviction, struct eviction_client *client, uint64_t now_us)
{
    if (list_is_empty(&eviction->skipped)) {
        eviction->skipped_until_us = now_us + SKIPPED_US;
    }
    heap_remove(eviction, RANK_BY_ALL, client);
    list_push_back(&eviction->skipped, &client->node);
}

/* One of the client with the most that has any to give. */
static struct eviction_candidate *choose_of_most(struct eviction *eviction, uint64_t now_us)
{
    struct eviction_heap *heap = &eviction->heaps[RANK_BY_ALL];
    unsigned n_looks = EVICTION_LOOKS_MAX;
    unskip(eviction, now_us);
    while (heap->n > 0 && n_looks > 0) {
        struct eviction_candidate *chosen = choose_of(heap->clients[0], now_us, &n_looks);
        if (chosen != NULL) {
            return chosen;
        }
        skip(eviction, heap->clients[0], now_us);
        n_looks -= n_looks > 0; /* of one that had only a silent connection */
    }
    return NULL;
}

struct list *eviction_choose(struct eviction *eviction, const struct list *own_victims,
                             uint64_t now_us, struct eviction_candidate **own_victim)
{
    struct eviction_candidate *chosen = NULL;
    struct list *victims = NULL;
    pthread_mutex_lock(&eviction->lock);
    if (eviction_n_pending(eviction) < EVICTIONS_PENDING_MAX) {
        chosen = choose_silent(eviction, now_us);
        chosen = chosen != NULL ? chosen : choose_of_most(eviction, now_us);
    }
    if (chosen != NULL) {
        remove_candidate(eviction, chosen);
        victims = chosen->victims;
    }
    if (chosen != NULL && victims != own_victims) {
        chosen->is_victim = true;
        list_push_back(victims, &chosen->node);
        atomic_fetch_add_explicit(&eviction->n_pending, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&eviction->lock);
    *own_victim = victims == own_victims ? chosen : NULL;
    return victims;
}

struct eviction_candidate *eviction_next_victim(struct eviction *eviction, struct list *victims)
{
    struct eviction_candidate *victim = NULL;
    pthread_mutex_lock(&eviction->lock);
    if (!list_is_empty(victims)) {
        victim = candidate_at(victims->next);
        leave_victims(eviction, victim);
    }
    pthread_mutex_unlock(&eviction->lock);
    return victim;
}
