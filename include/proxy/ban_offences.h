/* Offences of a request: denials and charged answers that limits ban keys for. It does no I/O and
 * reads no clock, so that the proxy and the simulation share it. */

#ifndef SLUICE_PROXY_BAN_OFFENCES_H
#define SLUICE_PROXY_BAN_OFFENCES_H

#include <stdint.h>

#include "base/address.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "proxy/settlement.h"
#include "store/ban_growth.h"
#include "store/bans.h"

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

#endif /* SLUICE_PROXY_BAN_OFFENCES_H */
