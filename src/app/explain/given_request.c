#include "app/explain/given_request.h"

#include <stdio.h>
#include <string.h>

#include "app/command.h"
#include "base/compiler.h"
#include "base/text.h"
#include "http/head_builder.h"
#include "tls/certificate.h"

enum { PROBLEM_BYTES_MAX = 512 };

/* --- the connection --- */

static bool is_scheme(const struct given_options *options, const char *scheme)
{
    return options->scheme != NULL && strcmp(options->scheme, scheme) == 0;
}

/* Whether an option says that the connection is over TLS. */
static bool is_said(const struct given_options *options)
{
    return is_scheme(options, "https") || options->sni != NULL || options->ja4 != NULL ||
           options->client_cert != NULL;
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

static const char *given_connection_read(struct given_connection *connection,
                                         const struct policy *policy, const char *url,
                                         struct span host, const struct given_options *options)
{
    struct certificate_problem problem;
    memset(connection, 0, sizeof(*connection));
    if (options->scheme != NULL && !is_scheme(options, "http") && !is_scheme(options, "https")) {
        return "--scheme is http or https";
    }
    if (is_scheme(options, "http") &&
        (options->sni != NULL || options->ja4 != NULL || options->client_cert != NULL)) {
        return "--sni, --ja4 and --client-cert are of https";
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
    connection->client.ja4 = options->ja4 != NULL ? span_of_text(options->ja4) : SPAN("");
    return NULL;
}

/* Whether a listener, that with TLS or one of the plain ones, takes the version. */
static bool takes_http2(const struct given_connection *connection, const struct policy *policy)
{
    bool takes = connection->listener != NULL && connection->listener->versions & HTTP_VERSION_2;
    for (size_t i = 0; i < policy->n_listeners && connection->listener == NULL; i++) {
        const struct listener_section *listener = &policy->listeners[i];
        takes = takes || (listener->tls == NULL && listener->versions & HTTP_VERSION_2);
    }
    return takes;
}

static size_t authority_len(struct span span)
{
    size_t len = 0;
    while (len < span.len && span.data[len] != '/' && span.data[len] != '?') {
        len++;
    }
    return len;
}

/* Split "http://host/path" into the host and what a client would send as the target, which lacks
 * its "/" where the URL does. */
static void split_url(struct span url, struct span *host, struct span *target)
{
    static const struct span SCHEMES[] = {{"http://", 7}, {"https://", 8}};
    *host = SPAN("localhost");
    *target = url;
    for (size_t i = 0; i < ARRAY_LEN(SCHEMES); i++) {
        if (span_starts_with(url, SCHEMES[i])) {
            struct span rest = span_of(url.data + SCHEMES[i].len, url.len - SCHEMES[i].len);
            rest.len = span_find(rest, '#');
            const size_t len = authority_len(rest);
            *host = span_of(rest.data, len);
            *target = span_of(rest.data + len, rest.len - len);
        }
    }
}

/* A Host of the caller's own takes the place of the URL's. */
static bool has_host(const struct given_options *options)
{
    for (size_t i = 0; i < options->n_fields; i++) {
        const char *field = options->fields[i];
        if (span_equals_ignore_case(span_of(field, strcspn(field, ":")), SPAN("host"))) {
            return true;
        }
    }
    return false;
}

static void begin_head(struct text *text, const char *method, const char *url, bool needs_host)
{
    struct span host;
    struct span target;
    split_url(span_of_text(url), &host, &target);
    text_add(text, span_of_text(method));
    text_add_char(text, ' ');
    if (target.data != url && !span_starts_with(target, SPAN("/"))) {
        text_add_char(text, '/');
    }
    text_add(text, target);
    text_add_literal(text, " HTTP/1.1\r\n");
    if (needs_host) {
        text_add_literal(text, "Host: ");
        text_add(text, host);
        text_add_literal(text, "\r\n");
    }
}

bool given_options_add_field(void *options, const char *field)
{
    struct given_options *given = options;
    if (given->n_fields == ARRAY_LEN(given->fields)) {
        fputs("sluice: there are too many header fields\n", stderr);
        return false;
    }
    given->fields[given->n_fields++] = field;
    return true;
}

bool given_options_add_claim(void *options, const char *claim)
{
    struct given_options *given = options;
    if (given->n_claims == ARRAY_LEN(given->claims)) {
        fputs("sluice: there are too many claims\n", stderr);
        return false;
    }
    given->claims[given->n_claims++] = claim;
    return true;
}

/* The first `=` of @claim that is not in quotes, or its end. */
static size_t find_equals(struct span claim)
{
    bool is_quoted = false;
    size_t at = 0;
    while (at < claim.len && (is_quoted || claim.data[at] != '=')) {
        is_quoted = is_quoted != (claim.data[at] == '"');
        at += is_quoted && claim.data[at] == '\\' && at + 1 < claim.len ? 2 : 1;
    }
    return at;
}

/* Several values of one name stand in a row, whatever is between them on the command line. Returns
 * the fault. */
static const char *take_claims(struct given_request *given, const struct given_options *options)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct jwt_path paths[JWT_CLAIMS_MAX];
    size_t n_values = 0;
    for (size_t i = 0; i < options->n_claims; i++) {
        struct text problem = text_of(buffer, sizeof(buffer));
        const struct span claim = span_of_text(options->claims[i]);
        if (!jwt_path_parse(span_of(claim.data, find_equals(claim)), &given->arena, &paths[i],
                            &problem) ||
            find_equals(claim) + 1 >= claim.len) {
            return "--claim wants NAME=VALUE, as sub=alice";
        }
    }
    given->token.claims = given->claims;
    for (size_t i = 0; i < options->n_claims; i++) {
        struct given_claim *claim = &given->claims[given->token.n_claims];
        bool is_taken = false;
        for (size_t j = 0; j < given->token.n_claims; j++) {
            is_taken = is_taken || span_equals(given->claims[j].path.text, paths[i].text);
        }
        if (is_taken) {
            continue;
        }
        *claim = (struct given_claim){.path = paths[i], .values = &given->values[n_values]};
        for (size_t j = i; j < options->n_claims; j++) {
            const struct span text = span_of_text(options->claims[j]);
            const size_t at = find_equals(text) + 1;
            if (span_equals(paths[j].text, paths[i].text)) {
                given->values[n_values++] = span_of(text.data + at, text.len - at);
                claim->n_values++;
            }
        }
        claim->is_array = claim->n_values > 1;
        given->token.n_claims++;
    }
    return NULL;
}

/* Returns the fault. */
static const char *take_options(struct given_request *given, struct text *text,
                                const struct given_options *options)
{
    for (size_t i = 0; i < options->n_fields; i++) {
        text_add(text, span_of_text(options->fields[i]));
        text_add_literal(text, "\r\n");
    }
    text_add_literal(text, "\r\n");
    given->own_name = span_of_text(options->via != NULL ? options->via : "");
    const char *from = options->from != NULL ? options->from : "127.0.0.1";
    if (strcmp(from, "unix") == 0) {
        given->peer = (struct address){.family = ADDRESS_NONE};
    } else if (!address_parse(span_of_text(from), &given->peer)) {
        return "--from wants an address, or unix";
    }
    return text->truncated ? "the request is too large" : NULL;
}

/* The fields' number and bytes are bounded as the policy says. Returns what is
 * wrong with the arguments. */
static const char *parse(struct given_request *given, const struct policy *policy,
                         struct span bytes)
{
    struct head_parser parser = {
        .fields = given->fields,
        .n_fields_max = policy->max.headers,
        .head_bytes_max = policy->max.head_bytes,
    };
    size_t consumed;
    switch (head_parse_request(&parser, bytes, &given->head, &consumed)) {
    case PARSE_DONE:
        return consumed == bytes.len ? NULL : "a field holds an empty line";
    case PARSE_PARTIAL:
        return "the request is not whole";
    case PARSE_BAD:
        break;
    }
    return NULL;
}

/* Split "NAME: VALUE". */
static struct field field_of(const char *text)
{
    const struct span field = span_of_text(text);
    const size_t colon = span_find(field, ':');
    const size_t value = colon < field.len ? colon + 1 : field.len;
    return (struct field){
        .name = span_of(field.data, colon),
        .value = span_trim(span_of(field.data + value, field.len - value)),
    };
}

/* As parse(), by HTTP/2. */
static const char *build(struct given_request *given, const struct policy *policy,
                         const char *method, const char *url, const struct given_options *options)
{
    struct field fields[HEAD_FIELDS_MAX];
    char path[TARGET_BYTES_MAX + 2];
    struct text text = text_of(path, sizeof(path));
    struct described_request request = {
        .method = span_of_text(method),
        .scheme = is_wanted(url, options) ? SPAN("https") : SPAN("http"),
        .fields = fields,
        .n_fields = options->n_fields,
    };
    struct head_builder builder = {
        .fields = given->fields,
        .n_fields_max = policy->max.headers,
        .bytes = given->bytes,
        .capacity = sizeof(given->bytes),
        .head_bytes_max = policy->max.head_bytes,
    };
    struct span target;
    split_url(span_of_text(url), &request.host, &target);
    text_add(&text,
             target.data != url && !span_starts_with(target, SPAN("/")) ? SPAN("/") : SPAN(""));
    text_add(&text, target);
    request.path = text_span(&text);
    for (size_t i = 0; i < options->n_fields; i++) {
        fields[i] = field_of(options->fields[i]);
    }
    if (head_builder_describe(&builder, &request, &given->head) == HEAD_MALFORMED) {
        given->reset = given->head.error.reason;
    }
    return text.truncated ? "the request is too large" : NULL;
}

enum evaluation_result given_request_evaluate(struct given_request *given,
                                              const struct admission_context *admission_context,
                                              struct admission *admission, struct arena *arena)
{
    const struct evaluation_context context = {
        .admission = *admission_context,
        .own_name = given->own_name,
        .tls = given->connection.listener != NULL ? &given->connection.client : NULL,
        .takes_given_token = true,
        .given_token = given->token.n_claims > 0 ? &given->token : NULL,
    };
    given->evaluation.admission = admission;
    given->evaluation.arena = arena;
    return request_evaluate(&context, &given->head, &given->peer, &given->evaluation);
}

const char *given_request_read(struct given_request *given, const struct policy *policy,
                               const char *method, const char *url,
                               const struct given_options *options)
{
    struct text text = text_of(given->bytes, sizeof(given->bytes));
    struct span host;
    struct span target;
    memset(&given->evaluation, 0, sizeof(given->evaluation));
    given->token.n_claims = 0;
    arena_init(&given->arena, NULL, 0);
    begin_head(&text, method, url, !has_host(options));
    const char *fault = take_options(given, &text, options);
    if (fault == NULL) {
        fault = take_claims(given, options);
    }
    given->is_http2 = options->is_http2;
    given->reset = NULL;
    if (fault == NULL) {
        fault = options->is_http2 ? build(given, policy, method, url, options)
                                  : parse(given, policy, text_span(&text));
    }
    if (fault != NULL) {
        return fault;
    }
    split_url(span_of_text(url), &host, &target);
    if (target.data == url) {
        host = given->head.host;
    }
    fault = given_connection_read(&given->connection, policy, url, host, options);
    if (fault == NULL && options->is_http2 && !takes_http2(&given->connection, policy)) {
        return "no listener of the policy takes HTTP/2 that way: see listen.http";
    }
    return fault;
}

void given_request_close(struct given_request *given)
{
    arena_reset(&given->arena);
    client_certificate_free(given->connection.given);
}
