#include "store/replica/replica_source.h"

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

static struct span field_at(const struct replica_fields *fields, size_t i)
{
    return span_of(fields->bytes[i], fields->lens[i]);
}

bool replica_fields_add(struct replica_fields *fields, struct span field)
{
    size_t i = 0;
    while (i < fields->n && !span_equals(field_at(fields, i), field)) {
        i++;
    }
    if (i == REPLICA_FIELDS_MAX || field.len == 0 || field.len > REPLICA_FIELD_BYTES_MAX) {
        return false;
    }
    if (i == fields->n) {
        memcpy(fields->bytes[i], field.data, field.len);
        fields->lens[fields->n++] = (uint8_t)field.len;
    }
    return true;
}

size_t replica_fields_take(struct replica_fields *fields, struct span *words)
{
    const size_t n = fields->n;
    for (size_t i = 0; i < n; i++) {
        words[i] = field_at(fields, i);
    }
    fields->n = 0;
    return n;
}
