/* The hash table of bans and exemptions that workers read, one line per ban.
 *
 * One thread at a time changes it while any number of threads read. A line keeps its tag for the
 * life of the table: its value is stored before its tag is published. Afterwards only its value, a
 * single word, changes; zero means lifted. A table without free lines is replaced by a new one.
 *
 * A ban with a known identity is found by one hash. If the table has bans that are known only by
 * the hash of their identity, a lookup may compute a second, slower hash. If it has bans of
 * prefixes of client addresses, a lookup computes one hash for each length of those, the longest
 * first. The hashes are keyed by a random key of the process. */

#ifndef SLUICE_STORE_BANS_BAN_TABLE_H
#define SLUICE_STORE_BANS_BAN_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/text.h"
#include "store/bans.h"

/* All zero: none. */
struct ban_line {
    atomic_uint_fast64_t tag_low; /* written last */
    atomic_uint_fast64_t tag_high;
    atomic_uint_fast64_t value; /* the end (monotonic, us) times two, plus the kind; 0: lifted */
};

struct ban_table {
    struct hash_key key;
    size_t n_readers;                   /* guarded by the lock that guards swaps of tables */
    size_t n_used;                      /* lines with a tag; only for the thread that changes it */
    size_t n_lines;                     /* a power of two, at least a third of them empty */
    atomic_size_t n_by_hash;            /* lines whose identity is not known */
    atomic_bool has_prefixes;           /* some lines are of prefixes of addresses */
    atomic_uint_fast64_t lengths[2][2]; /* of IPv4, and of IPv6: bit N, a line is of a prefix /N */
    atomic_uint_fast64_t last_ends_us;  /* from then on no line is in force */
    struct ban_line lines[];
};

/* Whether @identity is a client's address alone, or names a prefix of addresses, as
 * `{client.ip:12=192.0.2.0/24}`. An address is a prefix of all its bits. */
MUST_USE bool ban_table_read_client(struct span identity, struct address_prefix *prefix);

/* As ban_table_read_client(), of a prefix that is shorter than an address. */
MUST_USE bool ban_table_read_prefix(struct span identity, struct address_prefix *prefix);

/* Writes the identity that names @prefix. */
void ban_table_write_prefix(const struct address_prefix *prefix, struct text *identity);

/* The tag of @ban's line. */
struct hash128 ban_table_tag(const struct hash_key *key, const struct ban *ban);

/* A table with room for @n bans and a quarter more. NULL: no memory. The caller frees it. */
struct ban_table *ban_table_new(const struct hash_key *key, size_t n);

/* Whether there is room for another tag. */
bool ban_table_has_room(const struct ban_table *table);

/* Whether @table is far too large for @n. */
bool ban_table_is_sparse(const struct ban_table *table, size_t n);

/* Adds @ban with its tag @tag, in force until @ends_us. There must be room. Returns its line. */
size_t ban_table_add(struct ban_table *table, const struct ban *ban, struct hash128 tag,
                     uint64_t ends_us);

/* Replaces the value of @line, which has @ban's tag, by @ban until @ends_us; or lifts it. */
void ban_table_change(struct ban_table *table, size_t line, const struct ban *ban,
                      uint64_t ends_us);
void ban_table_lift(struct ban_table *table, size_t line);

#endif /* SLUICE_STORE_BANS_BAN_TABLE_H */
