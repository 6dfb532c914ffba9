#include "simulation/inflight_heap.h"

#include <assert.h>
#include <stdlib.h>

#include "simulation/simulation.h"

enum { FIRST_CAPACITY = 64 };

static void free_case(struct simulation_case *freed)
{
    arena_reset(&freed->arena);
    free(freed);
}

void inflight_heap_close(struct inflight_heap *inflight)
{
    for (size_t i = 0; i < inflight->n; i++) {
        free_case(inflight->heap[i]);
    }
    while (inflight->free != NULL) {
        struct simulation_case *next = inflight->free->next;
        free_case(inflight->free);
        inflight->free = next;
    }
    free(inflight->heap);
}

/* So that a push cannot fail. */
static bool make_room(struct inflight_heap *inflight)
{
    if (inflight->n < inflight->capacity) {
        return true;
    }
    const size_t capacity = inflight->capacity == 0 ? FIRST_CAPACITY : 2 * inflight->capacity;
    struct simulation_case **larger =
        realloc(inflight->heap, capacity * sizeof(struct simulation_case *));
    if (larger == NULL) {
        return false;
    }
    inflight->heap = larger;
    inflight->capacity = capacity;
    return true;
}

struct simulation_case *inflight_heap_take(struct inflight_heap *inflight)
{
    struct simulation_case *taken = inflight->free;
    if (!make_room(inflight)) {
        return NULL;
    }
    if (taken != NULL) {
        inflight->free = taken->next;
        arena_reset(&taken->arena);
        return taken;
    }
    taken = malloc(sizeof(*taken));
    if (taken != NULL) {
        arena_init(&taken->arena, taken->memory, sizeof(taken->memory));
    }
    return taken;
}

void inflight_heap_give_back(struct inflight_heap *inflight, struct simulation_case *over)
{
    over->next = inflight->free;
    inflight->free = over;
}

bool inflight_heap_is_full(const struct inflight_heap *inflight)
{
    return inflight->n == SIMULATION_OPEN_MAX;
}

void inflight_heap_push(struct inflight_heap *inflight, struct simulation_case *open)
{
    assert(inflight->n < inflight->capacity);
    size_t i = inflight->n++;
    while (i > 0 && inflight->heap[(i - 1) / 2]->due_us > open->due_us) {
        inflight->heap[i] = inflight->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    inflight->heap[i] = open;
}

struct simulation_case *inflight_heap_pop(struct inflight_heap *inflight, uint64_t now_us)
{
    if (inflight->n == 0 || inflight->heap[0]->due_us > now_us) {
        return NULL;
    }
    struct simulation_case *first = inflight->heap[0];
    struct simulation_case *last = inflight->heap[--inflight->n];
    size_t i = 0;
    while (2 * i + 1 < inflight->n) {
        size_t child = 2 * i + 1;
        if (child + 1 < inflight->n &&
            inflight->heap[child + 1]->due_us < inflight->heap[child]->due_us) {
            child++;
        }
        if (inflight->heap[child]->due_us >= last->due_us) {
            break;
        }
        inflight->heap[i] = inflight->heap[child];
        i = child;
    }
    inflight->heap[i] = last;
    return first;
}
