/* The embedded store: a table in this process, shared by all workers, never larger than it was
 * told.
 *
 * It keeps a 128-bit keyed hash of (key, limit), never the key, and one cache line a key, more
 * where an algorithm's state is larger than 24 bytes: lines by powers of two, and a log's grow with
 * it. Shards have a lock each; one decision takes the locks it needs in ascending order. It always
 * answers at once, and settles at once. It follows the machine's clocks: a step of the wall clock
 * moves the windows that start at its times and nothing else; a suspension counts as time that has
 * passed. A time outside the calendar of a limit is STATUS_INVALID. */

#ifndef SLUICE_STORE_MEMORY_STORE_H
#define SLUICE_STORE_MEMORY_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"

/* What happens to a new key, or one whose log must grow, when every state that could make room is
 * still restricting somebody. */
enum memory_full {
    MEMORY_FULL_OVERFLOW, /* it shares one state per limit and shard with all such keys */
    MEMORY_FULL_DENY,     /* STATUS_FULL */
    MEMORY_FULL_ALLOW,    /* admitted uncounted */
};

struct memory_store_options {
    size_t memory_bytes; /* the cap, all of the table included; at least MEMORY_STORE_BYTES_MIN */
    enum memory_full full;
    /* Where time is told, in a trial: us since the epoch, for all limits. NULL: time is that of the
     * machine's clocks, as src/store/memory_clock.h has it. */
    uint64_t (*now_us)(void *context);
    /* What those clocks say; NULL: clock_read(). A test passes its own. */
    void (*read_clocks)(void *context, struct clock_reading *reading);
    void *context; /* of both */
};

enum { MEMORY_STORE_BYTES_MIN = 1024 * 1024 };

struct memory_store_counters {
    uint64_t n_keys;      /* in the table now, expired ones included until they are met */
    uint64_t n_keys_max;  /* that fit, if all are small */
    uint64_t n_bytes;     /* that states take now */
    uint64_t n_evictions; /* states dropped before they were untouched again */
    uint64_t n_overflows; /* charges that had to share a state, or were refused or let through, for
                           * want of room */
};

/* STATUS_NO_MEMORY; STATUS_INVALID: fewer bytes than the minimum. Free with store_free(). */
MUST_USE enum status memory_store_new(const struct memory_store_options *options,
                                      struct store **store);

/* Safe from any thread: from now on @full. */
void memory_store_set_full(struct store *store, enum memory_full full);

/* Safe from any thread; the numbers are of about the same moment. */
void memory_store_count(const struct store *store, struct memory_store_counters *counters);

#endif /* SLUICE_STORE_MEMORY_STORE_H */
