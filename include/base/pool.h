/* A pool of blocks of one size. Returned blocks are kept for reuse, so the hot path does not call
 * malloc. A pool belongs to one worker. */

#ifndef SLUICE_BASE_POOL_H
#define SLUICE_BASE_POOL_H

#include <stddef.h>

#include "base/compiler.h"

struct pool_block; /* private to pool.c */

struct pool {
    struct pool_block *free; /* returned blocks, latest first */
    size_t block_bytes;
    size_t n_free;
    size_t n_free_max; /* further returned blocks are freed */
    size_t n_taken;    /* blocks currently in use */
};

/* @block_bytes: size of each block, at least sizeof(void *). At most @n_free_max returned blocks
 * are kept for reuse. */
void pool_init(struct pool *pool, size_t block_bytes, size_t n_free_max);

/* Free the returned blocks; asserts that no block is in use. */
void pool_close(struct pool *pool);

/* A block with undefined contents. NULL: out of memory. */
MUST_USE void *pool_take(struct pool *pool);

/* @block came from pool_take() of the same pool; NULL is a no-op. */
void pool_give(struct pool *pool, void *block);

#endif /* SLUICE_BASE_POOL_H */
