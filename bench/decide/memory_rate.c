#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "rates.h"
#include "store/memory_store.h"

enum {
    ROUNDS = 5,
    TURN = 16, /* decisions for which a caller has read the clock once */
};

/* CPU time: other programs on the machine do not count. */
static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void decide_all(struct store *store, struct workload *workload, size_t n_decisions)
{
    struct charge charges[WORKLOAD_LIMITS_MAX];
    struct decision decision = {.charges = charges, .n_charges = workload->n_limits};
    for (size_t i = 0; i < n_decisions; i++) {
        if (i % TURN == 0) {
            decision.now_us = clock_monotonic_us();
        }
        workload_next(workload, charges);
        if (store_decide(store, &decision, NULL) != STORE_ANSWERED ||
            decision.status != STATUS_OK) {
            workload_fail("the embedded store did not decide");
        }
        if (workload->algorithm->has_slots) {
            struct settlement releases[WORKLOAD_LIMITS_MAX];
            const size_t n = workload_releases(workload, charges, releases);
            if (n > 0) {
                store_settle(store, releases, n);
            }
        }
    }
}

static void print_rate(const struct workload *workload, const char *name, size_t n, double took_s)
{
    printf("{\"store\": \"memory\", \"algorithm\": \"%s\", \"limits\": %zu, \"keys\": %zu,"
           " \"decisions_per_second\": %.0f}\n",
           name, workload->n_limits, workload->n_keys, (double)n / took_s);
}

static struct store *open_store(size_t bytes)
{
    const struct memory_store_options options = {.memory_bytes = bytes};
    struct store *store;
    if (memory_store_new(&options, &store) != STATUS_OK) {
        workload_fail("no memory for the embedded store");
    }
    return store;
}

static double best_of_rounds(struct store *store, struct workload *workload, size_t n_decisions)
{
    double best_s = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = cpu_s();
        decide_all(store, workload, n_decisions);
        const double took_s = cpu_s() - start_s;
        best_s = round == 0 || took_s < best_s ? took_s : best_s;
    }
    return best_s;
}

void memory_rate(struct workload *workload, size_t n_decisions)
{
    struct store *store = open_store((size_t)1 << 30);
    decide_all(store, workload, workload->n_keys); /* all keys are there */
    print_rate(workload, workload->algorithm->name, n_decisions,
               best_of_rounds(store, workload, n_decisions));
    store_free(store);
}

static size_t resident_bytes(void)
{
    unsigned long n_pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %lu", &n_pages) != 1) {
        workload_fail("/proc/self/statm cannot be read");
    }
    fclose(file);
    return n_pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* One that needs the one before, at random in as many lines as there are keys: what no table does
 * without. */
static double read_ns(size_t n_lines, size_t n_reads)
{
    struct line {
        uint64_t number;
        uint64_t rest[7];
    } *lines = aligned_alloc(sizeof(struct line), n_lines * sizeof(*lines));
    if (lines == NULL) {
        workload_fail("out of memory");
    }
    for (size_t i = 0; i < n_lines; i++) {
        hash_random(&lines[i].number, sizeof(lines[i].number));
    }
    double best_s = 0;
    uint64_t at = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = cpu_s();
        for (size_t i = 0; i < n_reads; i++) {
            at = (lines[at % n_lines].number ^ i) >> 1;
        }
        const double took_s = cpu_s() - start_s;
        best_s = round == 0 || took_s < best_s ? took_s : best_s;
    }
    volatile uint64_t kept = at; /* so that no read is left out */
    (void)kept;
    free(lines);
    return best_s * 1e9 / (double)n_reads;
}

void memory_keys(struct workload *workload, size_t bytes_per_key, size_t n_decisions)
{
    const size_t bytes = workload->n_keys * bytes_per_key;
    struct store *store =
        open_store(bytes > MEMORY_STORE_BYTES_MIN ? bytes : MEMORY_STORE_BYTES_MIN);
    const size_t before = resident_bytes();
    decide_all(store, workload, workload->n_keys);
    const size_t grown = resident_bytes() - before;
    struct memory_store_counters counters;
    memory_store_count(store, &counters);
    if (counters.n_keys != workload->n_keys || counters.n_evictions + counters.n_overflows > 0) {
        workload_fail("the store does not hold all keys");
    }
    const double took_s = best_of_rounds(store, workload, n_decisions);
    store_free(store);
    printf("{\"algorithm\": \"%s\", \"keys\": %zu, \"decision_ns\": %.1f, \"read_ns\": %.1f,"
           " \"bytes_per_key\": %.1f}\n",
           workload->algorithm->name, workload->n_keys, took_s * 1e9 / (double)n_decisions,
           read_ns(workload->n_keys, n_decisions), (double)grown / (double)workload->n_keys);
}

void memory_floor(struct workload *workload, size_t n_decisions)
{
    const struct hash_key key = hash_key_new();
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    volatile uint64_t sum = 0; /* so that no hash is left out */
    double best_s = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = cpu_s();
        for (size_t i = 0; i < n_decisions; i++) {
            struct charge charges[WORKLOAD_LIMITS_MAX];
            workload_next(workload, charges);
            const struct hash128 hash = hash_table(&key, charges[0].key);
            pthread_mutex_lock(&lock);
            sum += hash.low;
            pthread_mutex_unlock(&lock);
        }
        const double took_s = cpu_s() - start_s;
        best_s = round == 0 || took_s < best_s ? took_s : best_s;
    }
    (void)sum;
    print_rate(workload, "hash, lock", n_decisions, best_s);
}
