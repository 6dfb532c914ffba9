/* The records of a replica. */

#ifndef SLUICE_STORE_REPLICA_ENTRY_H
#define SLUICE_STORE_REPLICA_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"

enum {
    REPLICA_SHARDS = 256,
    REPLICA_TEXT_BYTES_MAX = UINT16_MAX, /* of a record: its field and its value */
    REPLICA_FIELD_BYTES_MAX = 160,       /* of a field that a message names */
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

static inline struct span replica_entry_field(const struct replica_entry *entry)
{
    return span_of(entry->texts, entry->field_len);
}

static inline struct span replica_entry_value(const struct replica_entry *entry)
{
    return span_of(entry->texts + entry->field_len, entry->value_len);
}

#endif /* SLUICE_STORE_REPLICA_ENTRY_H */
