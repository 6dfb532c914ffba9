#include "trial/ends.h"

#include <assert.h>
#include <stdlib.h>

#include "trial/trial.h"

enum { FIRST_CAPACITY = 64 };

static void free_case(struct trial_case *freed)
{
    arena_reset(&freed->arena);
    free(freed);
}

void ends_close(struct ends *ends)
{
    for (size_t i = 0; i < ends->n; i++) {
        free_case(ends->heap[i]);
    }
    while (ends->free != NULL) {
        struct trial_case *next = ends->free->next;
        free_case(ends->free);
        ends->free = next;
    }
    free(ends->heap);
}

/* So that a push cannot fail. */
static bool make_room(struct ends *ends)
{
    if (ends->n < ends->capacity) {
        return true;
    }
    const size_t capacity = ends->capacity == 0 ? FIRST_CAPACITY : 2 * ends->capacity;
    struct trial_case **larger = realloc(ends->heap, capacity * sizeof(struct trial_case *));
    if (larger == NULL) {
        return false;
    }
    ends->heap = larger;
    ends->capacity = capacity;
    return true;
}

struct trial_case *ends_take(struct ends *ends)
{
    struct trial_case *taken = ends->free;
    if (!make_room(ends)) {
        return NULL;
    }
    if (taken != NULL) {
        ends->free = taken->next;
        arena_reset(&taken->arena);
        return taken;
    }
    taken = malloc(sizeof(*taken));
    if (taken != NULL) {
        arena_init(&taken->arena, taken->memory, sizeof(taken->memory));
    }
    return taken;
}

void ends_give_back(struct ends *ends, struct trial_case *over)
{
    over->next = ends->free;
    ends->free = over;
}

bool ends_is_full(const struct ends *ends)
{
    return ends->n == TRIAL_OPEN_MAX;
}

void ends_push(struct ends *ends, struct trial_case *open)
{
    assert(ends->n < ends->capacity);
    size_t i = ends->n++;
    while (i > 0 && ends->heap[(i - 1) / 2]->due_us > open->due_us) {
        ends->heap[i] = ends->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    ends->heap[i] = open;
}

struct trial_case *ends_pop(struct ends *ends, uint64_t now_us)
{
    if (ends->n == 0 || ends->heap[0]->due_us > now_us) {
        return NULL;
    }
    struct trial_case *first = ends->heap[0];
    struct trial_case *last = ends->heap[--ends->n];
    size_t i = 0;
    while (2 * i + 1 < ends->n) {
        size_t child = 2 * i + 1;
        if (child + 1 < ends->n && ends->heap[child + 1]->due_us < ends->heap[child]->due_us) {
            child++;
        }
        if (ends->heap[child]->due_us >= last->due_us) {
            break;
        }
        ends->heap[i] = ends->heap[child];
        i = child;
    }
    ends->heap[i] = last;
    return first;
}
