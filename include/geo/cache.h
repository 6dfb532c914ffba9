/* A cache of what the databases of one policy know of the latest clients.
 *
 * The requests of a connection, and most of a client's connections, come from one address; to look
 * it up in two databases takes about a microsecond. Used by one thread. */

#ifndef SLUICE_GEO_CACHE_H
#define SLUICE_GEO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/address.h"
#include "geo/database.h"

enum { GEO_CACHE_ROWS = 128 }; /* a power of two */

/* All zero: empty. Nothing is known of the address that is all zero, so such a row is true. */
struct geo_cache {
    struct {
        struct address address;
        struct geo_facts facts;
    } rows[GEO_CACHE_ROWS];
};

/* The row of @address. Whoever chooses addresses of one row makes lookups as slow as without it. */
static inline size_t geo_cache_row(const struct address *address)
{
    uint64_t words[2];
    memcpy(words, address->bytes, sizeof(words));
    return ((words[0] ^ words[1] * 31) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % GEO_CACHE_ROWS;
}

/* False: @address is not in the cache. */
static inline bool geo_cache_find(const struct geo_cache *cache, const struct address *address,
                                  struct geo_facts *facts)
{
    const size_t i = geo_cache_row(address);
    if (memcmp(&cache->rows[i].address, address, sizeof(*address)) != 0) {
        return false;
    }
    *facts = cache->rows[i].facts;
    return true;
}

static inline void geo_cache_put(struct geo_cache *cache, const struct address *address,
                                 const struct geo_facts *facts)
{
    const size_t i = geo_cache_row(address);
    cache->rows[i].address = *address;
    cache->rows[i].facts = *facts;
}

#endif /* SLUICE_GEO_CACHE_H */
