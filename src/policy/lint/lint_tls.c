/* Names that certificates are for and that no route has. */

#include "base/limits.h"
#include "policy/lint/lint.h"
#include "tls/server_names.h"

/* Whether @name ends with "." and what stands behind the "*." of @pattern. */
static bool is_beneath(struct span name, struct span pattern)
{
    const struct span end = span_of(pattern.data + 1, pattern.len - 1);
    return name.len > end.len &&
           span_equals_ignore_case(span_of(name.data + name.len - end.len, end.len), end);
}

/* Whether a request for a host of @name, of a certificate, may match @host, of a route. */
static bool is_met(struct span name, struct span host)
{
    return span_equals_ignore_case(name, host) || (host.data[0] == '*' && is_beneath(name, host)) ||
           (name.data[0] == '*' && is_beneath(host, name));
}

static bool is_routed(const struct policy *policy, struct span name)
{
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route_match *match = &policy->routes[i].match;
        if (match->n_hosts == 0) {
            return true;
        }
        for (size_t j = 0; j < match->n_hosts; j++) {
            if (is_met(name, match->hosts[j])) {
                return true;
            }
        }
    }
    return false;
}

void lint_unrouted_names(struct lint *lint)
{
    const struct spec_listen *specs = lint->spec->listen.items;
    for (size_t i = 0; i < lint->policy->n_listeners; i++) {
        const struct tls_server_config *config = lint->policy->listeners[i].tls_config;
        const struct spec_certificate *certificates = specs[i].tls.certificates.items;
        for (size_t j = 0; config != NULL && j < config->n_entries; j++) {
            const struct spec_text *cert =
                certificates != NULL ? certificates[j].certs.items : specs[i].tls.certs.items;
            for (size_t k = 0; k < config->entries[j].n_names; k++) {
                const struct span name = config->entries[j].names[k];
                if (!is_routed(lint->policy, name)) {
                    node_warn(lint->diags, cert->node, WARNING_UNROUTED_NAME,
                              "%.*s is for %.*s, which no route has as its host",
                              SPAN_ARGS(cert->node->written), SPAN_ARGS(name));
                }
            }
        }
    }
}
