/* Requests under way, in the order in which something is due of them; and
 * room for those to come. */

#ifndef SLUICE_TRIAL_ENDS_H
#define SLUICE_TRIAL_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "proxy/admission.h"
#include "proxy/settlement.h"

enum { TRIAL_KEY_BYTES = 512 }; /* of the keys of a request; what is longer is allocated */

/* What must be known of a request until its end. */
struct trial_case {
    uint64_t due_us;   /* a renewal of its slots, or its end */
    uint64_t ends_us;  /* when it ends */
    uint64_t renew_us; /* how often its slots are renewed */
    struct admission admission;
    struct outcome outcome;
    struct arena arena; /* of the keys */
    char memory[TRIAL_KEY_BYTES];
    struct trial_case *next; /* while it is free */
};

/* All zero is empty. */
struct ends {
    struct trial_case **heap; /* the first due is the first */
    size_t n;
    size_t capacity;
    struct trial_case *free;
};

/* Those that are under way are forgotten. */
void ends_close(struct ends *ends);

/* One that is free, its arena empty; NULL: no memory. */
MUST_USE struct trial_case *ends_take(struct ends *ends);

/* It is over: what it holds stays as it is until it is taken again. */
void ends_give_back(struct ends *ends, struct trial_case *over);

/* TRIAL_OPEN_MAX are under way. */
bool ends_is_full(const struct ends *ends);

/* It is under way, with something due at due_us. Not while full. */
void ends_push(struct ends *ends, struct trial_case *open);

/* Take out the first that is due, if it is by @now_us; else NULL. */
MUST_USE struct trial_case *ends_pop(struct ends *ends, uint64_t now_us);

#endif /* SLUICE_TRIAL_ENDS_H */
