/* The embedded store: a table of fixed maximum size in this process, shared by all workers.
 *
 * It stores a 128-bit keyed hash of (key, limit), never the key. A key takes one cache line, or a
 * power of two of them if the algorithm's state is larger than 24 bytes; a log takes more as it
 * grows. Each shard has a lock; a decision takes the locks it needs in ascending order. The store
 * always decides and settles at once. It follows the machine's clocks: a step of the wall clock
 * moves only the windows that start at wall clock times, and a suspension counts as elapsed time.
 * A time outside the calendar of a limit gives STATUS_INVALID. */

#ifndef SLUICE_STORE_MEMORY_STORE_H
#define SLUICE_STORE_MEMORY_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/status.h"
#include "store/store.h"

/* The treatment of a new key, or of a key whose log must grow, when every state that could be
 * dropped still restricts a client. */
enum memory_full {
    MEMORY_FULL_OVERFLOW, /* it shares one state per limit and shard with all such keys */
    MEMORY_FULL_DENY,     /* STATUS_FULL */
    MEMORY_FULL_ALLOW,    /* admitted uncounted */
};

struct memory_store_options {
    size_t memory_bytes; /* maximum size of the whole table; at least MEMORY_STORE_BYTES_MIN */
    enum memory_full full;
    /* The clock of a simulation: us since the epoch, for all limits. NULL: the machine's clocks,
     * see src/store/memory/memory_clock.h. */
    uint64_t (*now_us)(void *context);
    /* Reads those clocks; NULL: clock_read(). A test passes its own. */
    void (*read_clocks)(void *context, struct clock_reading *reading);
    void *context; /* of both */
};

enum { MEMORY_STORE_BYTES_MIN = 1024 * 1024 };

struct memory_store_counters {
    uint64_t n_keys;      /* in the table now, including expired ones that are not yet removed */
    uint64_t n_keys_max;  /* capacity, if each key takes one line */
    uint64_t n_bytes;     /* memory that states take now */
    uint64_t n_evictions; /* states dropped before they were unused again */
    /* charges that shared a state, were refused or were let through because there was no room */
    uint64_t n_overflows;
};

/* STATUS_NO_MEMORY; STATUS_INVALID: fewer bytes than the minimum. Free with store_free(). */
MUST_USE enum status memory_store_new(const struct memory_store_options *options,
                                      struct store **store);

/* Changes the treatment of keys without room. Safe from any thread. */
void memory_store_set_full(struct store *store, enum memory_full full);

/* Reads the counters, shard by shard, so not all at one instant. Safe from any thread. */
void memory_store_count(const struct store *store, struct memory_store_counters *counters);

#endif /* SLUICE_STORE_MEMORY_STORE_H */
