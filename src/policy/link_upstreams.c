#include "policy/link.h"

static void link_servers(struct linker *linker, const struct spec_upstream *spec,
                         struct upstream_spec *upstream)
{
    const struct section_items *servers = &spec->servers;
    const struct spec_endpoint *specs = servers->items;
    if (servers->node != NULL && (servers->n_items == 0 || servers->n_items > POLICY_SERVERS_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, servers->node->line, servers->node->column,
                  "servers must have 1 to %d URLs", POLICY_SERVERS_MAX);
        return;
    }
    upstream->servers = link_alloc(linker, servers->n_items, sizeof(*upstream->servers));
    for (size_t i = 0; i < servers->n_items && upstream->servers != NULL; i++) {
        if (specs[i].node != NULL) {
            upstream->servers[upstream->n_servers++] = link_endpoint(linker, &specs[i].endpoint);
        }
    }
}

static void link_host(struct linker *linker, const struct spec_upstream *spec,
                      struct upstream_spec *upstream)
{
    if (span_equals(spec->host.text, SPAN("preserve"))) {
        upstream->host = UPSTREAM_HOST_PRESERVE;
    } else if (span_equals(spec->host.text, SPAN("server"))) {
        upstream->host = UPSTREAM_HOST_SERVER;
    } else {
        upstream->host = UPSTREAM_HOST_NAME;
        upstream->host_name = link_copy(linker, spec->host.text);
    }
}

void link_upstreams(struct linker *linker)
{
    const struct section_items *items = &linker->spec->upstreams;
    const struct spec_upstream *specs = items->items;
    struct policy *policy = linker->policy;
    if (items->n_items > POLICY_UPSTREAMS_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "more than %d upstreams", POLICY_UPSTREAMS_MAX);
    }
    policy->upstreams = link_alloc(linker, items->n_items, sizeof(*policy->upstreams));
    if (policy->upstreams == NULL) {
        return;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        struct upstream_spec *upstream = &policy->upstreams[i];
        (void)link_check_name(linker, "upstream", specs[i].place.name, specs[i].place.name_node);
        upstream->name = link_copy(linker, specs[i].place.name);
        upstream->index = (uint32_t)i;
        upstream->connect_us = specs[i].timeout.connect_us;
        upstream->response_us = specs[i].timeout.response_us;
        upstream->idle_us = specs[i].timeout.idle_us;
        link_servers(linker, &specs[i], upstream);
        link_host(linker, &specs[i], upstream);
    }
    policy->n_upstreams = items->n_items;
}
