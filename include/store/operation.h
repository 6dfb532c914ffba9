/* Admin operations: requests of an operator to a store. Not for the hot path. */

#ifndef SLUICE_STORE_OPERATION_H
#define SLUICE_STORE_OPERATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/limit.h"
#include "store/store.h"

enum operation_kind {
    /* delete the state of one limit and key in the shared store and in this process; other
     * processes that are notified drop what they cache of it */
    OPERATION_RESET,
    OPERATION_CALL, /* run a script with one key in the shared store */
};

enum {
    OPERATION_WORDS_MAX = 8,
    OPERATION_NUMBERS_MAX = 2,
    OPERATION_ANSWER_US_MIN = 1000 * 1000,      /* minimum and maximum wait for a shared store, */
    OPERATION_ANSWER_US_MAX = 10 * 1000 * 1000, /* for any deadline of decisions */
};

struct store_operation {
    enum operation_kind kind;
    const struct limit *limit; /* RESET; borrowed until the answer, like key, source and words */
    struct span key;           /* RESET: the identity, see policy/key.h */
    struct span source;        /* CALL: the script */
    struct span words[OPERATION_WORDS_MAX]; /* CALL: its key and its arguments */
    size_t n_words;

    /* The answer. status: STATUS_OK; _UNREACHABLE, _TIMEOUT, _REFUSED, _INVALID, _NO_MEMORY: it
     * was not done, or the result is unknown. */
    enum status status;
    const char *fault; /* name of the shared store's fault, for logs; NULL: none is known */
    bool may_be_done;  /* for any status: it was sent, and its reply has not come */
    bool was_local;    /* RESET: it was done in this process, whatever the status */
    long long numbers[OPERATION_NUMBERS_MAX]; /* CALL: the reply of the script */

    /* After STORE_PENDING: called once, from the loop. */
    void (*on_done)(struct store_operation *operation);
    void *context;
};

/* Starts an admin operation in @store. It cannot be cancelled. A pending operation is answered at
 * the latest a little after the deadline of decisions, within the bounds above, or when the store
 * is freed. */
MUST_USE enum store_outcome store_run(struct store *store, struct store_operation *operation);

#endif /* SLUICE_STORE_OPERATION_H */
