#include <pthread.h>
#include <stdio.h>
#include <time.h>

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

void memory_rate(struct workload *workload, size_t n_decisions)
{
    const struct memory_store_options options = {.memory_bytes = (size_t)1 << 30};
    struct store *store;
    if (memory_store_new(&options, &store) != STATUS_OK) {
        workload_fail("no memory for the embedded store");
    }
    decide_all(store, workload, workload->n_keys); /* all keys are there */
    double best_s = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double start_s = cpu_s();
        decide_all(store, workload, n_decisions);
        const double took_s = cpu_s() - start_s;
        best_s = round == 0 || took_s < best_s ? took_s : best_s;
    }
    print_rate(workload, workload->algorithm->name, n_decisions, best_s);
    store_free(store);
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
    print_rate(workload, "hash, lock", n_decisions, best_s);
}
