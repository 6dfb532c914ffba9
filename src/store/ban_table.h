/* What workers look in: an immutable hash table of who is banned or exempt, one line each.
 *
 * Whose identity is known is found by one hash; whose hash alone is known costs a second, slower
 * one, where there are such. The hashes are keyed by a random key of the process. */

#ifndef SLUICE_STORE_BAN_TABLE_H
#define SLUICE_STORE_BAN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "store/bans.h"

/* All zero: none. */
struct ban_line {
    struct hash128 tag;
    uint64_t ends_us; /* monotonic */
    uint64_t kind;    /* enum ban_kind */
};

struct ban_table {
    struct hash_key key;
    size_t n_readers;      /* under the lock of whoever swaps tables */
    size_t n_by_hash;      /* of the lines, those whose identity is not known */
    uint64_t last_ends_us; /* from then on it says nothing */
    size_t n_lines;        /* a power of two, at least a third of them empty */
    struct ban_line lines[];
};

/* What @ban is found by. */
struct hash128 ban_table_tag(const struct hash_key *key, const struct ban *ban);

/* With room for @n. NULL: no memory. Freed by the caller. */
struct ban_table *ban_table_new(const struct hash_key *key, size_t n);

/* Add one that is not there. */
void ban_table_add(struct ban_table *table, const struct ban *ban, struct hash128 tag,
                   uint64_t ends_us);

#endif /* SLUICE_STORE_BAN_TABLE_H */
