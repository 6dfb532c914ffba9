/* Returns memory to the system that the C library keeps after many requests have ended: what they
 * freed lies between what is in use, and does not go back by itself. 20,000 requests at a time
 * leave some 390 MiB so, and several such waves twice that.
 *
 * malloc_trim() holds the lock of each arena while it works, some 0.1 ms for each MiB: a worker
 * that allocates meanwhile waits. So it is called by a thread that serves no requests, seldom, and
 * when it returns much. */

#ifndef SLUICE_APP_SERVE_MEMORY_RETURN_H
#define SLUICE_APP_SERVE_MEMORY_RETURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum { MEMORY_RETURN_PERIOD_US = 10 * 1000 * 1000 };

/* Bytes of the process. */
struct memory_use {
    uint64_t resident;
    uint64_t taken; /* from the C library's arenas */
    uint64_t free;  /* in them, resident or not */
};

/* All zero is the initial state. */
struct memory_return {
    uint64_t due_us; /* of the next check, monotonic */
    uint64_t kept;   /* least that was resident since the last return, after it */
};

/* Return memory if a check is due and finds much of it. */
void memory_return_check(struct memory_return *state, uint64_t now_us);

/* How long until the next check, us. */
uint64_t memory_return_patience_us(const struct memory_return *state, uint64_t now_us);

/* Whether much has become resident since the last return, and more is free than taken. */
MUST_USE bool memory_return_is_worth(const struct memory_return *state,
                                     const struct memory_use *use);

#endif /* SLUICE_APP_SERVE_MEMORY_RETURN_H */
