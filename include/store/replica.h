/* A table of records in memory, a replica of a hash in Redis: field -> value, each until a time.
 *
 * The table has 256 shards. A shard never changes: a change makes a new one and swaps it in, so a
 * change costs a copy of one shard. Writers take a lock. Readers take none: a reader announces the
 * shard that it reads, and a replaced shard is freed when no reader announces it.
 *
 * A record is found by a tag, a keyed hash: that of its field, or another one that its user
 * computes. Then the shard of the field has an alias, which leads to the record. */

#ifndef SLUICE_STORE_REPLICA_H
#define SLUICE_STORE_REPLICA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"
#include "store/replica_entry.h"

struct replica;
struct replica_shard;

/* @name, which is borrowed, names the records in the log. At most @n_max records. STATUS_NO_MEMORY.
 */
MUST_USE enum status replica_new(const char *module, const char *name, size_t n_max,
                                 struct replica **replica);

/* All readers must be closed before. NULL is a no-op. */
void replica_free(struct replica *replica);

/* Changes the maximum. Records beyond it stay. */
void replica_set_max(struct replica *replica, size_t n_max);

/* The tag of @text. */
struct hash128 replica_tag(const struct replica *replica, struct span text);

/* --- changes; from any thread --- */

/* Puts @row in place of the record of its field. STATUS_FULL; STATUS_NO_MEMORY; STATUS_TOO_LARGE.
 */
MUST_USE enum status replica_put(struct replica *replica, const struct replica_row *row,
                                 uint64_t now_us);

/* Removes the record of @field, if its number is *@number; NULL: any. False: there is none. */
bool replica_remove(struct replica *replica, struct span field, const uint64_t *number);

/* Puts the @n @rows, whose fields differ and whose tags are set here, to those of the fields, in
 * place of all records. STATUS_FULL, STATUS_NO_MEMORY, STATUS_TOO_LARGE: nothing has changed. */
MUST_USE enum status replica_replace(struct replica *replica, struct replica_row *rows, size_t n);

/* Removes what has ended at @now_us; of many records at most once a second. */
void replica_expire(struct replica *replica, uint64_t now_us);

/* --- a reading of the whole table --- */

/* A record that Redis has lost. */
struct replica_lost {
    struct replica_lost *next;
    uint16_t field_len;
    uint16_t value_len;
    char texts[];
};

/* From one thread. The functions that go on take the lock for a shard at a time. */

void replica_begin_reading(struct replica *replica);

/* As replica_put(), but the row may be put by replica_put_batch(): many rows cost one copy of each
 * shard. */
MUST_USE enum status replica_put_later(struct replica *replica, const struct replica_row *row,
                                       uint64_t now_us);

/* Whether the rows that wait are to be put: they are few, so that it costs little, or many, or have
 * waited for a quarter of a second. */
bool replica_is_batch_due(struct replica *replica, uint64_t now_us);

/* Puts the rows that wait, those of one shard. True: there are more. */
bool replica_put_batch(struct replica *replica);

/* No row waits. Removes the records that were not put since replica_begin_reading(), those of one
 * shard. If @lost is not NULL, those in force at @now_us stay, and copies of them, which the caller
 * frees, are added to *@lost: Redis has lost them. True: there are more shards. */
bool replica_end_reading(struct replica *replica, uint64_t now_us, struct replica_lost **lost);

/* The life of the hash that the known records belong to. It is kept as they are when one
 * replica_sync is freed and another one made; who makes one for another hash clears it. */
struct replica_life *replica_life(struct replica *replica);

/* --- what there is --- */

struct replica_counters {
    size_t n; /* records, including those that have just ended */
    size_t n_max;
    size_t n_unobeyed; /* records that were put and had no room, in the latest reading and since */
};

struct replica_counters replica_count(struct replica *replica);

/* Calls @on_entry for each record in force at @now_us, in no order. @on_entry may not call
 * functions of this header that change the table or take its lock. */
void replica_list(struct replica *replica, uint64_t now_us,
                  void (*on_entry)(void *context, const struct replica_entry *entry),
                  void *context);

/* --- lookup; one reader for each thread --- */

struct replica_reader {
    struct replica *replica;                     /* borrowed */
    _Atomic(const struct replica_shard *) reads; /* announced; NULL: none */
    struct replica_reader *next;                 /* of the replica's readers */
};

void replica_reader_init(struct replica_reader *reader, struct replica *replica);
void replica_reader_close(struct replica_reader *reader);

/* Whether there is no record. */
bool replica_is_empty(const struct replica *replica);

/* The record in force at @now_us (monotonic) with @tag; NULL: none. It is valid until the next
 * lookup of @reader, or until replica_release(). */
MUST_USE const struct replica_entry *replica_find(struct replica_reader *reader, struct hash128 tag,
                                                  uint64_t now_us);

/* As replica_find(), by the field. */
MUST_USE const struct replica_entry *replica_find_field(struct replica_reader *reader,
                                                        struct span field, uint64_t now_us);

static inline void replica_release(struct replica_reader *reader)
{
    atomic_store_explicit(&reader->reads, NULL, memory_order_release);
}

#endif /* SLUICE_STORE_REPLICA_H */
