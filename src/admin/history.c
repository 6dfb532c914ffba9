#include "admin/history.h"

#include <string.h>

enum {
    FINE_US = 1000 * 1000,
    COARSE_US = 10 * FINE_US,
};

void history_init(struct history *history)
{
    memset(history, 0, sizeof(*history));
    history->fine = (struct history_ring){
        .steps = history->fine_steps, .n_steps = HISTORY_FINE_STEPS, .step_us = FINE_US};
    history->coarse = (struct history_ring){
        .steps = history->coarse_steps, .n_steps = HISTORY_COARSE_STEPS, .step_us = COARSE_US};
}

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
        struct history_reading *step = &ring->steps[++number % ring->n_steps];
        memset(step, 0, sizeof(*step));
        step->values[HISTORY_CONNECTIONS] = connections;
    }
    ring->last = target;
}

static void add(struct history_ring *ring, const struct history_reading *difference)
{
    struct history_reading *step = &ring->steps[ring->last % ring->n_steps];
    for (size_t i = 0; i < HISTORY_VALUES; i++) {
        step->values[i] += difference->values[i];
    }
    step->values[HISTORY_CONNECTIONS] = difference->values[HISTORY_CONNECTIONS];
}

void history_add(struct history *history, uint64_t now_us, const struct history_reading *reading)
{
    struct history_reading difference = {.values = {0}};
    if (!history->has_reading) {
        begin(&history->fine, now_us);
        begin(&history->coarse, now_us);
        history->latest = *reading;
        history->has_reading = true;
    }
    for (size_t i = 0; i < HISTORY_VALUES; i++) {
        const uint64_t before = history->latest.values[i];
        difference.values[i] = reading->values[i] > before ? reading->values[i] - before : 0;
    }
    difference.values[HISTORY_CONNECTIONS] = reading->values[HISTORY_CONNECTIONS];
    add(&history->fine, &difference);
    add(&history->coarse, &difference);
    advance(&history->fine, now_us);
    advance(&history->coarse, now_us);
    history->latest = *reading;
}

size_t history_count(const struct history_ring *ring)
{
    const uint64_t n = ring->last - ring->first;
    return n < ring->n_steps ? n : ring->n_steps - 1; /* one place is that of the step going on */
}

const struct history_reading *history_step(const struct history_ring *ring, size_t i)
{
    return &ring->steps[(ring->last - history_count(ring) + i) % ring->n_steps];
}

uint64_t history_end_us(const struct history_ring *ring)
{
    return ring->last * ring->step_us;
}
