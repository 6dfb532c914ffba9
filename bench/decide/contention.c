/* bench_contention: how often threads that decide in one embedded store wait for each other.
 *
 * One line of JSON a measurement: 1 to 8 threads, on many keys and on one, as they run, and
 * with whoever has taken a lock giving his core away before he goes on. The latter stands for
 * as many cores as there are threads, all of them within a lock at all times: it is the worst
 * there can be, on any machine. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/memory_store.h"
#include "workload.h"

enum {
    THREADS_MAX = 8,
    KEYS = 100 * 1000,
    DECISIONS = 1000 * 1000, /* of all threads together, as they run */
    DECISIONS_YIELDING = 100 * 1000,
    MIB = 1024 * 1024,
};

/* The store of a policy that says nothing of its size has fewer locks than a large one. */
static const struct scene {
    size_t memory_mib;
    size_t n_keys;
} SCENES[] = {{64, KEYS}, {512, KEYS}, {64, 1}};

struct thread {
    pthread_t id;
    struct store *store;
    struct workload workload;
    size_t n_decisions;
    uint64_t n_locks;
    uint64_t n_waits; /* of them */
};

static bool is_yielding;
static pthread_barrier_t start;
static _Thread_local struct thread *self;

/* The linker leads the store's calls here. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (self == NULL) {
        return __real_pthread_mutex_lock(lock);
    }
    self->n_locks++;
    int error = pthread_mutex_trylock(lock);
    if (error != 0) {
        self->n_waits++;
        error = __real_pthread_mutex_lock(lock);
    }
    if (is_yielding) {
        sched_yield();
    }
    return error;
}

static void *decide_all(void *context)
{
    struct charge charge;
    struct decision decision = {.charges = &charge, .n_charges = 1};
    self = context;
    pthread_barrier_wait(&start);
    for (size_t i = 0; i < self->n_decisions; i++) {
        decision.now_us = clock_monotonic_us();
        workload_next(&self->workload, &charge);
        if (store_decide(self->store, &decision, NULL) != STORE_ANSWERED ||
            decision.status != STATUS_OK) {
            workload_fail("the embedded store did not decide");
        }
    }
    return NULL;
}

static struct store *open_store(size_t memory_mib)
{
    const struct memory_store_options options = {.memory_bytes = memory_mib * MIB};
    struct store *store;
    if (memory_store_new(&options, &store) != STATUS_OK) {
        workload_fail("no memory for the embedded store");
    }
    return store;
}

static double run(struct thread *threads, size_t n_threads)
{
    pthread_barrier_init(&start, NULL, (unsigned)n_threads + 1);
    for (size_t i = 0; i < n_threads; i++) {
        if (pthread_create(&threads[i].id, NULL, decide_all, &threads[i]) != 0) {
            workload_fail("no more threads");
        }
    }
    pthread_barrier_wait(&start);
    const uint64_t began_us = clock_monotonic_us();
    for (size_t i = 0; i < n_threads; i++) {
        pthread_join(threads[i].id, NULL);
    }
    const uint64_t took_us = clock_monotonic_us() - began_us;
    pthread_barrier_destroy(&start);
    return (double)took_us * 1e-6;
}

static void measure(const struct scene *scene, size_t n_threads, bool yields)
{
    struct thread threads[THREADS_MAX] = {0};
    struct store *store = open_store(scene->memory_mib);
    const size_t n_decisions = yields ? DECISIONS_YIELDING : DECISIONS;
    is_yielding = yields;
    for (size_t i = 0; i < n_threads; i++) {
        threads[i].store = store;
        threads[i].n_decisions = n_decisions / n_threads;
        workload_open(&threads[i].workload, &token_bucket_algorithm, 1, scene->n_keys);
    }
    const double took_s = run(threads, n_threads);
    uint64_t n_locks = 0;
    uint64_t n_waits = 0;
    for (size_t i = 0; i < n_threads; i++) {
        n_locks += threads[i].n_locks;
        n_waits += threads[i].n_waits;
        workload_close(&threads[i].workload);
    }
    store_free(store);
    printf("{\"memory_mib\": %zu, \"keys\": %zu, \"threads\": %zu, \"interrupted\": %s,"
           " \"waited\": %.6f, \"decisions_per_second\": %.0f}\n",
           scene->memory_mib, scene->n_keys, n_threads, yields ? "true" : "false",
           (double)n_waits / (double)n_locks, (double)n_decisions / took_s);
    fflush(stdout);
}

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < ARRAY_LEN(SCENES); i++) {
        for (size_t n_threads = 1; n_threads <= THREADS_MAX; n_threads *= 2) {
            measure(&SCENES[i], n_threads, false);
            if (SCENES[i].n_keys > 1) { /* of one key they would all wait */
                measure(&SCENES[i], n_threads, true);
            }
        }
    }
    return EXIT_SUCCESS;
}
