/* Stable numbers for names during the life of a process: a name that disappears and returns keeps
 * its number, so its counters go on.
 *
 * Numbers are dense, from 1. The capacity is fixed: names beyond it share the number 0. Names are
 * never removed. Safe from any thread. */

#ifndef SLUICE_BASE_NAME_DIRECTORY_H
#define SLUICE_BASE_NAME_DIRECTORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"

struct name_directory {
    pthread_mutex_t lock; /* protects the members below; names below n need no lock */
    struct hash_key key;
    struct arena texts;
    struct span *names; /* by number; [0] is empty */
    uint32_t *slots;    /* open addressing: numbers, 0 is free */
    size_t n_slots;     /* a power of two */
    size_t capacity;    /* maximum of `n` */
    atomic_size_t n;    /* numbers in use, including 0 */
};

/* Initialise for @capacity (>= 1) names. STATUS_NO_MEMORY: nothing is allocated. */
MUST_USE enum status name_directory_init(struct name_directory *directory, size_t capacity);

void name_directory_close(struct name_directory *directory);

/* The number of @name, which is added if it is new. 0: no room or no memory. */
uint32_t name_directory_enter(struct name_directory *directory, struct span name);

/* The number of @name. 0: it has none. */
uint32_t name_directory_find(struct name_directory *directory, struct span name);

/* All numbers in use are below this one. */
size_t name_directory_count(const struct name_directory *directory);

/* The name of @number < name_directory_count(); it lives as long as the directory. Empty for 0. */
struct span name_directory_name(const struct name_directory *directory, size_t number);

#endif /* SLUICE_BASE_NAME_DIRECTORY_H */
