#include "proxy/upstream_process.h"

#include <stdlib.h>

static enum status open_one(struct upstream_process *upstream, const struct upstream_spec *spec)
{
    upstream->spec = spec;
    upstream->servers =
        aligned_alloc(CACHE_LINE_BYTES, spec->n_servers * sizeof(upstream->servers[0]));
    if (upstream->servers == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < spec->n_servers; i++) {
        struct server_process *server = &upstream->servers[i];
        const enum status status = server_health_init(&server->health, spec);
        if (status != STATUS_OK) {
            return status;
        }
        atomic_init(&server->n_requests, 0);
        atomic_init(&server->n_connections, 0);
        upstream->n_servers++;
    }
    return upstream_queue_init(&upstream->queue);
}

enum status upstream_process_open(const struct policy *policy, struct upstream_process **upstreams)
{
    struct upstream_process *opened = calloc(policy->n_upstreams + 1, sizeof(opened[0]));
    if (opened == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status = open_one(&opened[i], &policy->upstreams[i]);
        if (status != STATUS_OK) {
            upstream_process_close(opened, policy);
            return status;
        }
    }
    *upstreams = opened;
    return STATUS_OK;
}

void upstream_process_close(struct upstream_process *upstreams, const struct policy *policy)
{
    for (size_t i = 0; upstreams != NULL && i < policy->n_upstreams; i++) {
        for (size_t j = 0; j < upstreams[i].n_servers; j++) {
            server_health_close(&upstreams[i].servers[j].health);
        }
        if (upstreams[i].n_servers > 0 && upstreams[i].n_servers == upstreams[i].spec->n_servers) {
            upstream_queue_close(&upstreams[i].queue);
        }
        free(upstreams[i].servers);
    }
    free(upstreams);
}
