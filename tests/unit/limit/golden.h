/* Stories of one key, played in C: a row is a request or a settlement, its answer, and
 * how things stand after it. */

#ifndef SLUICE_TESTS_UNIT_LIMIT_GOLDEN_H
#define SLUICE_TESTS_UNIT_LIMIT_GOLDEN_H

#include <check.h>
#include <stdint.h>

#include "limit/algorithm.h"

enum golden_kind {
    ASK,     /* and charge, if it is allowed */
    SETTLE,  /* of the charge at `of` */
    RELEASE, /* of the slot `of` */
    RENEW,
};

struct golden {
    const char *says;
    enum golden_kind kind;
    int64_t at;    /* ticks since the story's start */
    int64_t units; /* cost, or correction */
    int64_t of;    /* the slot to take, or what is settled */
    bool allowed;
    uint64_t retry_after;
    uint64_t wait;
    struct {
        uint64_t remaining;
        uint64_t next_after;
        uint64_t reset_after;
    } then;
};

enum { GOLDEN_STATE_WORDS = 512 };

static inline void golden_ask(const struct golden *row, const struct algorithm *algorithm,
                              const struct limit_params *params, void *state, uint64_t now)
{
    const struct limit_call call = {
        .now = now,
        .cost = (uint32_t)row->units,
        .slot = (uint64_t)row->of,
    };
    struct verdict got;
    algorithm_evaluate(algorithm, state, params, &call, &got);
    ck_assert_msg(got.allowed == row->allowed, "%s", row->says);
    ck_assert_msg(got.retry_after == row->retry_after, "%s: retry_after %lu", row->says,
                  (unsigned long)got.retry_after);
    ck_assert_msg(got.wait == row->wait, "%s: wait %lu", row->says, (unsigned long)got.wait);
    if (got.allowed && call.cost > 0) {
        ck_assert_uint_le(algorithm->state_bytes(state, params, &call),
                          GOLDEN_STATE_WORDS * sizeof(uint64_t));
        algorithm->charge(state, params, &call);
    } else if (algorithm->is_ahead(state, params, now)) {
        algorithm->charge(state, params, &(struct limit_call){.now = now});
    }
}

static inline void golden_play(const struct golden *rows, size_t n_rows,
                               const struct algorithm *algorithm, const struct limit_params *params,
                               uint64_t start)
{
    uint64_t state[GOLDEN_STATE_WORDS] = {0};
    ck_assert_ptr_null(algorithm->check_params(params));
    for (const struct golden *row = rows; row < rows + n_rows; row++) {
        const uint64_t now = start + (uint64_t)row->at;
        const struct limit_call ask = {.now = now};
        struct verdict then;
        switch (row->kind) {
        case ASK:
            golden_ask(row, algorithm, params, state, now);
            break;
        case SETTLE:
            algorithm->settle(state, params, start + (uint64_t)row->of, now, row->units);
            break;
        case RELEASE:
            algorithm->release(state, params, now, (uint64_t)row->of);
            break;
        case RENEW:
            algorithm->renew(state, params, now, (uint64_t)row->of);
            break;
        }
        algorithm_evaluate(algorithm, state, params, &ask, &then);
        ck_assert_msg(then.remaining == row->then.remaining, "%s: remaining %lu", row->says,
                      (unsigned long)then.remaining);
        ck_assert_msg(then.next_after == row->then.next_after, "%s: next_after %lu", row->says,
                      (unsigned long)then.next_after);
        ck_assert_msg(then.reset_after == row->then.reset_after, "%s: reset_after %lu", row->says,
                      (unsigned long)then.reset_after);
    }
}

#endif /* SLUICE_TESTS_UNIT_LIMIT_GOLDEN_H */
