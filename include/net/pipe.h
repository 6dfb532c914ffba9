/* Pipes, for bytes that pass from one socket to another and that nobody looks at: they stay in the
 * kernel, and are not copied there (splice(2)).
 *
 * A pool of them belongs to one worker. Each is two descriptors, which is why there are few. */

#ifndef SLUICE_NET_PIPE_H
#define SLUICE_NET_PIPE_H

#include <stddef.h>

#include "base/compiler.h"

enum {
    PIPES_FREE_MAX = 4, /* that a pool keeps for whoever comes next */
    PIPE_SKIPS = 1024,  /* that find none after the system has refused one */
};

struct pipe {
    struct pipe *next; /* in the pool */
    int read_fd;
    int write_fd;
    size_t n_bytes; /* in it */
};

struct pipe_pool {
    struct pipe *free; /* empty, latest first */
    size_t n_free;     /* at most PIPES_FREE_MAX; others are closed */
    size_t n_pipes;    /* all of them */
    size_t n_max;
    unsigned n_skips; /* the next so many calls do not ask the system, which has just refused */
};

/* At most @n_max pipes; 0 is none. */
void pipe_pool_init(struct pipe_pool *pool, size_t n_max);

/* All must have been given back. */
void pipe_pool_close(struct pipe_pool *pool);

/* An empty pipe of PIPE_BYTES, or NULL: all are taken, or the system gives none; then it is not
 * asked again by the next PIPE_SKIPS calls. */
MUST_USE struct pipe *pipe_take(struct pipe_pool *pool);

/* @pipe came from pipe_take() of the same pool; what is in it is lost. NULL is a no-op. */
void pipe_give(struct pipe_pool *pool, struct pipe *pipe);

#endif /* SLUICE_NET_PIPE_H */
