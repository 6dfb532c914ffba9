/* The clocks. No other module reads a clock; other modules take the time as an argument. */

#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdint.h>

/* Time since an arbitrary start, in us; never goes backwards. For deadlines and durations. */
uint64_t clock_monotonic_us(void);

/* Time since the Unix epoch, in us; may jump. For display and for windows that users can see. */
uint64_t clock_wall_us(void);

/* The values of the three clocks at one moment, us. */
struct clock_reading {
    uint64_t
        monotonic_us; /* as clock_monotonic_us(); stands still while the machine is suspended */
    uint64_t boot_us; /* the same, but advances meanwhile */
    uint64_t wall_us; /* as clock_wall_us() */
};

/* Read all three clocks as close to each other as possible: usually within a microsecond, even if
 * this thread is interrupted between the reads. */
void clock_read(struct clock_reading *reading);

/* Seconds since 1970; cheaper than clock_wall_us(), and up to 10 ms late. For output with a
 * resolution of a second. */
uint64_t clock_wall_s(void);

#endif /* SLUICE_BASE_CLOCK_H */
