#include "store/redis_cluster_store.h"

#include <stdlib.h>

#include "base/clock.h"
#include "store/redis_cluster.h"
#include "store/redis_process.h"
#include "store/redis_slots.h"

enum {
    TICKETS_KEPT = 1024,
    SPREADS_KEPT = 64,         /* of about 7 KiB each */
    UNSTABLE_US = 1000 * 1000, /* that one slot has been found on the move is held for so long */
};

static struct redis_cluster *cluster_of(struct store *store)
{
    return (struct redis_cluster *)(void *)store;
}

static enum store_outcome decide(struct store *store, struct decision *decision)
{
    return redis_cluster_decide(cluster_of(store), decision);
}

static void cancel(struct store *store, struct decision *decision)
{
    redis_cluster_cancel(cluster_of(store), decision);
}

/* What a slot on the move may not take whole is better asked for each request from the start. */
static bool takes_alike(const struct store *store, const struct decision *decision)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    if (decision->n_charges == 1) {
        return true;
    }
    const bool is_unstable =
        cluster->unstable_us != 0 && clock_monotonic_us() - cluster->unstable_us < UNSTABLE_US;
    return !is_unstable && redis_cluster_is_one_slot(cluster->prefix, decision);
}

/* One by one: a slot on the move refuses several keys at once for as long as one of them is
 * missing. */
void redis_cluster_settle(struct redis_cluster *cluster, const struct settlement *settlements,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t slot =
            redis_slots_of_charge(cluster->prefix, settlements[i].limit, settlements[i].key);
        struct redis_cluster_node *node = redis_cluster_nodes_find(&cluster->nodes, slot);
        if (node != NULL) {
            store_settle(node->store, &settlements[i], 1);
        }
    }
}

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    redis_cluster_settle(cluster_of(store), settlements, n);
}

static enum status learn(struct store *store, const struct limit *limits, size_t n_limits)
{
    return redis_cluster_nodes_learn(&cluster_of(store)->nodes, limits, n_limits);
}

static void forget(struct store *store, const struct limit *limits)
{
    redis_cluster_nodes_forget(&cluster_of(store)->nodes, limits);
}

static bool is_ready(const struct store *store)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    return redis_cluster_nodes_are_ready(&cluster->nodes);
}

static bool is_settled(const struct store *store)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    return redis_cluster_nodes_are_settled(&cluster->nodes);
}

static enum store_outcome run(struct store *store, struct store_errand *errand)
{
    struct redis_cluster *cluster = cluster_of(store);
    const uint16_t slot = redis_runner_slot(cluster->prefix, errand);
    struct redis_cluster_node *node = redis_cluster_nodes_find(&cluster->nodes, slot);
    if (node == NULL) {
        errand->status = STATUS_UNREACHABLE;
        return STORE_ANSWERED;
    }
    return store_run(node->store, errand);
}

static void free_cluster(struct store *store)
{
    struct redis_cluster *cluster = cluster_of(store);
    struct redis_process *process = cluster->nodes.options.process;
    if (process != NULL) {
        const struct redis_cluster_counters counters = redis_cluster_store_count(store);
        redis_process_add_cluster(process, &counters);
    }
    redis_cluster_nodes_close(&cluster->nodes);
    timeout_queue_close(&cluster->deadlines);
    pool_close(&cluster->tickets);
    pool_close(&cluster->spreads);
    free(cluster);
}

static const struct store_ops CLUSTER_OPS = {
    .name = "redis_cluster",
    .decide = decide,
    .cancel = cancel,
    .takes_alike = takes_alike,
    .settle = settle,
    .learn = learn,
    .forget = forget,
    .is_ready = is_ready,
    .is_settled = is_settled,
    .run = run,
    .free = free_cluster,
};

static enum status init(struct redis_cluster *cluster, struct loop *loop,
                        const struct redis_cluster_options *options)
{
    enum status status = timeout_queue_init(&cluster->deadlines, loop, options->redis.deadline_us);
    if (status == STATUS_OK) {
        status = redis_cluster_nodes_init(&cluster->nodes, loop, options);
        if (status != STATUS_OK) {
            timeout_queue_close(&cluster->deadlines);
        }
    }
    return status;
}

enum status redis_cluster_store_new(struct loop *loop, const struct redis_cluster_options *options,
                                    struct store **store)
{
    struct redis_cluster *cluster = calloc(1, sizeof(*cluster));
    if (cluster == NULL) {
        return STATUS_NO_MEMORY;
    }
    cluster->store.ops = &CLUSTER_OPS;
    cluster->prefix = options->redis.prefix;
    pool_init(&cluster->tickets, sizeof(struct redis_cluster_ticket), TICKETS_KEPT);
    pool_init(&cluster->spreads, sizeof(struct redis_cluster_spread), SPREADS_KEPT);
    const enum status status = init(cluster, loop, options);
    if (status != STATUS_OK) {
        free(cluster);
        return status;
    }
    *store = &cluster->store;
    return STATUS_OK;
}

bool redis_cluster_store_is_up(const struct store *store)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    return redis_cluster_nodes_are_up(&cluster->nodes);
}

struct redis_cluster_counters redis_cluster_store_count(const struct store *store)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    struct redis_cluster_counters counters = cluster->counters;
    counters.nodes = redis_cluster_nodes_count(&cluster->nodes);
    counters.n_maps = cluster->nodes.n_maps;
    return counters;
}
