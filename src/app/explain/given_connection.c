#include "app/explain/given_connection.h"

#include <stdio.h>
#include <string.h>

#include "app/explain/given_request.h"
#include "app/load.h"
#include "tls/server_names.h"

static bool is_scheme(const struct given_options *options, const char *scheme)
{
    return options->scheme != NULL && strcmp(options->scheme, scheme) == 0;
}

/* Whether an option says that the connection is over TLS. */
static bool is_said(const struct given_options *options)
{
    return is_scheme(options, "https") || options->sni != NULL || options->client_cert != NULL;
}

static bool is_wanted(const char *url, const struct given_options *options)
{
    return is_said(options) ||
           (options->scheme == NULL && span_starts_with(span_of_text(url), SPAN("https://")));
}

enum status given_connection_load_policy(const char *path, const char *url,
                                         const struct given_options *options,
                                         struct policy **policy)
{
    return is_wanted(url, options) ? load_policy_with_files(path, policy)
                                   : load_policy(path, policy);
}

/* The first listener with TLS that has a certificate for @name, or the first with TLS. */
static const struct listener_section *find_listener(const struct policy *policy, struct span name)
{
    const struct listener_section *first = NULL;
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const struct listener_section *listener = &policy->listeners[i];
        if (listener->tls_config == NULL) {
            continue;
        }
        if (server_names_find(listener->tls_config->names, name) != SERVER_NAMES_NONE) {
            return listener;
        }
        first = first != NULL ? first : listener;
    }
    return first;
}

/* Clients ask for the host of the URL, unless it is an address. */
static void find_server_name(struct given_connection *connection, struct span host,
                             const struct given_options *options)
{
    struct span name = options->sni != NULL ? span_of_text(options->sni)
                                            : target_normalise_host(host, connection->name_buffer);
    if (server_names_normalise(name, connection->name_buffer, &name)) {
        connection->server_name = name;
    }
}

static void choose(struct given_connection *connection)
{
    const struct tls_server_config *config = connection->listener->tls_config;
    const struct tls_entry_config *entry =
        tls_server_config_choose(config, connection->server_name);
    if (entry == NULL) {
        connection->fault = "no certificate serves the name, and unknown_name is refuse";
        return;
    }
    connection->entry = (size_t)(entry - config->entries);
    connection->client = (struct tls_client){
        .config = config,
        .entry = entry,
        .certificate = entry->client_rule != CLIENT_CERTIFICATE_OFF ? connection->given : NULL,
    };
    if (entry->client_rule == CLIENT_CERTIFICATE_REQUIRE && connection->given == NULL) {
        connection->fault = "the client sends no certificate, and client is require";
    }
}

const char *given_connection_read(struct given_connection *connection, const struct policy *policy,
                                  const char *url, struct span host,
                                  const struct given_options *options)
{
    struct certificate_problem problem;
    memset(connection, 0, sizeof(*connection));
    if (options->scheme != NULL && !is_scheme(options, "http") && !is_scheme(options, "https")) {
        return "--scheme is http or https";
    }
    if (is_scheme(options, "http") && (options->sni != NULL || options->client_cert != NULL)) {
        return "--sni and --client-cert are of https";
    }
    if (!is_wanted(url, options)) {
        return NULL;
    }
    find_server_name(connection, host, options);
    if (options->sni != NULL && options->sni[0] != '\0' && connection->server_name.len == 0) {
        return "--sni wants a host name, or nothing for a client that asks for none";
    }
    connection->listener = find_listener(policy, connection->server_name);
    if (connection->listener == NULL) {
        return is_said(options) ? "no listener of the policy has tls" : NULL;
    }
    if (options->client_cert != NULL &&
        client_certificate_load(options->client_cert, &connection->given, &problem) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", options->client_cert, problem.text);
        return "--client-cert wants a certificate in PEM";
    }
    choose(connection);
    return NULL;
}

void given_connection_close(struct given_connection *connection)
{
    client_certificate_free(connection->given);
}
