/* Changes go to the entries and to the table that workers read, under one lock. If the table has no
 * lines left, a new one is made and swapped in under a second lock, held only for the swap, so a
 * worker that refreshes its view waits for nothing else. A table is freed with its last reader. A
 * change has a constant cost, except one that makes a table, which happens at most once in as many
 * changes as a quarter of the bans, and one that removes what has ended: it looks at all bans, of
 * many once a second at most. */

#include "store/bans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/bans/ban_table.h"

static const char MODULE[] = "store.bans";

enum {
    BUCKETS = 16384,
    FEW = 4096, /* that may be looked at for each change */
    PAUSE_US = 1000 * 1000,
};

struct entry {
    struct entry *next; /* in its bucket */
    struct ban ban;     /* its texts follow the entry */
    struct hash128 tag;
    size_t line;       /* in bans->table */
    uint64_t ends_us;  /* monotonic */
    uint64_t reported; /* the latest report of all bans that contained it */
    char texts[];
};

struct bans {
    struct hash_key key;
    pthread_mutex_t lock; /* of the entries and the counters */
    struct entry *buckets[BUCKETS];
    size_t n;
    size_t n_max;
    size_t n_unobeyed;          /* bans without room, in the latest report of all bans and since */
    size_t n_unobeyed_reported; /* the same in the current report */
    uint64_t reporting;         /* number of the report, incremented with each */
    bool is_reporting;
    size_t restored;      /* buckets before it have no entry that was lost by Redis */
    uint64_t soonest_us;  /* no entry ends before */
    uint64_t searched_us; /* when the entries that had ended were searched for last */

    pthread_mutex_t swap;    /* of table and its n_readers */
    struct ban_table *table; /* the pointer is written under both locks, the lines under lock */
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
    made->restored = BUCKETS;
    made->soonest_us = UINT64_MAX;
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

/* --- the table of the readers --- */

/* Releases @table for one reader or for @bans. The caller holds the swap lock. */
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

/* Makes a table for all entries and one more. */
static enum status make_table(struct bans *bans)
{
    struct ban_table *table = ban_table_new(&bans->key, bans->n + 1);
    if (table == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct entry *entry = bans->buckets[i]; entry != NULL; entry = entry->next) {
            entry->line = ban_table_add(table, &entry->ban, entry->tag, entry->ends_us);
        }
    }
    swap(bans, table);
    return STATUS_OK;
}

/* Makes sure that another line can be added. */
static enum status make_line(struct bans *bans)
{
    const struct ban_table *table = bans->table;
    if (table != NULL && ban_table_has_room(table) && !ban_table_is_sparse(table, bans->n)) {
        return STATUS_OK;
    }
    return make_table(bans);
}

/* --- the entries --- */

/* Only an operator can choose hashes, so any part of the hash is spread well enough. */
static struct entry **bucket_of(struct bans *bans, const uint8_t hash[HASH_IDENTITY_BYTES])
{
    uint16_t number;
    memcpy(&number, hash, sizeof(number));
    return &bans->buckets[number % BUCKETS];
}

/* The link to the entry of @limit and @hash, or the link that ends its bucket. */
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
    if (--bans->n == 0) {
        swap(bans, NULL);
    } else {
        ban_table_lift(bans->table, entry->line);
    }
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

/* Copies @ban to @to, and its texts to @texts, which has room for all of them. */
static void copy(const struct ban *ban, struct ban *to, char *texts)
{
    *to = *ban;
    to->limit = keep(&texts, ban->limit);
    to->identity = keep(&texts, ban->identity);
    to->by = keep(&texts, ban->by);
    to->reason = keep(&texts, ban->reason);
}

static struct entry *new_entry(const struct bans *bans, const struct ban *ban)
{
    struct entry *entry =
        malloc(sizeof(*entry) + ban->limit.len + ban->identity.len + ban->by.len + ban->reason.len);
    if (entry != NULL) {
        copy(ban, &entry->ban, entry->texts);
        entry->tag = ban_table_tag(&bans->key, ban);
    }
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
    if (now_us < bans->soonest_us) {
        return;
    }
    bans->soonest_us = UINT64_MAX;
    bans->searched_us = now_us;
    for (size_t i = 0; i < BUCKETS; i++) {
        struct entry **link = &bans->buckets[i];
        while (*link != NULL) {
            const uint64_t ends_us = (*link)->ends_us;
            if (ends_us <= now_us) {
                drop(bans, link);
                continue;
            }
            bans->soonest_us = ends_us < bans->soonest_us ? ends_us : bans->soonest_us;
            link = &(*link)->next;
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

/* Whether @entry takes over the line of @old, which may be NULL. */
static bool has_line(const struct entry *entry, const struct entry *old)
{
    return old != NULL && old->tag.low == entry->tag.low && old->tag.high == entry->tag.high;
}

static void add_line(struct bans *bans, struct entry *entry, const struct entry *old)
{
    if (has_line(entry, old)) {
        entry->line = old->line;
        ban_table_change(bans->table, entry->line, &entry->ban, entry->ends_us);
        return;
    }
    entry->line = ban_table_add(bans->table, &entry->ban, entry->tag, entry->ends_us);
    if (old != NULL) { /* its identity was not known, or no longer is */
        ban_table_lift(bans->table, old->line);
    }
}

/* Adds @entry in place of @old, which may be NULL and is freed. */
static void add(struct bans *bans, struct entry *entry, struct entry *old)
{
    struct entry **link = find(bans, entry->ban.limit, entry->ban.hash);
    entry->next = old != NULL ? old->next : NULL;
    *link = entry;
    bans->n += old == NULL;
    bans->soonest_us = entry->ends_us < bans->soonest_us ? entry->ends_us : bans->soonest_us;
    add_line(bans, entry, old);
    free(old);
}

static enum status put(struct bans *bans, const struct ban *ban, uint64_t ends_us, uint64_t now_us)
{
    struct entry *old = *find(bans, ban->limit, ban->hash);
    if (old != NULL && is_same(&old->ban, ban)) {
        old->reported = bans->reporting;
        return STATUS_OK;
    }
    if (old == NULL && !make_room(bans, now_us)) {
        return STATUS_FULL;
    }
    struct entry *entry = new_entry(bans, ban);
    if (entry == NULL || (!has_line(entry, old) && make_line(bans) != STATUS_OK)) {
        free(entry);
        return STATUS_NO_MEMORY;
    }
    entry->ends_us = ends_us;
    entry->reported = bans->reporting;
    add(bans, entry, old);
    return STATUS_OK;
}

enum status bans_put(struct bans *bans, const struct ban *ban, uint64_t ends_us, uint64_t now_us)
{
    pthread_mutex_lock(&bans->lock);
    const enum status status = put(bans, ban, ends_us, now_us);
    pthread_mutex_unlock(&bans->lock);
    return status;
}

/* Removes the entry of @limit and @hash, if its kind is *@kind; NULL: whatever its kind. */
static bool remove_one(struct bans *bans, struct span limit, const uint8_t *hash,
                       const enum ban_kind *kind)
{
    pthread_mutex_lock(&bans->lock);
    struct entry **link = find(bans, limit, hash);
    const bool was_there = *link != NULL && (kind == NULL || (*link)->ban.kind == *kind);
    if (was_there) {
        drop(bans, link);
    }
    pthread_mutex_unlock(&bans->lock);
    return was_there;
}

bool bans_remove(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES])
{
    return remove_one(bans, limit, hash, NULL);
}

bool bans_remove_kind(struct bans *bans, const struct ban *ban)
{
    return remove_one(bans, ban->limit, ban->hash, &ban->kind);
}

/* Logs @n if it has changed. */
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
    if (bans->is_reporting) {
        bans->n_unobeyed_reported++;
    } else {
        set_unobeyed(bans, bans->n_unobeyed + 1);
    }
    pthread_mutex_unlock(&bans->lock);
}

void bans_begin_telling(struct bans *bans)
{
    pthread_mutex_lock(&bans->lock);
    bans->reporting++;
    bans->is_reporting = true;
    bans->restored = BUCKETS;
    bans->n_unobeyed_reported = 0;
    pthread_mutex_unlock(&bans->lock);
}

/* Of the entries that were not reported, those that end after @lost_us become missing, and the
 * others are removed. */
static size_t end_telling(struct bans *bans, uint64_t lost_us)
{
    size_t n_missing = 0;
    pthread_mutex_lock(&bans->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        struct entry **link = &bans->buckets[i];
        while (*link != NULL) {
            const struct entry *entry = *link;
            if (entry->reported != bans->reporting && entry->ends_us <= lost_us) {
                drop(bans, link);
                continue;
            }
            n_missing += entry->reported != bans->reporting;
            link = &(*link)->next;
        }
    }
    bans->is_reporting = false;
    bans->restored = n_missing > 0 ? 0 : BUCKETS;
    set_unobeyed(bans, bans->n_unobeyed_reported);
    pthread_mutex_unlock(&bans->lock);
    return n_missing;
}

void bans_end_telling(struct bans *bans)
{
    (void)end_telling(bans, UINT64_MAX);
}

size_t bans_end_reporting_missing(struct bans *bans, uint64_t now_us)
{
    return end_telling(bans, now_us);
}

/* The next missing entry, which is not missing any more; NULL: there is none. */
static struct entry *take_missing(struct bans *bans)
{
    for (; bans->restored < BUCKETS; bans->restored++) {
        struct entry *entry = bans->buckets[bans->restored];
        for (; entry != NULL; entry = entry->next) {
            if (entry->reported != bans->reporting) {
                entry->reported = bans->reporting;
                return entry;
            }
        }
    }
    return NULL;
}

bool bans_take_missing(struct bans *bans, uint64_t now_us, struct ban_to_restore *restored)
{
    pthread_mutex_lock(&bans->lock);
    const struct entry *entry = take_missing(bans);
    while (entry != NULL && entry->ends_us <= now_us) {
        entry = take_missing(bans);
    }
    if (entry != NULL) {
        copy(&entry->ban, &restored->ban, restored->texts);
    }
    pthread_mutex_unlock(&bans->lock);
    return entry != NULL;
}

struct bans_counters bans_count(struct bans *bans)
{
    pthread_mutex_lock(&bans->lock);
    const struct bans_counters counters = {
        .n = bans->n, .n_max = bans->n_max, .n_unobeyed = bans->n_unobeyed};
    pthread_mutex_unlock(&bans->lock);
    return counters;
}

static void count_one(void *context, const struct ban *ban, uint64_t left_us)
{
    (void)ban;
    (void)left_us;
    (*(size_t *)context)++;
}

size_t bans_count_holding(struct bans *bans, uint64_t now_us)
{
    size_t n = 0;
    bans_list(bans, now_us, count_one, &n);
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

/* The entry of the longest prefix that covers @identity; NULL: none is in force. */
static const struct entry *find_cover(const struct bans *bans, struct span limit,
                                      struct span identity, uint64_t now_us)
{
    const struct entry *found = NULL;
    struct address_prefix client;
    struct address_prefix prefix;
    size_t bits = 0; /* of @found, and one */
    if (!ban_table_read_client(identity, &client)) {
        return NULL;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct entry *entry = bans->buckets[i]; entry != NULL; entry = entry->next) {
            if (entry->ends_us > now_us && span_equals(entry->ban.limit, limit) &&
                ban_table_read_prefix(entry->ban.identity, &prefix) && prefix.bits >= bits &&
                address_prefix_covers(&prefix, &client.base)) {
                bits = prefix.bits + 1U;
                found = entry;
            }
        }
    }
    return found;
}

bool bans_find(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
               struct span identity, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context)
{
    pthread_mutex_lock(&bans->lock);
    const struct entry *entry = *find(bans, limit, hash);
    if (entry == NULL || entry->ends_us <= now_us) {
        entry = find_cover(bans, limit, identity, now_us);
    }
    if (entry != NULL) {
        on_ban(context, &entry->ban, entry->ends_us - now_us);
    }
    pthread_mutex_unlock(&bans->lock);
    return entry != NULL;
}

void bans_expire(struct bans *bans, uint64_t now_us)
{
    pthread_mutex_lock(&bans->lock);
    if (bans->n <= FEW || now_us - bans->searched_us >= PAUSE_US) {
        drop_ended(bans, now_us);
    }
    pthread_mutex_unlock(&bans->lock);
}

/* --- views --- */

void bans_view_init(struct bans_view *view, struct bans *bans)
{
    *view = (struct bans_view){.bans = bans};
    if (bans != NULL) {
        view->version = &bans->version;
    }
}

/* The view's table without const: its n_readers is written, under the swap lock. */
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
