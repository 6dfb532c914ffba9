#include "store/redis_options.h"
#include "store/redis_store.h"

#include <stdlib.h>

#include "base/clock.h"
#include "store/redis/cluster/redis_cluster.h"
#include "store/redis_process.h"

enum {
    TICKETS_KEPT = 1024,
    SPREADS_KEPT = 64,         /* of about 7 KiB each */
    UNSTABLE_US = 1000 * 1000, /* how long slots count as migrating after one was found so */
};

/* While slots migrate, a call with several keys may fail with TRYAGAIN, and a batch cannot be sent
 * again by key. So its requests are sent one by one from the start. */
static bool takes_identical(const struct store *store, const struct decision *decision)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    if (decision->n_charges == 1) {
        return true;
    }
    const bool is_unstable =
        cluster->unstable_us != 0 && clock_monotonic_us() - cluster->unstable_us < UNSTABLE_US;
    return !is_unstable && redis_cluster_is_one_slot(cluster->prefix, decision);
}

/* The node that has @settlement's charge; NULL: none is known. */
static struct redis_cluster_node *node_of(struct redis_cluster *cluster,
                                          const struct settlement *settlement)
{
    const uint16_t slot =
        redis_slots_of_charge(cluster->prefix, settlement->limit, settlement->key);
    return redis_cluster_nodes_find(&cluster->nodes, slot);
}

/* Settlements are sent one by one: a migrating slot refuses a call with several keys while one of
 * them is missing. */
void redis_cluster_settle(struct store *store, const struct settlement *settlements, size_t n)
{
    struct redis_cluster *cluster = redis_cluster_of(store);
    for (size_t i = 0; i < n; i++) {
        struct redis_cluster_node *node = node_of(cluster, &settlements[i]);
        if (node != NULL) {
            store_settle(node->store, &settlements[i], 1);
        } else {
            redis_cluster_nodes_lose_settlement(&cluster->nodes);
        }
    }
}

static bool can_settle(struct store *store, const struct settlement *settlement)
{
    const struct redis_cluster_node *node = node_of(redis_cluster_of(store), settlement);
    return node != NULL && store_can_settle(node->store, settlement);
}

/* Of all nodes: a slot may have another owner by now. */
static uint64_t count_losses(const struct store *store, enum decision_source source)
{
    (void)source;
    return ((const struct redis_cluster *)(const void *)store)->nodes.n_losses;
}

static enum status add_limits(struct store *store, const struct limit *limits, size_t n_limits)
{
    return redis_cluster_nodes_add_limits(&redis_cluster_of(store)->nodes, limits, n_limits);
}

static void remove_limits(struct store *store, const struct limit *limits)
{
    struct redis_cluster *cluster = redis_cluster_of(store);
    redis_cluster_end_abandoned(cluster, limits);
    redis_cluster_nodes_remove_limits(&cluster->nodes, limits);
}

static bool is_ready(const struct store *store)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    return redis_cluster_nodes_are_ready(&cluster->nodes);
}

static bool is_settled(const struct store *store)
{
    const struct redis_cluster *cluster = (const struct redis_cluster *)(const void *)store;
    return list_is_empty(&cluster->abandoned) && redis_cluster_nodes_are_settled(&cluster->nodes);
}

static enum store_outcome run(struct store *store, struct store_operation *operation)
{
    struct redis_cluster *cluster = redis_cluster_of(store);
    const uint16_t slot = redis_operation_slot(cluster->prefix, operation);
    struct redis_cluster_node *node = redis_cluster_nodes_find(&cluster->nodes, slot);
    if (node == NULL) {
        operation->status = STATUS_UNREACHABLE;
        return STORE_ANSWERED;
    }
    return store_run(node->store, operation);
}

static void free_cluster(struct store *store)
{
    struct redis_cluster *cluster = redis_cluster_of(store);
    struct redis_process *process = cluster->nodes.options.process;
    if (process != NULL) {
        const struct redis_cluster_counters counters = redis_cluster_store_count(store);
        redis_process_add_cluster(process, &counters);
    }
    redis_cluster_end_abandoned(cluster, NULL);
    redis_cluster_nodes_close(&cluster->nodes);
    timeout_queue_close(&cluster->deadlines);
    pool_close(&cluster->tickets);
    pool_close(&cluster->spreads);
    free(cluster);
}

static const struct store_ops CLUSTER_OPS = {
    .name = "redis_cluster",
    .decide = redis_cluster_decide,
    .cancel = redis_cluster_cancel,
    .takes_identical = takes_identical,
    .settle = redis_cluster_settle,
    .can_settle = can_settle,
    .count_losses = count_losses,
    .add_limits = add_limits,
    .remove_limits = remove_limits,
    .is_ready = is_ready,
    .is_settled = is_settled,
    .run = run,
    .free = free_cluster,
};

static enum status init(struct redis_cluster *cluster, struct loop *loop,
                        const struct redis_cluster_options *options)
{
    timeout_queue_init(&cluster->deadlines, loop, options->redis.deadline_us);
    const enum status status = redis_cluster_nodes_init(&cluster->nodes, loop, options);
    if (status != STATUS_OK) {
        timeout_queue_close(&cluster->deadlines);
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
    list_init(&cluster->abandoned);
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
