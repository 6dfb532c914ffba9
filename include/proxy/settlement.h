/* Settlement: the correction of a request's charges once its answer is known.
 *
 * A cost reported by the response replaces the estimate. Answers that a limit does not count, or
 * refunds, cost nothing. Slots of concurrency limits are released. A charge that is never settled
 * stays.
 *
 * Also the offences of a request, which its outcome decides: limits ban keys for them. */

#ifndef SLUICE_PROXY_SETTLEMENT_H
#define SLUICE_PROXY_SETTLEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/answer_set.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "store/ban_growth.h"
#include "store/bans.h"
#include "store/store.h"

/* How a request ended. */
struct outcome {
    uint16_t status; /* of the head that was sent to the client; 0: none was sent */
    /* 0, or @status is of gRPC and in doubt: either of the two is enough to charge. */
    uint16_t http_status;
    enum answer_end end;
    bool is_unsent;           /* it ended before a byte of it was sent to a server */
    bool is_before_departure; /* and before its departure, if a limit with max_wait gave it one */
    bool is_unanswered;    /* not unsent, and no server sent a head: a server was silent, or sluice
                              answered itself, by respond of the route */
    bool is_unreadable;    /* the server's answer has a head that cannot be parsed */
    bool is_doubtful;      /* a server's error that may come while another works: answer_set.h */
    bool is_cost_reported; /* the response reported the cost */
    uint32_t reported_cost;
    uint64_t reported_after_us; /* the decision, with is_cost_reported */
};

/* Whether @rule says that it charges just such answers. A client that left was shown the answer if
 * its head was sent; one that cannot be read may have been any. */
bool settlement_is_charged_answer(const struct limit_rule *rule, const struct outcome *outcome);

/* Whether how the request ends decides about one of its charges. @is_cost_known: the response may
 * have reported the cost. */
MUST_USE bool settlement_is_needed(const struct admission *admission, bool is_cost_known);

/* The response, which goes on, has reported a cost: charge at once what it is beyond the estimates,
 * where it counts with @outcome, that of a whole answer. What it is less is given back when the
 * request is settled, as all that is given back: how it ends decides. */
void settlement_raise(struct admission *admission, const struct outcome *outcome,
                      struct store *store);

/* Settle all charges with the store that decided. Further calls do nothing. Does not wait. */
void settlement_make(struct admission *admission, const struct outcome *outcome,
                     struct store *store);

/* The same without the slots: the answer is known, but the response is still running. */
void settlement_make_costs(struct admission *admission, const struct outcome *outcome,
                           struct store *store);

/* How many slots @admission holds whose keys clients share. */
MUST_USE size_t settlement_count_lendable(const struct admission *admission);
/* Release these slots until the request goes on. @charges gets a charge for each, to be decided
 * then with new slot numbers. */
void settlement_lend(struct admission *admission, struct charge *charges, struct store *store);
/* Note the answer of that second decision: its verdicts, and with a denial or a failure that it is
 * the request's answer. */
void settlement_retake(struct admission *admission, const struct decision *second);

/* Which charges are given back if the decision, which is pending, is cancelled and makes them
 * nevertheless: as bits, for decision.returned. Not slots, which every store gives back. */
uint32_t settlement_returned(const struct admission *admission, const struct outcome *outcome);

/* The request is denied after all: give back what was charged, but by limits that charge what is
 * denied, and release all slots. */
void settlement_undo(struct admission *admission, struct store *store);

/* Move the slots of @from to @to, and @with_costs the charges whose cost the response reports. @to
 * becomes a copy without other charges, to be settled there. The keys still belong to @from. */
void settlement_move(struct admission *from, struct admission *to, bool with_costs);

/* Do not release the slots: they become free when their leases expire. */
void settlement_forget_slots(struct admission *admission);

/* Whether @admission has charges whose cost the response reports, if the route has such costs. */
MUST_USE bool settlement_awaits_cost(const struct admission *admission);

/* Renew the leases of those slots of @admission that @which has as bits by charge: the response is
 * still running. Returns the bits of those whose renewal cannot be sent now: try these again. */
uint32_t settlement_renew(const struct admission *admission, uint32_t which, struct store *store);
#define SETTLEMENT_ALL_SLOTS UINT32_MAX

/* Offences of a request: denials and charged answers that limits ban keys for. It does no I/O and
 * reads no clock, so that the proxy and the simulation share it. */

struct ban_offences {
    const struct policy *policy;  /* borrowed */
    struct bans *bans;            /* borrowed */
    const struct address *client; /* of the request, as in its view */
    uint64_t now_us;              /* monotonic */
    /* An offence of @key of @rule was counted, with @result. */
    void (*on_offence)(void *context, const struct limit_rule *rule, struct span key,
                       enum offence_result result);
    void *context;
};

/* The request of @admission, which has charges, is over with @outcome: count the offences of its
 * keys, or note that they are served. Requests without a decision and those that a ban refused say
 * nothing. */
void ban_offences_note(const struct ban_offences *offences, const struct admission *admission,
                       const struct outcome *outcome);

/* Fill in @growth for a ban of @key by @rule: terms, prefix, limit, identity, hash and the reason,
 * which is written to @reason. All is borrowed. */
void ban_offences_describe(const struct policy *policy, const struct limit_rule *rule,
                           struct span key, struct text *reason, struct ban_growth *growth);

#endif /* SLUICE_PROXY_SETTLEMENT_H */
