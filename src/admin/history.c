#include "admin/history.h"

#include <stdlib.h>
#include <string.h>

enum {
    FINE_US = 1000 * 1000,
    COARSE_US = 10 * FINE_US,
};

_Static_assert(sizeof(struct history) < 768 * 1024, "with 9 bytes a route and limit below 1 MiB");

void history_init(struct history *history)
{
    memset(history, 0, sizeof(*history));
    history->fine = (struct history_ring){
        .steps = history->fine_steps, .n_steps = HISTORY_FINE_STEPS, .step_us = FINE_US};
    history->coarse = (struct history_ring){
        .steps = history->coarse_steps, .n_steps = HISTORY_COARSE_STEPS, .step_us = COARSE_US};
}

void history_close(struct history *history)
{
    busiest_close(&history->routes);
    busiest_close(&history->limits);
}

/* --- the steps --- */

static void begin(struct history_ring *ring, uint64_t now_us)
{
    ring->first = now_us / ring->step_us;
    ring->last = ring->first;
}

/* Go on to the step at @now_us. Steps between without a reading are empty, but for the gauge. */
static void advance(struct history_ring *ring, uint64_t now_us)
{
    const uint64_t target = now_us / ring->step_us;
    if (target <= ring->last) {
        return;
    }
    const uint64_t connections =
        ring->steps[ring->last % ring->n_steps].values[HISTORY_CONNECTIONS];
    uint64_t number = ring->last;
    if (target - number > ring->n_steps) {
        number = target - ring->n_steps;
    }
    while (number < target) {
        struct history_step *step = &ring->steps[++number % ring->n_steps];
        memset(step, 0, sizeof(*step));
        step->values[HISTORY_CONNECTIONS] = connections;
    }
    ring->last = target;
}

/* Add to n numbers of 32 bits, which stay at their largest value. */
static void add_u32(uint32_t *sums, const uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t sum = (uint64_t)sums[i] + numbers[i];
        sums[i] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    }
}

static void add(struct history_ring *ring, const struct history_step *difference)
{
    struct history_step *step = &ring->steps[ring->last % ring->n_steps];
    for (size_t i = 0; i < HISTORY_VALUES; i++) {
        step->values[i] += difference->values[i];
    }
    step->values[HISTORY_CONNECTIONS] = difference->values[HISTORY_CONNECTIONS];
    add_u32(step->latency, difference->latency, ARRAY_LEN(step->latency));
    add_u32(step->routes[0], difference->routes[0], HISTORY_LINES * HISTORY_ROUTE_VALUES);
    add_u32(step->limits[0], difference->limits[0], HISTORY_LINES * HISTORY_LIMIT_VALUES);
}

/* --- lines --- */

/* Sum up the n_rows of @width numbers each at @rows into the lines at their places. */
static void add_up(const struct busiest *busiest, const uint64_t *rows, size_t n_rows, size_t width,
                   uint64_t *lines)
{
    memset(lines, 0, HISTORY_LINES * width * sizeof(lines[0]));
    for (size_t number = 0; number < n_rows; number++) {
        uint64_t *line = &lines[busiest_place(busiest, number) * width];
        for (size_t i = 0; i < width; i++) {
            line[i] += rows[number * width + i];
        }
    }
}

/* Set *before to @now, and return how much more that is; 0 if it is less. */
static uint64_t step_from(uint64_t *before, uint64_t now)
{
    const uint64_t difference = now > *before ? now - *before : 0;
    *before = now;
    return difference;
}

static void step_all_from(uint64_t *before, const uint64_t *now, uint32_t *difference, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t step = step_from(&before[i], now[i]);
        difference[i] = step < UINT32_MAX ? (uint32_t)step : UINT32_MAX;
    }
}

static void take_lines(const struct history *history, const struct history_reading *reading,
                       struct history_lines *lines)
{
    add_up(&history->routes, reading->routes != NULL ? reading->routes[0] : NULL, reading->n_routes,
           HISTORY_ROUTE_VALUES, &lines->routes[0][0]);
    add_up(&history->limits, reading->limits != NULL ? reading->limits[0] : NULL, reading->n_limits,
           HISTORY_LIMIT_VALUES, &lines->limits[0][0]);
    for (size_t line = 0; line < HISTORY_LINES; line++) {
        lines->routes[line][HISTORY_ROUTE_US] /= 1000;
    }
}

/* --- who has a line --- */

/* Of a table of lines in a step. */
struct lines_of {
    struct history *history;
    size_t offset;
    size_t width;
};

static void move_lines(struct history_ring *ring, const struct lines_of *of, size_t place)
{
    for (size_t i = 0; i < ring->n_steps; i++) {
        uint32_t *lines = (uint32_t *)((char *)&ring->steps[i] + of->offset);
        add_u32(&lines[BUSIEST_OTHER * of->width], &lines[place * of->width], of->width);
        memset(&lines[place * of->width], 0, of->width * sizeof(lines[0]));
    }
}

/* What the thing that was at @place has counted is part of the others from now on. */
static void on_replaced(void *context, size_t place)
{
    const struct lines_of *of = context;
    move_lines(&of->history->fine, of, place);
    move_lines(&of->history->coarse, of, place);
}

/* The sum of the first @n_summed numbers of each row, of malloc. NULL: no memory, or no rows. */
static uint64_t *sum_rows(const uint64_t *rows, size_t n_rows, size_t width, size_t n_summed)
{
    uint64_t *sums = n_rows > 0 ? calloc(n_rows, sizeof(sums[0])) : NULL;
    for (size_t i = 0; sums != NULL && i < n_rows; i++) {
        for (size_t j = 0; j < n_summed; j++) {
            sums[i] += rows[i * width + j];
        }
    }
    return sums;
}

/* Of a reading: what each route and limit has counted. */
struct counts {
    uint64_t *routes; /* NULL: none, or no memory */
    uint64_t *limits;
    size_t n_routes;
    size_t n_limits;
};

static struct counts count_all(const struct history_reading *reading)
{
    struct counts counts = {.routes = NULL};
    if (reading->n_routes > 0) {
        counts.routes = sum_rows(reading->routes[0], reading->n_routes, HISTORY_ROUTE_VALUES, 1);
        counts.n_routes = counts.routes != NULL ? reading->n_routes : 0;
    }
    if (reading->n_limits > 0) {
        counts.limits = sum_rows(reading->limits[0], reading->n_limits, HISTORY_LIMIT_VALUES,
                                 HISTORY_LIMIT_VALUES);
        counts.n_limits = counts.limits != NULL ? reading->n_limits : 0;
    }
    return counts;
}

/* Let the busiest have the lines. */
static enum status update_lines(struct history *history, const struct history_reading *reading,
                                const struct counts *counts)
{
    struct lines_of routes = {history, offsetof(struct history_step, routes), HISTORY_ROUTE_VALUES};
    struct lines_of limits = {history, offsetof(struct history_step, limits), HISTORY_LIMIT_VALUES};
    const enum status status =
        busiest_update(&history->routes, counts->routes, counts->n_routes, on_replaced, &routes);
    const enum status limit_status =
        busiest_update(&history->limits, counts->limits, counts->n_limits, on_replaced, &limits);
    take_lines(history, reading, &history->lines);
    return status != STATUS_OK ? status : limit_status;
}

/* --- readings --- */

static void take_difference(struct history *history, const struct history_reading *reading,
                            struct history_step *difference)
{
    struct history_lines lines;
    for (size_t i = 0; i < HISTORY_VALUES; i++) {
        difference->values[i] = step_from(&history->values[i], reading->values[i]);
    }
    difference->values[HISTORY_CONNECTIONS] = reading->values[HISTORY_CONNECTIONS];
    step_all_from(history->latency, reading->latency, difference->latency,
                  ARRAY_LEN(reading->latency));
    take_lines(history, reading, &lines);
    step_all_from(&history->lines.routes[0][0], &lines.routes[0][0], &difference->routes[0][0],
                  HISTORY_LINES * HISTORY_ROUTE_VALUES);
    step_all_from(&history->lines.limits[0][0], &lines.limits[0][0], &difference->limits[0][0],
                  HISTORY_LINES * HISTORY_LIMIT_VALUES);
}

enum status history_add(struct history *history, uint64_t now_us,
                        const struct history_reading *reading)
{
    struct history_step difference = {.values = {0}};
    const struct counts counts = count_all(reading);
    const uint64_t coarse_before = history->coarse.last;
    /* Before the differences are taken: what is new has counted nothing before. */
    const enum status status = busiest_claim(&history->routes, counts.routes, counts.n_routes);
    const enum status limit_status =
        busiest_claim(&history->limits, counts.limits, counts.n_limits);
    enum status update_status = STATUS_OK;
    take_difference(history, reading, &difference);
    if (!history->has_reading) {
        begin(&history->fine, now_us);
        begin(&history->coarse, now_us);
        history->has_reading = true;
        difference = (struct history_step){.values = {0}};
        difference.values[HISTORY_CONNECTIONS] = reading->values[HISTORY_CONNECTIONS];
    }
    add(&history->fine, &difference);
    add(&history->coarse, &difference);
    advance(&history->fine, now_us);
    advance(&history->coarse, now_us);
    if (history->coarse.last != coarse_before) {
        update_status = update_lines(history, reading, &counts);
    }
    free(counts.routes);
    free(counts.limits);
    return status != STATUS_OK ? status : limit_status != STATUS_OK ? limit_status : update_status;
}

size_t history_count(const struct history_ring *ring)
{
    const uint64_t n = ring->last - ring->first;
    return n < ring->n_steps ? n : ring->n_steps - 1; /* one place is that of the step going on */
}

const struct history_step *history_step(const struct history_ring *ring, size_t i)
{
    return &ring->steps[(ring->last - history_count(ring) + i) % ring->n_steps];
}

uint64_t history_end_us(const struct history_ring *ring)
{
    return ring->last * ring->step_us;
}
