#include "base/memory.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

struct arena_chunk {
    struct arena_chunk *next;
    alignas(max_align_t) char bytes[];
};

static void use_first(struct arena *arena)
{
    arena->next = arena->first;
    arena->end = arena->first == NULL ? NULL : arena->first + arena->first_bytes;
}

void arena_init(struct arena *arena, void *first, size_t first_bytes)
{
    *arena = (struct arena){.first = first, .first_bytes = first_bytes};
    use_first(arena);
}

void arena_reset(struct arena *arena)
{
    while (arena->chunks != NULL) {
        struct arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    use_first(arena);
}

/* Allocate from a new chunk of at least @bytes. A chunk that is larger than usual serves this
 * allocation alone, so that the rest of the current chunk stays in use. */
void *arena_alloc_anew(struct arena *arena, size_t bytes)
{
    size_t usual = ARENA_CHUNK_BYTES - sizeof(struct arena_chunk);
    size_t room = bytes > usual ? bytes : usual;

    if (room > SIZE_MAX - sizeof(struct arena_chunk)) {
        return NULL;
    }
    struct arena_chunk *chunk = malloc(sizeof(*chunk) + room);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    if (bytes <= usual / 2) {
        arena->next = chunk->bytes + bytes;
        arena->end = chunk->bytes + room;
    }
    return chunk->bytes;
}

void *arena_calloc(struct arena *arena, size_t count, size_t bytes)
{
    if (bytes != 0 && count > SIZE_MAX / bytes) {
        return NULL;
    }
    void *result = arena_alloc(arena, count * bytes);
    if (result != NULL) {
        memset(result, 0, count * bytes);
    }
    return result;
}

struct span arena_copy(struct arena *arena, struct span span)
{
    char *copy = span.len == SIZE_MAX ? NULL : arena_alloc(arena, span.len + 1);

    if (copy == NULL) {
        return span_of(NULL, 0);
    }
    if (span.len > 0) {
        memcpy(copy, span.data, span.len);
    }
    copy[span.len] = '\0';
    return span_of(copy, span.len);
}

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
