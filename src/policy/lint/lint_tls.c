/* Names that certificates are for and that no route has; servers named by their address; routes and
 * limits for connections that no listener takes. */

#include "base/address.h"
#include "base/limits.h"
#include "policy/lint/lint.h"
#include "tls/certificate.h"

/* Whether @name ends with "." and what stands behind the "*." of @pattern. */
static bool is_beneath(struct span name, struct span pattern)
{
    const struct span end = span_from(pattern, 1);
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

/* --- servers --- */

static bool says_name(const struct spec_client_tls *tls)
{
    const struct node *section = tls->position.node;
    return section != NULL && node_find(section, SPAN("name")) != NULL;
}

void lint_servers_by_address(struct lint *lint)
{
    const struct spec_upstream *upstreams = lint->spec->upstreams.items;
    for (size_t i = 0; i < lint->spec->upstreams.n_items; i++) {
        const struct spec_server *servers = upstreams[i].servers.items;
        const bool is_due = upstreams[i].tls.verify && !says_name(&upstreams[i].tls);
        for (size_t j = 0; is_due && j < upstreams[i].servers.n_items; j++) {
            const struct endpoint *server = &servers[j].url.endpoint;
            struct address address;
            if (server->is_https && address_parse(server->host, &address)) {
                node_warn(lint->diags, servers[j].url.node, WARNING_SERVER_BY_ADDRESS,
                          "the certificate of %.*s must be for this address, and most are for "
                          "names alone: say \"name: HOST\" in tls, or \"name: server\" if it is",
                          SPAN_ARGS(server->text));
            }
        }
    }
}

/* --- connections that routes and limits are for --- */

static bool asks_clients(const struct tls_section *tls)
{
    for (size_t i = 0; tls != NULL && i < tls->n_entries; i++) {
        if (tls->entries[i].client != CLIENT_CERTIFICATE_OFF) {
            return true;
        }
    }
    return false;
}

static bool takes_connection(const struct policy *policy, const struct connection_match *match)
{
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const struct tls_section *tls = policy->listeners[i].tls;
        if ((match->scheme != SCHEME_MATCH_HTTPS || tls != NULL) &&
            (match->scheme != SCHEME_MATCH_HTTP || tls == NULL) &&
            (!match->asks_certificate || asks_clients(tls))) {
            return true;
        }
    }
    return false;
}

void lint_unmet_connections(struct lint *lint, const struct route *route,
                            const struct spec_route *spec)
{
    const struct connection_match *match = route->match.connection;
    if (match == NULL || takes_connection(lint->policy, match)) {
        return;
    }
    const char *reason = match->asks_certificate
                             ? "no certificate of a listener asks clients for theirs; write "
                               "client: optional or require beside it, with client_ca"
                         : match->scheme == SCHEME_MATCH_HTTPS ? "no listener has \"tls\""
                                                               : "each listener has \"tls\"";
    node_warn(lint->diags, spec->position.node, WARNING_UNREACHABLE_ROUTE,
              "route \"%.*s\" can never match: %s",
              SPAN_ARGS(lint_name_of_route(lint, route->index)), reason);
}

static bool is_of_certificate(const struct key_part *part)
{
    for (size_t i = 0; i < part->n_terms; i++) {
        if (KEY_SOURCE_ROWS[part->terms[i].source].origin != KEY_FROM_CERTIFICATE) {
            return false;
        }
    }
    return true;
}

void lint_unasked_certificates(struct lint *lint, const struct limit_rule *rule,
                               const struct spec_limit *spec)
{
    static const struct connection_match WITH_CERTIFICATE = {.asks_certificate = true};
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        if (is_of_certificate(&rule->key.parts[i]) &&
            !takes_connection(lint->policy, &WITH_CERTIFICATE)) {
            node_warn(lint->diags, spec->position.node, WARNING_NO_EFFECT,
                      "limit \"%.*s\" counts by certificates of clients, and no certificate of a "
                      "listener asks clients for theirs: each request lacks its key",
                      SPAN_ARGS(rule->name));
            return;
        }
    }
}
