/* The file descriptors that connections to servers may take, of all workers together. Some are left
 * to connections from clients, so that a few of these, with many requests each, do not keep all
 * others out. */

#ifndef SLUICE_PROXY_CORE_UPSTREAM_DESCRIPTORS_H
#define SLUICE_PROXY_CORE_UPSTREAM_DESCRIPTORS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"

struct upstream_descriptors {
    atomic_uint n;  /* connections to servers, idle ones included */
    unsigned n_max; /* of them */
    int fd_end;     /* theirs are below: the others are left to accept clients with */
};

static inline void upstream_descriptors_init(struct upstream_descriptors *descriptors,
                                             unsigned n_max, int fd_end)
{
    atomic_init(&descriptors->n, 0);
    descriptors->n_max = n_max;
    descriptors->fd_end = fd_end;
}

/* A connection exists: count it, however many there are. */
static inline void upstream_descriptors_add(struct upstream_descriptors *descriptors)
{
    atomic_fetch_add_explicit(&descriptors->n, 1, memory_order_relaxed);
}

/* It has ended. */
static inline void upstream_descriptors_give(struct upstream_descriptors *descriptors)
{
    atomic_fetch_sub_explicit(&descriptors->n, 1, memory_order_relaxed);
}

/* Count a connection that is to be made. False: there are n_max, and it is not counted. */
MUST_USE static inline bool upstream_descriptors_take(struct upstream_descriptors *descriptors)
{
    const bool is_taken =
        atomic_fetch_add_explicit(&descriptors->n, 1, memory_order_relaxed) < descriptors->n_max;
    if (!is_taken) {
        upstream_descriptors_give(descriptors);
    }
    return is_taken;
}

/* How many more connections there may be. */
static inline unsigned upstream_descriptors_left(struct upstream_descriptors *descriptors)
{
    const unsigned n = atomic_load_explicit(&descriptors->n, memory_order_relaxed);
    return n < descriptors->n_max ? descriptors->n_max - n : 0;
}

#endif /* SLUICE_PROXY_CORE_UPSTREAM_DESCRIPTORS_H */
