/* A recording of this process's requests, in memory: lines of JSON that a replay reads. An operator
 * starts it; it is stopped, or ends by itself, after a time or when its memory is full. There is
 * one in a process, of all workers. While it is off, a request costs one relaxed load.
 *
 * One thread, the admin's, starts, stops and forgets it and takes copies; any thread adds lines. */

#ifndef SLUICE_PROXY_RECORDING_H
#define SLUICE_PROXY_RECORDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

enum {
    RECORDING_BYTES_MAX = 8 * 1024 * 1024,
    RECORDING_S_MAX = 300,
};

enum recording_state {
    RECORDING_NONE,     /* nothing was recorded, or it was forgotten */
    RECORDING_ON,       /* requests are recorded */
    RECORDING_COMPLETE, /* its time is over, or it was stopped */
    RECORDING_FULL,     /* it ended early, for its memory was full */
};

struct recording_report {
    enum recording_state state;
    size_t bytes;
    uint64_t n_lines;
    uint64_t n_too_long; /* requests that were left out */
    uint64_t left_us;    /* RECORDING_ON: until its end */
};

extern atomic_bool recording_flag; /* for recording_is_on() */

static inline bool recording_is_on(void)
{
    return atomic_load_explicit(&recording_flag, memory_order_relaxed);
}

/* Forget the last one and record for @length_us from @now_us (monotonic). STATUS_NO_MEMORY. */
MUST_USE enum status recording_start(uint64_t now_us, uint64_t length_us);

/* End it at @now_us, before its time. Its lines stay. */
void recording_stop(uint64_t now_us);

/* Free its memory. */
void recording_forget(void);

/* Add @line, with its line end, unless the recording is over at @now_us or full. */
void recording_add(struct span line, uint64_t now_us);

/* Count a request whose line would be too long, unless the recording is over at @now_us. */
void recording_leave_out(uint64_t now_us);

void recording_read(uint64_t now_us, struct recording_report *report);

/* A copy of what is recorded so far, of malloc. NULL: nothing is, or no memory. */
MUST_USE char *recording_copy(size_t *bytes);

#endif /* SLUICE_PROXY_RECORDING_H */
