/* A store that answers when it is told to, and as it is told to. */

#ifndef SLUICE_TESTS_UNIT_STORE_SCRIPTED_STORE_H
#define SLUICE_TESTS_UNIT_STORE_SCRIPTED_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

enum { SCRIPTED_ASKED_MAX = 64 };

struct scripted_store {
    struct store store;
    struct decision *asked[SCRIPTED_ASKED_MAX]; /* in order; NULL once answered, or cancelled */
    size_t n_asked;
    bool answers_at_once; /* with at_once */
    bool takes_identical;
    enum status at_once;
    unsigned n_settled;
    bool is_freed;
};

/* Forget what was; takes identical requests, and lets all wait. */
void scripted_store_init(struct scripted_store *scripted);

/* Answer the @i-th that was asked: of its requests the first @n_admitted are; @verdict is that of
 * all charges of the first, and what remains falls by the cost with each that is admitted. */
void scripted_store_answer(struct scripted_store *scripted, size_t i, size_t n_admitted,
                           const struct verdict *verdict);

/* Answer it with @status, which is not STATUS_OK. */
void scripted_store_fail(struct scripted_store *scripted, size_t i, enum status status);

#endif /* SLUICE_TESTS_UNIT_STORE_SCRIPTED_STORE_H */
