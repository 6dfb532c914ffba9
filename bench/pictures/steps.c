#include "steps.h"

#include <assert.h>
#include <stdlib.h>

void steps_add(struct steps *steps, uint64_t at_us, int change)
{
    assert(steps->n < STEPS_MAX);

    steps->at[steps->n++] = (struct step){.at_us = at_us, .count = change};
}

static int compare(const void *left, const void *right)
{
    const struct step *a = left;
    const struct step *b = right;
    if (a->at_us != b->at_us) {
        return a->at_us < b->at_us ? -1 : 1;
    }
    return a->count - b->count;
}

void steps_finish(struct steps *steps)
{
    qsort(steps->at, steps->n, sizeof(steps->at[0]), compare);
    for (size_t i = 1; i < steps->n; i++) {
        steps->at[i].count += steps->at[i - 1].count;
    }
}

int steps_highest(const struct steps *steps)
{
    int highest = 0;
    for (size_t i = 0; i < steps->n; i++) {
        highest = steps->at[i].count > highest ? steps->at[i].count : highest;
    }
    return highest;
}
