/* Names that certificates are for and that no route has; servers named by their address; routes and
 * limits for connections that no listener takes, or by names that several authorities may give. */

#include <string.h>

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

/* --- names in certificates of clients --- */

/* Entries with different rules for clients' certificates. */
struct entries {
    const struct tls_entry_config **items;
    size_t n;
};

static void add_entry(struct entries *entries, const struct tls_entry_config *entry)
{
    for (size_t i = 0; i < entries->n; i++) {
        if (memcmp(entries->items[i]->client_digest, entry->client_digest, TLS_DIGEST_BYTES) == 0) {
            return;
        }
    }
    if (entry->n_client_cas > 0) {
        entries->items[entries->n++] = entry;
    }
}

/* Add the entries by whose rules a request for @host, of a route, may come: see
 * tls_server_allows_host(). */
static void add_host(struct entries *entries, const struct tls_server_config *config,
                     struct span host)
{
    const bool is_wild = host.data[0] == '*';
    const size_t at = is_wild ? SERVER_NAMES_NONE : server_names_find(config->names, host);
    if (at != SERVER_NAMES_NONE) {
        add_entry(entries, &config->entries[at]);
        return;
    }
    const bool is_any = config->entries[0].client_rule == CLIENT_CERTIFICATE_OFF;
    for (size_t i = 0; i < config->n_entries; i++) {
        bool is_added = is_any || i == 0;
        for (size_t j = 0; is_wild && !is_added && j < config->entries[i].n_names; j++) {
            is_added = is_met(config->entries[i].names[j], host);
        }
        if (is_added) {
            add_entry(entries, &config->entries[i]);
        }
    }
}

/* Add the entries by whose rules a request for @route may come; NULL: for any. */
static void add_route(struct entries *entries, const struct policy *policy,
                      const struct route *route)
{
    const size_t n_hosts = route != NULL ? route->match.n_hosts : 0;
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const struct tls_server_config *config = policy->listeners[i].tls_config;
        for (size_t j = 0; config != NULL && j < n_hosts; j++) {
            add_host(entries, config, route->match.hosts[j]);
        }
        for (size_t j = 0; config != NULL && n_hosts == 0 && j < config->n_entries; j++) {
            add_entry(entries, &config->entries[j]);
        }
    }
}

static bool have_several_authorities(struct lint *lint,
                                     const struct tls_entry_config *const *entries, size_t n)
{
    size_t n_cas = 0;
    for (size_t i = 0; i < n; i++) {
        n_cas += entries[i]->n_client_cas;
    }
    struct span *cas = arena_calloc(lint->scratch, n_cas + 1, sizeof(*cas));
    lint->no_memory = lint->no_memory || cas == NULL;
    if (cas == NULL) {
        return false;
    }
    n_cas = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < entries[i]->n_client_cas; j++) {
            cas[n_cas++] = entries[i]->client_cas[j];
        }
    }
    return certificate_are_of_several(cas, n_cas);
}

static bool reads_certificate_name(const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            const struct key_source_row *row = &KEY_SOURCE_ROWS[key->parts[i].terms[j].source];
            if (row->origin == KEY_FROM_CERTIFICATE && row->detail != CERTIFICATE_FINGERPRINT) {
                return true;
            }
        }
    }
    return false;
}

/* Whether a part of @key is @source and nothing else. */
static bool has_part(const struct key *key, enum key_source source)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        if (key->parts[i].n_terms == 1 && key->parts[i].terms[0].source == source) {
            return true;
        }
    }
    return false;
}

static bool counts_any_authority(struct lint *lint, const struct limit_rule *rule,
                                 struct entries *entries)
{
    if (!reads_certificate_name(&rule->key) || has_part(&rule->key, KEY_CLIENT_CERT)) {
        return false;
    }
    entries->n = 0;
    for (size_t i = 0; i < lint->policy->n_routes; i++) {
        const struct route *route = &lint->policy->routes[i];
        for (size_t j = 0; j < route->n_rules; j++) {
            if (route->rules[j] == rule) {
                add_route(entries, lint->policy, route);
            }
        }
    }
    if (!has_part(&rule->key, KEY_HOST) && !has_part(&rule->key, KEY_ROUTE)) {
        return have_several_authorities(lint, entries->items, entries->n);
    }
    /* Hosts that count apart may have an authority each. */
    for (size_t i = 0; i < entries->n; i++) {
        if (have_several_authorities(lint, &entries->items[i], 1)) {
            return true;
        }
    }
    return false;
}

static bool matches_any_authority(struct lint *lint, const struct route *route,
                                  struct entries *entries)
{
    const struct connection_match *match = route->match.connection;
    if (match == NULL || match->facts[CERTIFICATE_FINGERPRINT].n_values > 0 ||
        (match->facts[CERTIFICATE_DNS].n_values == 0 &&
         match->facts[CERTIFICATE_URI].n_values == 0)) {
        return false;
    }
    entries->n = 0;
    add_route(entries, lint->policy, route);
    return have_several_authorities(lint, entries->items, entries->n);
}

void lint_any_authority(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    struct entries entries = {.n = 0};
    size_t n_entries = 1;
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const struct tls_server_config *config = policy->listeners[i].tls_config;
        n_entries += config != NULL ? config->n_entries : 0;
    }
    entries.items = arena_calloc(lint->scratch, n_entries, sizeof(struct tls_entry_config *));
    lint->no_memory = lint->no_memory || entries.items == NULL;
    if (entries.items == NULL) {
        return;
    }
    add_route(&entries, policy, NULL);
    if (!have_several_authorities(lint, entries.items, entries.n)) {
        return;
    }
    for (size_t i = 0; i < policy->n_rules; i++) {
        if (counts_any_authority(lint, &policy->rules[i], &entries)) {
            node_warn(lint->diags, lint->limits[i].key.node, WARNING_ANY_AUTHORITY,
                      "limit \"%.*s\" counts by a name in clients' certificates, and several "
                      "authorities of client_ca may give the same: count by client.cert, or give "
                      "each authority a host, and a route and limit of its own",
                      SPAN_ARGS(policy->rules[i].name));
        }
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (matches_any_authority(lint, &policy->routes[i], &entries)) {
            node_warn(lint->diags, lint->routes[i].position.node, WARNING_ANY_AUTHORITY,
                      "route \"%.*s\" matches by a name in clients' certificates, and several "
                      "authorities of client_ca may give the same: match by "
                      "client_cert.fingerprint, or give each authority a host and a route of its "
                      "own",
                      SPAN_ARGS(lint_name_of_route(lint, i)));
        }
    }
}
