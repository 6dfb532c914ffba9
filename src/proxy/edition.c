#include "proxy/edition.h"

#include <stdlib.h>

enum status edition_new(const struct server_options *options, struct edition **edition)
{
    struct edition *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->options = options;
    created->policy = options->policy;
    const enum status status = upstream_process_open(created->policy, &created->upstreams);
    if (status != STATUS_OK) {
        free(created);
        return status;
    }
    *edition = created;
    return STATUS_OK;
}

void edition_free(struct edition *edition)
{
    if (edition != NULL) {
        upstream_process_close(edition->upstreams, edition->policy);
        free(edition);
    }
}
