#include "flood.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "limit/algorithms.h"
#include "limit/limit.h"

static const uint64_t HOUR_US = UINT64_C(3600) * 1000 * 1000;

static void fail(const char *why)
{
    fprintf(stderr, "bench_attack: error: %s\n", why);
    exit(EXIT_FAILURE);
}

static struct limit limit_of(uint32_t burst)
{
    const struct limit_spec spec = {
        .algorithm = &token_bucket_algorithm, .rate = 1, .burst = burst, .period_us = HOUR_US};
    struct limit limit = {.name = SPAN("per-client")};
    if (limit_init(&limit, &spec) != NULL) {
        fail("the limit is wrong");
    }
    return limit;
}

/* Ask for @cost on the key of @group and @number; *admitted. */
static enum status ask(struct store *store, const struct limit *limit, char group, uint64_t number,
                       uint32_t cost, bool *admitted)
{
    char key[32];
    const int len = snprintf(key, sizeof(key), "{%c%" PRIu64 "}", group, number);
    struct charge charge = {.limit = limit, .key = span_of(key, (size_t)len), .cost = cost};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    if (store_decide(store, &decision, NULL) != STORE_ANSWERED) {
        fail("the embedded store did not decide at once");
    }
    *admitted = decision.status == STATUS_OK && decision.allowed;
    return decision.status;
}

/* How many of the first FLOOD_DENIED keys of @group are admitted with @cost. */
static uint64_t count_admitted(struct store *store, const struct limit *limit, char group,
                               uint32_t cost)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < FLOOD_DENIED; i++) {
        bool admitted;
        (void)ask(store, limit, group, i, cost, &admitted);
        n += admitted;
    }
    return n;
}

static size_t resident_bytes(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %" SCNu64, &pages) != 1) {
        fail("/proc/self/statm cannot be read");
    }
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* CPU time: other programs on the machine do not count. */
static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pour(struct store *store, const struct limit *limit, uint64_t n_keys,
                 struct flood_result *result)
{
    const double start_s = cpu_s();
    for (uint64_t i = 0; i < n_keys; i++) {
        bool admitted;
        result->n_full += ask(store, limit, 'j', i, 1, &admitted) == STATUS_FULL;
        result->n_admitted += admitted;
    }
    result->cpu_s = cpu_s() - start_s;
}

void flood_run(const struct flood *flood, struct flood_result *result)
{
    const struct limit limit = limit_of(flood->burst);
    const struct memory_store_options options = {
        .memory_bytes = flood->memory_bytes,
        .full = flood->full,
    };
    struct store *store;
    if (memory_store_new(&options, &store) != STATUS_OK) {
        fail("no memory for the embedded store");
    }
    *result = (struct flood_result){.rss_before = resident_bytes()};
    if (count_admitted(store, &limit, 'd', flood->burst) != FLOOD_DENIED) {
        fail("what is untouched was denied");
    }
    pour(store, &limit, flood->n_keys, result);
    result->rss_after = resident_bytes();
    memory_store_count(store, &result->counters);
    result->n_still_denied = FLOOD_DENIED - count_admitted(store, &limit, 'd', 1);
    result->n_first_admitted = count_admitted(store, &limit, 'j', 1);
    store_free(store);
}
