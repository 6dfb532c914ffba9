/* A shard of a replica: entries, and a hash table of where they are. Once built it does not change,
 * but for what an entry says is atomic or for writers. */

#ifndef SLUICE_STORE_REPLICA_REPLICA_SHARD_H
#define SLUICE_STORE_REPLICA_REPLICA_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "store/replica_entry.h"

enum { REPLICA_UNIT = _Alignof(struct replica_entry) }; /* of a slot's number */

struct replica_shard {
    struct replica_shard *next; /* retired; for the replica */
    uint32_t n_records;         /* aliases do not count */
    uint32_t n_slots;           /* a power of two, at least a third of them empty */
    size_t bytes;               /* of the entries */
    uint32_t slots[];           /* 0: empty; else where the entry is, in units, and 1. The entries
                                   follow */
};

/* An entry that is to be added: the record of @row, or an alias that leads to its tag. */
struct replica_added {
    struct replica_added *next;    /* of its chain */
    const struct replica_row *row; /* borrowed */
    struct hash128 tag;            /* of the entry */
    bool is_alias;
};

/* What becomes of a shard: the entries that are named here are left out, and others are added. An
 * added entry takes the place of that of its tag and field. */
struct replica_edit {
    const struct replica_entry *left_out; /* may be NULL */
    uint64_t ended_us;                    /* those that have ended then are left out */
    uint32_t reading;                     /* those of other readings are left out; 0: none is */
    bool is_of_all;                       /* all are left out */
    uint32_t added_reading;               /* that the added ones belong to */
    size_t n_chains;                      /* a power of two; 0: none is added */
    struct replica_added *const *chains;  /* the chain of an entry is tag.low % n_chains */
};

/* The shard of @tag. */
static inline size_t replica_shard_index(struct hash128 tag)
{
    return tag.high % REPLICA_SHARDS;
}

static inline bool replica_tag_equals(struct hash128 a, struct hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

/* The entry at @offset, at most @shard's bytes; the first one is at 0. */
static inline struct replica_entry *replica_shard_at(const struct replica_shard *shard,
                                                     size_t offset)
{
    const size_t head = offsetof(struct replica_shard, slots) + shard->n_slots * sizeof(uint32_t);
    return (struct replica_entry *)((uintptr_t)shard +
                                    (head + REPLICA_UNIT - 1) / REPLICA_UNIT * REPLICA_UNIT +
                                    offset);
}

/* The bytes that @entry takes: where it begins and these later the next one does. */
static inline size_t replica_entry_bytes(const struct replica_entry *entry)
{
    const size_t bytes =
        offsetof(struct replica_entry, texts) + (size_t)entry->field_len + entry->value_len;
    return (bytes + REPLICA_UNIT - 1) / REPLICA_UNIT * REPLICA_UNIT;
}

/* The first entry of @tag in force at @now_us; with a @field, the entry of that field, in force or
 * not. NULL: none. @shard may be NULL. An alias has no text of its field: its tag, a keyed hash of
 * 128 bits, stands for it. */
struct replica_entry *replica_shard_find(const struct replica_shard *shard, struct hash128 tag,
                                         const struct span *field, uint64_t now_us);

/* The entry of @chain, which may be NULL, with @tag and @field; an alias by its tag. */
struct replica_added *replica_added_find(struct replica_added *chain, struct hash128 tag,
                                         struct span field);

/* Makes a shard of @old, which may be NULL, and @edit. *made is NULL if no entry is left.
 * STATUS_NO_MEMORY. Freed by free(). */
MUST_USE enum status replica_shard_make(const struct replica_shard *old,
                                        const struct replica_edit *edit,
                                        struct replica_shard **made);

#endif /* SLUICE_STORE_REPLICA_REPLICA_SHARD_H */
