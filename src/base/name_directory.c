#include "base/name_directory.h"

#include <assert.h>
#include <stdlib.h>

static size_t places_for(size_t capacity)
{
    size_t n = 4;
    while (n < 2 * capacity) {
        n *= 2;
    }
    return n;
}

enum status name_directory_init(struct name_directory *directory, size_t capacity)
{
    *directory = (struct name_directory){
        .key = hash_key_new(),
        .capacity = capacity + 1,
        .n_slots = places_for(capacity),
    };
    atomic_init(&directory->n, 1);
    arena_init(&directory->texts, NULL, 0);
    directory->names = calloc(directory->capacity, sizeof(directory->names[0]));
    directory->slots = calloc(directory->n_slots, sizeof(directory->slots[0]));
    if (directory->names == NULL || directory->slots == NULL ||
        pthread_mutex_init(&directory->lock, NULL) != 0) {
        free(directory->names);
        free(directory->slots);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void name_directory_close(struct name_directory *directory)
{
    pthread_mutex_destroy(&directory->lock);
    free(directory->names);
    free(directory->slots);
    arena_reset(&directory->texts);
}

/* The slot of @name, or the free slot for it. With the lock. */
static uint32_t *place_of(struct name_directory *directory, struct span name)
{
    const size_t mask = directory->n_slots - 1;
    size_t i = (size_t)hash_table(&directory->key, name).low & mask;
    while (directory->slots[i] != 0 && !span_equals(directory->names[directory->slots[i]], name)) {
        i = (i + 1) & mask; /* ends: half of the slots are free */
    }
    return &directory->slots[i];
}

/* With the lock. */
static void add(struct name_directory *directory, struct span name, uint32_t *slot)
{
    const size_t n = name_directory_count(directory);
    const struct span text =
        n < directory->capacity ? arena_copy(&directory->texts, name) : span_of(NULL, 0);
    if (text.data != NULL) {
        directory->names[n] = text;
        *slot = (uint32_t)n;
        atomic_store_explicit(&directory->n, n + 1, memory_order_release);
    }
}

uint32_t name_directory_enter(struct name_directory *directory, struct span name)
{
    pthread_mutex_lock(&directory->lock);
    uint32_t *slot = place_of(directory, name);
    if (*slot == 0) {
        add(directory, name, slot);
    }
    const uint32_t number = *slot;
    pthread_mutex_unlock(&directory->lock);
    return number;
}

uint32_t name_directory_find(struct name_directory *directory, struct span name)
{
    pthread_mutex_lock(&directory->lock);
    const uint32_t number = *place_of(directory, name);
    pthread_mutex_unlock(&directory->lock);
    return number;
}

size_t name_directory_count(const struct name_directory *directory)
{
    return atomic_load_explicit(&directory->n, memory_order_acquire);
}

struct span name_directory_name(const struct name_directory *directory, size_t number)
{
    assert(number < name_directory_count(directory));

    return directory->names[number];
}
