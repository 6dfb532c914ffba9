/* The table of the denial cache: a fixed size, one cache line per verdict.
 *
 * Each verdict has four possible slots. If all are taken by other keys, an expired verdict is
 * evicted, else one that allowed, else the one that expires first. An eviction costs one more call
 * to the store below. The hashes are keyed, so a client cannot choose which key to evict. */

#ifndef SLUICE_STORE_LAYERS_DENIAL_TABLE_H
#define SLUICE_STORE_LAYERS_DENIAL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"
#include "store/store.h"

enum { DENIAL_WAYS = 4 };

/* A cached verdict. All zero: none. */
struct denial_line {
    struct hash128 hash;
    uint64_t ends_us;     /* from then on it is expired; monotonic */
    uint64_t answered_us; /* when the verdict was received; the times below count from then */
    uint64_t retry_after; /* ticks, as the two below; 0: it allowed */
    uint64_t next_after;
    uint64_t reset_after;
    uint32_t remaining;
    uint32_t cost; /* that was judged */
};

struct denial_table {
    struct denial_line *lines; /* owned */
    size_t n_lines;            /* a power of two */
    uint64_t n_evictions;
};

/* Makes a table of at most @bytes, enough for one set of slots at least. STATUS_NO_MEMORY. */
MUST_USE enum status denial_table_init(struct denial_table *table, size_t bytes);
void denial_table_close(struct denial_table *table);
void denial_table_clear(struct denial_table *table);

/* The verdict that is valid at @now_us for @charge's limit, key and cost: a denial of the same cost
 * or less, or an admission of the same cost or more. NULL: none. Valid until the table changes. */
const struct denial_line *denial_table_find(const struct denial_table *table,
                                            const struct charge *charge, uint64_t now_us);

/* Stores @charge's verdict, received at @now_us, until @ends_us. A verdict that allowed does not
 * replace a valid denial of the same key. */
void denial_table_put(struct denial_table *table, const struct charge *charge, uint64_t ends_us,
                      uint64_t now_us);

#endif /* SLUICE_STORE_LAYERS_DENIAL_TABLE_H */
