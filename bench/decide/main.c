/* bench_decisions memory [ALGORITHM]               what a decision costs in the embedded store
 * bench_decisions keys                            the same of one with 1,000 to 10,000,000 keys
 * bench_decisions redis SOCKET PID [ALGORITHM]     and in the Redis with that socket and process id
 *
 * One line of JSON a measurement. bench/decisions starts the Redis and makes a table of them. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/log.h"
#include "limit/algorithms.h"
#include "rates.h"

enum {
    FEW_KEYS = 1000,
    MANY_KEYS = 1000 * 1000,
    MEMORY_DECISIONS = 500 * 1000, /* a round */
    REDIS_DECISIONS = 200 * 1000,
    BYTES_PER_KEY = 96, /* that the store is given for a bucket */
};

static const size_t N_LIMITS[] = {1, WORKLOAD_LIMITS_MAX};

static void measure_memory(const struct algorithm *algorithm, size_t n_limits)
{
    static const size_t n_keys[] = {FEW_KEYS, MANY_KEYS};
    for (size_t i = 0; i < ARRAY_LEN(n_keys); i++) {
        struct workload workload;
        workload_open(&workload, algorithm, n_limits, n_keys[i]);
        memory_rate(&workload, MEMORY_DECISIONS);
        workload_close(&workload);
    }
}

static void measure_keys(void)
{
    static const size_t n_keys[] = {FEW_KEYS, 10 * FEW_KEYS, 100 * FEW_KEYS, MANY_KEYS,
                                    10 * MANY_KEYS};
    for (size_t i = 0; i < ARRAY_LEN(n_keys); i++) {
        struct workload workload;
        workload_open(&workload, &token_bucket_algorithm, 1, n_keys[i]);
        memory_keys(&workload, BYTES_PER_KEY, MEMORY_DECISIONS);
        fflush(stdout);
        workload_close(&workload);
    }
}

static void measure_floor(void)
{
    size_t n;
    struct workload workload;
    workload_open(&workload, algorithm_all(&n)[0], 1, FEW_KEYS);
    memory_floor(&workload, MEMORY_DECISIONS);
    workload_close(&workload);
}

static void measure_redis(const struct algorithm *algorithm, size_t n_limits, const char *path,
                          int pid)
{
    struct workload workload;
    workload_open(&workload, algorithm, n_limits, FEW_KEYS);
    redis_rate(&workload, REDIS_DECISIONS, path, pid);
    workload_close(&workload);
}

static int read_pid(const char *text)
{
    uint64_t pid;
    if (!span_to_u64(span_of_text(text), INT32_MAX, &pid)) {
        workload_fail("the process id is no number");
    }
    return (int)pid;
}

static int usage(void)
{
    fputs("usage: bench_decisions memory [ALGORITHM]\n"
          "       bench_decisions keys\n"
          "       bench_decisions redis SOCKET PID [ALGORITHM]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const bool is_memory = argc >= 2 && strcmp(argv[1], "memory") == 0;
    const bool is_redis = argc >= 4 && strcmp(argv[1], "redis") == 0;
    const int only = is_memory ? 2 : 4;
    const bool is_keys = argc == 2 && strcmp(argv[1], "keys") == 0;
    if ((!is_memory && !is_redis && !is_keys) || argc > only + 1) {
        return usage();
    }
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_WARN);
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    if (is_keys) {
        measure_keys();
        return EXIT_SUCCESS;
    }
    if (is_memory) {
        measure_floor();
    }
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        if (argc > only && strcmp(argv[only], algorithms[i]->name) != 0) {
            continue;
        }
        for (size_t j = 0; j < ARRAY_LEN(N_LIMITS); j++) {
            if (is_memory) {
                measure_memory(algorithms[i], N_LIMITS[j]);
            } else {
                measure_redis(algorithms[i], N_LIMITS[j], argv[2], read_pid(argv[3]));
            }
            fflush(stdout);
        }
    }
    return EXIT_SUCCESS;
}
