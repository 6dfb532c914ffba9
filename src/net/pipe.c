/* The pipe pool. Up to PIPES_FREE_MAX empty pipes are kept for reuse; each costs two descriptors
 * and a few kilobytes of kernel memory. A pipe that is returned with bytes in it is closed. */

#include "net/pipe.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"

void pipe_pool_init(struct pipe_pool *pool, size_t n_max)
{
    *pool = (struct pipe_pool){.n_max = n_max};
}

static void destroy(struct pipe_pool *pool, struct pipe *pipe)
{
    close(pipe->read_fd);
    close(pipe->write_fd);
    free(pipe);
    pool->n_pipes--;
}

static struct pipe *pop(struct pipe_pool *pool)
{
    struct pipe *pipe = pool->free;
    pool->free = pipe->next;
    pool->n_free--;
    return pipe;
}

void pipe_pool_close(struct pipe_pool *pool)
{
    while (pool->free != NULL) {
        destroy(pool, pop(pool));
    }
    assert(pool->n_pipes == 0);
}

static struct pipe *create(struct pipe_pool *pool)
{
    int ends[2];
    struct pipe *pipe = malloc(sizeof(*pipe));
    if (pipe == NULL || pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
        free(pipe);
        return NULL;
    }
    *pipe = (struct pipe){.read_fd = ends[0], .write_fd = ends[1]};
    pool->n_pipes++;
    /* A user with too much pipe memory gets pipes of two pages, which bring no gain. */
    if (fcntl(pipe->write_fd, F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES) {
        destroy(pool, pipe);
        return NULL;
    }
    return pipe;
}

struct pipe *pipe_take(struct pipe_pool *pool)
{
    if (pool->free != NULL) {
        return pop(pool);
    }
    if (pool->n_pipes == pool->n_max) {
        return NULL;
    }
    if (pool->n_skips > 0) {
        pool->n_skips--;
        return NULL;
    }
    struct pipe *pipe = create(pool);
    /* A refused call costs more than a pipe saves, and the shortage seldom ends at once. */
    pool->n_skips = pipe == NULL ? PIPE_SKIPS : 0;
    return pipe;
}

void pipe_give(struct pipe_pool *pool, struct pipe *pipe)
{
    if (pipe == NULL) {
        return;
    }
    if (pipe->n_bytes > 0 || pool->n_free == PIPES_FREE_MAX) {
        destroy(pool, pipe);
        return;
    }
    pipe->next = pool->free;
    pool->free = pipe;
    pool->n_free++;
}
