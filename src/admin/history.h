/* The history of the process: what its workers have counted, in steps of 1 s for the last two
 * minutes and of 10 s for the last hour; also by route and by limit, of the busiest of each.
 *
 * The admin thread adds a reading of the workers' counters at each whole second of the monotonic
 * clock, so a request pays nothing. What was counted between two readings belongs to the step of
 * the earlier one. At most 1 MiB in all. */

#ifndef SLUICE_ADMIN_HISTORY_H
#define SLUICE_ADMIN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/busiest.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "base/span.h"
#include "base/status.h"

struct name_directory;

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

/* Of each route. */
enum history_route_value {
    HISTORY_ROUTE_REQUESTS,
    HISTORY_ROUTE_DENIED,
    HISTORY_ROUTE_ERRORS, /* answered with a status of 500 and above */
    HISTORY_ROUTE_US,     /* the time that requests took, added up; us. In a step: ms */
    HISTORY_ROUTE_VALUES,
};

/* Of each limit: as enum meter_saying. */
enum history_limit_value {
    HISTORY_LIMIT_ALLOWED,
    HISTORY_LIMIT_DENIED,
    HISTORY_LIMIT_WOULD_DENY,
    HISTORY_LIMIT_VALUES,
};

enum {
    HISTORY_FINE_STEPS = 120 + 1, /* one is the step going on */
    HISTORY_COARSE_STEPS = 360 + 1,
    HISTORY_LINES = BUSIEST_OWN + 1, /* by place; the last one: all other routes, or limits */
};

/* The counters at one moment. */
struct history_reading {
    uint64_t values[HISTORY_VALUES];
    uint64_t latency[LATENCY_EDGES + 1]; /* requests by the time that they took: base/counter.h */
    /* By number; borrowed. */
    const uint64_t (*routes)[HISTORY_ROUTE_VALUES];
    size_t n_routes;
    const uint64_t (*limits)[HISTORY_LIMIT_VALUES];
    size_t n_limits;
};

/* What was counted in one step. What exceeds its type is its largest value. */
struct history_step {
    uint64_t values[HISTORY_VALUES];
    uint32_t latency[LATENCY_EDGES + 1];
    uint32_t routes[HISTORY_LINES][HISTORY_ROUTE_VALUES];
    uint32_t limits[HISTORY_LINES][HISTORY_LIMIT_VALUES];
};

/* Counters by line. */
struct history_lines {
    uint64_t routes[HISTORY_LINES][HISTORY_ROUTE_VALUES];
    uint64_t limits[HISTORY_LINES][HISTORY_LIMIT_VALUES];
};

/* Steps of one length, the oldest overwritten. */
struct history_ring {
    struct history_step *steps; /* by number of the step modulo n_steps */
    uint64_t n_steps;
    uint64_t step_us;
    uint64_t first; /* number of the step of the first reading: time / step_us */
    uint64_t last;  /* number of the step of the latest reading, which may go on */
};

/* A history without a reading is all zero but for history_init(). */
struct history {
    struct history_step fine_steps[HISTORY_FINE_STEPS];
    struct history_step coarse_steps[HISTORY_COARSE_STEPS];
    struct history_ring fine;
    struct history_ring coarse;
    struct busiest routes; /* which have a line of their own */
    struct busiest limits;
    /* The latest reading, by line. */
    uint64_t values[HISTORY_VALUES];
    uint64_t latency[LATENCY_EDGES + 1];
    struct history_lines lines;
    bool has_reading;
};

void history_init(struct history *history);
void history_close(struct history *history);

/* Add a reading of the counters at @now_us (monotonic). The first one is what the others count
 * from. A time before the latest reading counts as that of the latest. A counter that is less than
 * before adds 0. STATUS_NO_MEMORY: routes and limits that are new have no line of their own yet. */
MUST_USE enum status history_add(struct history *history, uint64_t now_us,
                                 const struct history_reading *reading);

/* How many steps of @ring are complete and still kept. */
size_t history_count(const struct history_ring *ring);

/* The @i-th of the history_count() steps, the oldest first. */
const struct history_step *history_step(const struct history_ring *ring, size_t i);

/* When the latest complete step of @ring ended; us, monotonic. */
uint64_t history_end_us(const struct history_ring *ring);

/* The history as the text of GET /v1/history. */

struct history_text_sources {
    const struct history *history;
    const struct name_directory *routes; /* names by number */
    const struct name_directory *limits;
    struct span now;      /* JSON: a line of /v1/live */
    uint64_t now_us;      /* monotonic */
    uint64_t now_wall_us; /* since the epoch */
};

/* JSON with its line end, of malloc. Where all lines have counted for an hour it has 125,000
 * numbers, which take a millisecond. NULL: no memory. */
MUST_USE char *history_text_write(const struct history_text_sources *sources, size_t *bytes);

#endif /* SLUICE_ADMIN_HISTORY_H */
