/* Synchronizes a replica with its hash in Redis, `<prefix><suffix>`.
 *
 * The field `version` of the hash is a number that each change increments. A message on the channel
 * `<prefix>:changes` reports a change: the word of the table, the version after it, and the field,
 * which is then read. The version is polled every second: if it is not the one that messages lead
 * to, all fields are read. While Redis is unreachable, all known records stay. A sync belongs to
 * one loop and has two connections of its own, independent of the workers and their links. */

#ifndef SLUICE_STORE_REPLICA_SYNC_H
#define SLUICE_STORE_REPLICA_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_options.h"
#include "store/replica.h"

struct loop;
struct replica_sync;

/* A kind of table. */
struct replica_table {
    const char *module; /* for the log */
    const char *name;   /* of the records, for the log */
    struct span suffix; /* of the key of the hash */
    struct span word;   /* of messages about it, with a space at its end */
    bool is_restored;   /* records that Redis loses are set again; the hash has a field `id` */

    /* Parses a record of the hash into @row but its end: how long it holds from @now_ms, Redis's
     * time since the epoch, is *@left_us, UINT64_MAX: for ever; until when is *@until_ms. False:
     * there is no record of @field, as where *@left_us would be 0. */
    bool (*read)(void *context, struct span field, struct span value, uint64_t now_ms,
                 struct replica_row *row, uint64_t *left_us, uint64_t *until_ms);
    /* All records were read. May be NULL. */
    void (*on_read_all)(void *context);
};

struct replica_sync_options {
    /* the address of Redis, unless it is a cluster; its spans, resolver and process are borrowed,
     * its limits unused */
    struct redis_store_options redis;
    struct redis_host hosts[REDIS_ENDPOINTS_MAX]; /* first nodes of a cluster */
    size_t n_hosts;                               /* 0: no cluster */
    const struct replica_table *table;            /* borrowed */
    struct replica *replica;                      /* borrowed */
    void *context;                                /* of the table's functions */
};

/* Starts to read and to subscribe, in @loop. STATUS_NO_MEMORY. */
MUST_USE enum status replica_sync_new(struct loop *loop, const struct replica_sync_options *options,
                                      struct replica_sync **sync);

/* Call these in the loop's thread, or while the loop does not run. */

/* Reads all fields again, after those that are being read: they may mean something else now. */
void replica_sync_read_all(struct replica_sync *sync);

/* The known records stay. NULL is a no-op. */
void replica_sync_free(struct replica_sync *sync);

#endif /* SLUICE_STORE_REPLICA_SYNC_H */
