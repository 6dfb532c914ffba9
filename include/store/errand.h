/* Errands: what an operator wants of a store, beside decisions. Not for the hot path. */

#ifndef SLUICE_STORE_ERRAND_H
#define SLUICE_STORE_ERRAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/limit.h"
#include "store/store.h"

enum errand_kind {
    ERRAND_RESET, /* forget what was counted of one limit and key: in the shared store, in this
                   * process, and, where that is told, what other processes remember of it */
    ERRAND_CALL,  /* run a script of one key where a shared store is */
};

enum {
    ERRAND_WORDS_MAX = 8,
    ERRAND_NUMBERS_MAX = 2,
    ERRAND_ANSWER_US_MIN = 1000 * 1000,      /* how long one waits for a shared store, whatever */
    ERRAND_ANSWER_US_MAX = 10 * 1000 * 1000, /* the deadline of decisions is */
};

struct store_errand {
    enum errand_kind kind;
    const struct limit *limit;           /* RESET; borrowed until the answer, as all that follows */
    struct span key;                     /* RESET: the identity, see policy/key.h */
    struct span source;                  /* CALL: the script */
    struct span words[ERRAND_WORDS_MAX]; /* CALL: its key and its arguments */
    size_t n_words;

    /* The answer. status: STATUS_OK; _UNREACHABLE, _TIMEOUT, _REFUSED, _INVALID, _NO_MEMORY: it
     * was not done, or nobody knows. */
    enum status status;
    const char
        *fault; /* what ailed a shared store, a word for logs, where one is known; else NULL */
    bool may_be_done; /* whatever the status: it was sent, and its reply has not come */
    bool was_local;   /* RESET: it was done in this process, whatever the status */
    long long numbers[ERRAND_NUMBERS_MAX]; /* CALL: what the script replied */

    void (*on_done)(
        struct store_errand *errand); /* belongs to STORE_PENDING: once, from the loop */
    void *context;
};

/* Have @store do @errand. It cannot be cancelled: where it is pending it is answered after the
 * deadline of decisions and a bit, within the bounds above, or when the store is freed. */
MUST_USE enum store_outcome store_run(struct store *store, struct store_errand *errand);

#endif /* SLUICE_STORE_ERRAND_H */
