/* One request of a load: when it was to be sent, and what became of it. Times are of the monotonic
 * clock, in ns; 0: it did not happen. */

#ifndef SLUICE_BENCH_LOAD_SHOT_H
#define SLUICE_BENCH_LOAD_SHOT_H

#include <stdint.h>

struct shot {
    uint64_t intended_ns;
    uint64_t sent_ns;
    uint64_t done_ns; /* answered, or failed */
    uint32_t lag_ns;  /* of the generator itself: it could have been sent so much earlier */
    uint16_t status;  /* 0: it failed, or nothing came */
};

#endif /* SLUICE_BENCH_LOAD_SHOT_H */
