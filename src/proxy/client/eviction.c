#include "proxy/client/eviction.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM_MIN = 64,          /* clients in a heap */
    CONNECTIONS_MANY = 16,  /* more than a browser opens to one host */
    HEAP_LOOKS = 32,        /* clients in the heap that are checked for an old silent connection */
    SKIPPED_US = 10 * 1000, /* how long a client without a victim is skipped */
};

#define NOT_IN_HEAP UINT32_MAX
#define NOT_KNOWN UINT32_MAX

struct eviction_client {
    struct address address;      /* first: the key in eviction->clients */
    struct list node;            /* in eviction->skipped */
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

/* Add @step, 1 or -1, to the connections of @client that count for @rank. */
static void change_count(struct eviction *eviction, enum eviction_rank rank,
                         struct eviction_client *client, int step)
{
    struct eviction_heap *heap = &eviction->heaps[rank];
    const bool is_left_out = rank == RANK_BY_ALL && (!list_is_empty(&client->node) ||
                                                     client->address.family == ADDRESS_NONE);
    client->n[rank] += (uint32_t)step;
    if (client->n[rank] == 0) {
        if (client->at[rank] != NOT_IN_HEAP) {
            heap_remove(eviction, rank, client);
        }
    } else if (client->at[rank] == NOT_IN_HEAP) {
        if (!is_left_out) {
            heap_insert(eviction, rank, client);
        }
    } else if (step > 0) {
        heap_sift_up(heap, rank, client->at[rank]);
    } else {
        heap_sift_down(heap, rank, client->at[rank]);
    }
}

/* --- clients --- */

static int compare(const void *one, const void *other)
{
    return memcmp(one, other, sizeof(struct address));
}

/* Make room in the heaps for one more client. False: no memory. */
static bool make_room(struct eviction *eviction)
{
    if (eviction->n_clients < eviction->n_room) {
        return true;
    }
    const size_t n_room = eviction->n_room == 0 ? ROOM_MIN : 2 * eviction->n_room;
    for (size_t rank = 0; rank < EVICTION_RANKS; rank++) {
        struct eviction_client **clients =
            realloc(eviction->heaps[rank].clients, n_room * sizeof(struct eviction_client *));
        if (clients == NULL) {
            return false;
        }
        eviction->heaps[rank].clients = clients;
    }
    eviction->n_room = n_room;
    return true;
}

static struct eviction_client *new_client(struct eviction *eviction, const struct address *address)
{
    struct eviction_client *client = make_room(eviction) ? malloc(sizeof(*client)) : NULL;
    if (client == NULL) {
        return NULL;
    }
    *client = (struct eviction_client){.address = *address, .at = {NOT_IN_HEAP, NOT_IN_HEAP}};
    list_init(&client->node);
    list_init(&client->silent);
    list_init(&client->spoken);
    if (tsearch(client, &eviction->clients, compare) == NULL) {
        free(client);
        return NULL;
    }
    eviction->n_clients++;
    return client;
}

/* NULL: it has no candidates. */
static struct eviction_client *find_client(const struct eviction *eviction,
                                           const struct address *address)
{
    const struct address wanted = address_of_client(address);
    struct eviction_client **node = tfind(&wanted, &eviction->clients, compare);
    return node != NULL ? *node : NULL;
}

/* NULL: no memory for a new one. */
static struct eviction_client *find_or_make_client(struct eviction *eviction,
                                                   const struct address *address)
{
    const struct address wanted = address_of_client(address);
    struct eviction_client *client = find_client(eviction, address);
    return client != NULL ? client : new_client(eviction, &wanted);
}

static void free_client(struct eviction *eviction, struct eviction_client *client)
{
    tdelete(client, &eviction->clients, compare);
    list_remove(&client->node);
    eviction->n_clients--;
    free(client);
}

/* --- candidates --- */

void eviction_init(struct eviction *eviction)
{
    *eviction = (struct eviction){.clients = NULL};
    atomic_init(&eviction->n_slots, 0);
    pthread_mutex_init(&eviction->lock, NULL);
    list_init(&eviction->skipped);
    atomic_init(&eviction->n_pending, 0);
}

void eviction_close(struct eviction *eviction)
{
    assert(eviction->n_clients == 0);
    pthread_mutex_destroy(&eviction->lock);
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
    eviction_take_slot_again(eviction, candidate);
    pthread_mutex_lock(&eviction->lock);
    struct eviction_client *client = find_or_make_client(eviction, address);
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

/* Remove it from the candidates. */
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

/* Remove it from the pending victims, and from the list of victims if it is in one. */
static void leave_victims(struct eviction *eviction, struct eviction_candidate *candidate)
{
    list_remove(&candidate->node);
    candidate->is_victim = false;
    eviction->n_deferred -= candidate->is_deferred;
    candidate->is_deferred = false;
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

/* The oldest silent connection of the client with the most of them, among clients whose oldest one
 * has had its grace. */
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

/* The victim of @client: the connection that has waited longest, if that is long enough.
 * Otherwise, if the client has several connections: its oldest silent one. Otherwise, if it has
 * CONNECTIONS_MANY: one that has waited less, since a client could open new ones faster than the
 * grace of the old ones ends, or one that pipelines. Subtracts the connections checked from
 * @n_looks. */
static struct eviction_candidate *choose_of(struct eviction_client *client, uint64_t now_us,
                                            unsigned *n_looks)
{
    struct eviction_candidate *first = NULL;
    uint64_t first_us = EVICTION_NEVER;
    struct list *end = client->spoken.prev; /* connections that were checked go behind it */
    for (struct list *node = client->spoken.next; node != &client->spoken && *n_looks > 0;
         --*n_looks) {
        struct list *next = node->next;
        const uint64_t from_us = evictable_from(candidate_at(node));
        if (from_us < first_us) {
            first_us = from_us;
            first = candidate_at(node);
        }
        list_remove(node);
        list_push_back(&client->spoken, node);
        if (node == end) {
            break;
        }
        node = next;
    }
    struct eviction_candidate *silent =
        list_is_empty(&client->silent) ? NULL : candidate_at(client->silent.next);
    if (silent != NULL && evictable_from(silent) < first_us && evictable_from(silent) <= now_us) {
        return silent;
    }
    if (first_us <= now_us) {
        return first;
    }
    if (silent != NULL && client->n[RANK_BY_ALL] > 1) {
        return silent;
    }
    return client->n[RANK_BY_ALL] >= CONNECTIONS_MANY ? first : NULL;
}

/* Whether a victim of @client is due if the client of the new connection has @n_own. */
static bool owes(const struct eviction_client *client, uint32_t n_own)
{
    return client->n[RANK_BY_ALL] >= CONNECTIONS_MANY && client->n[RANK_BY_ALL] / 2 > n_own;
}

static bool may_defer(const struct eviction *eviction)
{
    return eviction->n_deferred < EVICTIONS_DEFERRED_MAX;
}

/* Put clients that were skipped or passed over back into the heap. */
static void return_all(struct eviction *eviction, struct list *clients)
{
    while (!list_is_empty(clients)) {
        struct eviction_client *client = CONTAINER_OF(clients->next, struct eviction_client, node);
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

/* A victim of the client with the most connections that has one. NULL also if all clients with
 * @n_own connections or more have none: clients with fewer give none to a client that keeps so
 * many in use. */
static struct eviction_candidate *choose_of_most(struct eviction *eviction, uint32_t n_own,
                                                 uint64_t now_us)
{
    struct eviction_heap *heap = &eviction->heaps[RANK_BY_ALL];
    struct eviction_candidate *chosen = NULL;
    unsigned n_looks = EVICTION_SCAN_MAX;
    struct list passed; /* clients whose victims in use are not due */
    list_init(&passed);
    if (now_us >= eviction->skipped_until_us) {
        return_all(eviction, &eviction->skipped);
    }
    while (heap->n > 0 && n_looks > 0 && chosen == NULL) {
        struct eviction_client *client = heap->clients[0];
        if (n_own != NOT_KNOWN && client->n[RANK_BY_ALL] < n_own) {
            break;
        }
        chosen = choose_of(client, now_us, &n_looks);
        const bool is_in_use = chosen != NULL && evictable_from(chosen) == EVICTION_AFTER_ANSWER;
        if (is_in_use && n_own == NOT_KNOWN) {
            chosen = NULL; /* without @n_own it cannot be due */
            break;
        }
        if (is_in_use && !owes(client, n_own)) {
            heap_remove(eviction, RANK_BY_ALL, client);
            list_push_back(&passed, &client->node);
            chosen = NULL;
        } else if (chosen == NULL || (is_in_use && !may_defer(eviction))) {
            skip(eviction, client, now_us);
            n_looks -= n_looks > 0; /* for a client with only a silent connection */
            chosen = NULL;
        }
    }
    return_all(eviction, &passed);
    return chosen;
}

struct list *eviction_choose(struct eviction *eviction, const struct address *newcomer,
                             const struct list *own_victims, uint64_t now_us,
                             struct eviction_candidate **own_victim)
{
    struct eviction_candidate *chosen = NULL;
    struct list *victims = NULL;
    pthread_mutex_lock(&eviction->lock);
    const bool is_named = newcomer != NULL && newcomer->family != ADDRESS_NONE;
    const struct eviction_client *own = is_named ? find_client(eviction, newcomer) : NULL;
    const uint32_t n_none = newcomer != NULL ? 0 : NOT_KNOWN;
    const uint32_t n_own = own != NULL ? own->n[RANK_BY_ALL] : n_none;
    if (eviction_n_pending(eviction) < EVICTIONS_PENDING_MAX) {
        chosen = choose_silent(eviction, now_us);
        chosen = chosen != NULL ? chosen : choose_of_most(eviction, n_own, now_us);
    }
    const bool is_due = chosen != NULL && owes(chosen->client, n_own);
    if (!is_due && eviction_n_pending(eviction) >= EVICTIONS_NOT_DUE_MAX) {
        chosen = NULL;
    }
    if (chosen != NULL) {
        chosen->is_due = is_due;
        chosen->gave_slot = true;
        atomic_fetch_sub_explicit(&eviction->n_slots, 1, memory_order_relaxed);
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

void eviction_take_slot_again(struct eviction *eviction, struct eviction_candidate *candidate)
{
    if (candidate->gave_slot) {
        candidate->gave_slot = false;
        atomic_fetch_add_explicit(&eviction->n_slots, 1, memory_order_relaxed);
    }
}

bool eviction_defer(struct eviction *eviction, struct eviction_candidate *candidate)
{
    assert(candidate->client == NULL && !candidate->is_victim);
    pthread_mutex_lock(&eviction->lock);
    const bool is_deferred = candidate->is_due && may_defer(eviction);
    if (is_deferred) {
        candidate->is_victim = true;
        candidate->is_deferred = true;
        eviction->n_deferred++;
        atomic_fetch_add_explicit(&eviction->n_pending, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&eviction->lock);
    return is_deferred;
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
