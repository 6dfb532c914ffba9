/* The traffic of the pictures, the same for every limit, and what a limit makes of it.
 *
 * A burst, a steady stream at twice the rate, and a burst across the edge of a window; between them
 * pauses in which every limit forgets. Requests cost one unit each. */

#ifndef PICTURES_SCENE_H
#define PICTURES_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/limit.h"

enum {
    SCENE_S = 60, /* how long it lasts */
    SCENE_PERIOD_S = 10,
    SCENE_RATE = 10, /* units per period, or slots */
    SCENE_PHASES = 3,
    SCENE_REQUESTS = 80,
};

struct phase {
    uint64_t first_us; /* of its first request, from the start of the scene */
    uint64_t gap_us;   /* from request to request */
    size_t n;
    const char *label;
};

extern const struct phase SCENE_PHASE[SCENE_PHASES];

/* What became of a request. Times are us from the start of the scene. */
struct request {
    uint64_t at_us; /* asked */
    bool admitted;
    uint64_t leaves_us; /* admitted: forwarded; later than asked if it was held */
    uint64_t ends_us;   /* admitted: answered in full, and its slot given back */
};

/* Ask @limit for all requests of the scene, from an untouched state. */
void scene_play(const struct limit *limit, struct request requests[SCENE_REQUESTS]);

#endif /* PICTURES_SCENE_H */
