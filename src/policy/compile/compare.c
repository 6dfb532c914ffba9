#include "policy/compare.h"

#include <string.h>

#include "limit/limit.h"
#include "policy/key.h"
#include "tls/tls_client.h"

bool compare_endpoints(const struct endpoint *a, const struct endpoint *b)
{
    return a->port == b->port && a->is_https == b->is_https && a->is_h2c == b->is_h2c &&
           span_equals(a->host, b->host) && span_equals(a->unix_path, b->unix_path);
}

static bool same_endpoints(const struct endpoint *a, size_t n_a, const struct endpoint *b,
                           size_t n_b)
{
    for (size_t i = 0; i < n_a && n_a == n_b; i++) {
        if (!compare_endpoints(&a[i], &b[i])) {
            return false;
        }
    }
    return n_a == n_b;
}

/* Contents of files count: a connection that was verified by others is not used again. */
static bool same_tls(const struct tls_client_config *a, const struct tls_client_config *b)
{
    return a == b ||
           (a != NULL && b != NULL && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0);
}

bool compare_redis(const struct store_section *a, const struct store_section *b)
{
    return a->kind == b->kind && a->redis.kind == b->redis.kind &&
           same_endpoints(a->redis.endpoints, a->redis.n_endpoints, b->redis.endpoints,
                          b->redis.n_endpoints) &&
           span_equals(a->redis.master, b->redis.master) && a->database == b->database &&
           span_equals(a->prefix, b->prefix);
}

bool compare_stores(const struct store_section *a, const struct store_section *b)
{
    return compare_redis(a, b) && same_tls(a->redis.tls, b->redis.tls) &&
           same_tls(a->redis.sentinel_tls, b->redis.sentinel_tls) &&
           span_equals(a->user, b->user) && span_equals(a->password, b->password) &&
           span_equals(a->sentinel_user, b->sentinel_user) &&
           span_equals(a->sentinel_password, b->sentinel_password) &&
           a->deadline_us == b->deadline_us && a->proxy_count == b->proxy_count &&
           a->coalesce == b->coalesce && a->denial_cache == b->denial_cache;
}

bool compare_resolvers(const struct resolver_section *a, const struct resolver_section *b)
{
    return same_endpoints(a->servers, a->n_servers, b->servers, b->n_servers);
}

/* --- keys --- */

static bool same_term(const struct key_term *a, const struct key_term *b)
{
    return a->source == b->source && span_equals(a->name, b->name) && a->number == b->number &&
           a->ipv6_bits == b->ipv6_bits && a->ipv4_bits == b->ipv4_bits;
}

bool compare_key_parts(const struct key_part *a, const struct key_part *b)
{
    if (a->n_terms != b->n_terms) {
        return false;
    }
    for (size_t i = 0; i < a->n_terms; i++) {
        if (!same_term(&a->terms[i], &b->terms[i])) {
            return false;
        }
    }
    return true;
}

bool compare_keys(const struct key *a, const struct key *b)
{
    if (a->n_parts != b->n_parts) {
        return false;
    }
    for (size_t i = 0; i < a->n_parts; i++) {
        if (!compare_key_parts(&a->parts[i], &b->parts[i])) {
            return false;
        }
    }
    return true;
}

/* --- upstreams --- */

static bool same_servers(const struct upstream_spec *a, const struct upstream_spec *b)
{
    if (a->n_servers != b->n_servers) {
        return false;
    }
    for (size_t i = 0; i < a->n_servers; i++) {
        if (!compare_endpoints(&a->servers[i].endpoint, &b->servers[i].endpoint) ||
            !span_equals(a->servers[i].endpoint.text, b->servers[i].endpoint.text) ||
            a->servers[i].weight != b->servers[i].weight) {
            return false;
        }
    }
    return true;
}

static bool same_answers(const struct answer_set *a, const struct answer_set *b)
{
    return memcmp(a->statuses, b->statuses, sizeof(a->statuses)) == 0 &&
           a->client_left == b->client_left && a->server_failed == b->server_failed &&
           a->is_said == b->is_said;
}

static bool same_health(const struct health_spec *a, const struct health_spec *b)
{
    return span_equals(a->path, b->path) && a->interval_us == b->interval_us &&
           a->timeout_us == b->timeout_us && same_answers(&a->status, &b->status) &&
           a->fall == b->fall && a->rise == b->rise;
}

static bool same_times(const struct upstream_spec *a, const struct upstream_spec *b)
{
    return a->connect_us == b->connect_us && a->response_us == b->response_us &&
           a->idle_us == b->idle_us && a->slow_start_us == b->slow_start_us &&
           a->eject.failures == b->eject.failures && a->eject.for_us == b->eject.for_us &&
           a->eject.max_us == b->eject.max_us;
}

static bool same_queue(const struct upstream_spec *a, const struct upstream_spec *b)
{
    return a->max_connections == b->max_connections && a->queue.requests == b->queue.requests &&
           a->queue.wait_us == b->queue.wait_us;
}

bool compare_upstreams(const struct upstream_spec *a, const struct upstream_spec *b)
{
    return span_equals(a->name, b->name) && same_servers(a, b) && a->balance == b->balance &&
           compare_keys(&a->balance_key, &b->balance_key) && a->host == b->host &&
           span_equals(a->host_name, b->host_name) && same_health(&a->health, &b->health) &&
           same_tls(a->tls, b->tls) && same_times(a, b) && same_queue(a, b) &&
           a->retries == b->retries && a->head_bytes_max == b->head_bytes_max &&
           a->n_fields_max == b->n_fields_max && a->reuse_after_head == b->reuse_after_head &&
           a->max_streams == b->max_streams && a->hold_slots == b->hold_slots &&
           a->request_trailers == b->request_trailers && a->protocol == b->protocol;
}

/* --- limits --- */

/* Most limits keep their index, so @index is tried first. */
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
    return NULL; /* unreachable: each limit belongs to a rule */
}

/* Why @after cannot use the state of @before; NULL: it can. */
static const char *why_new(const struct policy *policy_before, const struct limit *before,
                           const struct policy *policy_after, const struct limit *after)
{
    const struct limit_rule *rule_before = rule_of(policy_before, before);
    const struct limit_rule *rule_after = rule_of(policy_after, after);
    if (!compare_redis(&policy_before->store, &policy_after->store)) {
        return "the store is another";
    }
    if (rule_before == NULL || rule_after == NULL ||
        !compare_keys(&rule_before->key, &rule_after->key)) {
        return "its key is another";
    }
    if (key_has_secret_values(&rule_after->key) &&
        !span_equals(policy_before->store.secret, policy_after->store.secret)) {
        return "store.secret is another";
    }
    if (before->by_cell != after->by_cell) {
        return "redis-cell keeps a state of its own";
    }
    if (before->params.is_calendar && after->params.is_calendar &&
        before->params.zone != after->params.zone) {
        return "its timezone is another";
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
                    void (*report)(void *context, const struct limit_comparison *comparison),
                    void *context)
{
    for (size_t i = 0; i < after->n_limits; i++) {
        const struct limit_comparison comparison = compare_one(before, after, &after->limits[i]);
        report(context, &comparison);
    }
    for (size_t i = 0; i < before->n_limits; i++) {
        if (find_limit(after, before->limits[i].name, i) == NULL) {
            const struct limit_comparison comparison = {
                .change = LIMIT_GONE, .before = &before->limits[i], .why = ""};
            report(context, &comparison);
        }
    }
}
