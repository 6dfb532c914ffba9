/* The measurements, each of which prints one line of JSON. */

#ifndef SLUICE_BENCH_RATES_H
#define SLUICE_BENCH_RATES_H

#include <stddef.h>

#include "workload.h"

/* Decisions a second of one core in the embedded store. */
void memory_rate(struct workload *workload, size_t n_decisions);

/* The same of nothing but what none of them does without: the hash of a key, and a lock. */
void memory_floor(struct workload *workload, size_t n_decisions);

/* What a decision takes in the embedded store with so many keys, beside one read of memory at
 * random among as many cache lines, and by how many bytes the program grew a key. The store is
 * given @bytes_per_key for each, and must hold them all. */
void memory_keys(struct workload *workload, size_t bytes_per_key, size_t n_decisions);

/* Decisions a second of Redis's core, with many on their way at a time: of the server with process
 * id @pid that listens on the unix socket @path. It is emptied before. */
void redis_rate(struct workload *workload, size_t n_decisions, const char *path, int pid);

#endif /* SLUICE_BENCH_RATES_H */
