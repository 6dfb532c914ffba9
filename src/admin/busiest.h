/* The busiest of many numbered things, routes or limits: which of them have a place of their own in
 * the history. All others share the last place.
 *
 * Each thing has a score, what it counted with what is older weighing less: a step of 10 s weighs
 * half of one that is 70 s younger. Memory: 9 bytes for each number. */

#ifndef SLUICE_ADMIN_BUSIEST_H
#define SLUICE_ADMIN_BUSIEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

enum {
    BUSIEST_OWN = 32,           /* things with a place of their own */
    BUSIEST_OTHER = BUSIEST_OWN /* the place of all others */
};

/* All zero: nothing is known. */
struct busiest {
    uint32_t numbers[BUSIEST_OWN]; /* of the thing at each place */
    size_t n_own;
    /* By number, each n_known long; owned. */
    uint32_t *counts; /* at the last update, modulo 2^32 */
    uint32_t *scores;
    uint8_t *places;
    size_t n_known;
};

/* The place of the thing @number. */
static inline size_t busiest_place(const struct busiest *busiest, size_t number)
{
    return number < busiest->n_known ? busiest->places[number] : (size_t)BUSIEST_OTHER;
}

/* Give a place to each thing of the counts[0 … n) that has counted something, while places are
 * free. STATUS_NO_MEMORY. */
MUST_USE enum status busiest_claim(struct busiest *busiest, const uint64_t *counts, size_t n);

/* Go on to the counts[0 … n): each @counts counts up. @replaced is called for each place that
 * another thing gets: the one that had it has none now. STATUS_NO_MEMORY: things that are new have
 * no place yet. */
MUST_USE enum status busiest_update(struct busiest *busiest, const uint64_t *counts, size_t n,
                                    void (*replaced)(void *context, size_t place), void *context);

void busiest_close(struct busiest *busiest);

#endif /* SLUICE_ADMIN_BUSIEST_H */
