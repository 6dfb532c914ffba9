#include "admin/busiest.h"

#include <stdlib.h>
#include <string.h>

enum {
    DECAY = 10,         /* a tenth of a score is lost at each update */
    LEAD_PERCENT = 125, /* of the score of another, that a thing needs to take its place */
    SCORE_MAX = UINT32_MAX / 2,
};

static enum status grow(struct busiest *busiest, size_t n)
{
    if (n <= busiest->n_known) {
        return STATUS_OK;
    }
    uint32_t *counts = realloc(busiest->counts, n * sizeof(counts[0]));
    busiest->counts = counts != NULL ? counts : busiest->counts;
    uint32_t *scores = realloc(busiest->scores, n * sizeof(scores[0]));
    busiest->scores = scores != NULL ? scores : busiest->scores;
    uint8_t *places = realloc(busiest->places, n);
    busiest->places = places != NULL ? places : busiest->places;
    if (counts == NULL || scores == NULL || places == NULL) {
        return STATUS_NO_MEMORY;
    }
    const size_t n_new = n - busiest->n_known;
    memset(counts + busiest->n_known, 0, n_new * sizeof(counts[0]));
    memset(scores + busiest->n_known, 0, n_new * sizeof(scores[0]));
    memset(places + busiest->n_known, BUSIEST_OTHER, n_new);
    busiest->n_known = n;
    return STATUS_OK;
}

/* The place with the least score. */
static size_t find_least(const struct busiest *busiest)
{
    size_t least = 0;
    for (size_t place = 1; place < busiest->n_own; place++) {
        if (busiest->scores[busiest->numbers[place]] < busiest->scores[busiest->numbers[least]]) {
            least = place;
        }
    }
    return least;
}

static void give_place(struct busiest *busiest, size_t number, size_t place)
{
    busiest->numbers[place] = (uint32_t)number;
    busiest->places[number] = (uint8_t)place;
}

enum status busiest_claim(struct busiest *busiest, const uint64_t *counts, size_t n)
{
    const enum status status = busiest->n_own < BUSIEST_OWN ? grow(busiest, n) : STATUS_OK;
    n = n < busiest->n_known ? n : busiest->n_known;
    for (size_t number = 0; number < n && busiest->n_own < BUSIEST_OWN; number++) {
        if (counts[number] > 0 && busiest->places[number] == BUSIEST_OTHER) {
            give_place(busiest, number, busiest->n_own++);
        }
    }
    return status;
}

static void score(struct busiest *busiest, const uint64_t *counts, size_t n)
{
    for (size_t number = 0; number < n; number++) {
        const uint32_t count = (uint32_t)counts[number];
        const uint64_t score = (uint64_t)busiest->scores[number] - busiest->scores[number] / DECAY +
                               (uint32_t)(count - busiest->counts[number]);
        busiest->scores[number] = score < SCORE_MAX ? (uint32_t)score : SCORE_MAX;
        busiest->counts[number] = count;
    }
}

enum status busiest_update(struct busiest *busiest, const uint64_t *counts, size_t n,
                           void (*replaced)(void *context, size_t place), void *context)
{
    const enum status status = grow(busiest, n);
    n = n < busiest->n_known ? n : busiest->n_known;
    score(busiest, counts, n);
    for (size_t number = 0; number < n && busiest->n_own == BUSIEST_OWN; number++) {
        const size_t least = find_least(busiest);
        const uint64_t least_score = busiest->scores[busiest->numbers[least]];
        if (busiest->places[number] == BUSIEST_OTHER &&
            (uint64_t)busiest->scores[number] * 100 > least_score * LEAD_PERCENT) {
            busiest->places[busiest->numbers[least]] = BUSIEST_OTHER;
            give_place(busiest, number, least);
            replaced(context, least);
        }
    }
    return status;
}

void busiest_close(struct busiest *busiest)
{
    free(busiest->counts);
    free(busiest->scores);
    free(busiest->places);
    *busiest = (struct busiest){.n_own = 0};
}
