/* Happy path: ask ─► the sentinels, where there are any, say a name or an address ─► the resolver
 * ─► addresses, tried from the first to the last ─► forgotten.
 *
 * Failures: no sentinel says, the name is not known, no name server answers ─► told to the owner,
 * who asks again after its back-off; an answer that the owner does not wait for ─► forgotten by it;
 * a master that moves during a search ─► sought again. */

#include "store/redis_place.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool has_sentinels(const struct redis_place *place)
{
    return place->options->sentinels.n_hosts > 0;
}

static void on_resolved(void *context, const struct resolver_answer *answer)
{
    struct redis_place *place = context;
    place->query = NULL;
    if (answer->status != STATUS_OK) {
        place->handler->on_found(place->owner, STATUS_UNREACHABLE, SPAN("the name is not known"));
        return;
    }
    memcpy(place->addresses, answer->addresses, answer->n_addresses * sizeof(answer->addresses[0]));
    place->n_addresses = answer->n_addresses;
    place->handler->on_found(place->owner, STATUS_OK, SPAN(""));
}

static enum status resolve(struct redis_place *place, struct span host, uint16_t port)
{
    return resolver_ask(place->resolver, host, port, on_resolved, place, &place->query);
}

/* --- sentinels --- */

static void on_answer(void *owner, const struct redis_master *master, struct span trouble)
{
    struct redis_place *place = owner;
    if (master == NULL) {
        place->handler->on_found(place->owner, STATUS_UNREACHABLE, trouble);
        return;
    }
    const struct span host = span_of_text(master->host);
    if (resolver_read_address(host, master->port, &place->addresses[0])) {
        place->n_addresses = 1;
        place->handler->on_found(place->owner, STATUS_OK, SPAN(""));
    } else if (resolve(place, host, master->port) != STATUS_OK) {
        place->handler->on_found(place->owner, STATUS_NO_MEMORY, SPAN("out of memory"));
    }
}

static void on_moved(void *owner)
{
    struct redis_place *place = owner;
    place->n_addresses = 0;
    place->next = 0;
    if (place->query != NULL) {
        resolver_cancel(place->query);
        place->query = NULL;
        redis_sentinel_ask(&place->sentinel);
    } else {
        place->handler->on_moved(place->owner);
    }
}

/* --- the place --- */

static enum status init_sentinel(struct redis_place *place, struct loop *loop)
{
    static const struct redis_sentinel_handler HANDLER = {
        .on_answer = on_answer,
        .on_moved = on_moved,
    };
    enum status status = resolver_new(loop, place->options->resolver, &place->resolver);
    if (status != STATUS_OK) {
        return status;
    }
    status = redis_sentinel_init(&place->sentinel, loop, place->resolver,
                                 redis_process_target(place->options->process, place->options),
                                 &place->options->sentinels, &HANDLER, place);
    if (status != STATUS_OK) {
        resolver_free(place->resolver);
    }
    return status;
}

enum status redis_place_init(struct redis_place *place, struct loop *loop,
                             const struct redis_store_options *options,
                             const struct redis_place_handler *handler, void *owner)
{
    *place = (struct redis_place){.options = options, .handler = handler, .owner = owner};
    if (has_sentinels(place)) {
        return init_sentinel(place, loop);
    }
    if (options->host.len == 0) {
        place->path = strndup(options->unix_path.data, options->unix_path.len);
        return place->path == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    }
    if (resolver_read_address(options->host, options->port, &place->addresses[0])) {
        place->n_addresses = 1;
        return STATUS_OK;
    }
    return resolver_new(loop, options->resolver, &place->resolver);
}

void redis_place_close(struct redis_place *place)
{
    redis_sentinel_close(&place->sentinel);
    if (place->query != NULL) {
        resolver_cancel(place->query);
    }
    resolver_free(place->resolver);
    free(place->path);
}

enum redis_place_outcome redis_place_ask(struct redis_place *place)
{
    assert(place->query == NULL);

    if (place->path != NULL || place->n_addresses > 0) {
        return REDIS_PLACE_KNOWN;
    }
    if (has_sentinels(place)) {
        redis_sentinel_ask(&place->sentinel);
        return REDIS_PLACE_ASKED;
    }
    return resolve(place, place->options->host, place->options->port) == STATUS_OK
               ? REDIS_PLACE_ASKED
               : REDIS_PLACE_NO_MEMORY;
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

void redis_place_note_good(struct redis_place *place)
{
    place->is_good = true;
    if (has_sentinels(place)) {
        redis_sentinel_note_good(&place->sentinel);
    }
}

void redis_place_forget(struct redis_place *place)
{
    if (place->query != NULL) {
        resolver_cancel(place->query);
        place->query = NULL;
    }
    if (has_sentinels(place)) {
        redis_sentinel_forget(&place->sentinel);
        if (place->n_addresses > 0 && !place->is_good) {
            redis_sentinel_note_bad(&place->sentinel);
        }
    }
    place->is_good = false;
    place->next = 0;
    if (place->resolver != NULL) {
        place->n_addresses = 0;
    }
}
