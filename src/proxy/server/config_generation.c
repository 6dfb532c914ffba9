#include "proxy/server/config_generation.h"

#include <assert.h>
#include <stdlib.h>

#include "policy/compare.h"

/* The upstream of @name in @before, and its *spec. NULL: there is none. */
static struct upstream_process *find(const struct config_generation *before, struct span name,
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

static enum status open_upstream(struct config_generation *generation,
                                 const struct config_generation *before, size_t i)
{
    const struct upstream_spec *spec = &generation->policy->upstreams[i];
    const struct upstream_spec *spec_before = NULL;
    struct upstream_process *found = find(before, spec->name, &spec_before);
    if (found != NULL && compare_upstreams(spec, spec_before)) {
        generation->upstreams[i] = upstream_process_join(found);
        return STATUS_OK;
    }
    return upstream_process_new(spec, found, spec_before, &generation->upstreams[i]);
}

static enum status open_upstreams(struct config_generation *generation,
                                  const struct config_generation *before)
{
    const struct policy *policy = generation->policy;
    generation->upstreams = calloc(policy->n_upstreams + 1, sizeof(struct upstream_process *));
    if (generation->upstreams == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const enum status status = open_upstream(generation, before, i);
        if (status != STATUS_OK) {
            return status;
        }
        generation->n_upstreams++;
    }
    return STATUS_OK;
}

enum status config_generation_new(const struct server_generation *given,
                                  struct config_generation *before,
                                  struct config_generation **generation)
{
    struct config_generation *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->given = *given;
    created->policy = given->policy;
    created->number = before != NULL ? before->number + 1 : 1;
    atomic_init(&created->n_users, 1);
    const enum status status = open_upstreams(created, before);
    if (status != STATUS_OK) {
        config_generation_discard(created);
        return status;
    }
    *generation = created;
    return STATUS_OK;
}

struct config_generation *config_generation_acquire(struct config_generation *generation)
{
    atomic_fetch_add(&generation->n_users, 1);
    return generation;
}

void config_generation_discard(struct config_generation *generation)
{
    for (size_t i = 0; i < generation->n_upstreams; i++) {
        upstream_process_leave(generation->upstreams[i]);
    }
    free(generation->upstreams);
    free(generation);
}

void config_generation_release(struct config_generation *generation)
{
    if (generation != NULL && atomic_fetch_sub(&generation->n_users, 1) == 1) {
        const struct server_generation given = generation->given;
        config_generation_discard(generation);
        given.release(given.context);
    }
}
