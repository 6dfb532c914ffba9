#include "policy/compare.h"

#include <string.h>

static bool same_endpoint(const struct endpoint *a, const struct endpoint *b)
{
    return span_equals(a->host, b->host) && a->port == b->port &&
           span_equals(a->unix_path, b->unix_path) && span_equals(a->text, b->text);
}

static bool same_servers(const struct upstream_spec *a, const struct upstream_spec *b)
{
    if (a->n_servers != b->n_servers) {
        return false;
    }
    for (size_t i = 0; i < a->n_servers; i++) {
        if (!same_endpoint(&a->servers[i].endpoint, &b->servers[i].endpoint) ||
            a->servers[i].weight != b->servers[i].weight) {
            return false;
        }
    }
    return true;
}

static bool same_term(const struct key_term *a, const struct key_term *b)
{
    return a->source == b->source && span_equals(a->name, b->name) && a->number == b->number &&
           a->ipv6_bits == b->ipv6_bits && a->ipv4_bits == b->ipv4_bits;
}

static bool same_part(const struct key_part *a, const struct key_part *b)
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
        if (!same_part(&a->parts[i], &b->parts[i])) {
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
           same_times(a, b) && same_queue(a, b) && a->retries == b->retries &&
           a->reuse_after_head == b->reuse_after_head;
}
