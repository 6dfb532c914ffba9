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

enum {
    FEW = 4096, /* that may be looked at for each change */
    PAUSE_US = 1000 * 1000,
    UNIT = _Alignof(struct replica_entry), /* of a slot's number */
    SLOTS_MIN = 2,
};

struct replica_shard {
    struct replica_shard *next; /* retired; for writers alone */
    uint32_t n_records;         /* aliases do not count */
    uint32_t n_slots;           /* a power of two, at least a third of them empty */
    size_t bytes;               /* of the entries */
    uint32_t slots[];           /* 0: empty; else where the entry is, in units, and 1. The entries
                                   follow */
};

struct replica {
    const char *module;
    const char *name;
    struct hash_key key;
    _Atomic(struct replica_shard *) shards[REPLICA_SHARDS]; /* NULL: empty */
    atomic_size_t n;                                        /* records */

    pthread_mutex_t lock; /* of the writers and of all that follows */
    size_t n_max;
    size_t n_unobeyed;
    size_t n_unobeyed_read; /* the same in the current reading */
    uint32_t reading;       /* number of the latest reading */
    bool is_reading;
    uint64_t soonest_us;  /* no record ends before */
    uint64_t searched_us; /* when the records that had ended were searched for last */
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

/* --- a shard --- */

static size_t index_of(struct hash128 tag)
{
    return tag.high % REPLICA_SHARDS;
}

static bool is_same_tag(struct hash128 a, struct hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

static size_t entry_bytes(size_t n_texts)
{
    return (offsetof(struct replica_entry, texts) + n_texts + UNIT - 1) / UNIT * UNIT;
}

static size_t bytes_of(const struct replica_entry *entry)
{
    return entry_bytes((size_t)entry->field_len + entry->value_len);
}

/* The bytes before the entries. */
static size_t head_bytes(size_t n_slots)
{
    return (offsetof(struct replica_shard, slots) + n_slots * sizeof(uint32_t) + UNIT - 1) / UNIT *
           UNIT;
}

static struct replica_entry *entry_at(const struct replica_shard *shard, size_t offset)
{
    return (struct replica_entry *)((uintptr_t)shard + head_bytes(shard->n_slots) + offset);
}

/* Adds the entry at @offset to the slots. */
static void add_slot(struct replica_shard *shard, size_t offset)
{
    const struct replica_entry *entry = entry_at(shard, offset);
    size_t i = entry->tag.low & (shard->n_slots - 1);
    while (shard->slots[i] != 0) {
        i = (i + 1) & (shard->n_slots - 1);
    }
    shard->slots[i] = (uint32_t)(offset / UNIT + 1);
    shard->n_records += !entry->is_alias;
}

/* The first entry of @tag in force at @now_us; with a @field, the entry of that field, in force or
 * not. NULL: none. */
static struct replica_entry *find_in(const struct replica_shard *shard, struct hash128 tag,
                                     const struct span *field, uint64_t now_us)
{
    if (shard == NULL) {
        return NULL;
    }
    for (size_t i = tag.low & (shard->n_slots - 1); shard->slots[i] != 0;
         i = (i + 1) & (shard->n_slots - 1)) {
        struct replica_entry *entry = entry_at(shard, (size_t)(shard->slots[i] - 1) * UNIT);
        if (is_same_tag(entry->tag, tag) &&
            (field != NULL
                 ? span_equals(replica_entry_field(entry), *field)
                 : atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > now_us)) {
            return entry;
        }
    }
    return NULL;
}

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

/* What becomes of a shard: the entry of @tag and @field, those that have ended and those that an
 * earlier reading contained are left out, and @added is added. */
struct edit {
    struct hash128 tag;
    struct span field; /* empty: none */
    uint64_t ended_us;
    uint32_t reading; /* 0: those of all readings stay */
    const struct replica_row *added;
    bool is_alias; /* of added: an alias that leads to its tag */
};

static bool stays(const struct edit *edit, const struct replica_entry *entry)
{
    return atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > edit->ended_us &&
           (edit->reading == 0 || entry->reading == edit->reading) &&
           (edit->field.len == 0 || !is_same_tag(entry->tag, edit->tag) ||
            !span_equals(replica_entry_field(entry), edit->field));
}

/* The texts of an added entry: an alias has a tag in place of the value. */
static struct span value_of(const struct edit *edit)
{
    return edit->is_alias ? span_of((const char *)&edit->added->tag, sizeof(edit->added->tag))
                          : edit->added->value;
}

static void write_added(const struct replica *replica, const struct edit *edit,
                        struct replica_entry *entry)
{
    const struct replica_row *row = edit->added;
    const struct span value = value_of(edit);
    entry->tag = edit->tag;
    entry->number = row->number;
    atomic_init(&entry->ends_us, row->ends_us);
    entry->reading = replica->reading;
    entry->field_len = (uint16_t)row->field.len;
    entry->value_len = (uint16_t)value.len;
    entry->is_alias = edit->is_alias;
    memcpy(entry->texts, row->field.data, row->field.len);
    if (value.len > 0) {
        memcpy(entry->texts + row->field.len, value.data, value.len);
    }
}

static size_t slots_for(size_t n)
{
    size_t n_slots = SLOTS_MIN;
    while (n_slots * 2 < n * 3 + 1) {
        n_slots *= 2;
    }
    return n_slots;
}

/* Makes shard @i anew. STATUS_NO_MEMORY: nothing has changed. */
static enum status change_shard(struct replica *replica, size_t i, const struct edit *edit)
{
    const struct replica_shard *old = shard_at(replica, i);
    size_t n = 0;
    size_t bytes = 0;
    for (size_t at = 0; old != NULL && at < old->bytes; at += bytes_of(entry_at(old, at))) {
        if (stays(edit, entry_at(old, at))) {
            bytes += bytes_of(entry_at(old, at));
            n++;
        }
    }
    if (edit->added != NULL) {
        bytes += entry_bytes(edit->added->field.len + value_of(edit).len);
        n++;
    }
    if (n == 0) {
        swap(replica, i, NULL);
        return STATUS_OK;
    }
    const size_t n_slots = slots_for(n);
    struct replica_shard *shard = calloc(1, head_bytes(n_slots) + bytes);
    if (shard == NULL) {
        return STATUS_NO_MEMORY;
    }
    shard->n_slots = (uint32_t)n_slots;
    shard->bytes = bytes;
    size_t to = 0;
    for (size_t at = 0; old != NULL && at < old->bytes; at += bytes_of(entry_at(old, at))) {
        const struct replica_entry *entry = entry_at(old, at);
        if (stays(edit, entry)) {
            memcpy(entry_at(shard, to), entry, bytes_of(entry));
            add_slot(shard, to);
            to += bytes_of(entry);
        }
    }
    if (edit->added != NULL) {
        write_added(replica, edit, entry_at(shard, to));
        add_slot(shard, to);
    }
    swap(replica, i, shard);
    return STATUS_OK;
}

/* --- records --- */

/* A record and the alias that leads to it, as far as there are any. */
struct found {
    struct replica_entry *alias;
    struct replica_entry *record;
};

static struct found find_record(const struct replica *replica, struct span field)
{
    struct hash128 tag = replica_tag(replica, field);
    struct found found = {.record = find_in(shard_at(replica, index_of(tag)), tag, &field, 0)};
    if (found.record != NULL && found.record->is_alias) {
        found.alias = found.record;
        memcpy(&tag, replica_entry_value(found.alias).data, sizeof(tag));
        found.record = find_in(shard_at(replica, index_of(tag)), tag, &field, 0);
    }
    return found;
}

/* Removes @entry. Without memory for another shard it stays there and has ended. */
static void drop(struct replica *replica, struct replica_entry *entry)
{
    if (entry == NULL) {
        return;
    }
    const struct edit edit = {.tag = entry->tag, .field = replica_entry_field(entry)};
    if (change_shard(replica, index_of(entry->tag), &edit) != STATUS_OK) {
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
             at += bytes_of(entry_at(shard, at))) {
            const uint64_t ends_us =
                atomic_load_explicit(&entry_at(shard, at)->ends_us, memory_order_relaxed);
            if (ends_us <= now_us) {
                has_ended = true;
            } else if (ends_us < replica->soonest_us) {
                replica->soonest_us = ends_us;
            }
        }
        const struct edit edit = {.ended_us = now_us};
        if (has_ended && change_shard(replica, i, &edit) != STATUS_OK) {
            replica->soonest_us = now_us; /* tried again */
        }
    }
}

/* Whether there is room for one more. */
static bool make_room(struct replica *replica, uint64_t now_us)
{
    if (atomic_load_explicit(&replica->n, memory_order_relaxed) >= replica->n_max) {
        drop_ended(replica, now_us);
    }
    return atomic_load_explicit(&replica->n, memory_order_relaxed) < replica->n_max;
}

/* Adds the record of @row, and the alias that it needs. */
static enum status add(struct replica *replica, const struct replica_row *row)
{
    struct edit edit = {.tag = row->tag, .field = row->field, .added = row};
    const struct hash128 of_field = replica_tag(replica, row->field);
    const bool has_alias = (row->tag.low | row->tag.high) != 0;
    if (has_alias) {
        const enum status status = change_shard(replica, index_of(row->tag), &edit);
        if (status != STATUS_OK) {
            return status;
        }
    }
    edit.tag = of_field;
    edit.is_alias = has_alias;
    return change_shard(replica, index_of(of_field), &edit);
}

static enum status put(struct replica *replica, const struct replica_row *row, uint64_t now_us)
{
    const struct found old = find_record(replica, row->field);
    const bool is_tag_kept = old.record != NULL && ((row->tag.low | row->tag.high) == 0
                                                        ? old.alias == NULL
                                                        : is_same_tag(old.record->tag, row->tag));
    if (is_tag_kept && span_equals(replica_entry_value(old.record), row->value) &&
        atomic_load_explicit(&old.record->ends_us, memory_order_relaxed) != 0) {
        old.record->reading = replica->reading;
        if (old.alias != NULL) {
            old.alias->reading = replica->reading;
        }
        return STATUS_OK;
    }
    if (row->field.len + row->value.len > REPLICA_TEXT_BYTES_MAX) {
        return STATUS_TOO_LARGE;
    }
    if (old.record == NULL && !make_room(replica, now_us)) {
        return STATUS_FULL;
    }
    const struct hash128 old_tag = old.record != NULL ? old.record->tag : row->tag;
    const enum status status = add(replica, row);
    if (status == STATUS_OK && old.alias != NULL && !is_tag_kept) {
        drop(replica, find_in(shard_at(replica, index_of(old_tag)), old_tag, &row->field, 0));
    }
    replica->soonest_us = row->ends_us < replica->soonest_us ? row->ends_us : replica->soonest_us;
    return status;
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

enum status replica_put(struct replica *replica, const struct replica_row *row, uint64_t now_us)
{
    struct replica_row own = *row;
    pthread_mutex_lock(&replica->lock);
    if (is_same_tag(own.tag, replica_tag(replica, own.field))) {
        own.tag = (struct hash128){0};
    }
    const enum status status = put(replica, &own, now_us);
    if (status == STATUS_FULL && replica->is_reading) {
        replica->n_unobeyed_read++;
    } else if (status == STATUS_FULL) {
        set_unobeyed(replica, replica->n_unobeyed + 1);
    }
    pthread_mutex_unlock(&replica->lock);
    return status;
}

/* --- all records at once --- */

/* A shard of the @n rows whose indices are @order. NULL: no memory. */
static struct replica_shard *build_shard(const struct replica *replica,
                                         const struct replica_row *rows, const uint32_t *order,
                                         size_t n)
{
    const size_t n_slots = slots_for(n);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += entry_bytes(rows[order[i]].field.len + rows[order[i]].value.len);
    }
    struct replica_shard *shard = calloc(1, head_bytes(n_slots) + bytes);
    if (shard == NULL) {
        return NULL;
    }
    shard->n_slots = (uint32_t)n_slots;
    shard->bytes = bytes;
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const struct replica_row *row = &rows[order[i]];
        const struct edit edit = {.tag = row->tag, .added = row};
        write_added(replica, &edit, entry_at(shard, to));
        add_slot(shard, to);
        to += entry_bytes(row->field.len + row->value.len);
    }
    return shard;
}

/* The indices of @rows, sorted by shard, and where those of each shard begin in them. NULL: no
 * memory. */
static uint32_t *sort_rows(const struct replica_row *rows, size_t n,
                           size_t begin[REPLICA_SHARDS + 1])
{
    size_t next[REPLICA_SHARDS];
    uint32_t *order = calloc(n > 0 ? n : 1, sizeof(*order));
    if (order == NULL) {
        return NULL;
    }
    memset(begin, 0, (REPLICA_SHARDS + 1) * sizeof(*begin));
    for (size_t i = 0; i < n; i++) {
        begin[index_of(rows[i].tag) + 1]++;
    }
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        begin[i + 1] += begin[i];
        next[i] = begin[i];
    }
    for (size_t i = 0; i < n; i++) {
        order[next[index_of(rows[i].tag)]++] = (uint32_t)i;
    }
    return order;
}

/* Builds all shards. STATUS_NO_MEMORY: none. */
static enum status build_shards(const struct replica *replica, const struct replica_row *rows,
                                size_t n, struct replica_shard *shards[REPLICA_SHARDS])
{
    size_t begin[REPLICA_SHARDS + 1];
    uint32_t *order = sort_rows(rows, n, begin);
    bool has_all = order != NULL;
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        const size_t n_rows = has_all ? begin[i + 1] - begin[i] : 0;
        shards[i] = n_rows > 0 ? build_shard(replica, rows, order + begin[i], n_rows) : NULL;
        has_all = has_all && (n_rows == 0 || shards[i] != NULL);
    }
    for (size_t i = 0; i < REPLICA_SHARDS && !has_all; i++) {
        free(shards[i]);
    }
    free(order);
    return has_all ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status replica_replace(struct replica *replica, struct replica_row *rows, size_t n)
{
    struct replica_shard *shards[REPLICA_SHARDS];
    uint64_t soonest_us = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].field.len + rows[i].value.len > REPLICA_TEXT_BYTES_MAX) {
            return STATUS_TOO_LARGE;
        }
        rows[i].tag = replica_tag(replica, rows[i].field);
        soonest_us = rows[i].ends_us < soonest_us ? rows[i].ends_us : soonest_us;
    }
    pthread_mutex_lock(&replica->lock);
    enum status status = n <= replica->n_max ? build_shards(replica, rows, n, shards) : STATUS_FULL;
    if (status == STATUS_OK) {
        for (size_t i = 0; i < REPLICA_SHARDS; i++) {
            swap(replica, i, shards[i]);
        }
        replica->soonest_us = soonest_us;
        set_unobeyed(replica, 0);
    }
    pthread_mutex_unlock(&replica->lock);
    return status;
}

bool replica_remove(struct replica *replica, struct span field, const uint64_t *number)
{
    pthread_mutex_lock(&replica->lock);
    const struct found found = find_record(replica, field);
    const bool is_removed =
        found.record != NULL && (number == NULL || found.record->number == *number);
    if (is_removed) {
        drop(replica, found.record);
        drop(replica, find_record(replica, field).alias);
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
    pthread_mutex_lock(&replica->lock);
    replica->reading = replica->reading == UINT32_MAX ? 1 : replica->reading + 1;
    replica->is_reading = true;
    replica->n_unobeyed_read = 0;
    pthread_mutex_unlock(&replica->lock);
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

/* Removes, or notes as lost, what the reading did not contain of shard @i. */
static void end_shard(struct replica *replica, size_t i, uint64_t now_us,
                      struct replica_lost **lost)
{
    const struct replica_shard *shard = shard_at(replica, i);
    bool is_dropped = false;
    for (size_t at = 0; shard != NULL && at < shard->bytes; at += bytes_of(entry_at(shard, at))) {
        struct replica_entry *entry = entry_at(shard, at);
        if (entry->reading == replica->reading) {
            continue;
        }
        if (lost == NULL || atomic_load_explicit(&entry->ends_us, memory_order_relaxed) <= now_us) {
            is_dropped = true;
            continue;
        }
        entry->reading = replica->reading;
        if (!entry->is_alias) {
            note_lost(entry, lost);
        }
    }
    const struct edit edit = {.reading = replica->reading};
    if (is_dropped && change_shard(replica, i, &edit) != STATUS_OK) {
        log_error(replica->module, "no memory: what was removed stays until the next reading", "%s",
                  "");
    }
}

void replica_end_reading(struct replica *replica, uint64_t now_us, struct replica_lost **lost)
{
    pthread_mutex_lock(&replica->lock);
    for (size_t i = 0; i < REPLICA_SHARDS; i++) {
        end_shard(replica, i, now_us, lost);
    }
    replica->is_reading = false;
    set_unobeyed(replica, replica->n_unobeyed_read);
    pthread_mutex_unlock(&replica->lock);
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
             at += bytes_of(entry_at(shard, at))) {
            const struct replica_entry *entry = entry_at(shard, at);
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
    _Atomic(struct replica_shard *) *at = &reader->replica->shards[index_of(tag)];
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
    const struct replica_entry *entry = find_in(take_shard(reader, tag), tag, NULL, now_us);
    return entry != NULL && entry->is_alias ? NULL : entry;
}

const struct replica_entry *replica_find_field(struct replica_reader *reader, struct span field,
                                               uint64_t now_us)
{
    struct hash128 tag = replica_tag(reader->replica, field);
    const struct replica_entry *entry = find_in(take_shard(reader, tag), tag, NULL, now_us);
    if (entry != NULL && entry->is_alias) {
        memcpy(&tag, replica_entry_value(entry).data, sizeof(tag));
        entry = find_in(take_shard(reader, tag), tag, &field, now_us);
        entry =
            entry != NULL && atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > now_us
                ? entry
                : NULL;
    }
    return entry;
}
