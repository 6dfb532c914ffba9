/* A heap of the requests in flight, ordered by their due times, and a free list of its items. */

#ifndef SLUICE_SIMULATION_INFLIGHT_HEAP_H
#define SLUICE_SIMULATION_INFLIGHT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/memory.h"
#include "proxy/admission.h"
#include "proxy/settlement.h"

enum { SIMULATION_TEXT_BYTES = 512 }; /* of a request; longer texts are allocated */

/* The data of a request that is kept until its end. */
struct simulation_case {
    uint64_t due_us;   /* time of the next renewal of its slots, or of its end */
    uint64_t end_us;   /* time of its end */
    uint64_t renew_us; /* interval between renewals of its slots */
    struct admission admission;
    struct outcome outcome;
    struct address client;
    struct arena arena; /* of the path and the keys */
    char memory[SIMULATION_TEXT_BYTES];
    struct simulation_case *next; /* while it is free */
};

/* All zero is empty. */
struct inflight_heap {
    struct simulation_case **heap; /* the earliest due is the first */
    size_t n;
    size_t capacity;
    struct simulation_case *free;
};

/* Free all; requests in flight are dropped. */
void inflight_heap_close(struct inflight_heap *inflight);

/* A free item with an empty arena; NULL: no memory. */
MUST_USE struct simulation_case *inflight_heap_take(struct inflight_heap *inflight);

/* Return @over to the free list. Its content is valid until it is taken again. */
void inflight_heap_give_back(struct inflight_heap *inflight, struct simulation_case *over);

/* Whether SIMULATION_OPEN_MAX requests are in flight. */
bool inflight_heap_is_full(const struct inflight_heap *inflight);

/* Add @open, due at due_us. Must not be called while full. */
void inflight_heap_push(struct inflight_heap *inflight, struct simulation_case *open);

/* Remove and return the earliest due item if it is due by @now_us; else NULL. */
MUST_USE struct simulation_case *inflight_heap_pop(struct inflight_heap *inflight, uint64_t now_us);

#endif /* SLUICE_SIMULATION_INFLIGHT_HEAP_H */
