/* A change: the entries of a shard that stay are copied to a new one, with the entry that is added,
 * which is swapped in; the old one is retired, and freed when no reader announces it.
 *
 * Publish, then check: a reader announces the shard, then loads the pointer to it again; a writer
 * swaps the pointer, then looks for announcements. With sequentially consistent atomics one of them
 * sees the other, so no reader uses a shard that is freed. */

#include "store/replica.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "store/replica/replica_batch.h"
#include "store/replica/replica_shard.h"

enum {
    FEW = 4096, /* that may be looked at for each change */
    PAUSE_US = 1000 * 1000,
    BATCH_FEW = 8,    /* rows of a batch that is put at once: a few shards are copied */
    BATCH_MIN = 1024, /* rows of one that is put since there are many */
    BATCH_PART = 4,   /* one with this part of the records is */
    BATCH_BYTES_MAX = 4 * 1024 * 1024,
    BATCH_US_MAX = 250 * 1000,
};

struct replica {
    const char *module;
    const char *name;
    struct hash_key key;
    struct replica_life life;                               /* of the thread that reads */
    _Atomic(struct replica_shard *) shards[REPLICA_SHARDS]; /* NULL: empty */
    atomic_size_t n;                                        /* records */

    pthread_mutex_t lock; /* of the writers and of all that follows */
    size_t n_max;
    size_t n_unobeyed;
    size_t n_unobeyed_read; /* the same in the current reading */
    uint32_t reading;       /* number of the latest reading */
    bool is_reading;
    size_t n_ended;             /* shards that the current reading has ended */
    uint64_t soonest_us;        /* no record ends before */
    uint64_t searched_us;       /* when the records that had ended were searched for last */
    struct replica_batch batch; /* rows that were read and are not in the shards yet */
    struct replica_shard *retired;
    struct replica_reader *readers;
};

enum status replica_new(const char *module, const char *name, size_t n_max,
                        struct replica **replica)
{
    struct replica *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->module = module;
    made->name = name;
    made->key = hash_key_new();
    made->n_max = n_max;
    made->soonest_us = UINT64_MAX;
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    *replica = made;
    return STATUS_OK;
}

/* Frees the retired shards that no reader announces. */
static void free_retired(struct replica *replica)
{
    struct replica_shard **link = &replica->retired;
    while (*link != NULL) {
        struct replica_shard *shard = *link;
        const struct replica_reader *reader = replica->readers;
        while (reader != NULL && atomic_load(&reader->reads) != shard) {
            reader = reader->next;
        }
        if (reader == NULL) {
            *link = shard->next;
            free(shard);
        } else {
            link = &shard->next;
        }
    }
}

void replica_free(struct replica *replica)
{
    if (replica == NULL) {
        return;
    }
    free_retired(replica);
    replica_batch_reset(&replica->batch);
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        free(atomic_load_explicit(&replica->shards[i], memory_order_relaxed));
    }
    pthread_mutex_destroy(&replica->lock);
    free(replica);
}

void replica_set_max(struct replica *replica, size_t n_max)
{
    pthread_mutex_lock(&replica->lock);
    replica->n_max = n_max;
    pthread_mutex_unlock(&replica->lock);
}

struct hash128 replica_tag(const struct replica *replica, struct span text)
{
    return hash_table(&replica->key, text);
}

/* --- shards --- */

static struct replica_shard *shard_at(const struct replica *replica, size_t i)
{
    return atomic_load_explicit(&replica->shards[i], memory_order_relaxed);
}

static void swap(struct replica *replica, size_t i, struct replica_shard *shard)
{
    struct replica_shard *old = shard_at(replica, i);
    const size_t n = atomic_load_explicit(&replica->n, memory_order_relaxed);
    atomic_store(&replica->shards[i], shard);
    atomic_store_explicit(&replica->n,
                          n - (old != NULL ? old->n_records : 0) +
                              (shard != NULL ? shard->n_records : 0),
                          memory_order_release);
    if (old != NULL) {
        old->next = replica->retired;
        replica->retired = old;
    }
    free_retired(replica);
}

/* Makes shard @i anew. STATUS_NO_MEMORY: nothing has changed. */
static enum status change_shard(struct replica *replica, size_t i, const struct replica_edit *edit)
{
    struct replica_shard *shard;
    const enum status status = replica_shard_make(shard_at(replica, i), edit, &shard);
    if (status == STATUS_OK) {
        swap(replica, i, shard);
    }
    return status;
}

/* --- records --- */

/* A record and the alias that leads to it, as far as there are any. */
struct found {
    struct replica_entry *alias;
    struct replica_entry *record;
};

static struct replica_entry *find_at(const struct replica *replica, struct hash128 tag,
                                     struct span field)
{
    return replica_shard_find(shard_at(replica, replica_shard_index(tag)), tag, &field, 0);
}

static struct hash128 target_of(const struct replica_entry *alias)
{
    struct hash128 tag;
    memcpy(&tag, replica_entry_value(alias).data, sizeof(tag));
    return tag;
}

static struct found find_record(const struct replica *replica, struct hash128 of_field,
                                struct span field)
{
    struct found found = {.record = find_at(replica, of_field, field)};
    if (found.record != NULL && found.record->is_alias) {
        found.alias = found.record;
        found.record = find_at(replica, target_of(found.alias), field);
    }
    return found;
}

/* As find_record(), with the row of @field in the batch, or NULL. While a batch is put, one of its
 * two entries may be in its shard already. */
static struct found find_all(const struct replica *replica, struct hash128 of_field,
                             struct span field, struct replica_batched **batched)
{
    struct found found = find_record(replica, of_field, field);
    *batched = replica_batch_find(&replica->batch, of_field, field);
    if (*batched == NULL && found.alias != NULL) {
        *batched = replica_batch_find(&replica->batch, target_of(found.alias), field);
    } else if (*batched != NULL && found.record == NULL) {
        found.record = find_at(replica, (*batched)->record.tag, field);
    }
    return found;
}

/* Removes @entry. Without memory for another shard it stays there and has ended. */
static void drop(struct replica *replica, struct replica_entry *entry)
{
    if (entry == NULL) {
        return;
    }
    const struct replica_edit edit = {.left_out = entry};
    if (change_shard(replica, replica_shard_index(entry->tag), &edit) != STATUS_OK) {
        atomic_store_explicit(&entry->ends_us, 0, memory_order_relaxed);
    }
}

static void drop_ended(struct replica *replica, uint64_t now_us)
{
    if (now_us < replica->soonest_us) {
        return;
    }
    replica->soonest_us = UINT64_MAX;
    replica->searched_us = now_us;
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        const struct replica_shard *shard = shard_at(replica, i);
        bool has_ended = false;
        for (size_t at = 0; shard != NULL && at < shard->bytes;
             at += replica_entry_bytes(replica_shard_at(shard, at))) {
            const uint64_t ends_us =
                atomic_load_explicit(&replica_shard_at(shard, at)->ends_us, memory_order_relaxed);
            if (ends_us <= now_us) {
                has_ended = true;
            } else if (ends_us < replica->soonest_us) {
                replica->soonest_us = ends_us;
            }
        }
        const struct replica_edit edit = {.ended_us = now_us};
        if (has_ended && change_shard(replica, i, &edit) != STATUS_OK) {
            replica->soonest_us = now_us; /* tried again */
        }
    }
}

/* Whether there is room for one more beside @n_more that are to be put. */
static bool make_room(struct replica *replica, size_t n_more, uint64_t now_us)
{
    if (atomic_load_explicit(&replica->n, memory_order_relaxed) + n_more >= replica->n_max) {
        drop_ended(replica, now_us);
    }
    return atomic_load_explicit(&replica->n, memory_order_relaxed) + n_more < replica->n_max;
}

/* Adds the entry of @row with @tag to its shard. */
static enum status add_entry(struct replica *replica, const struct replica_row *row,
                             struct hash128 tag, bool is_alias)
{
    struct replica_added added = {.row = row, .tag = tag, .is_alias = is_alias};
    struct replica_added *const chain = &added;
    const struct replica_edit edit = {
        .added_reading = replica->reading,
        .n_chains = 1,
        .chains = &chain,
    };
    return change_shard(replica, replica_shard_index(tag), &edit);
}

/* Adds the record of @row, and the alias that it needs. */
static enum status add(struct replica *replica, const struct replica_row *row,
                       struct hash128 of_field)
{
    const bool has_alias = (row->tag.low | row->tag.high) != 0;
    const enum status status = has_alias ? add_entry(replica, row, row->tag, false) : STATUS_OK;
    return status == STATUS_OK ? add_entry(replica, row, of_field, has_alias) : status;
}

/* Whether a record of @row would have its entries where those of @old are. */
static bool is_tag_kept(const struct found *old, const struct replica_row *row)
{
    if (old->record == NULL) {
        return false;
    }
    return (row->tag.low | row->tag.high) == 0
               ? old->alias == NULL
               : old->alias != NULL && replica_tag_equals(old->record->tag, row->tag);
}

/* Whether @old is what @row says. Then it belongs to the current reading. */
static bool is_known(const struct replica *replica, const struct found *old,
                     const struct replica_row *row)
{
    if (!is_tag_kept(old, row) || !span_equals(replica_entry_value(old->record), row->value) ||
        atomic_load_explicit(&old->record->ends_us, memory_order_relaxed) == 0) {
        return false;
    }
    old->record->reading = replica->reading;
    if (old->alias != NULL) {
        old->alias->reading = replica->reading;
    }
    return true;
}

static void note_end(struct replica *replica, uint64_t ends_us)
{
    replica->soonest_us = ends_us < replica->soonest_us ? ends_us : replica->soonest_us;
}

/* Puts @row into the shards, in place of @old. */
static enum status put(struct replica *replica, const struct replica_row *row,
                       struct hash128 of_field, const struct found *old, uint64_t now_us)
{
    if (old->record == NULL && !make_room(replica, 0, now_us)) {
        return STATUS_FULL;
    }
    const bool is_kept = is_tag_kept(old, row);
    const struct hash128 old_tag = old->record != NULL ? old->record->tag : of_field;
    const enum status status = add(replica, row, of_field);
    if (status == STATUS_OK && !is_kept && !replica_tag_equals(old_tag, of_field) &&
        !replica_tag_equals(old_tag, row->tag)) {
        drop(replica, find_at(replica, old_tag, row->field));
    }
    note_end(replica, row->ends_us);
    return status;
}

/* Puts @row into the batch where that is possible. */
static enum status put_later(struct replica *replica, const struct replica_row *row,
                             struct hash128 of_field, const struct found *old, uint64_t now_us)
{
    if (old->record != NULL && !is_tag_kept(old, row)) {
        return put(replica, row, of_field, old, now_us); /* its entries move: in order */
    }
    if (old->record == NULL && !make_room(replica, replica->batch.n_new, now_us)) {
        return STATUS_FULL;
    }
    return replica_batch_add(&replica->batch, row, of_field, old->record == NULL, now_us);
}

/* Logs @n if it has changed. */
static void set_unobeyed(struct replica *replica, size_t n)
{
    char buffer[128];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    if (n > 0 && n != replica->n_unobeyed) {
        text_add_literal(&text, "more ");
        text_add(&text, span_of_text(replica->name));
        text_add_literal(&text, " than the maximum: some are not obeyed here");
        buffer[text.len] = '\0';
        log_error(replica->module, buffer, "n=%zu max=%zu", n, replica->n_max);
    } else if (n == 0 && replica->n_unobeyed > 0) {
        text_add_literal(&text, "all ");
        text_add(&text, span_of_text(replica->name));
        text_add_literal(&text, " are obeyed again");
        buffer[text.len] = '\0';
        log_info(replica->module, buffer, "max=%zu", replica->n_max);
    }
    replica->n_unobeyed = n;
}

static enum status put_now_or_later(struct replica *replica, const struct replica_row *row,
                                    uint64_t now_us, bool may_wait)
{
    struct replica_row own = *row;
    const struct hash128 of_field = replica_tag(replica, own.field);
    struct replica_batched *batched;
    if (own.field.len + own.value.len > REPLICA_TEXT_BYTES_MAX) {
        return STATUS_TOO_LARGE;
    }
    if (replica_tag_equals(own.tag, of_field)) {
        own.tag = (struct hash128){0};
    }
    const struct found old = find_all(replica, of_field, own.field, &batched);
    if (batched != NULL) {
        replica_batch_remove(&replica->batch, batched);
    }
    if (is_known(replica, &old, &own)) {
        return STATUS_OK;
    }
    return may_wait ? put_later(replica, &own, of_field, &old, now_us)
                    : put(replica, &own, of_field, &old, now_us);
}

static enum status lock_and_put(struct replica *replica, const struct replica_row *row,
                                uint64_t now_us, bool may_wait)
{
    pthread_mutex_lock(&replica->lock);
    const enum status status = put_now_or_later(replica, row, now_us, may_wait);
    if (status == STATUS_FULL && replica->is_reading) {
        replica->n_unobeyed_read++;
    } else if (status == STATUS_FULL) {
        set_unobeyed(replica, replica->n_unobeyed + 1);
    }
    pthread_mutex_unlock(&replica->lock);
    return status;
}

enum status replica_put(struct replica *replica, const struct replica_row *row, uint64_t now_us)
{
    return lock_and_put(replica, row, now_us, false);
}

enum status replica_put_later(struct replica *replica, const struct replica_row *row,
                              uint64_t now_us)
{
    return lock_and_put(replica, row, now_us, true);
}

/* --- all records at once --- */

/* Builds all shards of the entries in @chains. STATUS_NO_MEMORY: none. */
static enum status build_shards(const struct replica *replica, const struct replica_chains *chains,
                                struct replica_shard *shards[REPLICA_SHARDS])
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        const struct replica_edit edit = {
            .is_of_all = true,
            .added_reading = replica->reading,
            .n_chains = REPLICA_CHAINS,
            .chains = chains->of[i],
        };
        shards[i] = NULL;
        status = status == STATUS_OK ? replica_shard_make(NULL, &edit, &shards[i]) : status;
    }
    for (size_t i = 0; i < REPLICA_SHARDS && status != STATUS_OK; i++) {
        free(shards[i]);
    }
    return status;
}

/* Puts the entries in @chains in place of all others. */
static enum status replace_all(struct replica *replica, const struct replica_chains *chains,
                               uint64_t soonest_us)
{
    struct replica_shard *shards[REPLICA_SHARDS];
    const enum status status = build_shards(replica, chains, shards);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < REPLICA_SHARDS; i++) {
            swap(replica, i, shards[i]);
        }
        replica_batch_reset(&replica->batch);
        replica->soonest_us = soonest_us;
        set_unobeyed(replica, 0);
    }
    return status;
}

enum status replica_replace(struct replica *replica, struct replica_row *rows, size_t n)
{
    uint64_t soonest_us = UINT64_MAX;
    struct replica_chains *chains = calloc(1, sizeof(*chains));
    struct replica_added *added = calloc(n > 0 ? n : 1, sizeof(*added));
    enum status status = chains != NULL && added != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct hash128 tag = replica_tag(replica, rows[i].field);
        status = rows[i].field.len + rows[i].value.len <= REPLICA_TEXT_BYTES_MAX ? STATUS_OK
                                                                                 : STATUS_TOO_LARGE;
        rows[i].tag = tag;
        replica_chains_add(chains, &added[i], &rows[i], tag, false);
        soonest_us = rows[i].ends_us < soonest_us ? rows[i].ends_us : soonest_us;
    }
    pthread_mutex_lock(&replica->lock);
    if (status == STATUS_OK) {
        status = n <= replica->n_max ? replace_all(replica, chains, soonest_us) : STATUS_FULL;
    }
    pthread_mutex_unlock(&replica->lock);
    free(chains);
    free(added);
    return status;
}

bool replica_remove(struct replica *replica, struct span field, const uint64_t *number)
{
    pthread_mutex_lock(&replica->lock);
    const struct hash128 of_field = replica_tag(replica, field);
    struct replica_batched *batched;
    const struct found found = find_all(replica, of_field, field, &batched);
    const bool is_there = batched != NULL || found.record != NULL;
    const uint64_t known = batched != NULL        ? batched->row.number
                           : found.record != NULL ? found.record->number
                                                  : 0;
    const bool is_removed = is_there && (number == NULL || known == *number);
    if (is_removed) {
        if (batched != NULL) {
            replica_batch_remove(&replica->batch, batched);
        }
        drop(replica, found.record);
        drop(replica, find_record(replica, of_field, field).alias);
    }
    pthread_mutex_unlock(&replica->lock);
    return is_removed;
}

void replica_expire(struct replica *replica, uint64_t now_us)
{
    pthread_mutex_lock(&replica->lock);
    free_retired(replica);
    if (atomic_load_explicit(&replica->n, memory_order_relaxed) <= FEW ||
        now_us - replica->searched_us >= PAUSE_US) {
        drop_ended(replica, now_us);
    }
    pthread_mutex_unlock(&replica->lock);
}

/* --- a reading --- */

void replica_begin_reading(struct replica *replica)
{
    while (replica_put_batch(replica)) {
        /* what an earlier reading has left */
    }
    pthread_mutex_lock(&replica->lock);
    replica->reading = replica->reading == UINT32_MAX ? 1 : replica->reading + 1;
    replica->is_reading = true;
    replica->n_ended = 0;
    replica->n_unobeyed_read = 0;
    pthread_mutex_unlock(&replica->lock);
}

struct replica_life *replica_life(struct replica *replica)
{
    return &replica->life;
}

/* Adds a copy of @entry to @lost. Without memory it is not restored. */
static void note_lost(const struct replica_entry *entry, struct replica_lost **lost)
{
    const size_t n_texts = (size_t)entry->field_len + entry->value_len;
    struct replica_lost *copy = malloc(sizeof(*copy) + n_texts);
    if (copy != NULL) {
        copy->next = *lost;
        copy->field_len = entry->field_len;
        copy->value_len = entry->value_len;
        memcpy(copy->texts, entry->texts, n_texts);
        *lost = copy;
    }
}

bool replica_is_batch_due(struct replica *replica, uint64_t now_us)
{
    pthread_mutex_lock(&replica->lock);
    const struct replica_batch *batch = &replica->batch;
    const size_t n = atomic_load_explicit(&replica->n, memory_order_relaxed) / BATCH_PART;
    const bool is_due = !replica_batch_is_empty(batch) &&
                        (batch->n <= BATCH_FEW || batch->n >= (n > BATCH_MIN ? n : BATCH_MIN) ||
                         batch->bytes >= BATCH_BYTES_MAX ||
                         (now_us > batch->since_us && now_us - batch->since_us >= BATCH_US_MAX));
    pthread_mutex_unlock(&replica->lock);
    return is_due;
}

/* Makes shard @i anew with its entries in the batch, without those of other readings than @reading;
 * 0: of none. */
static void put_shard(struct replica *replica, size_t i, uint32_t reading)
{
    const struct replica_chains *chains = replica->batch.chains;
    const struct replica_edit edit = {
        .reading = reading,
        .added_reading = replica->reading,
        .n_chains = chains != NULL ? REPLICA_CHAINS : 0,
        .chains = chains != NULL ? chains->of[i] : NULL,
    };
    if (change_shard(replica, i, &edit) != STATUS_OK) {
        log_error(replica->module,
                  "no memory: what was changed is as before until the next reading", "%s", "");
    }
    if (chains != NULL) {
        note_end(replica, replica_batch_end_shard(&replica->batch, i));
    }
}

bool replica_put_batch(struct replica *replica)
{
    pthread_mutex_lock(&replica->lock);
    struct replica_batch *batch = &replica->batch;
    while (batch->next < REPLICA_SHARDS && !replica_batch_has(batch, batch->next)) {
        batch->next++;
    }
    if (batch->next < REPLICA_SHARDS) {
        put_shard(replica, batch->next, 0);
    } else {
        replica_batch_reset(batch);
    }
    const bool goes_on = batch->next > 0 || !replica_batch_is_empty(batch);
    pthread_mutex_unlock(&replica->lock);
    return goes_on;
}

/* Whether shard @i has entries that the reading did not contain. Those that are lost are noted, and
 * stay. */
static bool find_unread(struct replica *replica, size_t i, uint64_t now_us,
                        struct replica_lost **lost)
{
    const struct replica_shard *shard = shard_at(replica, i);
    bool is_unread = false;
    for (size_t at = 0; shard != NULL && at < shard->bytes;
         at += replica_entry_bytes(replica_shard_at(shard, at))) {
        struct replica_entry *entry = replica_shard_at(shard, at);
        if (entry->reading == replica->reading) {
            continue;
        }
        if (lost == NULL || atomic_load_explicit(&entry->ends_us, memory_order_relaxed) <= now_us) {
            is_unread = true;
            continue;
        }
        entry->reading = replica->reading;
        if (!entry->is_alias) {
            note_lost(entry, lost);
        }
    }
    return is_unread;
}

bool replica_end_reading(struct replica *replica, uint64_t now_us, struct replica_lost **lost)
{
    pthread_mutex_lock(&replica->lock);
    const size_t i = replica->n_ended++;
    if (find_unread(replica, i, now_us, lost)) {
        put_shard(replica, i, replica->reading);
    }
    const bool goes_on = replica->n_ended < REPLICA_SHARDS;
    if (!goes_on) {
        replica->is_reading = false;
        set_unobeyed(replica, replica->n_unobeyed_read);
    }
    pthread_mutex_unlock(&replica->lock);
    return goes_on;
}

/* --- what there is --- */

struct replica_counters replica_count(struct replica *replica)
{
    pthread_mutex_lock(&replica->lock);
    const struct replica_counters counters = {
        .n = atomic_load_explicit(&replica->n, memory_order_relaxed),
        .n_max = replica->n_max,
        .n_unobeyed = replica->n_unobeyed,
    };
    pthread_mutex_unlock(&replica->lock);
    return counters;
}

void replica_list(struct replica *replica, uint64_t now_us,
                  void (*on_entry)(void *context, const struct replica_entry *entry), void *context)
{
    pthread_mutex_lock(&replica->lock);
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        const struct replica_shard *shard = shard_at(replica, i);
        for (size_t at = 0; shard != NULL && at < shard->bytes;
             at += replica_entry_bytes(replica_shard_at(shard, at))) {
            const struct replica_entry *entry = replica_shard_at(shard, at);
            if (!entry->is_alias &&
                atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > now_us) {
                on_entry(context, entry);
            }
        }
    }
    pthread_mutex_unlock(&replica->lock);
}

/* --- lookup --- */

void replica_reader_init(struct replica_reader *reader, struct replica *replica)
{
    reader->replica = replica;
    atomic_init(&reader->reads, NULL);
    pthread_mutex_lock(&replica->lock);
    reader->next = replica->readers;
    replica->readers = reader;
    pthread_mutex_unlock(&replica->lock);
}

void replica_reader_close(struct replica_reader *reader)
{
    struct replica *replica = reader->replica;
    pthread_mutex_lock(&replica->lock);
    struct replica_reader **link = &replica->readers;
    while (*link != reader) {
        link = &(*link)->next;
    }
    *link = reader->next;
    pthread_mutex_unlock(&replica->lock);
}

bool replica_is_empty(const struct replica *replica)
{
    return atomic_load_explicit(&replica->n, memory_order_acquire) == 0;
}

/* The shard of @tag, announced. */
static const struct replica_shard *take_shard(struct replica_reader *reader, struct hash128 tag)
{
    _Atomic(struct replica_shard *) *at = &reader->replica->shards[replica_shard_index(tag)];
    const struct replica_shard *shard = atomic_load(at);
    for (;;) {
        atomic_store(&reader->reads, shard);
        const struct replica_shard *again = atomic_load(at);
        if (again == shard) {
            return shard;
        }
        shard = again;
    }
}

const struct replica_entry *replica_find(struct replica_reader *reader, struct hash128 tag,
                                         uint64_t now_us)
{
    const struct replica_entry *entry =
        replica_shard_find(take_shard(reader, tag), tag, NULL, now_us);
    return entry != NULL && entry->is_alias ? NULL : entry;
}

const struct replica_entry *replica_find_field(struct replica_reader *reader, struct span field,
                                               uint64_t now_us)
{
    struct hash128 tag = replica_tag(reader->replica, field);
    const struct replica_entry *entry =
        replica_shard_find(take_shard(reader, tag), tag, NULL, now_us);
    if (entry != NULL && entry->is_alias) {
        memcpy(&tag, replica_entry_value(entry).data, sizeof(tag));
        entry = replica_shard_find(take_shard(reader, tag), tag, &field, now_us);
        entry =
            entry != NULL && atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > now_us
                ? entry
                : NULL;
    }
    return entry;
}
