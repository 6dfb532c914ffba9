/* What is decided in a measurement: limits of one algorithm, and keys in a random order. */

#ifndef SLUICE_BENCH_WORKLOAD_H
#define SLUICE_BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

enum {
    WORKLOAD_LIMITS_MAX = 3,
    WORKLOAD_KEY_BYTES = 20, /* "{4:192.168.123.145}" has one less */
};

struct workload {
    const struct algorithm *algorithm;
    struct limit limits[WORKLOAD_LIMITS_MAX];
    size_t n_limits;
    char (*keys)[WORKLOAD_KEY_BYTES]; /* owned */
    size_t n_keys;
    size_t next; /* key */
    uint64_t slot;
};

/* Limits that admit nearly everything, but for sliding_log: 100 a second and key. Ends the program
 * when there is no memory. */
void workload_open(struct workload *workload, const struct algorithm *algorithm, size_t n_limits,
                   size_t n_keys);
void workload_close(struct workload *workload);

/* Fill the charges of the next request, one for each limit. */
void workload_next(struct workload *workload, struct charge *charges);

/* What ends a request: the releases of the slots that @charges took; returns how many there are. */
size_t workload_releases(const struct workload *workload, const struct charge *charges,
                         struct settlement *settlements);

/* Say why on stderr and exit. */
_Noreturn void workload_fail(const char *why);

#endif /* SLUICE_BENCH_WORKLOAD_H */
