/* Requests by route, what limits said, connections that were refused. A sample of a
 * combination is there from its first request on; what a limit of the policy in force says of
 * requests, from the start. */

#include <stdlib.h>

#include "admin/metrics.h"
#include "base/clock.h"
#include "base/text.h"
#include "store/bans.h"

static const struct span CLASSES[METER_CLASSES] = {
    {"none", 4}, {"1xx", 3}, {"2xx", 3}, {"3xx", 3}, {"4xx", 3}, {"5xx", 3},
};

static const struct span VERDICTS[METER_VERDICTS] = {
    [METER_NONE] = {"none", 4},       [METER_ALLOWED] = {"allowed", 7},
    [METER_DENIED] = {"denied", 6},   [METER_UNDECIDED] = {"undecided", 9},
    [METER_UNKNOWN] = {"unknown", 7},
};

static const struct span SAYINGS[METER_SAYINGS] = {
    [METER_LIMIT_ALLOWED] = {"allowed", 7},
    [METER_LIMIT_DENIED] = {"denied", 6},
    [METER_LIMIT_WOULD_DENY] = {"would_deny", 10},
};

static const struct span REFUSALS[METER_REFUSALS] = {
    {"connections", 11}, {"client", 6},    {"descriptors", 11},
    {"memory", 6},       {"untrusted", 9}, {"header", 6},
};

static const struct span EVICTIONS[METER_EVICTIONS] = {
    {"silent", 6},
    {"idle", 4},
    {"head", 4},
};

/* --- requests --- */

static void write_route(struct metrics *metrics, size_t number)
{
    struct page_label labels[] = {
        {SPAN("route"), metrics_name(&metrics->meters->routes, number)},
        {SPAN("status"), SPAN("")},
        {SPAN("verdict"), SPAN("")},
    };
    for (size_t class = 0; class < METER_CLASSES; class ++) {
        for (size_t verdict = 0; verdict < METER_VERDICTS; verdict++) {
            const uint64_t n =
                metrics_sum_at(metrics, offsetof(struct worker_meters, routes), number,
                               offsetof(struct route_meters, requests[class][verdict]));
            if (n > 0) {
                labels[1].value = CLASSES[class];
                labels[2].value = VERDICTS[verdict];
                metrics_add(metrics, labels, ARRAY_LEN(labels), n);
            }
        }
    }
}

void metrics_write_requests(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->routes);
    for (size_t number = 0; number < n; number++) {
        write_route(metrics, number);
    }
}

/* --- decisions --- */

/* What limits of the policy in force may say from now on, by number: bits of METER_LIMIT_…. */
static uint8_t *list_sayings(const struct metrics *metrics, size_t n)
{
    uint8_t *sayings = calloc(n, sizeof(sayings[0]));
    for (size_t i = 0; sayings != NULL && i < metrics->policy->n_limits; i++) {
        const struct limit *limit = &metrics->policy->limits[i];
        const unsigned no = limit->shadow ? METER_LIMIT_WOULD_DENY : METER_LIMIT_DENIED;
        if (limit->meter < n) {
            sayings[limit->meter] |= (uint8_t)(1u << METER_LIMIT_ALLOWED | 1u << no);
        }
    }
    return sayings;
}

static void write_limit(struct metrics *metrics, size_t number, uint8_t sayings)
{
    const enum decision_source usual =
        metrics->policy->store.kind == STORE_MEMORY ? DECISION_MEMORY : DECISION_REDIS;
    struct page_label labels[] = {
        {SPAN("limit"), metrics_name(&metrics->meters->limits, number)},
        {SPAN("verdict"), SPAN("")},
        {SPAN("source"), SPAN("")},
    };
    for (size_t saying = 0; saying < METER_SAYINGS; saying++) {
        for (size_t source = 0; source < DECISION_SOURCES; source++) {
            const bool is_there = source == usual && (sayings >> saying & 1) != 0;
            const uint64_t n =
                metrics_sum_at(metrics, offsetof(struct worker_meters, limits), number,
                               offsetof(struct limit_meters, decisions[saying][source]));
            if (n > 0 || is_there) {
                labels[1].value = SAYINGS[saying];
                labels[2].value = decision_source_name((enum decision_source)source);
                metrics_add(metrics, labels, ARRAY_LEN(labels), n);
            }
        }
    }
}

void metrics_write_decisions(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->limits);
    uint8_t *sayings = list_sayings(metrics, n);
    if (sayings == NULL) {
        metrics->page.no_memory = true;
        return;
    }
    for (size_t number = 0; number < n; number++) {
        write_limit(metrics, number, sayings[number]);
    }
    free(sayings);
}

/* --- bans --- */

void metrics_write_bans(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0,
                bans_count_holding(metrics->admin->options.bans, clock_monotonic_us()));
}

void metrics_write_bans_max(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0, bans_count(metrics->admin->options.bans).n_max);
}

void metrics_write_bans_unobeyed(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0, bans_count(metrics->admin->options.bans).n_unobeyed);
}

/* --- connections --- */

void metrics_write_refusals(struct metrics *metrics)
{
    for (size_t i = 0; i < METER_REFUSALS; i++) {
        const struct page_label label = {SPAN("reason"), REFUSALS[i]};
        metrics_add(metrics, &label, 1,
                    metrics_sum(metrics, offsetof(struct worker_meters, refused[i])));
    }
}

void metrics_write_evictions(struct metrics *metrics)
{
    for (size_t i = 0; i < METER_EVICTIONS; i++) {
        const struct page_label label = {SPAN("kind"), EVICTIONS[i]};
        metrics_add(metrics, &label, 1,
                    metrics_sum(metrics, offsetof(struct worker_meters, evicted[i])));
    }
}
