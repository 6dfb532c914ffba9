/* Blocks of one size, kept when they are given back: the hot path takes and gives without malloc.
 * A pool belongs to one worker. */

#ifndef SLUICE_BASE_POOL_H
#define SLUICE_BASE_POOL_H

#include <stddef.h>

#include "base/compiler.h"

struct pool_block; /* private to pool.c */

struct pool {
    struct pool_block *free; /* given back, latest first */
    size_t block_bytes;
    size_t n_free;
    size_t n_free_max; /* more than these go back to malloc */
    size_t n_taken;    /* with their borrowers now */
};

/* @block_bytes of each block, at least sizeof(void *); @n_free_max are kept for reuse. */
void pool_init(struct pool *pool, size_t block_bytes, size_t n_free_max);

/* Frees the blocks that are free; asserts that none is still with a borrower. */
void pool_close(struct pool *pool);

/* A block with undefined contents, or NULL when there is no memory. */
MUST_USE void *pool_take(struct pool *pool);

/* @block came from pool_take() of the same pool; NULL is a no-op. */
void pool_give(struct pool *pool, void *block);

#endif /* SLUICE_BASE_POOL_H */
