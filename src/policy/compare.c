#include "policy/compare.h"

#include "limit/limit.h"

static bool same_endpoints(const struct redis_section *a, const struct redis_section *b)
{
    if (a->n_endpoints != b->n_endpoints) {
        return false;
    }
    for (size_t i = 0; i < a->n_endpoints; i++) {
        if (!span_equals(a->endpoints[i].host, b->endpoints[i].host) ||
            a->endpoints[i].port != b->endpoints[i].port ||
            !span_equals(a->endpoints[i].unix_path, b->endpoints[i].unix_path)) {
            return false;
        }
    }
    return true;
}

/* Whether it is the same Redis, found in the same way. */
static bool same_redis(const struct store_section *a, const struct store_section *b)
{
    return a->kind == b->kind && a->redis.kind == b->redis.kind &&
           same_endpoints(&a->redis, &b->redis) && span_equals(a->redis.master, b->redis.master) &&
           a->redis.tls == b->redis.tls && a->database == b->database &&
           span_equals(a->prefix, b->prefix);
}

bool compare_stores(const struct store_section *a, const struct store_section *b)
{
    return same_redis(a, b) && span_equals(a->user, b->user) &&
           span_equals(a->password, b->password) &&
           span_equals(a->sentinel_user, b->sentinel_user) &&
           span_equals(a->sentinel_password, b->sentinel_password) &&
           a->deadline_us == b->deadline_us && a->instances == b->instances &&
           a->coalesce == b->coalesce && a->denial_cache == b->denial_cache;
}

bool compare_resolvers(const struct resolver_section *a, const struct resolver_section *b)
{
    if (a->n_servers != b->n_servers) {
        return false;
    }
    for (size_t i = 0; i < a->n_servers; i++) {
        if (!span_equals(a->servers[i].host, b->servers[i].host) ||
            a->servers[i].port != b->servers[i].port) {
            return false;
        }
    }
    return true;
}

/* --- limits --- */

/* Most limits stand where they stood: there, @index, it is looked first. */
static const struct limit *find_limit(const struct policy *policy, struct span name, size_t index)
{
    if (index < policy->n_limits && span_equals(policy->limits[index].name, name)) {
        return &policy->limits[index];
    }
    for (size_t i = 0; i < policy->n_limits; i++) {
        if (span_equals(policy->limits[i].name, name)) {
            return &policy->limits[i];
        }
    }
    return NULL;
}

static const struct limit_rule *rule_of(const struct policy *policy, const struct limit *limit)
{
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit_rule *rule = &policy->rules[i];
        if (limit >= rule->limits && limit < rule->limits + rule->n_limits) {
            return rule;
        }
    }
    return NULL; /* cannot be: each limit is of a rule */
}

/* Why what was counted for @before is not what @after counts; NULL: it is. */
static const char *why_new(const struct policy *policy_before, const struct limit *before,
                           const struct policy *policy_after, const struct limit *after)
{
    const struct limit_rule *rule_before = rule_of(policy_before, before);
    const struct limit_rule *rule_after = rule_of(policy_after, after);
    if (!same_redis(&policy_before->store, &policy_after->store)) {
        return "the store is another";
    }
    if (!span_equals(policy_before->store.secret, policy_after->store.secret)) {
        return "store.secret is another";
    }
    if (rule_before == NULL || rule_after == NULL ||
        !compare_keys(&rule_before->key, &rule_after->key)) {
        return "its key is another";
    }
    if (before->by_cell != after->by_cell) {
        return "redis-cell keeps a state of its own";
    }
    if (before->id.low != after->id.low || before->id.high != after->id.high) {
        return "its algorithm, or what gives its numbers a unit, is another";
    }
    return NULL;
}

static bool same_numbers(const struct limit *a, const struct limit *b)
{
    return a->params.rate == b->params.rate && a->params.burst == b->params.burst &&
           a->params.max_wait == b->params.max_wait && a->params.strict == b->params.strict;
}

static struct limit_comparison compare_one(const struct policy *policy_before,
                                           const struct policy *policy_after,
                                           const struct limit *after)
{
    struct limit_comparison comparison = {
        .before = find_limit(policy_before, after->name, after->index), .after = after, .why = ""};
    if (comparison.before == NULL) {
        comparison.change = LIMIT_NEW;
        return comparison;
    }
    const char *why = why_new(policy_before, comparison.before, policy_after, after);
    if (why != NULL) {
        comparison.change = LIMIT_NEW;
        comparison.why = why;
    } else {
        comparison.change = same_numbers(comparison.before, after) ? LIMIT_KEPT : LIMIT_RESCALED;
    }
    return comparison;
}

void compare_limits(const struct policy *before, const struct policy *after,
                    void (*tell)(void *context, const struct limit_comparison *comparison),
                    void *context)
{
    for (size_t i = 0; i < after->n_limits; i++) {
        const struct limit_comparison comparison = compare_one(before, after, &after->limits[i]);
        tell(context, &comparison);
    }
    for (size_t i = 0; i < before->n_limits; i++) {
        if (find_limit(after, before->limits[i].name, i) == NULL) {
            const struct limit_comparison comparison = {
                .change = LIMIT_GONE, .before = &before->limits[i], .why = ""};
            tell(context, &comparison);
        }
    }
}

const char *limit_change_name(enum limit_change change)
{
    switch (change) {
    case LIMIT_KEPT:
        return "kept";
    case LIMIT_RESCALED:
        return "rescaled";
    case LIMIT_NEW:
        return "new";
    case LIMIT_GONE:
        return "gone";
    }
    return "";
}
