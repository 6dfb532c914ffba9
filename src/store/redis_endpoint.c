/* Happy path: ask ─► the sentinels, if any, report a name or an address ─► the resolver ─►
 * addresses, tried from first to last ─► forgotten.
 *
 * Failures: no sentinel knows the master, the name is not known, no name server answers ─► reported
 * to the owner, which asks again after its back-off; the owner stops waiting ─► it forgets the
 * search; the master moves during a search ─► a new search. */

#include "store/redis_endpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/sentinel/redis_sentinel.h"
#include "store/redis_process.h"

static bool has_sentinels(const struct redis_endpoint *endpoint)
{
    return endpoint->options->sentinels.n_hosts > 0;
}

static void on_resolved(void *context, const struct resolver_answer *answer)
{
    struct redis_endpoint *endpoint = context;
    endpoint->query = NULL;
    if (answer->status != STATUS_OK) {
        endpoint->handler->on_found(endpoint->owner, STATUS_UNREACHABLE,
                                    SPAN("the name is not known"));
        return;
    }
    memcpy(endpoint->addresses, answer->addresses,
           answer->n_addresses * sizeof(answer->addresses[0]));
    endpoint->n_addresses = answer->n_addresses;
    endpoint->handler->on_found(endpoint->owner, STATUS_OK, SPAN(""));
}

static enum status resolve(struct redis_endpoint *endpoint, struct span host, uint16_t port)
{
    return resolver_ask(endpoint->resolver, host, port, on_resolved, endpoint, &endpoint->query);
}

/* --- sentinels --- */

static void on_answer(void *owner, const struct redis_master *master, struct span trouble)
{
    struct redis_endpoint *endpoint = owner;
    if (master == NULL) {
        endpoint->handler->on_found(endpoint->owner, STATUS_UNREACHABLE, trouble);
        return;
    }
    const struct span host = span_of_text(master->host);
    if (resolver_read_address(host, master->port, &endpoint->addresses[0])) {
        endpoint->n_addresses = 1;
        endpoint->handler->on_found(endpoint->owner, STATUS_OK, SPAN(""));
    } else if (resolve(endpoint, host, master->port) != STATUS_OK) {
        endpoint->handler->on_found(endpoint->owner, STATUS_NO_MEMORY, SPAN("out of memory"));
    }
}

static void on_moved(void *owner)
{
    struct redis_endpoint *endpoint = owner;
    endpoint->n_addresses = 0;
    endpoint->next = 0;
    if (endpoint->query != NULL) {
        resolver_cancel(endpoint->query);
        endpoint->query = NULL;
        redis_sentinel_ask(endpoint->sentinel);
    } else {
        endpoint->handler->on_moved(endpoint->owner);
    }
}

/* --- the endpoint --- */

static enum status init_sentinel(struct redis_endpoint *endpoint, struct loop *loop)
{
    static const struct redis_sentinel_handler HANDLER = {
        .on_answer = on_answer,
        .on_moved = on_moved,
    };
    endpoint->sentinel = calloc(1, sizeof(*endpoint->sentinel));
    if (endpoint->sentinel == NULL) {
        return STATUS_NO_MEMORY;
    }
    enum status status = resolver_new(loop, endpoint->options->resolver, &endpoint->resolver);
    if (status == STATUS_OK) {
        status =
            redis_sentinel_init(endpoint->sentinel, loop, endpoint->resolver,
                                redis_process_target(endpoint->options->process, endpoint->options),
                                &endpoint->options->sentinels, &HANDLER, endpoint);
    }
    if (status != STATUS_OK) {
        resolver_free(endpoint->resolver);
        free(endpoint->sentinel);
    }
    return status;
}

enum status redis_endpoint_init(struct redis_endpoint *endpoint, struct loop *loop,
                                const struct redis_store_options *options,
                                const struct redis_endpoint_handler *handler, void *owner)
{
    *endpoint = (struct redis_endpoint){.options = options, .handler = handler, .owner = owner};
    if (has_sentinels(endpoint)) {
        return init_sentinel(endpoint, loop);
    }
    if (options->host.len == 0) {
        endpoint->path = strndup(options->unix_path.data, options->unix_path.len);
        return endpoint->path == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    }
    if (resolver_read_address(options->host, options->port, &endpoint->addresses[0])) {
        endpoint->n_addresses = 1;
        return STATUS_OK;
    }
    return resolver_new(loop, options->resolver, &endpoint->resolver);
}

void redis_endpoint_close(struct redis_endpoint *endpoint)
{
    if (endpoint->sentinel != NULL) {
        redis_sentinel_close(endpoint->sentinel);
        free(endpoint->sentinel);
    }
    if (endpoint->query != NULL) {
        resolver_cancel(endpoint->query);
    }
    resolver_free(endpoint->resolver);
    free(endpoint->path);
}

enum redis_endpoint_outcome redis_endpoint_ask(struct redis_endpoint *endpoint)
{
    assert(endpoint->query == NULL);

    if (endpoint->path != NULL || endpoint->n_addresses > 0) {
        return REDIS_ENDPOINT_KNOWN;
    }
    if (has_sentinels(endpoint)) {
        redis_sentinel_ask(endpoint->sentinel);
        return REDIS_ENDPOINT_ASKED;
    }
    return resolve(endpoint, endpoint->options->host, endpoint->options->port) == STATUS_OK
               ? REDIS_ENDPOINT_ASKED
               : REDIS_ENDPOINT_NO_MEMORY;
}

const struct resolver_address *redis_endpoint_address(const struct redis_endpoint *endpoint)
{
    assert(endpoint->path != NULL || endpoint->next < endpoint->n_addresses);

    return endpoint->path != NULL ? NULL : &endpoint->addresses[endpoint->next];
}

const char *redis_endpoint_path(const struct redis_endpoint *endpoint)
{
    return endpoint->path;
}

struct span redis_endpoint_host(const struct redis_endpoint *endpoint)
{
    return has_sentinels(endpoint) ? span_of_text(endpoint->sentinel->reported.host)
                                   : endpoint->options->host;
}

bool redis_endpoint_advance(struct redis_endpoint *endpoint)
{
    endpoint->next++;
    return endpoint->next < endpoint->n_addresses;
}

void redis_endpoint_note_good(struct redis_endpoint *endpoint)
{
    endpoint->is_good = true;
    if (has_sentinels(endpoint)) {
        redis_sentinel_note_good(endpoint->sentinel);
    }
}

void redis_endpoint_forget(struct redis_endpoint *endpoint)
{
    if (endpoint->query != NULL) {
        resolver_cancel(endpoint->query);
        endpoint->query = NULL;
    }
    if (has_sentinels(endpoint)) {
        redis_sentinel_forget(endpoint->sentinel);
        if (endpoint->n_addresses > 0 && !endpoint->is_good) {
            redis_sentinel_note_bad(endpoint->sentinel);
        }
    }
    endpoint->is_good = false;
    endpoint->next = 0;
    if (endpoint->resolver != NULL) {
        endpoint->n_addresses = 0;
    }
}
