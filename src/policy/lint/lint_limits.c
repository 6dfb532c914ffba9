/* Finds limits that never deny because of a stricter limit on the same routes, and buckets that
 * stand for quotas.
 *
 * A limit can never deny if on each of its routes another limit judges the same requests by the
 * same key at the same cost and admits no more: see bounds_never_binds(). */

#include "limit/limit.h"
#include "policy/compare.h"
#include "policy/lint/lint.h"
#include "policy/route_match.h"

/* The rules that share all routes of a rule. */
struct companions {
    const struct route *first; /* the first route of the rule; NULL: none */
    uint32_t beside;           /* bit set of the rules of that route, by index there */
    bool is_settled; /* the response or the route makes costs differ from limit to limit */
};

_Static_assert(LIMITS_PER_ROUTE_MAX <= 32, "the rules of a route are bits");

static void add_route(struct companions *of, const struct route *route)
{
    if (of->first == NULL) {
        of->first = route;
        of->beside = UINT32_MAX;
    }
    of->is_settled =
        of->is_settled || route->cost.kind == COST_RESPONSE_HEADER || route->costs != NULL;
    for (size_t i = 0; i < of->first->n_rules; i++) {
        if (!route_has_rule(route, of->first->rules[i])) {
            of->beside &= ~(UINT32_C(1) << i);
        }
    }
}

static struct companions *find_companions(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct companions *all = arena_calloc(lint->scratch, policy->n_rules + 1, sizeof(*all));
    lint->no_memory = all == NULL;
    for (size_t i = 0; i < policy->n_routes && all != NULL; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules; j++) {
            add_route(&all[route->rules[j] - policy->rules], route);
        }
    }
    return all;
}

/* --- whether two rules judge alike --- */

/* Whether @strict judges and keeps charging each request that @loose charges, and refuses the
 * requests without a key that @loose refuses. */
static bool judges_as_much(const struct limit_rule *strict, const struct limit_rule *loose)
{
    const bool judges_the_lacking =
        loose->missing == KEY_MISSING_DENY
            ? strict->missing == KEY_MISSING_DENY
            : strict->missing != KEY_MISSING_SKIP || loose->missing == KEY_MISSING_SKIP;
    return strict == loose || (compare_keys(&strict->key, &loose->key) && judges_the_lacking &&
                               rule_excepts_no_more(strict, loose));
}

/* Checked for an available and for an unavailable store. */
static bool is_as_sure(const struct policy *policy, const struct limit *strict,
                       const struct limit *loose)
{
    return policy->store.kind == STORE_MEMORY || strict->on_failure == loose->on_failure ||
           strict->on_failure == ON_FAILURE_DENY;
}

/* Whether some clients have other rates of one of these than those that are compared. */
static bool has_plans_between(const struct limit_rule *a, const struct limit_rule *b)
{
    return a != b && (a->n_plans > 0 || b->n_plans > 0);
}

static bool is_idle_beside(const struct lint *lint, const struct limit_rule *rule,
                           const struct limit *loose, const struct limit_rule *beside,
                           const struct limit *strict)
{
    const bool gives_back = beside->charge_on.is_said || beside->refund_on.is_said;
    const bool has_own_ban = rule != beside && rule->ban.after > 0 && rule->charge_on.is_said;
    if (loose == strict || strict->shadow || gives_back || loose->charge_denied || has_own_ban ||
        has_plans_between(beside, rule) || !judges_as_much(beside, rule) ||
        !is_as_sure(lint->policy, strict, loose) || !bounds_never_binds(loose, strict)) {
        return false;
    }
    /* of two equal limits the later is idle */
    return loose->index > strict->index || loose->shadow || !bounds_never_binds(strict, loose);
}

/* --- the lint --- */

static const struct limit *find_stricter(const struct lint *lint, const struct companions *of,
                                         const struct limit_rule *rule, const struct limit *loose)
{
    for (size_t i = 0; i < of->first->n_rules; i++) {
        const struct limit_rule *beside = of->first->rules[i];
        for (size_t j = 0; j < beside->n_limits && (of->beside >> i & 1) != 0; j++) {
            if (is_idle_beside(lint, rule, loose, beside, &beside->limits[j])) {
                return &beside->limits[j];
            }
        }
    }
    return NULL;
}

static void check_rule(struct lint *lint, const struct companions *of,
                       const struct limit_rule *rule, const struct spec_limit *spec)
{
    const struct spec_rate *rates = spec->rates.items;
    for (size_t i = 0; i < rule->n_limits; i++) {
        const struct limit *strict = find_stricter(lint, of, rule, &rule->limits[i]);
        if (strict != NULL) {
            node_warn(lint->diags, rates[i].node, WARNING_NEVER_BINDING,
                      "limit \"%.*s\" can never deny a request: \"%.*s\", by the same key on each "
                      "of its routes, is stricter; tighten it, or remove it",
                      SPAN_ARGS(rule->limits[i].name), SPAN_ARGS(strict->name));
        }
    }
}

void lint_never_binding(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct companions *all = find_companions(lint);
    for (size_t i = 0; i < policy->n_rules && all != NULL; i++) {
        if (all[i].first != NULL && !all[i].is_settled) {
            check_rule(lint, &all[i], &policy->rules[i], &lint->limits[i]);
        }
    }
}

/* --- buckets for quotas --- */

/* Periods that a quota is given for, the longest first. */
static const struct {
    uint64_t us;
    const char *name;
} PERIODS[] = {
    {UINT64_C(30) * 86400 * 1000000, "month"},
    {UINT64_C(7) * 86400 * 1000000, "week"},
    {UINT64_C(86400) * 1000000, "day"},
    {UINT64_C(3600) * 1000000, "hour"},
};

/* "day" for 1d, "period" for 2d; NULL: it is shorter than any of PERIODS. */
static const char *name_of_period(uint64_t us)
{
    for (size_t i = 0; i < ARRAY_LEN(PERIODS); i++) {
        if (us == PERIODS[i].us) {
            return PERIODS[i].name;
        }
    }
    return us > PERIODS[ARRAY_LEN(PERIODS) - 1].us ? "period" : NULL;
}

/* 19,999 */
static void add_grouped(struct text *text, uint64_t number)
{
    if (number >= 1000) {
        add_grouped(text, number / 1000);
        text_add_format(text, ",%03u", (unsigned)(number % 1000));
    } else {
        text_add_u64(text, number);
    }
}

/* The most units that all rates of @rule together admit in a time shorter than @us. */
static uint64_t rates_admit(const struct limit_rule *rule, uint64_t us)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < rule->n_limits; i++) {
        const uint64_t units = bounds_bucket_admits(&rule->limits[i], us);
        least = units < least ? units : least;
    }
    return least;
}

/* A full bucket passes at once, and what is refilled in the period passes too. */
void lint_bucket_quotas(struct lint *lint, const struct limit_rule *rule,
                        const struct spec_limit *spec)
{
    const struct spec_rate *rates = spec->rates.items;
    const struct limit *first = &rule->limits[0];
    for (size_t i = 0;
         first->algorithm->has_burst && first->params.max_wait == 0 && i < rule->n_limits; i++) {
        const struct limit *limit = &rule->limits[i];
        const char *period = name_of_period(limit->period_us);
        const uint64_t units = rates_admit(rule, limit->period_us);
        char buffer[64];
        struct text most = text_of(buffer, sizeof(buffer));
        if (rates[i].node->expanded || period == NULL || limit->params.burst < limit->params.rate ||
            units <= limit->params.rate) {
            continue;
        }
        add_grouped(&most, units);
        node_warn(
            lint->diags, rates[i].node, WARNING_BUCKET_QUOTA,
            "limit \"%.*s\" passes up to %.*s in its first %s: a full bucket, and what is "
            "refilled meanwhile; write algorithm: fixed_window or sliding_window for a quota, "
            "or a smaller burst",
            SPAN_ARGS(limit->name), SPAN_ARGS(text_span(&most)), period);
    }
}
