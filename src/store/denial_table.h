/* What the denial cache remembers: a table of a fixed size, one cache line a verdict.
 *
 * A verdict has four places where it may stand. When all are taken by others, one that is over
 * goes, else one that denied nobody, else the one that is over soonest: forgetting costs a call,
 * never more. Nobody outside knows what a key's hash is, so nobody can choose whom to push out. */

#ifndef SLUICE_STORE_DENIAL_TABLE_H
#define SLUICE_STORE_DENIAL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"
#include "store/store.h"

enum { DENIAL_WAYS = 4 };

/* A verdict as it was told. All zero: none. */
struct denial_line {
    struct hash128 hash;
    uint64_t ends_us;     /* from then on it says nothing; monotonic */
    uint64_t answered_us; /* when its times were told */
    uint64_t retry_after; /* ticks, as the others; 0: it allowed */
    uint64_t next_after;
    uint64_t reset_after;
    uint32_t remaining;
    uint32_t cost; /* that it was told of */
};

struct denial_table {
    struct denial_line *lines; /* owned */
    size_t n_lines;            /* a power of two */
    uint64_t n_evictions;
};

/* Of at most @bytes, which hold one set of places at least. STATUS_NO_MEMORY. */
MUST_USE enum status denial_table_init(struct denial_table *table, size_t bytes);
void denial_table_close(struct denial_table *table);
void denial_table_clear(struct denial_table *table);

/* What holds at @now_us for @charge's limit, key and cost: a denial of as much or less, or what
 * allowed as much or more. NULL: nothing is known. Lasts until the table changes. */
const struct denial_line *denial_table_find(const struct denial_table *table,
                                            const struct charge *charge, uint64_t now_us);

/* Remember @charge's verdict, told at @now_us, until @ends_us. What allowed does not take the place
 * of a denial of the same key that holds. */
void denial_table_put(struct denial_table *table, const struct charge *charge, uint64_t ends_us,
                      uint64_t now_us);

#endif /* SLUICE_STORE_DENIAL_TABLE_H */
