#include "store/replica/replica_shard.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 2 };

/* Adds the entry at @offset to the slots. */
static void add_slot(struct replica_shard *shard, size_t offset)
{
    const struct replica_entry *entry = replica_shard_at(shard, offset);
    size_t i = entry->tag.low & (shard->n_slots - 1);
    while (shard->slots[i] != 0) {
        i = (i + 1) & (shard->n_slots - 1);
    }
    shard->slots[i] = (uint32_t)(offset / REPLICA_UNIT + 1);
    shard->n_records += !entry->is_alias;
}

struct replica_entry *replica_shard_find(const struct replica_shard *shard, struct hash128 tag,
                                         const struct span *field, uint64_t now_us)
{
    if (shard == NULL) {
        return NULL;
    }
    for (size_t i = tag.low & (shard->n_slots - 1); shard->slots[i] != 0;
         i = (i + 1) & (shard->n_slots - 1)) {
        struct replica_entry *entry =
            replica_shard_at(shard, (size_t)(shard->slots[i] - 1) * REPLICA_UNIT);
        if (replica_tag_equals(entry->tag, tag) &&
            (field != NULL
                 ? entry->is_alias || span_equals(replica_entry_field(entry), *field)
                 : atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > now_us)) {
            return entry;
        }
    }
    return NULL;
}

struct replica_added *replica_added_find(struct replica_added *chain, struct hash128 tag,
                                         struct span field)
{
    while (chain != NULL && !(replica_tag_equals(chain->tag, tag) &&
                              (chain->is_alias || span_equals(chain->row->field, field)))) {
        chain = chain->next;
    }
    return chain;
}

static bool is_replaced(const struct replica_edit *edit, const struct replica_entry *entry)
{
    const struct replica_added *added =
        edit->n_chains > 0 ? edit->chains[entry->tag.low & (edit->n_chains - 1)] : NULL;
    while (added != NULL && !(replica_tag_equals(added->tag, entry->tag) &&
                              (added->is_alias || entry->is_alias ||
                               span_equals(replica_entry_field(entry), added->row->field)))) {
        added = added->next;
    }
    return added != NULL;
}

static bool stays(const struct replica_edit *edit, const struct replica_entry *entry)
{
    return !edit->is_of_all && entry != edit->left_out &&
           atomic_load_explicit(&entry->ends_us, memory_order_relaxed) > edit->ended_us &&
           (edit->reading == 0 || entry->reading == edit->reading) && !is_replaced(edit, entry);
}

/* Writes the head of an added entry. An alias has no field, and a tag in place of the value. */
static void write_head(const struct replica_edit *edit, const struct replica_added *added,
                       struct replica_entry *entry)
{
    const struct replica_row *row = added->row;
    entry->tag = added->tag;
    entry->number = row->number;
    atomic_init(&entry->ends_us, row->ends_us);
    entry->reading = edit->added_reading;
    entry->field_len = (uint16_t)(added->is_alias ? 0 : row->field.len);
    entry->value_len = (uint16_t)(added->is_alias ? sizeof(row->tag) : row->value.len);
    entry->is_alias = added->is_alias;
}

static void write_texts(const struct replica_added *added, struct replica_entry *entry)
{
    const struct replica_row *row = added->row;
    if (added->is_alias) {
        memcpy(entry->texts, &row->tag, sizeof(row->tag));
        return;
    }
    memcpy(entry->texts, row->field.data, row->field.len);
    if (row->value.len > 0) {
        memcpy(entry->texts + row->field.len, row->value.data, row->value.len);
    }
}

/* What a shard will have. */
struct sums {
    size_t n;
    size_t bytes;
};

static void count(struct sums *sums, const struct replica_entry *entry)
{
    sums->n++;
    sums->bytes += replica_entry_bytes(entry);
}

static struct sums count_all(const struct replica_shard *old, const struct replica_edit *edit)
{
    struct sums sums = {0};
    for (size_t at = 0; old != NULL && at < old->bytes;
         at += replica_entry_bytes(replica_shard_at(old, at))) {
        if (stays(edit, replica_shard_at(old, at))) {
            count(&sums, replica_shard_at(old, at));
        }
    }
    for (size_t i = 0; i < edit->n_chains; i++) {
        for (const struct replica_added *added = edit->chains[i]; added != NULL;
             added = added->next) {
            struct replica_entry head;
            write_head(edit, added, &head);
            count(&sums, &head);
        }
    }
    return sums;
}

/* An empty shard with room for @sums. NULL: no memory. */
static struct replica_shard *allocate(const struct sums *sums)
{
    size_t n_slots = SLOTS_MIN;
    while (n_slots * 2 < sums->n * 3 + 1) {
        n_slots *= 2;
    }
    const size_t head = offsetof(struct replica_shard, slots) + n_slots * sizeof(uint32_t);
    struct replica_shard *shard =
        calloc(1, (head + REPLICA_UNIT - 1) / REPLICA_UNIT * REPLICA_UNIT + sums->bytes);
    if (shard != NULL) {
        shard->n_slots = (uint32_t)n_slots;
        shard->bytes = sums->bytes;
    }
    return shard;
}

enum status replica_shard_make(const struct replica_shard *old, const struct replica_edit *edit,
                               struct replica_shard **made)
{
    const struct sums sums = count_all(old, edit);
    *made = NULL;
    if (sums.n == 0) {
        return STATUS_OK;
    }
    struct replica_shard *shard = allocate(&sums);
    if (shard == NULL) {
        return STATUS_NO_MEMORY;
    }
    size_t to = 0;
    for (size_t at = 0; old != NULL && at < old->bytes;
         at += replica_entry_bytes(replica_shard_at(old, at))) {
        const struct replica_entry *entry = replica_shard_at(old, at);
        if (stays(edit, entry)) {
            memcpy(replica_shard_at(shard, to), entry, replica_entry_bytes(entry));
            add_slot(shard, to);
            to += replica_entry_bytes(entry);
        }
    }
    for (size_t i = 0; i < edit->n_chains; i++) {
        for (const struct replica_added *added = edit->chains[i]; added != NULL;
             added = added->next) {
            struct replica_entry *entry = replica_shard_at(shard, to);
            write_head(edit, added, entry);
            write_texts(added, entry);
            add_slot(shard, to);
            to += replica_entry_bytes(entry);
        }
    }
    *made = shard;
    return STATUS_OK;
}
