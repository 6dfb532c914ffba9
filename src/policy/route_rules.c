#include "policy/route_match.h"

#include "http/method.h"
#include "limit/limit.h"
#include "policy/policy.h"

enum { IPV6_BITS = 128 };

static bool is_enforced(const struct limit_rule *rule)
{
    return !rule->limits[0].shadow;
}

bool route_has_rule(const struct route *route, const struct limit_rule *rule)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        if (route->rules[i] == rule) {
            return true;
        }
    }
    return false;
}

const struct limit_rule *route_limits_find_missing(const struct route *route,
                                                   const struct route *other)
{
    for (size_t i = 0; i < other->n_rules; i++) {
        if (is_enforced(other->rules[i]) && !route_has_rule(route, other->rules[i])) {
            return other->rules[i];
        }
    }
    return NULL;
}

static bool has_same_methods(const struct cost_spec *a, const struct cost_spec *b)
{
    if (a->n_methods != b->n_methods) {
        return false;
    }
    for (size_t i = 0; i < a->n_methods; i++) {
        if (!span_equals(a->methods[i].method, b->methods[i].method) ||
            a->methods[i].units != b->methods[i].units) {
            return false;
        }
    }
    return true;
}

/* Whether a request costs at least as much by @cost as by @wanted, for every method and all fields.
 * May return false although the answer is yes. */
static bool cost_holds(const struct cost_spec *cost, const struct cost_spec *wanted)
{
    if (wanted->kind == COST_FIXED && wanted->units == 1 && cost->kind != COST_RESPONSE_HEADER) {
        return true; /* a request costs at least 1 */
    }
    if (wanted->kind == COST_FIXED && cost->kind == COST_FIXED) {
        return cost->units >= wanted->units;
    }
    return cost->kind == wanted->kind && cost->units == wanted->units && cost->max == wanted->max &&
           span_equals(cost->field, wanted->field) && cost->trust_any == wanted->trust_any &&
           has_same_methods(cost, wanted);
}

/* What @route takes of @rule, which is one of its rules. */
static struct cost_spec cost_of_rule(const struct route *route, const struct limit_rule *rule)
{
    size_t i = 0;
    while (route->rules[i] != rule) {
        i++;
    }
    const uint32_t own = route_own_cost(route, i);
    return own == 0 ? route->cost
                    : (struct cost_spec){.kind = COST_FIXED, .units = own, .max = own};
}

bool route_limits_hold(const struct route *route, const struct route *other)
{
    if (route_limits_find_missing(route, other) != NULL) {
        return false;
    }
    for (size_t i = 0; i < other->n_rules; i++) {
        const struct limit_rule *rule = other->rules[i];
        if (!is_enforced(rule)) {
            continue;
        }
        const struct cost_spec cost = cost_of_rule(route, rule);
        const struct cost_spec wanted = cost_of_rule(other, rule);
        if (!cost_holds(&cost, &wanted)) {
            return false;
        }
    }
    return true;
}

/* The fewest bits of an IPv6 address that @key counts by; 0: all clients share its buckets. */
static uint8_t ipv6_bits_of(const struct key *key)
{
    uint8_t bits = key_has_only_shared(key) ? 0 : IPV6_BITS;
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            const struct key_term *term = &key->parts[i].terms[j];
            if (term->source == KEY_CLIENT_IP && term->ipv6_bits < bits) {
                bits = term->ipv6_bits;
            }
        }
    }
    return bits;
}

/* Whether each client has one bucket of @key at most on a route, whatever it sends, and shares it
 * with the clients with which it shares one of @other. What a client sends is taken for its own. */
static bool is_no_finer(const struct key *key, const struct key *other)
{
    const uint8_t bits_max = ipv6_bits_of(other);
    for (size_t i = 0; i < key->n_parts; i++) {
        const struct key_term *term = &key->parts[i].terms[0];
        if (term->source == KEY_CLIENT_IP
                ? term->ipv6_bits > bits_max
                : term->source != KEY_GLOBAL && term->source != KEY_ROUTE) {
            return false;
        }
    }
    return true;
}

bool rule_excepts_no_more(const struct limit_rule *rule, const struct limit_rule *other)
{
    for (size_t i = 0; i < rule->n_except; i++) {
        bool is_covered = false;
        for (size_t j = 0; j < other->n_except; j++) {
            is_covered = is_covered || address_prefix_holds(&other->except[j], &rule->except[i]);
        }
        if (!is_covered) {
            return false;
        }
    }
    return true;
}

/* The terms by which @rule bans keys; NULL: it bans none, as none that all clients share. */
static const struct ban_terms *ban_of(const struct limit_rule *rule)
{
    return rule->ban.after > 0 && !rule->ban.shadow && !key_has_only_shared(&rule->key) ? &rule->ban
                                                                                        : NULL;
}

/* Whether @rule, which charges all answers, bans as soon and as long as @other. */
static bool bans_no_less(const struct limit_rule *rule, const struct limit_rule *other)
{
    const struct ban_terms *ban = ban_of(rule);
    const struct ban_terms *wanted = ban_of(other);
    return wanted == NULL || (ban != NULL && !other->charge_on.is_said &&
                              ban->after <= wanted->after && ban->period_us >= wanted->period_us &&
                              ban->for_ms >= wanted->for_ms && ban->factor >= wanted->factor &&
                              ban->max_ms >= wanted->max_ms && ban->forget_ms >= wanted->forget_ms);
}

/* Whether @limit denies what @other denies, at any time and without the store. */
static bool denies_as_much(const struct limit *limit, const struct limit *other)
{
    return bounds_never_binds(other, limit) && (limit->charge_denied || !other->charge_denied) &&
           (limit->on_failure == other->on_failure || limit->on_failure == ON_FAILURE_DENY ||
            other->on_failure == ON_FAILURE_ALLOW);
}

/* Whether @rule admits no more than @other in any time. May return false although it does: plans,
 * calendars, slots and buckets that hold requests are not compared. */
static bool admits_no_more(const struct limit_rule *rule, const struct limit_rule *other)
{
    const bool has_plans =
        rule->n_plans + rule->n_plan_sources + other->n_plans + other->n_plan_sources > 0;
    const bool gives_back = rule->charge_on.is_said || rule->refund_on.is_said;
    if (!is_enforced(rule) || has_plans || gives_back ||
        !(rule->key_number == other->key_number || is_no_finer(&rule->key, &other->key)) ||
        !rule_excepts_no_more(rule, other) || !bans_no_less(rule, other)) {
        return false;
    }
    for (size_t i = 0; i < other->n_limits; i++) {
        size_t j = 0;
        while (j < rule->n_limits && !denies_as_much(&rule->limits[j], &other->limits[i])) {
            j++;
        }
        if (j == rule->n_limits) {
            return false;
        }
    }
    return true;
}

/* Whether @route limits its requests at least as @rule of @other does. */
static bool is_matched(const struct route *route, const struct route *other,
                       const struct limit_rule *rule)
{
    const struct cost_spec wanted = cost_of_rule(other, rule);
    for (size_t i = 0; i < route->n_rules; i++) {
        if (route->rules[i] == rule || admits_no_more(route->rules[i], rule)) {
            const struct cost_spec cost = cost_of_rule(route, route->rules[i]);
            if (cost_holds(&cost, &wanted)) {
                return true;
            }
        }
    }
    return false;
}

bool route_limits_are_laxer(const struct route *route, const struct route *other)
{
    for (size_t i = 0; i < other->n_rules; i++) {
        if (is_enforced(other->rules[i]) && !is_matched(route, other, other->rules[i])) {
            return true;
        }
    }
    return false;
}

/* Whether @edits drop each field that @others drop, to remove or to replace it. */
static bool drop_all_of(const struct field_edits *edits, const struct field_edits *others)
{
    for (size_t i = 0; i < others->n_names; i++) {
        const struct field field = {.name = others->names[i], .id = FIELD_OTHER};
        if (!field_edits_drop(edits, &field)) {
            return false;
        }
    }
    return (others->known & ~edits->known) == 0;
}

bool route_checks_hold(const struct route *route, const struct route *other)
{
    static const struct field_edits NONE;
    const struct field_edits *edits = route->edits != NULL ? &route->edits->request : &NONE;
    const bool has_token =
        !other->requires_token || (route->requires_token && route->jwt == other->jwt);
    return has_token && (other->edits == NULL || drop_all_of(edits, &other->edits->request));
}

static bool reads_path(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            const enum key_source source = key->parts[i].terms[j].source;
            if (KEY_SOURCE_ROWS[source].origin == KEY_FROM_PATH) {
                return true;
            }
        }
    }
    return false;
}

bool route_limits_read_path(const struct route *route)
{
    for (size_t i = 0; i < route->n_rules; i++) {
        if (is_enforced(route->rules[i]) && reads_path(&route->rules[i]->key)) {
            return true;
        }
    }
    return false;
}
