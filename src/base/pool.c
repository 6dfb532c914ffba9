#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>

#include "base/sanitizer.h"

struct pool_block {
    struct pool_block *next;
};

void pool_init(struct pool *pool, size_t block_bytes, size_t n_free_max)
{
    assert(block_bytes >= sizeof(struct pool_block));

    *pool = (struct pool){.block_bytes = block_bytes, .n_free_max = n_free_max};
}

/* Blocks that are free are poisoned, so that AddressSanitizer sees a
 * borrower who stays too long. */
static struct pool_block *pop(struct pool *pool)
{
    struct pool_block *block = pool->free;

    UNPOISON(block, pool->block_bytes);
    pool->free = block->next;
    pool->n_free--;
    return block;
}

void pool_close(struct pool *pool)
{
    assert(pool->n_taken == 0);

    while (pool->free != NULL) {
        free(pop(pool));
    }
}

void *pool_take(struct pool *pool)
{
    void *block = pool->free != NULL ? pop(pool) : malloc(pool->block_bytes);

    if (block != NULL) {
        pool->n_taken++;
    }
    return block;
}

void pool_give(struct pool *pool, void *block)
{
    if (block == NULL) {
        return;
    }
    assert(pool->n_taken > 0);
    pool->n_taken--;
    if (pool->n_free >= pool->n_free_max) {
        free(block);
        return;
    }
    struct pool_block *head = block;
    head->next = pool->free;
    pool->free = head;
    pool->n_free++;
    POISON(block, pool->block_bytes);
}
