/* The history of the process: what its workers have counted, in steps of 1 s for the last two
 * minutes and of 10 s for the last hour.
 *
 * The admin thread adds a reading of the workers' counters at each whole second of the monotonic
 * clock, so a request pays nothing. What was counted between two readings belongs to the step of
 * the earlier one. */

#ifndef SLUICE_ADMIN_HISTORY_H
#define SLUICE_ADMIN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum history_value {
    HISTORY_UNLIMITED, /* requests that have ended, by verdict, as in enum meter_verdict */
    HISTORY_ALLOWED,
    HISTORY_DENIED,
    HISTORY_UNDECIDED,
    HISTORY_UNKNOWN,
    HISTORY_SERVER_ERRORS, /* requests answered with a status of 500 and above */
    HISTORY_REQUEST_US,    /* the time that requests took, added up; us */
    HISTORY_DECISIONS,     /* answers of the store */
    HISTORY_DECISION_US,   /* the time that they took, added up; us */
    HISTORY_CONNECTIONS,   /* gauge: open connections of clients at the end of the step */
    HISTORY_VALUES,
};

enum {
    HISTORY_FINE_STEPS = 120 + 1, /* one is the step going on */
    HISTORY_COARSE_STEPS = 360 + 1,
};

struct history_reading {
    uint64_t values[HISTORY_VALUES];
};

/* Steps of one length, the oldest overwritten. */
struct history_ring {
    struct history_reading *steps; /* by number of the step modulo n_steps */
    uint64_t n_steps;
    uint64_t step_us;
    uint64_t first; /* number of the step of the first reading: time / step_us */
    uint64_t last;  /* number of the step of the latest reading, which may go on */
};

/* A history without a reading is all zero but for history_init(). */
struct history {
    struct history_reading fine_steps[HISTORY_FINE_STEPS];
    struct history_reading coarse_steps[HISTORY_COARSE_STEPS];
    struct history_ring fine;
    struct history_ring coarse;
    struct history_reading latest;
    bool has_reading;
};

void history_init(struct history *history);

/* Add a reading of the counters at @now_us (monotonic). The first one is what the others count
 * from. A time before the latest reading counts as that of the latest. A counter that is less than
 * before adds 0. */
void history_add(struct history *history, uint64_t now_us, const struct history_reading *reading);

/* How many steps of @ring are complete and still kept. */
size_t history_count(const struct history_ring *ring);

/* The @i-th of the history_count() steps, the oldest first. */
const struct history_reading *history_step(const struct history_ring *ring, size_t i);

/* When the latest complete step of @ring ended; us, monotonic. */
uint64_t history_end_us(const struct history_ring *ring);

#endif /* SLUICE_ADMIN_HISTORY_H */
