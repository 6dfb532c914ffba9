#include "policy/policy.h"

#include <stdlib.h>

#include "geo/database.h"
#include "http/method.h"
#include "limit/calendar.h"
#include "tls/tls_client.h"

static void release_tls(struct listener_section *listeners, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tls_server_config_release(listeners[i].tls_config);
    }
}

void policy_free(struct policy *policy)
{
    if (policy != NULL) {
        release_tls(policy->listeners, policy->n_listeners);
        release_tls(policy->admin.listeners, policy->admin.n_listeners);
        for (size_t i = 0; i < policy->n_upstreams; i++) {
            tls_client_config_release(policy->upstreams[i].tls);
        }
        tls_client_config_release(policy->store.redis.tls);
        tls_client_config_release(policy->store.redis.sentinel_tls);
        for (size_t i = 0; i < policy->n_providers; i++) {
            jwt_keys_release(policy->providers[i].source.keys);
        }
        for (size_t i = 0; i < policy->geo.n_files; i++) {
            geo_database_release(policy->geo.files[i].database);
        }
        for (size_t i = 0; i < policy->n_calendars; i++) {
            calendar_free(policy->calendars[i]);
        }
        arena_reset(&policy->arena);
        free(policy);
    }
}

void policy_find_geo(const struct policy *policy, const struct address *client,
                     struct geo_facts *facts)
{
    *facts = (struct geo_facts){.asn = 0};
    for (size_t i = 0; i < policy->geo.n_files; i++) {
        if (policy->geo.files[i].database != NULL) {
            geo_database_find(policy->geo.files[i].database, client, policy->geo.facts, facts);
        }
    }
}

const char *method_names_read(const struct policy *policy, struct span method, struct span *counted)
{
    const enum method_id id = method_identify(method);
    *counted = id == METHOD_HEAD ? SPAN("GET") : method;
    if (id != METHOD_OTHER) {
        return NULL;
    }
    for (size_t i = 0; i < policy->n_methods; i++) {
        if (span_equals(policy->methods[i].name, method)) {
            return NULL;
        }
    }
    const enum method_id meant = method_find_ignoring_case(method);
    if (meant != METHOD_OTHER) {
        return method_case_refusal(meant);
    }
    for (size_t i = 0; i < policy->n_methods; i++) {
        if (span_equals_ignore_case(policy->methods[i].name, method)) {
            return policy->methods[i].case_refusal;
        }
    }
    *counted = METHOD_NAMES_OTHERS;
    return NULL;
}
