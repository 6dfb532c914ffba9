/* Pipes, for bytes that pass from one socket to another uninspected: they stay in the kernel and
 * are not copied to user space (splice(2)).
 *
 * A pool of pipes belongs to one worker. A pipe uses two descriptors, so there are few. */

#ifndef SLUICE_NET_PIPE_H
#define SLUICE_NET_PIPE_H

#include <stddef.h>

#include "base/compiler.h"

enum {
    PIPES_FREE_MAX = 4, /* free pipes that a pool keeps for reuse */
    PIPE_SKIPS = 1024,  /* calls that return NULL after the system refused a pipe */
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
    unsigned n_skips; /* number of further calls that return NULL without a system call */
};

/* At most @n_max pipes; 0 is none. */
void pipe_pool_init(struct pipe_pool *pool, size_t n_max);

/* All pipes must have been returned. */
void pipe_pool_close(struct pipe_pool *pool);

/* An empty pipe of PIPE_BYTES. NULL: all are in use, or the system refuses one; after a refusal the
 * next PIPE_SKIPS calls do not try to create a pipe. */
MUST_USE struct pipe *pipe_take(struct pipe_pool *pool);

/* Return @pipe, which came from pipe_take() of the same pool; bytes left in it are lost. NULL is a
 * no-op. */
void pipe_give(struct pipe_pool *pool, struct pipe *pipe);

#endif /* SLUICE_NET_PIPE_H */
