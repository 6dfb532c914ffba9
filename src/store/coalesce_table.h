/* The decisions in flight, by what they ask: a hash table of a fixed size, with a key of its own,
 * so that nobody outside can choose requests that meet in it. */

#ifndef SLUICE_STORE_COALESCE_TABLE_H
#define SLUICE_STORE_COALESCE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"
#include "base/list.h"
#include "store/store.h"

enum {
    COALESCE_FLIGHTS_MAX = 4096,    /* in flight at one time; a power of two */
    COALESCE_KEYS_BYTES_MAX = 2048, /* of all keys of a decision; one with more is decided alone */
};

struct coalesce_entry;

struct coalesce_table {
    struct hash_key key;
    size_t n;
    struct list buckets[COALESCE_FLIGHTS_MAX]; /* of struct coalesce_entry */
};

/* What is asked, and who asks. Decisions alike have the same hash: 128 bits, keyed, so that others
 * do not. */
struct coalesce_entry {
    struct list node; /* in its bucket */
    struct hash128 hash;
};

void coalesce_table_init(struct coalesce_table *table);

/* Of limits, keys, costs and calendar windows of @decision, whose keys have no more than
 * COALESCE_KEYS_BYTES_MAX. */
struct hash128 coalesce_table_hash(const struct coalesce_table *table,
                                   const struct decision *decision);

/* NULL: there is none. */
struct coalesce_entry *coalesce_table_find(struct coalesce_table *table, struct hash128 hash);

/* There is room while table->n is less than COALESCE_FLIGHTS_MAX. */
void coalesce_table_add(struct coalesce_table *table, struct coalesce_entry *entry,
                        struct hash128 hash);
void coalesce_table_remove(struct coalesce_table *table, struct coalesce_entry *entry);

#endif /* SLUICE_STORE_COALESCE_TABLE_H */
