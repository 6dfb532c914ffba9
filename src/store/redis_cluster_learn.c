/* The limits that the nodes of a cluster know: those of the policy that was learnt last are in the
 * options that a new node is made with, those before it are kept in a list, and taught. */

#include <stdlib.h>

#include "store/redis_cluster_nodes.h"

struct redis_cluster_limits {
    struct list node;
    const struct limit *limits; /* borrowed */
    size_t n_limits;
};

static struct redis_cluster_limits *limits_at(struct list *node)
{
    return CONTAINER_OF(node, struct redis_cluster_limits, node);
}

/* The first @n of the nodes. */
static void forget_in(struct redis_cluster_nodes *nodes, size_t n, const struct limit *limits)
{
    for (size_t i = 0; i < n; i++) {
        store_forget(nodes->known[i]->store, limits);
    }
}

static enum status learn_in_all(struct redis_cluster_nodes *nodes, const struct limit *limits,
                                size_t n_limits)
{
    for (size_t i = 0; i < nodes->n_known; i++) {
        const enum status status = store_learn(nodes->known[i]->store, limits, n_limits);
        if (status != STATUS_OK) {
            forget_in(nodes, i, limits);
            return status;
        }
    }
    return STATUS_OK;
}

enum status redis_cluster_nodes_learn(struct redis_cluster_nodes *nodes, const struct limit *limits,
                                      size_t n_limits)
{
    struct redis_cluster_limits *before = malloc(sizeof(*before));
    const enum status status =
        before == NULL ? STATUS_NO_MEMORY : learn_in_all(nodes, limits, n_limits);
    if (status != STATUS_OK) {
        free(before);
        return status;
    }
    before->limits = nodes->options.limits;
    before->n_limits = nodes->options.n_limits;
    list_push_front(&nodes->earlier, &before->node);
    nodes->options.limits = limits;
    nodes->options.n_limits = n_limits;
    return STATUS_OK;
}

static void drop(struct redis_cluster_limits *limits)
{
    list_remove(&limits->node);
    free(limits);
}

/* What was learnt last is not used after all: that before it is the latest again. */
static void go_back(struct redis_cluster_nodes *nodes)
{
    nodes->options.n_limits = 0;
    if (!list_is_empty(&nodes->earlier)) {
        struct redis_cluster_limits *latest = limits_at(nodes->earlier.next);
        nodes->options.limits = latest->limits;
        nodes->options.n_limits = latest->n_limits;
        drop(latest);
    }
}

void redis_cluster_nodes_forget(struct redis_cluster_nodes *nodes, const struct limit *limits)
{
    forget_in(nodes, nodes->n_known, limits);
    if (nodes->options.limits == limits) {
        go_back(nodes);
        return;
    }
    for (struct list *node = nodes->earlier.next; node != &nodes->earlier; node = node->next) {
        if (limits_at(node)->limits == limits) {
            drop(limits_at(node));
            return;
        }
    }
}

enum status redis_cluster_nodes_teach(const struct redis_cluster_nodes *nodes, struct store *node)
{
    enum status status = STATUS_OK;
    for (struct list *at = nodes->earlier.next; at != &nodes->earlier && status == STATUS_OK;
         at = at->next) {
        status = store_learn(node, limits_at(at)->limits, limits_at(at)->n_limits);
    }
    return status;
}

void redis_cluster_nodes_forget_all(struct redis_cluster_nodes *nodes)
{
    while (!list_is_empty(&nodes->earlier)) {
        drop(limits_at(nodes->earlier.next));
    }
}

bool redis_cluster_nodes_are_ready(const struct redis_cluster_nodes *nodes)
{
    bool is_any_up = false;
    for (size_t i = 0; i < nodes->n_known; i++) {
        const struct store *node = nodes->known[i]->store;
        if (!store_is_ready(node)) {
            return false;
        }
        is_any_up = is_any_up || redis_store_is_up(node);
    }
    return !is_any_up || nodes->map->n_owned > 0; /* who is up tells who owns what */
}

bool redis_cluster_nodes_are_settled(const struct redis_cluster_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n_known; i++) {
        if (!store_is_settled(nodes->known[i]->store)) {
            return false;
        }
    }
    return true;
}
