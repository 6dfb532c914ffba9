#include "base/arena.h"

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
