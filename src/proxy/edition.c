#include "proxy/edition.h"

#include <assert.h>
#include <stdlib.h>

#include "policy/compare.h"

/* What @before has of the upstream of that name; NULL: nothing. */
static struct upstream_process *find(const struct edition *before, struct span name,
                                     const struct upstream_spec **spec)
{
    for (size_t i = 0; before != NULL && i < before->n_upstreams; i++) {
        if (span_equals(before->policy->upstreams[i].name, name)) {
            *spec = &before->policy->upstreams[i];
            return before->upstreams[i];
        }
    }
    return NULL;
}

static enum status open_upstream(struct edition *edition, const struct edition *before, size_t i)
{
    const struct upstream_spec *spec = &edition->policy->upstreams[i];
    const struct upstream_spec *spec_before = NULL;
    struct upstream_process *found = find(before, spec->name, &spec_before);
    if (found != NULL && compare_upstreams(spec, spec_before)) {
        edition->upstreams[i] = upstream_process_join(found);
        return STATUS_OK;
    }
    return upstream_process_new(spec, found, spec_before, &edition->upstreams[i]);
}

static enum status open_upstreams(struct edition *edition, const struct edition *before)
{
    const struct policy *policy = edition->policy;
    edition->upstreams = calloc(policy->n_upstreams + 1, sizeof(struct upstream_process *));
    if (edition->upstreams == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status = open_upstream(edition, before, i);
        if (status != STATUS_OK) {
            return status;
        }
        edition->n_upstreams++;
    }
    return STATUS_OK;
}

enum status edition_new(const struct server_edition *given, struct edition *before,
                        struct edition **edition)
{
    struct edition *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->given = *given;
    created->policy = given->policy;
    created->number = before != NULL ? before->number + 1 : 1;
    atomic_init(&created->n_users, 1);
    const enum status status = open_upstreams(created, before);
    if (status != STATUS_OK) {
        edition_discard(created);
        return status;
    }
    *edition = created;
    return STATUS_OK;
}

struct edition *edition_join(struct edition *edition)
{
    atomic_fetch_add(&edition->n_users, 1);
    return edition;
}

void edition_discard(struct edition *edition)
{
    for (size_t i = 0; i < edition->n_upstreams; i++) {
        upstream_process_leave(edition->upstreams[i]);
    }
    free(edition->upstreams);
    free(edition);
}

void edition_leave(struct edition *edition)
{
    if (edition != NULL && atomic_fetch_sub(&edition->n_users, 1) == 1) {
        const struct server_edition given = edition->given;
        edition_discard(edition);
        given.release(given.context);
    }
}
