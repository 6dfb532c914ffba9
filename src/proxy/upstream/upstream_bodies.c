#include "proxy/upstream/upstream_bodies.h"

#include <assert.h>
#include <stddef.h>

#include "base/hash.h"

static size_t row_of(const struct address *client)
{
    const struct span bytes = span_of((const char *)client, sizeof(*client));
    return hash_shared(bytes).low % UPSTREAM_BODIES_ROWS;
}

void upstream_bodies_add(struct upstream_bodies *bodies, const struct address *client,
                         uint64_t n_bytes)
{
    if (n_bytes > 0) {
        bodies->n_bytes += n_bytes;
        bodies->rows[row_of(client)] += n_bytes;
    }
}

void upstream_bodies_drop(struct upstream_bodies *bodies, const struct address *client,
                          uint64_t n_bytes)
{
    if (n_bytes > 0) {
        uint64_t *row = &bodies->rows[row_of(client)];
        assert(*row >= n_bytes && bodies->n_bytes >= n_bytes);
        *row -= n_bytes;
        bodies->n_bytes -= n_bytes;
    }
}

uint64_t upstream_bodies_of(const struct upstream_bodies *bodies, const struct address *client)
{
    return bodies->rows[row_of(client)];
}
