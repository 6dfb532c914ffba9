/* Settlement: what the limits of a request are owed, or owe, once its answer is known.
 *
 * A cost learnt from the response replaces the estimate; answers that a limit does not
 * count, or refunds, cost nothing; a slot of a concurrency limit is given back. What is
 * never settled stays charged. */

#ifndef SLUICE_PROXY_SETTLEMENT_H
#define SLUICE_PROXY_SETTLEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/answer_set.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "store/store.h"

/* How a request ended. */
struct outcome {
    uint16_t status; /* of the head that the client was given; 0: none was */
    enum answer_end end;
    bool is_unreadable; /* the server has answered, but with a head that cannot be read */
    bool is_cost_told;  /* the response said what the request cost */
    uint32_t told_cost;
};

/* Settle all of it, once, with the store that decided. Does not wait. */
void settlement_make(struct admission *admission, const struct outcome *outcome,
                     struct store *store);

/* The same for all but its slots: the answer is known, but goes on. */
void settlement_make_costs(struct admission *admission, const struct outcome *outcome,
                           struct store *store);

/* Keep the slots of @admission for another lease: the response still runs. */
void settlement_renew(const struct admission *admission, struct store *store);

#endif /* SLUICE_PROXY_SETTLEMENT_H */
