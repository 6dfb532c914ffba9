#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>

/* Marks memory as inaccessible for AddressSanitizer, in builds that use it. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#endif

#if defined(UNDER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#define POISON(memory, bytes) __asan_poison_memory_region((memory), (bytes))
#define UNPOISON(memory, bytes) __asan_unpoison_memory_region((memory), (bytes))
#else
#define POISON(memory, bytes) ((void)(memory), (void)(bytes))
#define UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

struct pool_block {
    struct pool_block *next;
};

void pool_init(struct pool *pool, size_t block_bytes, size_t n_free_max)
{
    assert(block_bytes >= sizeof(struct pool_block));

    *pool = (struct pool){.block_bytes = block_bytes, .n_free_max = n_free_max};
}

/* Free blocks are poisoned, so that AddressSanitizer detects use after return. */
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
