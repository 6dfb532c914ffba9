/* Memory that lives and dies together: what a request, or a policy, needs to remember.
 *
 * Allocation moves a pointer; nothing is freed alone. The first chunk may be the caller's, so that
 * a small arena never reaches malloc. Not for sharing between threads. */

#ifndef SLUICE_BASE_ARENA_H
#define SLUICE_BASE_ARENA_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

struct arena_chunk; /* private to arena.c */

struct arena {
    char *next;                 /* where the next allocation starts */
    char *end;                  /* of the current chunk */
    struct arena_chunk *chunks; /* from malloc, latest first */
    char *first;                /* the caller's chunk, borrowed; NULL if none */
    size_t first_bytes;
};

/* @first (may be NULL) is @first_bytes of storage used before any malloc; it outlives the arena. */
void arena_init(struct arena *arena, void *first, size_t first_bytes);

/* Forget everything: frees what came from malloc and starts again in the first chunk. */
void arena_reset(struct arena *arena);

/* Private to arena_alloc(): from a new chunk. */
MUST_USE void *arena_alloc_anew(struct arena *arena, size_t bytes);

/* @bytes of uninitialised memory, aligned for any type; NULL when there is none. */
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

/* The same, filled with zero; @count * @bytes is checked for overflow. */
MUST_USE void *arena_calloc(struct arena *arena, size_t count, size_t bytes);

/* A copy of @span, with a NUL behind it that does not count. data is NULL when there is no memory.
 */
MUST_USE struct span arena_copy(struct arena *arena, struct span span);

#endif /* SLUICE_BASE_ARENA_H */
