/* Upstreams and their servers: those of the policy in force, and others
 * that were asked anything. */

#include "admin/metrics.h"
#include "base/clock.h"
#include "base/text.h"
#include "proxy/upstream_report.h"

static const struct span FAILURES[METER_FAILURES] = {
    [METER_UNREACHABLE] = {"unreachable", 11}, [METER_UNACCEPTED] = {"connect_timeout", 15},
    [METER_UNANSWERED] = {"timeout", 7},       [METER_LOST] = {"lost", 4},
    [METER_INVALID] = {"invalid", 7},          [METER_BAD_GATEWAY] = {"bad_gateway", 11},
};

static uint64_t upstream_sum(const struct metrics *metrics, size_t number, size_t offset)
{
    return metrics_sum_at(metrics, offsetof(struct worker_meters, upstreams), number, offset);
}

static uint64_t server_sum(const struct metrics *metrics, size_t number, size_t offset)
{
    return metrics_sum_at(metrics, offsetof(struct worker_meters, servers), number, offset);
}

/* Number 0 is there if it was counted in. */
static bool is_shown(size_t number, uint64_t value)
{
    return number > 0 || value > 0;
}

/* --- upstreams --- */

static struct page_label upstream_label(const struct metrics *metrics, size_t number)
{
    return (struct page_label){SPAN("upstream"), metrics_name(&metrics->meters->upstreams, number)};
}

void metrics_write_upstream_latency(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->upstreams);
    for (size_t number = 0; number < n; number++) {
        const struct page_label label = upstream_label(metrics, number);
        uint64_t counts[LATENCY_EDGES + 1];
        uint64_t count = 0;
        for (size_t i = 0; i <= LATENCY_EDGES; i++) {
            counts[i] =
                upstream_sum(metrics, number, offsetof(struct upstream_meters, response.counts[i]));
            count += counts[i];
        }
        if (is_shown(number, count)) {
            metrics_add_latency(
                metrics, &label, counts,
                upstream_sum(metrics, number, offsetof(struct upstream_meters, response.sum_us)));
        }
    }
}

void metrics_write_upstream(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->upstreams);
    for (size_t number = 0; number < n; number++) {
        const struct page_label label = upstream_label(metrics, number);
        const uint64_t value = upstream_sum(metrics, number, metrics->metric->offset);
        if (is_shown(number, value)) {
            metrics_add(metrics, &label, 1, value);
        }
    }
}

static void write_refused(struct metrics *metrics, size_t number, struct span reason, size_t offset)
{
    const struct page_label labels[] = {
        upstream_label(metrics, number),
        {SPAN("reason"), reason},
    };
    const uint64_t value = upstream_sum(metrics, number, offset);
    if (is_shown(number, value)) {
        metrics_add(metrics, labels, ARRAY_LEN(labels), value);
    }
}

void metrics_write_queue_refusals(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->upstreams);
    for (size_t number = 0; number < n; number++) {
        write_refused(metrics, number, SPAN("full"), offsetof(struct upstream_meters, queue_full));
        write_refused(metrics, number, SPAN("timeout"),
                      offsetof(struct upstream_meters, queue_timeouts));
    }
}

/* --- servers --- */

/* Label the server @number in labels[0] and [1]. */
static void label_server(const struct metrics *metrics, size_t number, struct page_label *labels)
{
    const struct span name = metrics_name(&metrics->meters->servers, number);
    const size_t end = number == 0 ? name.len : span_find(name, '\n');
    const struct span server =
        end < name.len ? span_of(name.data + end + 1, name.len - end - 1) : name;
    labels[0] = (struct page_label){SPAN("upstream"), span_of(name.data, end)};
    labels[1] = (struct page_label){SPAN("server"), server};
}

void metrics_write_server(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->servers);
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[2];
        const uint64_t value = server_sum(metrics, number, metrics->metric->offset);
        if (is_shown(number, value)) {
            label_server(metrics, number, labels);
            metrics_add(metrics, labels, ARRAY_LEN(labels), value);
        }
    }
}

/* Of the policy in force: whose upstream it is, is told before. */
struct health_page {
    struct metrics *metrics;
    struct span upstream;
};

static void on_upstream(void *context, const struct upstream_report *report)
{
    struct health_page *page = context;
    page->upstream = report->spec->name;
}

static void on_server(void *context, const struct upstream_server_report *report)
{
    const struct health_page *page = context;
    const struct page_label labels[] = {
        {SPAN("upstream"), page->upstream},
        {SPAN("server"), report->spec->endpoint.text},
    };
    const bool is_up =
        report->state == UPSTREAM_SERVER_IN || report->state == UPSTREAM_SERVER_WARMING;
    metrics_add(page->metrics, labels, ARRAY_LEN(labels), is_up);
}

void metrics_write_server_up(struct metrics *metrics)
{
    struct health_page page = {.metrics = metrics};
    upstream_report_tell(metrics->admin->options.server, clock_monotonic_us(), on_upstream,
                         on_server, &page);
}

void metrics_write_server_failures(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->servers);
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[3];
        label_server(metrics, number, labels);
        for (size_t i = 0; i < METER_FAILURES; i++) {
            const uint64_t value =
                server_sum(metrics, number, offsetof(struct server_meters, failures[i]));
            if (is_shown(number, value)) {
                labels[2] = (struct page_label){SPAN("reason"), FAILURES[i]};
                metrics_add(metrics, labels, ARRAY_LEN(labels), value);
            }
        }
    }
}

void metrics_write_server_connections(struct metrics *metrics)
{
    const size_t n = name_directory_count(&metrics->meters->servers);
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[3];
        const uint64_t idle = server_sum(metrics, number, offsetof(struct server_meters, idle));
        const uint64_t all =
            server_sum(metrics, number, offsetof(struct server_meters, connections));
        if (!is_shown(number, all)) {
            continue;
        }
        label_server(metrics, number, labels);
        labels[2] = (struct page_label){SPAN("state"), SPAN("active")};
        metrics_add(metrics, labels, ARRAY_LEN(labels), all > idle ? all - idle : 0);
        labels[2].value = SPAN("idle");
        metrics_add(metrics, labels, ARRAY_LEN(labels), idle);
    }
}
