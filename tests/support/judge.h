/* A decision by the rules of docs/policy.md and nothing else: what the stores and the script are held
 * against. States are the caller's; no table, no lock, no expiry. */

#ifndef SLUICE_TESTS_SUPPORT_JUDGE_H
#define SLUICE_TESTS_SUPPORT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/limit.h"
#include "limit/verdict.h"

enum { JUDGE_STATE_WORDS = 4 };

/* What is remembered of one key of one limit. All zero is untouched. */
struct judge_state {
    uint64_t words[JUDGE_STATE_WORDS];
};

struct judge_charge {
    const struct limit *limit;
    struct judge_state *state;
    uint32_t cost;
    struct verdict verdict; /* as in struct charge of store/store.h */
};

/* Evaluate all, charge all if all allow, tell whether they did. */
bool judge_decide(struct judge_charge *charges, size_t n_charges, uint64_t now_us);

#endif /* SLUICE_TESTS_SUPPORT_JUDGE_H */
