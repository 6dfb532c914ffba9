/* bench_attack [KEYS [MIB]]: 10,000,000 keys against an embedded store of 64 MiB, unless said.
 *
 * Four floods: of keys that leave a state worth forgetting, and of keys that each spend their
 * quota, for each thing that a full store may do. Prints a line for each and ends with 1 if
 * something did not hold. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "flood.h"

enum {
    MIB = 1024 * 1024,
    SLACK_BYTES = 4 * MIB, /* of resident memory: what else the program touches meanwhile */
    SHARDS_MAX = 64,       /* a full store has a state for new keys to share in each */
};

static const char *const FULL_NAMES[] = {
    [MEMORY_FULL_OVERFLOW] = "overflow",
    [MEMORY_FULL_DENY] = "deny",
    [MEMORY_FULL_ALLOW] = "allow",
};

/* What must hold of every flood; NULL, or what does not. */
static const char *fault_of_any(const struct flood *flood, const struct flood_result *result)
{
    if (result->rss_after > result->rss_before + flood->memory_bytes + SLACK_BYTES) {
        return "the store took more memory than it may";
    }
    if (result->n_still_denied != FLOOD_DENIED) {
        return "a denied client was set free";
    }
    return NULL;
}

/* Nobody is denied, so room is made by forgetting: nothing overflows. */
static const char *fault_of_forgettable(const struct flood *flood,
                                        const struct flood_result *result)
{
    const struct memory_store_counters *counters = &result->counters;
    if (result->n_admitted != flood->n_keys || counters->n_overflows != 0) {
        return "a key found no room where there was some to be made";
    }
    if (counters->n_evictions + counters->n_keys != flood->n_keys + FLOOD_DENIED) {
        return "evictions were not counted";
    }
    return NULL;
}

/* Every state that found room denies from then on: none may be forgotten, and what overflows is
 * dealt with as the policy says. */
static const char *fault_of_denying(const struct flood *flood, const struct flood_result *result)
{
    const struct memory_store_counters *counters = &result->counters;
    const uint64_t n_overflows = counters->n_overflows;
    if (counters->n_evictions != 0 || result->n_first_admitted != 0) {
        return "a state that denies was forgotten";
    }
    if (n_overflows + counters->n_keys_max < flood->n_keys) {
        return "more keys found room than there is";
    }
    switch (flood->full) {
    case MEMORY_FULL_OVERFLOW:
        return result->n_admitted <= counters->n_keys && result->n_full == 0 &&
                       result->n_admitted + n_overflows <= flood->n_keys + SHARDS_MAX
                   ? NULL
                   : "keys without room did not share one state";
    case MEMORY_FULL_DENY:
        return result->n_full == n_overflows && result->n_admitted + n_overflows == flood->n_keys
                   ? NULL
                   : "keys without room were not refused";
    case MEMORY_FULL_ALLOW:
        return result->n_admitted == flood->n_keys ? NULL : "keys without room did not pass";
    }
    return NULL;
}

static bool run(const struct flood *flood)
{
    struct flood_result result;
    flood_run(flood, &result);
    const char *fault = fault_of_any(flood, &result);
    if (fault == NULL) {
        fault = flood->burst > 1 ? fault_of_forgettable(flood, &result)
                                 : fault_of_denying(flood, &result);
    }
    printf("%-12s full=%-9s %6.1f s CPU  rss %.1f to %.1f MiB  keys %" PRIu64 "  evictions %" PRIu64
           "  overflows %" PRIu64 "  admitted %" PRIu64 "  still denied %" PRIu64 " of %d  %s\n",
           flood->burst > 1 ? "forgettable" : "denying", FULL_NAMES[flood->full], result.cpu_s,
           (double)result.rss_before / (double)MIB, (double)result.rss_after / (double)MIB,
           result.counters.n_keys, result.counters.n_evictions, result.counters.n_overflows,
           result.n_admitted, result.n_still_denied, FLOOD_DENIED, fault == NULL ? "PASS" : fault);
    fflush(stdout);
    return fault == NULL;
}

static bool read_number(int argc, char **argv, int at, uint64_t *number)
{
    return argc <= at || span_to_u64(span_of_text(argv[at]), UINT32_MAX, number);
}

int main(int argc, char **argv)
{
    static const struct {
        uint32_t burst;
        enum memory_full full;
    } floods[] = {
        {3, MEMORY_FULL_DENY},
        {1, MEMORY_FULL_OVERFLOW},
        {1, MEMORY_FULL_DENY},
        {1, MEMORY_FULL_ALLOW},
    };
    uint64_t n_keys = 10 * 1000 * 1000;
    uint64_t mib = 64;
    if (argc > 3 || !read_number(argc, argv, 1, &n_keys) || !read_number(argc, argv, 2, &mib)) {
        fputs("usage: bench_attack [KEYS [MIB]]\n", stderr);
        return 2;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    bool all_hold = true;
    for (size_t i = 0; i < ARRAY_LEN(floods); i++) {
        const struct flood flood = {
            .n_keys = n_keys,
            .memory_bytes = (size_t)mib * MIB,
            .full = floods[i].full,
            .burst = floods[i].burst,
        };
        all_hold = run(&flood) && all_hold;
    }
    return all_hold ? EXIT_SUCCESS : EXIT_FAILURE;
}
