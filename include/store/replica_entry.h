/* The records of a replica. */

#ifndef SLUICE_STORE_REPLICA_ENTRY_H
#define SLUICE_STORE_REPLICA_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"

enum {
    REPLICA_SHARDS = 256,
    REPLICA_TEXT_BYTES_MAX = UINT16_MAX, /* of a record: its field and its value */
    REPLICA_FIELD_BYTES_MAX = 160,       /* of a field that a message names */
    REPLICA_LIFE_BYTES_MAX = 32,
};

/* Redis may lose the records, for example by a restart without its data: then those that are known
 * are set again. Each life of the hash has an id, in a field that is never deleted. If the id read
 * differs from the id of the known records, or there is none, then a record that was not read is
 * lost, not removed. A removed record leaves a mark in the hash, so that no process restores it. */
struct replica_life {
    char id[REPLICA_LIFE_BYTES_MAX];
    size_t len; /* 0: none */
};

/* A record that is to be put. Spans are borrowed. */
struct replica_row {
    struct span field;  /* not empty; with the value at most REPLICA_TEXT_BYTES_MAX */
    struct span value;  /* a record with the same value keeps its end */
    struct hash128 tag; /* all zero: that of the field */
    uint64_t number;    /* what readers want to know of it */
    uint64_t ends_us;   /* monotonic; UINT64_MAX: never */
};

/* A record in a shard, or an alias: its value is the tag of the record, its field is empty. */
struct replica_entry {
    struct hash128 tag;
    uint64_t number;
    atomic_uint_fast64_t ends_us; /* monotonic; 0: removed */
    uint32_t reading;             /* the latest reading that contained it; for writers alone */
    uint16_t field_len;
    uint16_t value_len;
    bool is_alias;
    char texts[];
};

static inline bool replica_life_equals(const struct replica_life *a, const struct replica_life *b)
{
    return span_equals(span_of(a->id, a->len), span_of(b->id, b->len));
}

static inline struct span replica_entry_field(const struct replica_entry *entry)
{
    return span_of(entry->texts, entry->field_len);
}

static inline struct span replica_entry_value(const struct replica_entry *entry)
{
    return span_of(entry->texts + entry->field_len, entry->value_len);
}

#endif /* SLUICE_STORE_REPLICA_ENTRY_H */
