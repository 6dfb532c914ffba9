/* Finds limits that a client avoids by the end of its requests: it leaves, or it has the work of
 * the server, or a guess, for a status that the limit does not charge. Which statuses these are
 * stands in answer_set.h, by which settlements are made. */

#include "policy/answer_set.h"
#include "policy/lint/lint.h"
#include "policy/load/node.h"

void lint_refunds_leaving(struct lint *lint, const struct limit_rule *rule,
                          const struct spec_limit *spec)
{
    if (rule->refund_on.client_left && !rule->limits[0].shadow) {
        node_warn(lint->diags, spec->refund_on.node, WARNING_REFUNDS_LEAVING,
                  "a client avoids limit \"%.*s\": it sends a request, leaves before the "
                  "answer and gets back what it took; the server has worked for it",
                  SPAN_ARGS(rule->name));
    }
}

/* --- statuses that a client has after work --- */

/* How a client has an answer of the server's work with a status that tells of none. */
enum way {
    WAY_CONDITION, /* in place of a 200 */
    WAY_LOST,
    WAY_BODY,
    WAY_HIDDEN,  /* see answer_hides_status() */
    WAY_REFUSAL, /* the application worked before it refused */
    WAY_COUNT,
    WAY_NONE = WAY_COUNT,
};

static const char *const WAY_TEXTS[WAY_COUNT] = {
    [WAY_CONDITION] = "for requests of its choice, by Range, If-None-Match or If-Match",
    [WAY_LOST] = "in place of an answer that a gateway loses, for a long value that the server "
                 "repeats, or a body that it does not read",
    [WAY_BODY] = "for a body that is too large, or is sent late or in part",
    [WAY_HIDDEN] = "in place of another status, as many applications answer 406 or 500 to an "
                   "Accept that asks for what they cannot write",
    [WAY_REFUSAL] = "where an application works before it refuses, as many do before the 404 of "
                    "a page beyond the last",
};

/* 429 and 503 are said before work, as a rule. */
static enum way way_of(unsigned status)
{
    if (status == 429 || status == 503) {
        return WAY_NONE;
    }
    if (answer_is_of_condition(status)) {
        return WAY_CONDITION;
    }
    if (answer_is_gateway_error(status)) {
        return WAY_LOST;
    }
    if (answer_refuses_body(status, true)) {
        return WAY_BODY;
    }
    if (answer_hides_status(status)) {
        return WAY_HIDDEN;
    }
    return status >= 400 ? WAY_REFUSAL : WAY_NONE;
}

static bool may_charge(const struct limit_rule *rule, unsigned status)
{
    return !rule->charge_on.is_said || answer_set_has(&rule->charge_on, status);
}

static bool is_charged(const struct limit_rule *rule, unsigned status)
{
    return may_charge(rule, status) && !answer_set_has(&rule->refund_on, status);
}

/* Whether the refund of @status by @way takes from what @rule limits. What stands for a 200 does
 * where the rule charges 200, and so does what refuses after work; what stands for any status does
 * where it charges any of an application that has not failed. */
static bool is_of_concern(const struct limit_rule *rule, unsigned status, enum way way)
{
    switch (way) {
    case WAY_CONDITION:
        return is_charged(rule, 200);
    case WAY_REFUSAL:
        return is_charged(rule, 200) && may_charge(rule, status);
    case WAY_LOST:
    case WAY_BODY:
    case WAY_HIDDEN:
        return !rule->charge_on.is_said || rule->charge_on.has_answers;
    case WAY_COUNT:
        break;
    }
    return false;
}

/* Whether @rule gives back an answer of @status that a client may have after work. */
static bool refunds_work(const struct limit_rule *rule, unsigned status)
{
    const bool needs_name =
        answer_needs_name(status, answer_is_doubtful((uint16_t)status, 0, true, true));
    return (needs_name ? answer_set_names(&rule->refund_on, status)
                       : answer_set_has(&rule->refund_on, status)) &&
           is_of_concern(rule, status, way_of(status));
}

/* The first status by @way that @rule gives back, and 404 before others. 0: there is none. */
static unsigned find_refund(const struct limit_rule *rule, enum way way)
{
    if (way == WAY_REFUSAL && refunds_work(rule, 404)) {
        return 404;
    }
    for (unsigned status = ANSWER_STATUS_MIN; status <= ANSWER_STATUS_MAX; status++) {
        if (way_of(status) == way && refunds_work(rule, status)) {
            return status;
        }
    }
    return 0;
}

void lint_chosen_statuses(struct lint *lint, const struct limit_rule *rule,
                          const struct spec_limit *spec)
{
    if (rule->limits[0].shadow) {
        return;
    }
    if (is_charged(rule, 200) && !may_charge(rule, 206)) {
        node_warn(lint->diags, spec->charge_on.node, WARNING_CLIENT_CHOSEN_STATUS,
                  "a client avoids limit \"%.*s\": with \"Range: bytes=0-\" many servers send the "
                  "whole answer as 206, which is not charged; write 206 beside 200, or 2xx",
                  SPAN_ARGS(rule->name));
    }
    if (rule->refund_on.server_failed && is_of_concern(rule, 0, WAY_LOST)) {
        node_warn(lint->diags, spec->refund_on.node, WARNING_CLIENT_CHOSEN_STATUS,
                  "a client avoids limit \"%.*s\": a request that takes longer than its server "
                  "allows ends without an answer, and its charge is refunded; the server has "
                  "worked for it; leave server_failed out, or write 503 in its place",
                  SPAN_ARGS(rule->name));
    }
    for (enum way way = 0; way < WAY_COUNT && rule->refund_on.is_said; way++) {
        const unsigned status = find_refund(rule, way);
        if (status != 0) {
            node_warn(lint->diags, spec->refund_on.node, WARNING_CLIENT_CHOSEN_STATUS,
                      "a client avoids limit \"%.*s\": it gets a %u, whose charge is refunded, "
                      "%s; the server has worked for it",
                      SPAN_ARGS(rule->name), status, WAY_TEXTS[way]);
        }
    }
}

/* --- limits on guesses --- */

unsigned lint_counted_guess(const struct limit_rule *rule)
{
    const bool is_limit = rule->charge_on.is_said || answer_set_has(&rule->refund_on, 200);
    return is_limit && is_charged(rule, 401) ? 401 : is_limit && is_charged(rule, 403) ? 403 : 0;
}

/* A status of a wrong password that @rule does not charge, and that is not told of as refunded. */
static unsigned missed_guess(const struct limit_rule *rule)
{
    static const unsigned STATUSES[] = {400, 422};
    for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++) {
        if (!is_charged(rule, STATUSES[i]) && !refunds_work(rule, STATUSES[i])) {
            return STATUSES[i];
        }
    }
    return 0;
}

/* Whether @rule may be for passwords, and not for tokens alone, which sluice refuses with 401: a
 * route has the rule and takes requests without a token. */
static bool may_meet_passwords(const struct policy *policy, const struct limit_rule *rule)
{
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (!policy->routes[i].requires_token && route_has_rule(&policy->routes[i], rule)) {
            return true;
        }
    }
    return false;
}

void lint_missed_guesses(struct lint *lint, const struct limit_rule *rule,
                         const struct spec_limit *spec)
{
    const unsigned counted = lint_counted_guess(rule);
    const unsigned missed = missed_guess(rule);
    if (counted != 0 && missed != 0 && !rule->limits[0].shadow &&
        may_meet_passwords(lint->policy, rule)) {
        node_warn(lint->diags,
                  may_charge(rule, missed) ? spec->refund_on.node : spec->charge_on.node,
                  WARNING_CLIENT_CHOSEN_STATUS,
                  "limit \"%.*s\" charges %u and not %u: applications answer 400 or 422 to a wrong "
                  "password or secret that is sent another way; charge both or, safer, count every "
                  "attempt, without charge_on, or refund the status of a right password alone, as "
                  "refund_on: [200]",
                  SPAN_ARGS(rule->name), counted, missed);
    }
}
