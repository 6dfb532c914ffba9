/* GET /metrics: every counter of the workers, added up while they go on. */

#include "admin/metrics.h"

#include <assert.h>
#include <stdlib.h>

#include "admin/request.h"
#include "admin/resources.h"
#include "base/text.h"

/* --- sums --- */

static const struct counter *counter_in(const void *block, size_t offset)
{
    return (const struct counter *)(const void *)((const char *)block + offset);
}

uint64_t metrics_sum(const struct metrics *metrics, size_t offset)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < metrics->n_workers; i++) {
        sum += counter_read(counter_in(metrics->workers[i], offset));
    }
    return sum;
}

uint64_t metrics_sum_at(const struct metrics *metrics, size_t table, size_t number, size_t offset)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < metrics->n_workers; i++) {
        const void *blocks = (const char *)metrics->workers[i] + table;
        const void *block = counter_table_look(blocks, number);
        sum += block == NULL ? 0 : counter_read(counter_in(block, offset));
    }
    return sum;
}

struct span metrics_name(const struct name_directory *directory, size_t number)
{
    return number == 0 ? SPAN("(other)") : name_directory_name(directory, number);
}

/* --- samples --- */

void metrics_add(struct metrics *metrics, const struct page_label *labels, size_t n_labels,
                 uint64_t value)
{
    metrics_page_add(&metrics->page, metrics->metric->name, SPAN(""), labels, n_labels, value);
}

/* @us as a number of seconds. */
static struct span edge_text(uint64_t us, char *buffer, size_t capacity)
{
    struct text text = text_of(buffer, capacity);
    uint64_t digit = 100000;
    text_add_u64(&text, us / 1000000);
    us %= 1000000;
    text_add(&text, us > 0 ? SPAN(".") : SPAN(""));
    for (; us > 0; digit /= 10) {
        text_add_u64(&text, us / digit);
        us %= digit;
    }
    return text_span(&text);
}

void metrics_add_latency(struct metrics *metrics, const struct page_label *label,
                         const uint64_t *counts, uint64_t sum_us)
{
    struct metrics_page *page = &metrics->page;
    const struct span name = metrics->metric->name;
    const size_t n_given = label != NULL;
    struct page_label labels[2];
    uint64_t count = 0;
    if (label != NULL) {
        labels[0] = *label;
    }
    for (size_t i = 0; i <= LATENCY_EDGES; i++) {
        char buffer[32];
        const struct span edge = i == LATENCY_EDGES
                                     ? SPAN("+Inf")
                                     : edge_text(latency_edge_us(i), buffer, sizeof(buffer));
        count += counts[i];
        labels[n_given] = (struct page_label){SPAN("le"), edge};
        metrics_page_add(page, name, SPAN("_bucket"), labels, n_given + 1, count);
    }
    metrics_page_add_us(page, name, SPAN("_sum"), label, n_given, sum_us);
    metrics_page_add(page, name, SPAN("_count"), label, n_given, count);
}

/* --- plain ones --- */

void metrics_write_sum(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0, metrics_sum(metrics, metrics->metric->offset));
}

void metrics_write_latency(struct metrics *metrics)
{
    const size_t offset = metrics->metric->offset;
    uint64_t counts[LATENCY_EDGES + 1];
    for (size_t i = 0; i <= LATENCY_EDGES; i++) {
        counts[i] = metrics_sum(metrics, offset + offsetof(struct latency, counts[i]));
    }
    metrics_add_latency(metrics, NULL, counts,
                        metrics_sum(metrics, offset + offsetof(struct latency, sum_us)));
}

/* --- the page --- */

void metrics_write(struct metrics *metrics)
{
    for (size_t i = 0; i < N_METRICS && !metrics->page.no_memory; i++) {
        metrics->metric = &METRICS[i];
        metrics_page_begin(&metrics->page, METRICS[i].name, METRICS[i].type, METRICS[i].help);
        METRICS[i].write(metrics);
    }
}

void metrics_handle(struct admin_request *request)
{
    const struct admin *admin = request->admin;
    struct metrics metrics = {
        .page = metrics_page_new(),
        .admin = admin,
        .policy = request->policy,
        .meters = admin->options.meters,
    };
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_look(metrics.meters, i);
        if (worker != NULL) {
            metrics.workers[metrics.n_workers++] = worker;
        }
    }
    memory_store_count(admin->options.memory, &metrics.memory);
    metrics_write(&metrics);
    if (metrics.page.no_memory) {
        free(metrics.page.data);
        answer_problem(request, 503, "out of memory");
        return;
    }
    answer_content(request, 200, SPAN("text/plain; version=0.0.4; charset=utf-8"),
                   metrics.page.data, metrics.page.len);
}
