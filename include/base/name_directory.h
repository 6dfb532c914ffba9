/* Names and their numbers, for the life of a process: what is counted by name goes on under the
 * same number when the name has been away.
 *
 * Numbers are dense, from 1. There is room for so many names and no more: those beyond share the
 * number 0. Nothing is ever taken out. Safe from any thread. */

#ifndef SLUICE_BASE_NAME_DIRECTORY_H
#define SLUICE_BASE_NAME_DIRECTORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"

struct name_directory {
    pthread_mutex_t lock; /* of what follows, but for names that are counted already */
    struct hash_key key;
    struct arena texts;
    struct span *names; /* by number; [0] is empty */
    uint32_t *places;   /* open addressing: numbers, 0 is free */
    size_t n_places;    /* a power of two */
    size_t capacity;    /* numbers, 0 among them */
    atomic_size_t n;    /* that are in use, 0 among them */
};

/* For @capacity (>= 1) names. STATUS_NO_MEMORY: nothing is left behind. */
MUST_USE enum status name_directory_init(struct name_directory *directory, size_t capacity);

void name_directory_close(struct name_directory *directory);

/* The number of @name, which it has from now on; 0: there is no room, or no memory. */
uint32_t name_directory_enter(struct name_directory *directory, struct span name);

/* The number of @name; 0: it has none. */
uint32_t name_directory_find(struct name_directory *directory, struct span name);

/* Numbers in use: all below it. */
size_t name_directory_count(const struct name_directory *directory);

/* The name of @number < name_directory_count(), which stays as long as the directory; 0: empty. */
struct span name_directory_name(const struct name_directory *directory, size_t number);

#endif /* SLUICE_BASE_NAME_DIRECTORY_H */
