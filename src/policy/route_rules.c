#include "policy/route_rules.h"

#include "http/method.h"

__extension__ typedef unsigned __int128 wide;

static bool is_enforced(const struct limit_rule *rule)
{
    return !rule->limits[0].shadow;
}

static bool has_rule(const struct route *route, const struct limit_rule *rule)
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
        if (is_enforced(other->rules[i]) && !has_rule(route, other->rules[i])) {
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

/* Whether each client has one bucket of @key at most on a route, whatever it sends. */
static bool is_forced(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        const enum key_source source = key->parts[i].terms[0].source;
        if (source != KEY_GLOBAL && source != KEY_CLIENT_IP && source != KEY_ROUTE) {
            return false;
        }
    }
    return true;
}

static bool is_slower(const struct limit *a, const struct limit *b)
{
    return (wide)a->params.rate * b->period_us < (wide)b->params.rate * a->period_us;
}

/* The rate of @rule that admits the fewest units in the long run. */
static const struct limit *slowest(const struct limit_rule *rule)
{
    const struct limit *found = &rule->limits[0];
    for (size_t i = 1; i < rule->n_limits; i++) {
        if (is_slower(&rule->limits[i], found)) {
            found = &rule->limits[i];
        }
    }
    return found;
}

/* Whether @rule admits no more than @other in the long run. May return false although it does. */
static bool admits_no_more(const struct limit_rule *rule, const struct limit_rule *other)
{
    const bool has_slots =
        rule->limits[0].algorithm->has_slots || other->limits[0].algorithm->has_slots;
    return is_enforced(rule) && !has_slots && rule->n_plans == 0 && !rule->charge_on.is_said &&
           !rule->refund_on.is_said &&
           (is_forced(&rule->key) || rule->key_number == other->key_number) &&
           !is_slower(slowest(other), slowest(rule));
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
