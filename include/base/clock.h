/* The only place that reads a clock. Everything else takes the time as an argument. */

#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdint.h>

/* Time since some start, in us; never steps back. For deadlines and lengths. */
uint64_t clock_monotonic_us(void);

/* Time since the Unix epoch, in us; may step. For people and for windows that they can see. */
uint64_t clock_wall_us(void);

/* What the clocks said at one moment, us. */
struct clock_reading {
    uint64_t
        monotonic_us; /* as clock_monotonic_us(); stands still while the machine is suspended */
    uint64_t boot_us; /* the same, and goes on meanwhile */
    uint64_t wall_us; /* as clock_wall_us() */
};

/* Read all three as close to each other as can be: usually within a microsecond, also when this
 * thread is interrupted between them. */
void clock_read(struct clock_reading *reading);

/* Seconds since 1970, cheaper: up to 10 ms late. For what shows no more than seconds. */
uint64_t clock_wall_s(void);

#endif /* SLUICE_BASE_CLOCK_H */
