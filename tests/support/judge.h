/* A decision by limit/judge.h, on states that the caller keeps and that grow by themselves: what
 * the stores and the script are held against. */

#ifndef SLUICE_TESTS_SUPPORT_JUDGE_H
#define SLUICE_TESTS_SUPPORT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/algorithm.h"
#include "limit/limit.h"
#include "store/store.h"

enum { JUDGE_STATE_BYTES = 4096 };

/* What is remembered of one key of one limit. All zero is untouched. */
struct judge_state {
    uint64_t words[JUDGE_STATE_BYTES / sizeof(uint64_t)];
    bool exists; /* something was charged to it */
};

struct judge_charge {
    const struct limit *limit;
    struct judge_state *state;
    uint32_t cost;
    const uint64_t *edges;
    uint64_t slot;
    struct verdict verdict; /* as in struct charge of store/store.h */
    bool charged;
    uint64_t charged_at_us;
};

/* Evaluate all, charge all if all that are enforced allow, tell whether they did. */
bool judge_decide(struct judge_charge *charges, size_t n_charges, uint64_t now_us);

/* The same for another aim: see enum decision_aim. */
bool judge_decide_as(struct judge_charge *charges, size_t n_charges, uint64_t now_us,
                     enum decision_aim aim);

/* What @settlement does to the state of its key. True: the script is to say that it was to renew a
 * slot that is not there, or one that was taken or renewed at @now_us. */
bool judge_settlement(const struct settlement *settlement, struct judge_state *state,
                      uint64_t now_us);

#endif /* SLUICE_TESTS_SUPPORT_JUDGE_H */
