/* A count that goes up and down with time. */

#ifndef PICTURES_STEPS_H
#define PICTURES_STEPS_H

#include <stddef.h>
#include <stdint.h>

enum { STEPS_MAX = 160 }; /* each request goes up and down once */

struct step {
    uint64_t at_us;
    int count; /* from at_us on */
};

/* At one instant what goes down goes first. */
struct steps {
    size_t n;
    struct step at[STEPS_MAX]; /* in order of time, after steps_finish() */
};

/* Let the count change by @change at @at_us; calls in any order. */
void steps_add(struct steps *steps, uint64_t at_us, int change);

/* Sort, and turn changes into counts. */
void steps_finish(struct steps *steps);

int steps_highest(const struct steps *steps);

#endif /* PICTURES_STEPS_H */
