/* A flood of keys through the embedded store, and what became of those
 * that it had denied before. */

#ifndef SLUICE_BENCH_FLOOD_H
#define SLUICE_BENCH_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/memory_store.h"

enum { FLOOD_DENIED = 1000 }; /* clients that have spent their quota before the flood comes */

struct flood {
    uint64_t n_keys;     /* that come, each of them once */
    size_t memory_bytes; /* that the store may use */
    enum memory_full full;
    uint32_t burst; /* of each key, which takes one unit: 1: its state denies it from then on */
};

struct flood_result {
    double cpu_s;      /* of the flood alone */
    size_t rss_before; /* bytes of this process: with the store still empty */
    size_t rss_after;
    uint64_t n_admitted;
    uint64_t n_full;         /* of the flood: STATUS_FULL */
    uint64_t n_still_denied; /* of FLOOD_DENIED, after the flood */
    uint64_t
        n_first_admitted; /* of the first keys of the flood, as many as FLOOD_DENIED, asked again */
    struct memory_store_counters counters; /* before those were asked again */
};

/* Ends the program if the store cannot be made. */
void flood_run(const struct flood *flood, struct flood_result *result);

#endif /* SLUICE_BENCH_FLOOD_H */
