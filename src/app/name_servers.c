#include "app/name_servers.h"

void name_servers_init(struct name_servers *servers, const struct policy *policy)
{
    const struct resolver_section *section = &policy->resolver;
    *servers = (struct name_servers){.options = {.servers = servers->addresses}};
    for (size_t i = 0; i < section->n_servers; i++) {
        const struct endpoint *endpoint = &section->servers[i];
        servers->options.n_servers += resolver_read_address(
            endpoint->host, endpoint->port, &servers->addresses[servers->options.n_servers]);
    }
}
