/* Some of the answers a request can have: statuses, and ends without a whole answer. */

#ifndef SLUICE_POLICY_ANSWER_SET_H
#define SLUICE_POLICY_ANSWER_SET_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ANSWER_STATUS_MIN = 100,
    ANSWER_STATUS_MAX = 599,
    ANSWER_SET_WORDS = (ANSWER_STATUS_MAX - ANSWER_STATUS_MIN) / 64 + 1,
};

/* All zero is the empty set. */
struct answer_set {
    uint64_t statuses[ANSWER_SET_WORDS]; /* a bit each, from ANSWER_STATUS_MIN */
    bool aborted; /* the exchange ended without a whole answer of the upstream, whoever's doing */
    bool is_said; /* the policy names answers: the set is not empty */
};

/* Add the statuses from @first to @last, both within the bounds above. */
void answer_set_add(struct answer_set *set, unsigned first, unsigned last);

/* Whether answers of @status, any number, are in @set. */
static inline bool answer_set_has(const struct answer_set *set, unsigned status)
{
    const unsigned bit = status - ANSWER_STATUS_MIN;
    return bit <= ANSWER_STATUS_MAX - ANSWER_STATUS_MIN &&
           ((set->statuses[bit / 64] >> (bit % 64)) & 1) != 0;
}

#endif /* SLUICE_POLICY_ANSWER_SET_H */
