#include "store/redis/cluster/redis_cluster_map.h"

#include <string.h>

#include "base/compiler.h"

/* The indices of the elements of a range, and of a node in it. */
enum { AT_FIRST, AT_LAST, AT_OWNER };
enum { AT_HOST, AT_PORT };

bool redis_cluster_address_set(struct redis_cluster_address *address, struct span host,
                               long long port)
{
    if (port < 1 || port > UINT16_MAX || host.len > HOST_BYTES_MAX ||
        span_find(host, '\0') != host.len) {
        return false;
    }
    if (host.len > 0) {
        memcpy(address->host, host.data, host.len);
    }
    address->host[host.len] = '\0';
    address->port = (uint16_t)port;
    return true;
}

bool redis_cluster_address_equals(const struct redis_cluster_address *a,
                                  const struct redis_cluster_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* The number of @owner, which is added if it is new. REDIS_CLUSTER_NOBODY: too many owners. */
static uint16_t number_of(struct redis_cluster_map *map, const struct redis_cluster_address *owner)
{
    for (size_t i = map->n_owners; i > 0; i--) {
        if (redis_cluster_address_equals(&map->owners[i - 1], owner)) {
            return (uint16_t)(i - 1);
        }
    }
    if (map->n_owners == ARRAY_LEN(map->owners)) {
        return REDIS_CLUSTER_NOBODY;
    }
    map->owners[map->n_owners] = *owner;
    return (uint16_t)map->n_owners++;
}

/* The bounds and the owner of the range have been read: enter it in the map. */
static void end_range(struct redis_cluster_map *map)
{
    if (!map->range.is_sound || map->range.first < 0 || map->range.last >= REDIS_SLOTS ||
        map->range.first > map->range.last) {
        return;
    }
    map->n_reported += (uint64_t)(map->range.last - map->range.first + 1);
    if (map->n_reported > REDIS_SLOTS) {
        return; /* overlapping ranges: no cluster reports them, and the loop below could run long */
    }
    const uint16_t owner = number_of(map, &map->range.owner);
    if (owner == REDIS_CLUSTER_NOBODY) {
        return;
    }
    for (long long slot = map->range.first; slot <= map->range.last; slot++) {
        map->n_owned += map->owner_of[slot] == REDIS_CLUSTER_NOBODY;
        map->owner_of[slot] = owner;
    }
}

static void begin_range(struct redis_cluster_map *map, const struct redis_part *part)
{
    map->range.owner = (struct redis_cluster_address){0};
    map->range.first = -1;
    map->range.last = -1;
    map->range.is_sound = part->kind == REDIS_PART_ARRAY;
}

static void take_bound(struct redis_cluster_map *map, const struct redis_part *part)
{
    if (part->at[1] > AT_LAST) {
        return;
    }
    map->range.is_sound = map->range.is_sound && part->kind == REDIS_PART_INT;
    if (part->at[1] == AT_FIRST) {
        map->range.first = part->number;
    } else {
        map->range.last = part->number;
    }
}

/* A node that does not know its own name reports "?", an empty text or nil. */
static void take_host(struct redis_cluster_map *map, const struct redis_part *part)
{
    const bool is_text = part->kind == REDIS_PART_TEXT;
    const struct span host = is_text && !span_equals(part->text, SPAN("?")) ? part->text : SPAN("");
    map->range.is_sound = map->range.is_sound && (is_text || part->kind == REDIS_PART_NIL) &&
                          redis_cluster_address_set(&map->range.owner, host, 1);
}

static void take_port(struct redis_cluster_map *map, const struct redis_part *part)
{
    const struct span host = span_of_text(map->range.owner.host);
    struct redis_cluster_address owner;
    map->range.is_sound = map->range.is_sound && part->kind == REDIS_PART_INT &&
                          redis_cluster_address_set(&owner, host, part->number);
    if (map->range.is_sound) {
        map->range.owner = owner;
    }
}

static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_cluster_map *map = CONTAINER_OF(listener, struct redis_cluster_map, listener);
    if (part->depth == 1) {
        begin_range(map, part);
    } else if (part->depth == 2) {
        take_bound(map, part);
    } else if (part->at[1] == AT_OWNER && part->at[2] == AT_HOST) {
        take_host(map, part);
    } else if (part->at[1] == AT_OWNER && part->at[2] == AT_PORT) {
        take_port(map, part);
        end_range(map);
    }
}

void redis_cluster_map_init(struct redis_cluster_map *map)
{
    map->n_owners = 0;
    map->n_owned = 0;
    map->n_reported = 0;
    map->range.is_sound = false;
    map->listener.on_part = on_part;
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++) {
        map->owner_of[slot] = REDIS_CLUSTER_NOBODY;
    }
}
