/* Changes go to the entries, under a lock; bans_publish() makes a table of them, and swaps it in
 * under another lock, which is held for no longer than that: a worker that swaps its view never
 * waits for a list that is being written. A table goes with its last reader. */

#include "store/bans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/ban_table.h"

static const char MODULE[] = "store.bans";

enum { BUCKETS = 4096 };

struct entry {
    struct entry *next; /* in its bucket */
    struct ban ban;     /* its texts follow the entry */
    struct hash128 tag;
    uint64_t ends_us; /* monotonic */
    uint64_t told;    /* the latest telling that it was part of */
    bool is_lost;     /* it was not, and is to be set again */
    char texts[];
};

struct bans {
    struct hash_key key;
    pthread_mutex_t lock; /* of the entries, and what is counted */
    struct entry *buckets[BUCKETS];
    size_t n;
    size_t n_max;
    size_t n_unobeyed;      /* that there is no room for, as of the latest telling and since */
    size_t n_unobeyed_told; /* in the one that is under way */
    uint64_t telling;       /* counted up with each */
    bool is_telling;
    bool is_changed; /* since it was published */

    pthread_mutex_t swap; /* of what readers take */
    struct ban_table *table;
    atomic_uint_fast64_t version;
};

enum status bans_new(size_t n_max, struct bans **bans)
{
    struct bans *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->key = hash_key_new();
    made->n_max = n_max;
    pthread_mutex_init(&made->lock, NULL); /* plain mutexes: cannot fail on Linux */
    pthread_mutex_init(&made->swap, NULL);
    atomic_init(&made->version, 1);
    *bans = made;
    return STATUS_OK;
}

void bans_free(struct bans *bans)
{
    if (bans == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        while (bans->buckets[i] != NULL) {
            struct entry *entry = bans->buckets[i];
            bans->buckets[i] = entry->next;
            free(entry);
        }
    }
    free(bans->table);
    pthread_mutex_destroy(&bans->lock);
    pthread_mutex_destroy(&bans->swap);
    free(bans);
}

void bans_set_max(struct bans *bans, size_t n_max)
{
    pthread_mutex_lock(&bans->lock);
    bans->n_max = n_max;
    pthread_mutex_unlock(&bans->lock);
}

/* --- the entries --- */

/* Who chooses hashes may ban: any part of one spreads well enough. */
static struct entry **bucket_of(struct bans *bans, const uint8_t hash[HASH_IDENTITY_BYTES])
{
    uint16_t number;
    memcpy(&number, hash, sizeof(number));
    return &bans->buckets[number % BUCKETS];
}

/* Where the entry of @limit and @hash is linked, or the link that ends its bucket. */
static struct entry **find(struct bans *bans, struct span limit,
                           const uint8_t hash[HASH_IDENTITY_BYTES])
{
    struct entry **link = bucket_of(bans, hash);
    while (*link != NULL && (memcmp((*link)->ban.hash, hash, HASH_IDENTITY_BYTES) != 0 ||
                             !span_equals((*link)->ban.limit, limit))) {
        link = &(*link)->next;
    }
    return link;
}

static void drop(struct bans *bans, struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    bans->n--;
    bans->is_changed = true;
    free(entry);
}

static struct span keep(char **texts, struct span span)
{
    const struct span kept = span_of(*texts, span.len);
    if (span.len > 0) {
        memcpy(*texts, span.data, span.len);
    }
    *texts += span.len;
    return kept;
}

static struct entry *new_entry(const struct bans *bans, const struct ban *ban)
{
    struct entry *entry =
        malloc(sizeof(*entry) + ban->limit.len + ban->identity.len + ban->by.len + ban->reason.len);
    if (entry == NULL) {
        return NULL;
    }
    char *texts = entry->texts;
    entry->ban = *ban;
    entry->ban.limit = keep(&texts, ban->limit);
    entry->ban.identity = keep(&texts, ban->identity);
    entry->ban.by = keep(&texts, ban->by);
    entry->ban.reason = keep(&texts, ban->reason);
    entry->tag = ban_table_tag(&bans->key, ban);
    return entry;
}

static bool is_same(const struct ban *a, const struct ban *b)
{
    return a->kind == b->kind && a->until_ms == b->until_ms && a->set_ms == b->set_ms &&
           span_equals(a->identity, b->identity) && span_equals(a->by, b->by) &&
           span_equals(a->reason, b->reason);
}

static void drop_ended(struct bans *bans, uint64_t now_us)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct entry **link = &bans->buckets[i];
        while (*link != NULL) {
            if ((*link)->ends_us <= now_us) {
                drop(bans, link);
            } else {
                link = &(*link)->next;
            }
        }
    }
}

/* Whether there is room for one more. */
static bool make_room(struct bans *bans, uint64_t now_us)
{
    if (bans->n >= bans->n_max) {
        drop_ended(bans, now_us);
    }
    return bans->n < bans->n_max;
}

static enum status put(struct bans *bans, const struct ban *ban, uint64_t ends_us, uint64_t now_us)
{
    struct entry **link = find(bans, ban->limit, ban->hash);
    if (*link != NULL && is_same(&(*link)->ban, ban)) {
        (*link)->told = bans->telling;
        return STATUS_OK;
    }
    if (*link == NULL && !make_room(bans, now_us)) {
        return STATUS_FULL;
    }
    struct entry *entry = new_entry(bans, ban);
    if (entry == NULL) {
        return STATUS_NO_MEMORY;
    }
    entry->ends_us = ends_us;
    entry->told = bans->telling;
    entry->is_lost = false;
    link = find(bans, ban->limit, ban->hash); /* making room may have moved it */
    if (*link != NULL) {
        drop(bans, link);
    }
    entry->next = *link;
    *link = entry;
    bans->n++;
    bans->is_changed = true;
    return STATUS_OK;
}

enum status bans_put(struct bans *bans, const struct ban *ban, uint64_t ends_us, uint64_t now_us)
{
    pthread_mutex_lock(&bans->lock);
    const enum status status = put(bans, ban, ends_us, now_us);
    pthread_mutex_unlock(&bans->lock);
    return status;
}

bool bans_remove(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES])
{
    pthread_mutex_lock(&bans->lock);
    struct entry **link = find(bans, limit, hash);
    const bool was_there = *link != NULL;
    if (was_there) {
        drop(bans, link);
    }
    pthread_mutex_unlock(&bans->lock);
    return was_there;
}

bool bans_remove_kind(struct bans *bans, const struct ban *ban)
{
    pthread_mutex_lock(&bans->lock);
    struct entry **link = find(bans, ban->limit, ban->hash);
    const bool was_there = *link != NULL && (*link)->ban.kind == ban->kind;
    if (was_there) {
        drop(bans, link);
    }
    pthread_mutex_unlock(&bans->lock);
    return was_there;
}

/* The log hears of a number once. */
static void set_unobeyed(struct bans *bans, size_t n)
{
    if (n > 0 && n != bans->n_unobeyed) {
        log_error(MODULE, "more bans and exemptions than max.bans: some are not obeyed here",
                  "n=%zu max=%zu", n, bans->n_max);
    } else if (n == 0 && bans->n_unobeyed > 0) {
        log_info(MODULE, "all bans and exemptions are obeyed again", "max=%zu", bans->n_max);
    }
    bans->n_unobeyed = n;
}

void bans_note_unobeyed(struct bans *bans)
{
    pthread_mutex_lock(&bans->lock);
    if (bans->is_telling) {
        bans->n_unobeyed_told++;
    } else {
        set_unobeyed(bans, bans->n_unobeyed + 1);
    }
    pthread_mutex_unlock(&bans->lock);
}

void bans_begin_telling(struct bans *bans)
{
    pthread_mutex_lock(&bans->lock);
    bans->telling++;
    bans->is_telling = true;
    bans->n_unobeyed_told = 0;
    pthread_mutex_unlock(&bans->lock);
}

/* Those that end after @lost_us are lost, if they were not told. */
static size_t end_telling(struct bans *bans, uint64_t lost_us)
{
    size_t n_lost = 0;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        struct entry **link = &bans->buckets[i];
        while (*link != NULL) {
            const bool is_untold = (*link)->told != bans->telling;
            (*link)->is_lost = is_untold && (*link)->ends_us > lost_us;
            n_lost += (*link)->is_lost;
            if (is_untold && !(*link)->is_lost) {
                drop(bans, link);
            } else {
                link = &(*link)->next;
            }
        }
    }
    bans->is_telling = false;
    set_unobeyed(bans, bans->n_unobeyed_told);
    pthread_mutex_unlock(&bans->lock);
    return n_lost;
}

void bans_end_telling(struct bans *bans)
{
    (void)end_telling(bans, UINT64_MAX);
}

size_t bans_end_telling_lost(struct bans *bans, uint64_t now_us)
{
    return end_telling(bans, now_us);
}

static void copy(const struct ban *ban, struct ban_again *again)
{
    char *texts = again->texts;
    again->ban = *ban;
    again->ban.limit = keep(&texts, ban->limit);
    again->ban.identity = keep(&texts, ban->identity);
    again->ban.by = keep(&texts, ban->by);
    again->ban.reason = keep(&texts, ban->reason);
}

bool bans_take_lost(struct bans *bans, uint64_t now_us, struct ban_again *again)
{
    bool is_found = false;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < BUCKETS && !is_found; i++) {
        for (struct entry *entry = bans->buckets[i]; entry != NULL && !is_found;
             entry = entry->next) {
            is_found = entry->is_lost && entry->ends_us > now_us;
            if (is_found) {
                entry->is_lost = false;
                copy(&entry->ban, again);
            }
        }
    }
    pthread_mutex_unlock(&bans->lock);
    return is_found;
}

struct bans_counters bans_count(struct bans *bans)
{
    pthread_mutex_lock(&bans->lock);
    const struct bans_counters counters = {
        .n = bans->n, .n_max = bans->n_max, .n_unobeyed = bans->n_unobeyed};
    pthread_mutex_unlock(&bans->lock);
    return counters;
}

size_t bans_count_holding(struct bans *bans, uint64_t now_us)
{
    size_t n = 0;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct entry *entry = bans->buckets[i]; entry != NULL; entry = entry->next) {
            n += entry->ends_us > now_us;
        }
    }
    pthread_mutex_unlock(&bans->lock);
    return n;
}

void bans_list(struct bans *bans, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context)
{
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct entry *entry = bans->buckets[i]; entry != NULL; entry = entry->next) {
            if (entry->ends_us > now_us) {
                on_ban(context, &entry->ban, entry->ends_us - now_us);
            }
        }
    }
    pthread_mutex_unlock(&bans->lock);
}

bool bans_find(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
               uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context)
{
    pthread_mutex_lock(&bans->lock);
    const struct entry *entry = *find(bans, limit, hash);
    const bool holds = entry != NULL && entry->ends_us > now_us;
    if (holds) {
        on_ban(context, &entry->ban, entry->ends_us - now_us);
    }
    pthread_mutex_unlock(&bans->lock);
    return holds;
}

/* --- what readers see --- */

/* Let go of @table, which a reader or its maker has held. */
static void let_go(struct ban_table *table)
{
    if (table != NULL && --table->n_readers == 0) {
        free(table);
    }
}

static void swap(struct bans *bans, struct ban_table *table)
{
    pthread_mutex_lock(&bans->swap);
    if (table != NULL) {
        table->n_readers = 1;
    }
    let_go(bans->table);
    bans->table = table;
    atomic_fetch_add_explicit(&bans->version, 1, memory_order_release);
    pthread_mutex_unlock(&bans->swap);
}

/* Under the lock of the entries, so that tables are swapped in the order in which they are made. */
static enum status publish(struct bans *bans)
{
    struct ban_table *table = NULL;
    if (bans->n > 0) {
        table = ban_table_new(&bans->key, bans->n);
        if (table == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct entry *entry = bans->buckets[i]; entry != NULL; entry = entry->next) {
            ban_table_add(table, &entry->ban, entry->tag, entry->ends_us);
        }
    }
    bans->is_changed = false;
    swap(bans, table);
    return STATUS_OK;
}

enum status bans_publish(struct bans *bans, uint64_t now_us)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&bans->lock);
    drop_ended(bans, now_us);
    if (bans->is_changed) {
        status = publish(bans);
    }
    pthread_mutex_unlock(&bans->lock);
    return status;
}

void bans_view_init(struct bans_view *view, struct bans *bans)
{
    *view = (struct bans_view){.bans = bans};
    if (bans != NULL) {
        view->version = &bans->version;
    }
}

/* Only n_readers of a table is ever written, under the lock. */
static struct ban_table *held_by(const struct bans_view *view)
{
    union {
        const struct ban_table *table;
        struct ban_table *held;
    } of = {.table = view->table};
    return of.held;
}

void bans_view_renew(struct bans_view *view)
{
    struct bans *bans = view->bans;
    pthread_mutex_lock(&bans->swap);
    let_go(held_by(view));
    view->table = bans->table;
    view->seen = atomic_load_explicit(&bans->version, memory_order_relaxed);
    if (bans->table != NULL) {
        bans->table->n_readers++;
    }
    pthread_mutex_unlock(&bans->swap);
}

void bans_view_close(struct bans_view *view)
{
    if (view->bans != NULL) {
        pthread_mutex_lock(&view->bans->swap);
        let_go(held_by(view));
        pthread_mutex_unlock(&view->bans->swap);
    }
    *view = (struct bans_view){.bans = NULL};
}
