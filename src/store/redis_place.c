/* Happy path: ask ─► the resolver ─► addresses, tried from the first to the last ─► forgotten.
 *
 * Failures: the name is not known, or no name server answers ─► told to the owner, who asks again after its
 * back-off; an answer that the owner does not wait for ─► forgotten by it. */

#include "store/redis_place.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void on_resolved(void *context, enum status status, const struct resolver_address *addresses,
                        size_t n_addresses)
{
    struct redis_place *place = context;
    place->query = NULL;
    if (status != STATUS_OK) {
        place->on_found(place->owner, STATUS_UNREACHABLE, SPAN("the name is not known"));
        return;
    }
    memcpy(place->addresses, addresses, n_addresses * sizeof(*addresses));
    place->n_addresses = n_addresses;
    place->on_found(place->owner, STATUS_OK, SPAN(""));
}

enum status redis_place_init(struct redis_place *place, struct loop *loop,
                             const struct redis_store_options *options,
                             void (*on_found)(void *owner, enum status status, struct span trouble),
                             void *owner)
{
    *place = (struct redis_place){.options = options, .on_found = on_found, .owner = owner};
    if (options->host.len == 0) {
        place->path = strndup(options->unix_path.data, options->unix_path.len);
        return place->path == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    }
    if (resolver_read_address(options->host, options->port, &place->addresses[0])) {
        place->n_addresses = 1;
        return STATUS_OK;
    }
    return resolver_new(loop, &place->resolver);
}

void redis_place_close(struct redis_place *place)
{
    redis_place_forget(place);
    resolver_free(place->resolver);
    free(place->path);
}

enum redis_place_outcome redis_place_ask(struct redis_place *place)
{
    assert(place->query == NULL);

    if (place->path != NULL || place->n_addresses > 0) {
        return REDIS_PLACE_KNOWN;
    }
    if (resolver_ask(place->resolver, place->options->host, place->options->port, on_resolved,
                     place, &place->query) != STATUS_OK) {
        return REDIS_PLACE_NO_MEMORY;
    }
    return REDIS_PLACE_ASKED;
}

const struct resolver_address *redis_place_address(const struct redis_place *place)
{
    assert(place->path != NULL || place->next < place->n_addresses);

    return place->path != NULL ? NULL : &place->addresses[place->next];
}

const char *redis_place_path(const struct redis_place *place)
{
    return place->path;
}

bool redis_place_advance(struct redis_place *place)
{
    place->next++;
    return place->next < place->n_addresses;
}

void redis_place_forget(struct redis_place *place)
{
    if (place->query != NULL) {
        resolver_cancel(place->query);
        place->query = NULL;
    }
    place->next = 0;
    if (place->resolver != NULL) {
        place->n_addresses = 0;
    }
}
