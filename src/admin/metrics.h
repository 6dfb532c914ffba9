/* The metrics of /metrics: one row per metric in metrics_table.c. The page is made from the rows,
 * and docs/metrics.md must document each. */

#ifndef SLUICE_ADMIN_METRICS_H
#define SLUICE_ADMIN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/internal.h"
#include "admin/metrics_page.h"
#include "base/limits.h"
#include "base/span.h"
#include "policy/policy.h"
#include "proxy/meters.h"
#include "store/bans.h"
#include "store/memory_store.h"

struct meters;

/* What the counters of a metric count: each worker has one block of them for each. */
enum metric_scope {
    OF_WORKER, /* the worker as a whole; no label */
    OF_ROUTE,
    OF_LIMIT,
    OF_UPSTREAM,
    OF_SERVER,
    OF_NODE, /* of the shared store */
};

/* A label with fixed values. The metric has a counter for each of them, one after the other. */
struct metric_axis {
    const char *label;
    size_t n;
    const char *const *values;
    const char *(*value)(size_t i); /* in place of values */
};

/* A page that is being written. */
struct metrics {
    struct metrics_page page;
    const struct admin *admin;
    const struct policy *policy;
    const struct meters *meters;
    const struct worker_meters *workers[WORKERS_MAX];
    size_t n_workers;
    size_t n_bans; /* that hold */
    struct replica_counters bans;
    struct memory_store_counters memory;
    uint64_t memory_bytes_max;
    struct reload_counts reloads;
    struct reload_counts tenants_files;
    uint8_t *sayings; /* owned; what limits may say from now on, by number: bits of meter_saying */
    size_t n_sayings;
    const struct metric *metric; /* that is being written */
};

/* A metric has either read(), which is one sample, or write(), which is any number of them. */
struct metric {
    const char *name;
    enum metric_type type;
    const char *help;

    bool (*read)(const struct metrics *metrics, uint64_t *value); /* false: unknown, no sample */
    bool is_us; /* that value is a time, written in seconds */

    void (*write)(struct metrics *metrics);
    enum metric_scope scope;
    size_t offset; /* of the counter in the block of the scope, or of a number in struct metrics */
    const struct metric_axis *axes[2];
    bool is_sparse; /* a counter of 0 is no sample */
};

extern const struct metric METRICS[];
extern const size_t N_METRICS;

/* --- the writers and what they use --- */

/* The counter at the metric's offset, or one for each combination of the axes' values. */
void metrics_write_counters(struct metrics *metrics);

/* The latency at the metric's offset. */
void metrics_write_latency(struct metrics *metrics);

/* certificates_resource.c */
void metrics_write_certificates(struct metrics *metrics);

void metrics_write_top(struct metrics *metrics);

/* The end of the numbers in @scope; 1 for OF_WORKER. */
size_t metrics_count(const struct metrics *metrics, enum metric_scope scope);

/* Set the labels of @number in @scope; returns how many. "(other)" for a number without a name. */
size_t metrics_label(const struct metrics *metrics, enum metric_scope scope, size_t number,
                     struct page_label *labels);

/* The sum over the workers of the counter at @offset in the block of @number in the scope of the
 * metric. */
uint64_t metrics_sum(const struct metrics *metrics, size_t number, size_t offset);

/* Add a sample of the metric that is being written. */
void metrics_add(struct metrics *metrics, const struct page_label *labels, size_t n_labels,
                 uint64_t value);

/* --- metrics_process.c: readings of the process, under the names of Prometheus' own clients --- */

bool metrics_read_cpu(const struct metrics *metrics, uint64_t *us);
bool metrics_read_start_time(const struct metrics *metrics, uint64_t *us);
bool metrics_read_resident(const struct metrics *metrics, uint64_t *bytes);
bool metrics_read_virtual(const struct metrics *metrics, uint64_t *bytes);
bool metrics_read_open_fds(const struct metrics *metrics, uint64_t *n);
bool metrics_read_max_fds(const struct metrics *metrics, uint64_t *n);

/* What the workers have counted of Redis. */

/* Sums over the links of all workers. */
struct store_counts {
    uint64_t calls; /* commands sent for decisions */
    uint64_t failures;
    uint64_t links; /* now, as the next three */
    uint64_t links_up;
    uint64_t breakers_open; /* of links_up */
    uint64_t links_working; /* up, with a closed breaker */
    uint64_t n_rtts;        /* round trips that were measured */
    uint64_t rtt_us;        /* all together */
};

/* Of the node @number, below STORE_NODES_MAX. */
struct store_counts store_counts_of_node(const struct meters *meters, size_t number);

/* Of all nodes together. */
struct store_counts store_counts_of_all(const struct meters *meters);

#endif /* SLUICE_ADMIN_METRICS_H */
