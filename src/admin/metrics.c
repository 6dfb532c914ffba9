/* GET /metrics: every counter of the workers, added up while they go on. A sample of a named thing
 * is there once it has a name; number 0, which stands for all without one, once it was counted
 * in. */

#include "admin/metrics.h"

#include <stdlib.h>

#include "admin/request.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "store/redis_process.h"

/* --- scopes --- */

/* OF_WORKER has no names: NULL. */
static const struct name_directory *names_of(const struct metrics *metrics, enum metric_scope scope)
{
    switch (scope) {
    case OF_WORKER:
        return NULL;
    case OF_ROUTE:
        return &metrics->meters->routes;
    case OF_LIMIT:
        return &metrics->meters->limits;
    case OF_UPSTREAM:
        return &metrics->meters->upstreams;
    case OF_SERVER:
        return &metrics->meters->servers;
    case OF_NODE:
        return redis_process_nodes(metrics->admin->options.redis);
    }
    return NULL;
}

/* The block of @number; NULL: nothing was counted in it. */
static const void *block_of(const struct worker_meters *worker, enum metric_scope scope,
                            size_t number)
{
    switch (scope) {
    case OF_WORKER:
        return worker;
    case OF_ROUTE:
        return counter_table_peek(&worker->routes, number);
    case OF_LIMIT:
        return counter_table_peek(&worker->limits, number);
    case OF_UPSTREAM:
        return counter_table_peek(&worker->upstreams, number);
    case OF_SERVER:
        return counter_table_peek(&worker->servers, number);
    case OF_NODE:
        return &worker->store.nodes[number];
    }
    return NULL;
}

size_t metrics_count(const struct metrics *metrics, enum metric_scope scope)
{
    const struct name_directory *names = names_of(metrics, scope);
    return names != NULL ? name_directory_count(names) : 1;
}

size_t metrics_label(const struct metrics *metrics, enum metric_scope scope, size_t number,
                     struct page_label *labels)
{
    static const char *const LABELS[] = {
        [OF_ROUTE] = "route",   [OF_LIMIT] = "limit", [OF_UPSTREAM] = "upstream",
        [OF_SERVER] = "server", [OF_NODE] = "node",
    };
    if (scope == OF_WORKER) {
        return 0;
    }
    struct span name = SPAN("(other)");
    if (number > 0) {
        name = name_directory_name(names_of(metrics, scope), number);
    }
    if (scope != OF_SERVER) {
        labels[0] = (struct page_label){LABELS[scope], name};
        return 1;
    }
    const size_t end = span_find(name, '\n'); /* of the upstream's name */
    const struct span server = end < name.len ? span_from(name, end + 1) : name;
    labels[0] = (struct page_label){LABELS[OF_UPSTREAM], span_of(name.data, end)};
    labels[1] = (struct page_label){LABELS[OF_SERVER], server};
    return 2;
}

uint64_t metrics_sum(const struct metrics *metrics, size_t number, size_t offset)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < metrics->n_workers; i++) {
        const char *block = block_of(metrics->workers[i], metrics->metric->scope, number);
        sum += block == NULL ? 0 : counter_read((const void *)(block + offset));
    }
    return sum;
}

/* --- counters --- */

void metrics_add(struct metrics *metrics, const struct page_label *labels, size_t n_labels,
                 uint64_t value)
{
    const struct page_sample sample = {
        .name = metrics->metric->name, .labels = labels, .n_labels = n_labels, .value = value};
    metrics_page_add(&metrics->page, &sample);
}

/* What a limit of the policy in force may say, of the usual source, is there from the start. */
static bool is_expected(const struct metrics *metrics, size_t number, size_t saying, size_t source)
{
    const enum decision_source usual =
        metrics->policy->store.kind == STORE_MEMORY ? DECISION_MEMORY : DECISION_REDIS;
    return metrics->metric->scope == OF_LIMIT && source == usual && number < metrics->n_sayings &&
           (metrics->sayings[number] >> saying & 1) != 0;
}

static size_t length_of(const struct metric_axis *axis)
{
    return axis != NULL ? axis->n : 1;
}

/* Set the label of the value @i of @axis; returns how many: none without an axis. */
static size_t label_axis(const struct metric_axis *axis, size_t i, struct page_label *label)
{
    if (axis == NULL) {
        return 0;
    }
    label->name = axis->label;
    label->value = span_of_text(axis->values != NULL ? axis->values[i] : axis->value(i));
    return 1;
}

void metrics_write_counters(struct metrics *metrics)
{
    const struct metric *metric = metrics->metric;
    const size_t n_second = length_of(metric->axes[1]);
    const size_t n_each = length_of(metric->axes[0]) * n_second;
    const size_t n = metrics_count(metrics, metric->scope);
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[PAGE_LABELS_MAX];
        const size_t n_names = metrics_label(metrics, metric->scope, number, labels);
        for (size_t i = 0; i < n_each; i++) {
            const uint64_t value =
                metrics_sum(metrics, number, metric->offset + i * sizeof(struct counter));
            const bool is_known = !metric->is_sparse && (number > 0 || n_names == 0);
            if (value > 0 || is_known || is_expected(metrics, number, i / n_second, i % n_second)) {
                size_t n_labels = n_names;
                n_labels += label_axis(metric->axes[0], i / n_second, &labels[n_labels]);
                n_labels += label_axis(metric->axes[1], i % n_second, &labels[n_labels]);
                metrics_add(metrics, labels, n_labels, value);
            }
        }
    }
}

/* --- latencies --- */

/* Add the samples of a histogram. @labels has room for one more after @n_labels. */
static void add_latency(struct metrics *metrics, struct page_label *labels, size_t n_labels,
                        const uint64_t *counts, uint64_t sum_us)
{
    struct page_sample sample = {
        .name = metrics->metric->name, .suffix = "_bucket", .labels = labels};
    sample.n_labels = n_labels + 1;
    for (size_t i = 0; i <= LATENCY_EDGES; i++) {
        char buffer[PAGE_SECONDS_BYTES];
        const struct span edge =
            i == LATENCY_EDGES ? SPAN("+Inf") : page_seconds(buffer, latency_edge_us(i));
        labels[n_labels] = (struct page_label){"le", edge};
        sample.value += counts[i];
        metrics_page_add(&metrics->page, &sample);
    }
    const uint64_t count = sample.value;
    sample.n_labels = n_labels;
    sample.suffix = "_sum";
    sample.value = sum_us;
    sample.is_us = true;
    metrics_page_add(&metrics->page, &sample);
    sample.suffix = "_count";
    sample.value = count;
    sample.is_us = false;
    metrics_page_add(&metrics->page, &sample);
}

void metrics_write_latency(struct metrics *metrics)
{
    const struct metric *metric = metrics->metric;
    const size_t n = metrics_count(metrics, metric->scope);
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[PAGE_LABELS_MAX];
        const size_t n_labels = metrics_label(metrics, metric->scope, number, labels);
        uint64_t counts[LATENCY_EDGES + 1];
        uint64_t count = 0;
        for (size_t i = 0; i <= LATENCY_EDGES; i++) {
            counts[i] =
                metrics_sum(metrics, number, metric->offset + offsetof(struct latency, counts[i]));
            count += counts[i];
        }
        if (count > 0 || number > 0 || n_labels == 0) {
            add_latency(
                metrics, labels, n_labels, counts,
                metrics_sum(metrics, number, metric->offset + offsetof(struct latency, sum_us)));
        }
    }
}

/* --- the page --- */

/* False: no memory. */
static bool list_sayings(struct metrics *metrics)
{
    metrics->n_sayings = name_directory_count(&metrics->meters->limits);
    metrics->sayings = calloc(metrics->n_sayings, sizeof(metrics->sayings[0]));
    for (size_t i = 0; metrics->sayings != NULL && i < metrics->policy->n_limits; i++) {
        const struct limit *limit = &metrics->policy->limits[i];
        const unsigned no = limit->shadow ? METER_LIMIT_WOULD_DENY : METER_LIMIT_DENIED;
        if (limit->meter < metrics->n_sayings) {
            metrics->sayings[limit->meter] |= (uint8_t)(1u << METER_LIMIT_ALLOWED | 1u << no);
        }
    }
    return metrics->sayings != NULL;
}

static void write_metric(struct metrics *metrics, const struct metric *metric)
{
    uint64_t value;
    metrics->metric = metric;
    metrics_page_begin(&metrics->page, metric->name, metric->type, metric->help);
    if (metric->write != NULL) {
        metric->write(metrics);
    } else if (metric->read(metrics, &value)) {
        const struct page_sample sample = {
            .name = metric->name, .value = value, .is_us = metric->is_us};
        metrics_page_add(&metrics->page, &sample);
    }
}

void metrics_handle(struct admin_request *request)
{
    const struct admin *admin = request->admin;
    struct metrics metrics = {
        .admin = admin,
        .policy = request->policy,
        .meters = admin->options.meters,
        .reloads = meters_count_reloads(admin->options.meters),
        .tenants_files = meters_count_tenants_files(admin->options.meters),
        .n_bans = bans_count_holding(admin->options.bans, clock_monotonic_us()),
        .bans = bans_count(admin->options.bans),
        .memory_bytes_max = request->policy->store.memory_bytes,
    };
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(metrics.meters, i);
        if (worker != NULL) {
            metrics.workers[metrics.n_workers++] = worker;
        }
    }
    memory_store_count(admin->options.memory, &metrics.memory);
    metrics_page_open(&metrics.page);
    metrics.page.no_memory = !list_sayings(&metrics) || metrics.page.no_memory;
    for (size_t i = 0; i < N_METRICS && !metrics.page.no_memory; i++) {
        write_metric(&metrics, &METRICS[i]);
    }
    free(metrics.sayings);
    metrics_page_close(&metrics.page);
    if (metrics.page.no_memory) {
        answer_problem(request, 503, "out of memory");
        return;
    }
    answer_content(request, 200, SPAN("text/plain; version=0.0.4; charset=utf-8"),
                   metrics.page.data, metrics.page.len);
}
