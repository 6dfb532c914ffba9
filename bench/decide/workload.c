#include "workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "limit/algorithms.h"

enum {
    MANY = 1000 * 1000, /* units a minute */
    SECOND_US = 1000 * 1000,
    MINUTE_US = 60 * SECOND_US,
    LOGGED = 100, /* entries a key */
};

void workload_fail(const char *why)
{
    fprintf(stderr, "%s: error: %s\n", program_invocation_short_name, why);
    exit(EXIT_FAILURE);
}

static void fill_limit(struct limit *limit, const struct algorithm *algorithm, uint32_t index)
{
    static const char *const names[WORKLOAD_LIMITS_MAX] = {"per-client", "login", "search"};
    const bool has_entries =
        algorithm == &sliding_log_algorithm || algorithm == &concurrency_algorithm;
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = has_entries ? LOGGED : MANY,
        .burst = MANY,
        .period_us = has_entries ? SECOND_US : MINUTE_US,
        .lease_us = MINUTE_US,
        .buckets = 10,
    };
    *limit = (struct limit){.name = span_of_text(names[index]), .index = index};
    const char *fault = limit_init(limit, &spec);
    if (fault != NULL) {
        workload_fail(fault);
    }
}

static void shuffle(struct workload *workload)
{
    for (size_t i = workload->n_keys - 1; i > 0; i--) {
        uint64_t random;
        char key[WORKLOAD_KEY_BYTES];
        hash_random(&random, sizeof(random));
        const size_t j = random % (i + 1);
        memcpy(key, workload->keys[i], sizeof(key));
        memcpy(workload->keys[i], workload->keys[j], sizeof(key));
        memcpy(workload->keys[j], key, sizeof(key));
    }
}

void workload_open(struct workload *workload, const struct algorithm *algorithm, size_t n_limits,
                   size_t n_keys)
{
    *workload = (struct workload){.algorithm = algorithm, .n_limits = n_limits, .n_keys = n_keys};
    for (uint32_t i = 0; i < n_limits; i++) {
        fill_limit(&workload->limits[i], algorithm, i);
    }
    workload->keys = malloc(n_keys * sizeof(*workload->keys));
    if (workload->keys == NULL) {
        workload_fail("out of memory");
    }
    for (size_t i = 0; i < n_keys; i++) {
        snprintf(workload->keys[i], sizeof(workload->keys[i]), "{4:10.%03u.%03u.%03u}",
                 (unsigned)(i >> 16 & 255), (unsigned)(i >> 8 & 255), (unsigned)(i & 255));
    }
    shuffle(workload);
}

void workload_close(struct workload *workload)
{
    free(workload->keys);
}

void workload_next(struct workload *workload, struct charge *charges)
{
    const struct span key = span_of(workload->keys[workload->next], WORKLOAD_KEY_BYTES - 2);
    workload->next = workload->next + 1 < workload->n_keys ? workload->next + 1 : 0;
    for (size_t i = 0; i < workload->n_limits; i++) {
        charges[i].limit = &workload->limits[i];
        charges[i].key = key;
        charges[i].is_hashed = false;
        charges[i].cost = 1;
        charges[i].edges = NULL;
        charges[i].slot = workload->algorithm->has_slots ? ++workload->slot : 0;
    }
}

size_t workload_releases(const struct workload *workload, const struct charge *charges,
                         struct settlement *settlements)
{
    size_t n = 0;
    for (size_t i = 0; i < workload->n_limits; i++) {
        if (charges[i].slot != 0 && charges[i].charged) {
            settlements[n++] = (struct settlement){
                .limit = charges[i].limit,
                .key = charges[i].key,
                .kind = SETTLE_RELEASE,
                .slot = charges[i].slot,
                .source = DECISION_REDIS,
            };
        }
    }
    return n;
}
