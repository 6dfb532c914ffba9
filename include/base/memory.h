/* Memory of arenas and of pools.
 *
 * An arena is memory that is freed all at once, for example the data of a request or of a policy.
 *
 * Allocation moves a pointer; single allocations are not freed. The caller can provide the first
 * chunk, so that a small arena never calls malloc. An arena is not shared between threads. */

#ifndef SLUICE_BASE_MEMORY_H
#define SLUICE_BASE_MEMORY_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

struct arena_chunk; /* private to memory.c */
struct pool_block;  /* private to memory.c */

struct arena {
    char *next;                 /* start of the next allocation */
    char *end;                  /* of the current chunk */
    struct arena_chunk *chunks; /* from malloc, latest first */
    char *first;                /* the caller's chunk, borrowed; NULL if none */
    size_t first_bytes;
};

/* @first (may be NULL) is @first_bytes of storage used before any malloc; it outlives the arena. */
void arena_init(struct arena *arena, void *first, size_t first_bytes);

/* Free all chunks that came from malloc and start again in the first chunk. */
void arena_reset(struct arena *arena);

/* Private to arena_alloc(): allocate from a new chunk. */
MUST_USE void *arena_alloc_anew(struct arena *arena, size_t bytes);

/* @bytes of uninitialised memory, aligned for any type. NULL: out of memory. */
MUST_USE static inline void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t padding = (0 - (uintptr_t)arena->next) % alignof(max_align_t);
    const size_t room = (size_t)(arena->end - arena->next);
    if (UNLIKELY(arena->next == NULL || padding > room || bytes > room - padding)) {
        return arena_alloc_anew(arena, bytes);
    }
    char *result = arena->next + padding;
    arena->next = result + bytes;
    return result;
}

/* As arena_alloc(), with the memory zeroed; @count * @bytes is checked for overflow. */
MUST_USE void *arena_calloc(struct arena *arena, size_t count, size_t bytes);

/* A copy of @span, followed by a NUL that len does not count. data is NULL: out of memory. */
MUST_USE struct span arena_copy(struct arena *arena, struct span span);

/* --- pools --- */

/* A pool has blocks of one size. Returned blocks are kept for reuse, so the hot path does not call
 * malloc. A pool belongs to one worker. */

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

#endif /* SLUICE_BASE_MEMORY_H */
