/* The stores: each Redis server by its node, the embedded store as one. */

#include <string.h>

#include "admin/metrics.h"
#include "base/text.h"
#include "store/redis_fault.h"
#include "store/redis_process.h"

static uint64_t node_sum(const struct metrics *metrics, size_t number, size_t offset)
{
    return metrics_sum(metrics, offsetof(struct worker_meters, store.nodes) +
                                    number * sizeof(struct store_node_meters) + offset);
}

static const struct name_directory *nodes_of(const struct metrics *metrics)
{
    return redis_process_nodes(metrics->admin->options.redis);
}

void metrics_write_node(struct metrics *metrics)
{
    const size_t n = name_directory_count(nodes_of(metrics));
    for (size_t number = 0; number < n; number++) {
        const struct page_label label = {SPAN("node"), metrics_name(nodes_of(metrics), number)};
        const uint64_t value = node_sum(metrics, number, metrics->metric->offset);
        if (number > 0 || value > 0) {
            metrics_add(metrics, &label, 1, value);
        }
    }
}

void metrics_write_node_failures(struct metrics *metrics)
{
    const size_t n = name_directory_count(nodes_of(metrics));
    for (size_t number = 0; number < n; number++) {
        struct page_label labels[] = {
            {SPAN("node"), metrics_name(nodes_of(metrics), number)},
            {SPAN("fault"), SPAN("")},
        };
        for (size_t i = 0; i < REDIS_FAULT_COUNT; i++) {
            const uint64_t value =
                node_sum(metrics, number, offsetof(struct store_node_meters, failures[i]));
            if (value > 0) {
                labels[1].value = span_of_text(redis_fault_row((enum redis_fault)i)->name);
                metrics_add(metrics, labels, ARRAY_LEN(labels), value);
            }
        }
    }
}

void metrics_write_instances(struct metrics *metrics)
{
    if (metrics->policy->store.kind == STORE_REDIS) {
        metrics_add(metrics, NULL, 0, redis_process_instances(metrics->admin->options.redis));
    }
}

/* --- the embedded store --- */

void metrics_write_memory(struct metrics *metrics)
{
    uint64_t value;
    memcpy(&value, (const char *)&metrics->memory + metrics->metric->offset, sizeof(value));
    metrics_add(metrics, NULL, 0, value);
}

void metrics_write_memory_bytes(struct metrics *metrics)
{
    metrics_add(metrics, NULL, 0, metrics->policy->store.memory_bytes);
}
