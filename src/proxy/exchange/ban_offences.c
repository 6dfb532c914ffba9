#include "proxy/settlement.h"

#include "policy/key.h"
#include "policy/units.h"
#include "proxy/client_address.h"

/* Whether @key stands for one client alone: it has a part that others do not share, and its address
 * is not that of a trusted proxy. */
static bool is_own(const struct ban_offences *offences, const struct limit_rule *rule,
                   struct span key)
{
    return !key_is_shared(key) &&
           (!rule->counts_addresses || client_address_is_own(offences->policy, offences->client));
}

static bool is_served(const struct outcome *outcome)
{
    return outcome->end == ANSWER_WHOLE && outcome->status >= 200 && outcome->status < 400;
}

/* The charges from @i on that have the rule and the key of charge @i: one for each rate. *is_denied
 * says whether one of them denies. */
static size_t count_rates(const struct admission *admission, size_t i, bool *is_denied)
{
    const struct charge *charges = admission->charges;
    size_t n = 0;
    *is_denied = false;
    while (i + n < admission->decision.n_charges &&
           admission->rules[i + n] == admission->rules[i] &&
           charges[i + n].key.data == charges[i].key.data) {
        *is_denied = *is_denied || !charges[i + n].verdict.allowed;
        n++;
    }
    return n;
}

void ban_offences_note(const struct ban_offences *offences, const struct admission *admission,
                       const struct outcome *outcome)
{
    const struct decision *decision = &admission->decision;
    struct offences *counts = bans_offences(offences->bans);
    size_t n_rates;
    if (decision->status != STATUS_OK || decision->source == DECISION_BAN) {
        return;
    }
    for (size_t i = 0; i < decision->n_charges; i += n_rates) {
        const struct limit_rule *rule = admission->rules[i];
        const struct span key = admission->charges[i].key;
        const struct offence_key who = {rule->name, key,
                                        rule->counts_addresses ? offences->client : NULL};
        bool is_denied;
        n_rates = count_rates(admission, i, &is_denied);
        if (rule->ban.after == 0 || !is_own(offences, rule, key)) {
            continue;
        }
        if (is_denied || (decision->allowed && settlement_is_charged_answer(rule, outcome))) {
            offences->on_offence(offences->context, rule, key,
                                 offences_note(counts, &rule->ban, &who,
                                               offences->policy->max.bans_per_minute,
                                               offences->now_us));
        } else if (decision->allowed && is_served(outcome)) {
            offences_note_served(counts, &who, offences->now_us);
        }
    }
}

void ban_offences_describe(const struct policy *policy, const struct limit_rule *rule,
                           struct span key, struct text *reason, struct ban_growth *growth)
{
    text_add_u64(reason, rule->ban.after);
    text_add(reason, rule->charge_on.is_said ? SPAN(" denials or charged answers within ")
                                             : SPAN(" denials within "));
    units_write_duration(reason, rule->ban.period_us);
    growth->terms = rule->ban;
    growth->prefix = policy->store.prefix;
    growth->limit = rule->name;
    growth->identity = key;
    growth->reason = text_span(reason);
    key_hash(key, policy->store.secret, growth->hash);
}
