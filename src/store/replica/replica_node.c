#include "store/replica/replica_node.h"

#include <string.h>

enum {
    REDIRECTS_MAX = 5, /* followed at once, one after the other */
    LATER_US = 1000 * 1000,
};

void replica_node_init(struct replica_node *node, const struct redis_store_options *redis,
                       const struct redis_host *hosts, size_t n_hosts)
{
    node->at = *redis;
    node->hosts = hosts;
    node->n_hosts = n_hosts;
    if (n_hosts > 0) {
        replica_node_advance(node);
    }
}

bool replica_node_follow(struct replica_node *node, enum redis_fault fault, struct span said,
                         uint64_t *wait_us)
{
    struct redis_redirect redirect;
    if (!redis_fault_read_redirect(said, &redirect) || redirect.host.len > HOST_BYTES_MAX) {
        return false;
    }
    if (redirect.host.len > 0) {
        memcpy(node->host, redirect.host.data, redirect.host.len);
        node->at.host = span_of(node->host, redirect.host.len);
    }
    node->at.port = redirect.port;
    node->is_asking = fault == REDIS_FAULT_ASK;
    *wait_us = node->n_redirects++ < REDIRECTS_MAX ? 0 : LATER_US;
    return true;
}

void replica_node_advance(struct replica_node *node)
{
    const struct redis_host *host = &node->hosts[node->n_tried++ % node->n_hosts];
    node->at.host = host->host;
    node->at.port = host->port;
    node->is_asking = false;
}
