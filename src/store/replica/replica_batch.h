/* Rows that were read and are not in the table yet.
 *
 * To put a row at once costs a copy of its shard, so to put n rows one by one costs n copies. Rows
 * of a reading are collected here and put shard by shard: one copy for all that a shard gets. A
 * row has one entry, or two with an alias, each in a chain of its shard. */

#ifndef SLUICE_STORE_REPLICA_REPLICA_BATCH_H
#define SLUICE_STORE_REPLICA_REPLICA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "store/replica/replica_shard.h"

enum { REPLICA_CHAINS = 32 }; /* of a shard */

struct replica_chains {
    struct replica_added *of[REPLICA_SHARDS][REPLICA_CHAINS];
};

/* A row in the batch. */
struct replica_batched {
    struct replica_row
        row; /* its texts are the batch's; the tag is all zero if it is the field's */
    struct replica_added record;
    struct replica_added alias; /* if the row has a tag */
    bool is_new;                /* the table had no record of the field */
};

/* All zero: empty. */
struct replica_batch {
    struct replica_chains *chains; /* NULL: empty */
    struct arena arena;            /* of the rows */
    size_t bytes;                  /* of the rows */
    size_t n;                      /* rows that were added and not taken out */
    size_t n_new;                  /* of them, new ones */
    uint64_t since_us;             /* when the first of them was added */
    size_t next;                   /* the shard that is put next */
};

static inline bool replica_batch_is_empty(const struct replica_batch *batch)
{
    return batch->chains == NULL;
}

/* Puts the entry of @tag into its chain. */
void replica_chains_add(struct replica_chains *chains, struct replica_added *added,
                        const struct replica_row *row, struct hash128 tag, bool is_alias);

/* The row whose record or alias has @tag and, the record, @field. NULL: none. */
struct replica_batched *replica_batch_find(const struct replica_batch *batch, struct hash128 tag,
                                           struct span field);

/* Adds a copy of @row, no row of whose field is in the batch. @of_field is the tag of its field.
 * STATUS_NO_MEMORY. */
MUST_USE enum status replica_batch_add(struct replica_batch *batch, const struct replica_row *row,
                                       struct hash128 of_field, bool is_new, uint64_t now_us);

/* Takes what is left of @batched out of its chains. */
void replica_batch_remove(struct replica_batch *batch, struct replica_batched *batched);

/* Whether there are entries for shard @i. */
bool replica_batch_has(const struct replica_batch *batch, size_t i);

/* The entries of shard @i have been put, or given up. The time when the first of them ends. */
uint64_t replica_batch_end_shard(struct replica_batch *batch, size_t i);

/* Empties the batch. */
void replica_batch_reset(struct replica_batch *batch);

#endif /* SLUICE_STORE_REPLICA_REPLICA_BATCH_H */
