/* The bodies of requests that are under way on a connection to a server, in all and by client. They
 * count until they are answered: what a handler has taken of them is not known. What one more costs
 * does not depend on how many there are. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_BODIES_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_BODIES_H

#include <stdint.h>

#include "base/address.h"

enum { UPSTREAM_BODIES_ROWS = 256 };

/* All zero: none. Of clients that share a row, each seems to have the bodies of both. A client
 * cannot choose its row: the hash is keyed. */
struct upstream_bodies {
    uint64_t n_bytes;
    uint64_t rows[UPSTREAM_BODIES_ROWS];
};

/* A body of @n_bytes of @client begins; and has ended. */
void upstream_bodies_add(struct upstream_bodies *bodies, const struct address *client,
                         uint64_t n_bytes);
void upstream_bodies_drop(struct upstream_bodies *bodies, const struct address *client,
                          uint64_t n_bytes);

/* The bytes of all bodies of @client. */
uint64_t upstream_bodies_of(const struct upstream_bodies *bodies, const struct address *client);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_BODIES_H */
