#include "admin/metrics.h"

#include "base/counter.h"
#include "base/limits.h"
#include "proxy/meters.h"
#include "store/store_meters.h"

static void add_node(struct store_counts *counts, const struct store_node_meters *node)
{
    const uint64_t n_up = counter_read(&node->links_up);
    const uint64_t n_open = counter_read(&node->breakers_open);
    counts->calls += counter_read(&node->calls);
    counts->links += counter_read(&node->links);
    counts->links_up += n_up;
    counts->breakers_open += n_open;
    counts->links_working += n_up > n_open ? n_up - n_open : 0; /* read at different moments */
    counts->rtt_us += counter_read(&node->rtt.sum_us);
    for (size_t i = 0; i <= LATENCY_EDGES; i++) {
        counts->n_rtts += counter_read(&node->rtt.counts[i]);
    }
    for (size_t fault = 0; fault < STORE_FAULTS_MAX; fault++) {
        counts->failures += counter_read(&node->failures[fault]);
    }
}

/* Add the nodes from @first until before @end. */
static struct store_counts count(const struct meters *meters, size_t first, size_t end)
{
    struct store_counts counts = {0};
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct worker_meters *worker = meters_snapshot(meters, i);
        for (size_t number = first; worker != NULL && number < end; number++) {
            add_node(&counts, &worker->store.nodes[number]);
        }
    }
    return counts;
}

struct store_counts store_counts_of_node(const struct meters *meters, size_t number)
{
    return count(meters, number, number + 1);
}

struct store_counts store_counts_of_all(const struct meters *meters)
{
    return count(meters, 0, STORE_NODES_MAX);
}
