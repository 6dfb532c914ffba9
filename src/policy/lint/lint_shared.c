/* Finds limits by keys that clients share, of which one client can take everything without being
 * stopped by a limit of its own, and buckets by such keys that do not refill. */

#include "limit/limit.h"
#include "policy/key.h"
#include "policy/lint/lint.h"

void lint_shared_denials(struct lint *lint, const struct limit_rule *rule,
                         const struct spec_limit *spec)
{
    if (rule->limits[0].charge_denied && !rule->limits[0].shadow &&
        key_is_mostly_shared(&rule->key)) {
        node_warn(lint->diags, spec->key.node, WARNING_SHARED_KEY,
                  "limit \"%.*s\" charges denials to a key that clients share, so that the denials "
                  "of one client fill it for all; leave charge_denied out, or count by client.ip",
                  SPAN_ARGS(rule->name));
    }
}

/* --- buckets that do not refill --- */

/* Whether clients share @key without doubt: a path or a position may be of one client. */
static bool is_of_many_clients(const struct key *key)
{
    return key_has_only_shared(key) && !key_reads(key, KEY_FROM_PATH) &&
           !key_reads(key, KEY_FROM_POSITION);
}

/* Whether @rule gives back what most requests take: the charge of a 200, or all but errors. */
static bool gives_back_most(const struct limit_rule *rule)
{
    if (answer_set_has(&rule->refund_on, 200)) {
        return true;
    }
    for (unsigned status = ANSWER_STATUS_MIN; status < 400; status++) {
        if (answer_set_has(&rule->charge_on, status)) {
            return false;
        }
    }
    return rule->charge_on.is_said;
}

/* Whether some requests that @rule counts are under way for a time: a server answers them. */
static bool takes_time(const struct policy *policy, const struct limit_rule *rule)
{
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (policy->routes[i].upstream != NULL && route_has_rule(&policy->routes[i], rule)) {
            return true;
        }
    }
    return false;
}

/* A refund deducts the refill of the time that its request was in flight: see docs/algorithms.md,
 * "counted requests beside refunded ones". */
void lint_stalled_buckets(struct lint *lint, const struct limit_rule *rule,
                          const struct spec_limit *spec)
{
    const struct limit *first = &rule->limits[0];
    const struct node *algorithm = node_find(spec->position.node, SPAN("algorithm"));
    if (first->algorithm->has_burst && !first->shadow && gives_back_most(rule) &&
        is_of_many_clients(&rule->key) && takes_time(lint->policy, rule)) {
        node_warn(lint->diags, algorithm != NULL ? algorithm : spec->position.name_node,
                  WARNING_STALLED_BUCKET,
                  "the bucket of limit \"%.*s\" hardly refills while requests are under way that "
                  "are given back, and by a key that clients share some nearly always are; write "
                  "algorithm: sliding_window",
                  SPAN_ARGS(rule->name));
    }
}

/* --- limits that one client can use up --- */

static bool has_slots(const struct limit_rule *rule)
{
    return rule->limits[0].algorithm->has_slots;
}

static bool is_shaping(const struct limit_rule *rule)
{
    return rule->limits[0].params.max_wait > 0;
}

/* Whether a limit that charges @charged counts an answer of @status that it does not list, though
 * one that refunds @refunded gives it back. The table in docs/policy.md has both. */
static bool counts_unlisted(const struct answer_set *charged, const struct answer_set *refunded,
                            unsigned status)
{
    const bool is_named = answer_set_names(refunded, status);
    const bool is_lost = answer_is_gateway_error(status) ||
                         (is_named && answer_is_doubtful((uint16_t)status, 0, true, true));
    const bool is_hidden = charged->has_answers && answer_hides_status(status) &&
                           (is_named || !answer_needs_name(status, false));
    return is_lost || is_hidden || (status == 304 && answer_set_has(charged, 200));
}

/* Whether a limit that refunds @refunded gives back something that one that charges @charged
 * counts. The latter counts who leaves, and servers that do not answer, in any case. */
static bool gives_back_counted(const struct answer_set *refunded, const struct answer_set *charged)
{
    if (refunded->client_left || refunded->server_failed) {
        return true;
    }
    for (unsigned status = ANSWER_STATUS_MIN; status <= ANSWER_STATUS_MAX; status++) {
        if (answer_set_has(refunded, status) &&
            (answer_set_has(charged, status) || counts_unlisted(charged, refunded, status))) {
            return true;
        }
    }
    return false;
}

/* Whether a client may get back what it took of @beside, for a request that @shared counts. A queue
 * without a charge_on counts all; that the server fails is taken for no client's doing there. */
static bool may_give_back(const struct limit_rule *beside, const struct limit_rule *shared)
{
    const struct answer_set *counted = &beside->charge_on;
    const struct answer_set *refunded = &beside->refund_on;
    if (!shared->charge_on.is_said) {
        return counted->is_said || refunded->client_left || refunded->has_answers;
    }
    return (counted->is_said && !answer_set_includes(counted, &shared->charge_on)) ||
           gives_back_counted(refunded, &shared->charge_on);
}

/* Whether @limits, the rates of @beside or of one of its plans, stop a client before @shared is
 * used up. */
static bool rates_stop_before(const struct limit_rule *beside, const struct limit *limits,
                              const struct limit_rule *shared)
{
    const bool is_smaller = limit_capacity(&limits[0]) < limit_capacity(&shared->limits[0]);
    if (has_slots(shared)) {
        return has_slots(beside) && is_smaller;
    }
    if (is_shaping(shared) && !is_smaller) {
        return false;
    }
    for (size_t i = 0; i < beside->n_limits; i++) {
        for (size_t j = 0; j < shared->n_limits; j++) {
            if (!bounds_never_binds(&limits[i], &shared->limits[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Whether @beside, a rule of the same route, stops whom it counts before @shared is used up: at
 * least those without a plan. */
static bool stops_before(const struct limit_rule *beside, const struct limit_rule *shared)
{
    return !beside->limits[0].shadow && !key_is_mostly_shared(&beside->key) &&
           (has_slots(shared) || (!has_slots(beside) && !may_give_back(beside, shared))) &&
           rates_stop_before(beside, beside->limits, shared);
}

/* The plan of @beside whose clients it does not stop before that, or NULL. */
static const struct limit_plan *unstopped_plan(const struct limit_rule *beside,
                                               const struct limit_rule *shared)
{
    for (size_t i = 0; i < beside->n_plans; i++) {
        const struct limit *limits = beside->plans[i].limits;
        if (limits == NULL || !rates_stop_before(beside, limits, shared)) {
            return &beside->plans[i];
        }
    }
    return NULL;
}

/* A limit that would stop a client before it has all of another one, and why it does not. */
struct evasion {
    const struct limit_rule *rule; /* NULL: there is none */
    const struct limit_plan *plan; /* it does not stop those of this plan; NULL: clients choose what
                                      it counts by */
};

/* Whether a client is stopped before it has all of @shared. */
static bool is_bounded(const struct route *route, const struct limit_rule *shared,
                       struct evasion *evasion)
{
    *evasion = (struct evasion){.rule = NULL};
    for (size_t i = 0; i < route->n_rules; i++) {
        const struct limit_rule *beside = route->rules[i];
        if (!stops_before(beside, shared)) {
            continue;
        }
        const struct limit_plan *plan = unstopped_plan(beside, shared);
        const bool is_firm = lint_is_firm_key(beside, route, &shared->key);
        if (is_firm && plan == NULL) {
            return true;
        }
        if (evasion->rule == NULL || is_firm) {
            *evasion = (struct evasion){beside, is_firm ? plan : NULL};
        }
    }
    return false;
}

static void add_evasion(const struct evasion *evasion, const struct route *route, struct text *text)
{
    if (evasion->rule == NULL) {
        return;
    }
    text_add_format(text, ", and limit \"%.*s\" does not stop ", SPAN_ARGS(evasion->rule->name));
    const struct key_term *claim = lint_find_passing_claim(evasion->rule, route);
    if (evasion->plan != NULL) {
        text_add_format(text, "those of its plan \"%.*s\"", SPAN_ARGS(evasion->plan->name));
    } else if (claim != NULL) {
        text_add_literal(text, "it, since a new token has another ");
        key_print_term(claim, text);
    } else {
        text_add(text, SPAN("it, since clients choose what it counts by"));
    }
}

/* What one client can do to a limit, in words before and behind its name. */
struct harm {
    const char *before;
    const char *behind;
};

static struct harm harm_of(const struct limit_rule *shared)
{
    if (has_slots(shared)) {
        return (struct harm){"one client can take all slots of limit", ", whose key clients share"};
    }
    if (is_shaping(shared)) {
        return (struct harm){"one client can fill the queue of limit",
                             ", whose key clients share, also with requests that it ends while "
                             "they are held"};
    }
    return (struct harm){"the answers that limit",
                         " charges, to a key that clients share, may all be of one client, which "
                         "denies all others"};
}

void lint_shared_keys(struct lint *lint, const struct route *route, const struct spec_route *spec)
{
    for (size_t i = 0; i < route->n_rules && route->upstream != NULL; i++) {
        const struct limit_rule *rule = route->rules[i];
        struct evasion evasion;
        if (rule->limits[0].shadow ||
            !(has_slots(rule) || is_shaping(rule) || rule->charge_on.is_said) ||
            !key_is_mostly_shared(&rule->key) || is_bounded(route, rule, &evasion)) {
            continue;
        }
        const struct harm harm = harm_of(rule);
        char buffer[256];
        struct text evaded = text_of(buffer, sizeof(buffer));
        add_evasion(&evasion, route, &evaded);
        node_warn(lint->diags, lint_node_of_limits(lint, spec), WARNING_SHARED_KEY,
                  "route \"%.*s\": %s \"%.*s\"%s%.*s; put a %slimit by client.ip beside it, with a "
                  "lower rate",
                  SPAN_ARGS(lint_name_of_route(lint, route->index)), harm.before,
                  SPAN_ARGS(rule->name), harm.behind, SPAN_ARGS(text_span(&evaded)),
                  has_slots(rule) ? "concurrency " : "");
    }
}
