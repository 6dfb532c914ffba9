/* What /metrics shows: one row a metric, from which the page, and what
 * docs/metrics.md must tell, are made. */

#ifndef SLUICE_ADMIN_METRICS_H
#define SLUICE_ADMIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "admin/internal.h"
#include "admin/metrics_page.h"
#include "base/counter_table.h"
#include "base/latency.h"
#include "base/limits.h"
#include "base/span.h"
#include "policy/policy.h"
#include "proxy/meters.h"
#include "store/memory_store.h"

struct metric;

/* One page being made. */
struct metrics {
    struct metrics_page page;
    const struct admin *admin;
    const struct policy *policy;
    const struct meters *meters;
    const struct worker_meters *workers[WORKERS_MAX];
    size_t n_workers;
    struct memory_store_counters memory;
    const struct metric *metric; /* whose samples are written */
};

struct metric {
    struct span name;
    enum metric_type type;
    struct span help;
    void (*write)(struct metrics *metrics);
    size_t offset; /* of the counter, in what write() goes through; else 0 */
};

extern const struct metric METRICS[];
extern const size_t N_METRICS;

/* Write all of them. */
void metrics_write(struct metrics *metrics);

/* --- for the writers --- */

/* The sum over the workers of the counter at @offset in each struct worker_meters. */
uint64_t metrics_sum(const struct metrics *metrics, size_t offset);

/* The same of the counter at @offset in the block @number of the table at @table
 * in struct worker_meters. */
uint64_t metrics_sum_at(const struct metrics *metrics, size_t table, size_t number, size_t offset);

/* Add a sample of the metric that is being written. */
void metrics_add(struct metrics *metrics, const struct page_label *labels, size_t n_labels,
                 uint64_t value);

/* The samples of a histogram, with one label or none (NULL). @counts has LATENCY_EDGES + 1. */
void metrics_add_latency(struct metrics *metrics, const struct page_label *label,
                         const uint64_t *counts, uint64_t sum_us);

/* The name of @number as a label: "(other)" for those that have none. */
struct span metrics_name(const struct name_directory *directory, size_t number);

/* --- the writers --- */

void metrics_write_sum(struct metrics *metrics); /* of the counter at metric->offset */
void metrics_write_latency(struct metrics *metrics);
void metrics_write_requests(struct metrics *metrics);
void metrics_write_decisions(struct metrics *metrics);
void metrics_write_refusals(struct metrics *metrics);
void metrics_write_evictions(struct metrics *metrics);
void metrics_write_top(struct metrics *metrics);
void metrics_write_bans(struct metrics *metrics);
void metrics_write_bans_max(struct metrics *metrics);
void metrics_write_bans_unobeyed(struct metrics *metrics);

void metrics_write_upstream_latency(struct metrics *metrics);
void metrics_write_upstream(struct metrics *metrics);
void metrics_write_queue_refusals(struct metrics *metrics);
void metrics_write_server(struct metrics *metrics);
void metrics_write_server_up(struct metrics *metrics);
void metrics_write_server_failures(struct metrics *metrics);
void metrics_write_server_connections(struct metrics *metrics);

void metrics_write_node(struct metrics *metrics);
void metrics_write_node_failures(struct metrics *metrics);
void metrics_write_instances(struct metrics *metrics);
void metrics_write_memory(struct metrics *metrics); /* the member at metric->offset */
void metrics_write_memory_bytes(struct metrics *metrics);

void metrics_write_log_lines_lost(struct metrics *metrics);
void metrics_write_reloads(struct metrics *metrics);
void metrics_write_last_reload(struct metrics *metrics);
void metrics_write_loaded(struct metrics *metrics);
void metrics_write_build(struct metrics *metrics);
void metrics_write_workers(struct metrics *metrics);
void metrics_write_cpu(struct metrics *metrics);
void metrics_write_start_time(struct metrics *metrics);
void metrics_write_memory_of_process(struct metrics *metrics);
void metrics_write_virtual_memory(struct metrics *metrics);
void metrics_write_open_fds(struct metrics *metrics);
void metrics_write_max_fds(struct metrics *metrics);

#endif /* SLUICE_ADMIN_METRICS_H */
