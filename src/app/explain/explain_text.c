#include "app/explain/explain.h"

#include <inttypes.h>
#include <string.h>

enum {
    VALUE_BYTES_MAX = 1024, /* of one text from outside; the rest is cut */
    /* Routes whose path is another are told one by one while they are so few. */
    ROUTES_REPORTED_MAX = 20,
};

void explain_text_begin(FILE *out, const char *title)
{
    fprintf(out, "%-11s", title != NULL ? title : "");
}

void explain_text_put(FILE *out, struct span span)
{
    char buffer[4 * VALUE_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (span.len > VALUE_BYTES_MAX) {
        span.len = VALUE_BYTES_MAX;
    }
    text_add_printable(&text, span);
    fwrite(text.data, 1, text.len, out);
}

static void put_address(FILE *out, const struct address *address)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(address, &text);
    fwrite(text.data, 1, text.len, out);
}

/* A line of a column @width wide, and what is said of it. */
static void put_pair(FILE *out, struct span left, size_t width, const char *right)
{
    explain_text_begin(out, NULL);
    explain_text_put(out, left);
    fprintf(out, "%*s  %s\n", left.len < width ? (int)(width - left.len) : 0, "", right);
}

/* --- the connection --- */

static void put_list(const struct span *spans, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? ", " : "", out);
        explain_text_put(out, spans[i]);
    }
}

static void put_client_certificate(const struct given_connection *connection, FILE *out)
{
    const struct client_certificate *shown = connection->client.certificate;
    explain_text_begin(out, NULL);
    if (shown != NULL) {
        fputs("the client shows the certificate ", out);
        explain_text_put(out, shown->facts[CERTIFICATE_FINGERPRINT]);
    } else if (connection->given != NULL) {
        fputs("the client is not asked for its certificate: client is off", out);
    } else {
        fputs("the client shows no certificate", out);
    }
    fputc('\n', out);
}

static void put_connection(const struct given_connection *connection, FILE *out)
{
    explain_text_begin(out, "connection");
    fputs("TLS to ", out);
    explain_text_put(out, connection->listener->endpoint.text);
    if (connection->server_name.len > 0) {
        fputs(", SNI ", out);
        explain_text_put(out, connection->server_name);
        fputc('\n', out);
    } else {
        fputs(", no SNI\n", out);
    }
    if (connection->client.entry != NULL) {
        const struct tls_entry_section *entry =
            &connection->listener->tls->entries[connection->entry];
        explain_text_begin(out, NULL);
        fputs("served with ", out);
        put_list(entry->certs, entry->n_pairs, out);
        fputs(", for ", out);
        put_list(connection->client.entry->names, connection->client.entry->n_names, out);
        fputc('\n', out);
        put_client_certificate(connection, out);
    }
}

/* --- the request --- */

static void put_request(const struct explanation *explanation, FILE *out)
{
    const struct given_request *given = &explanation->given;
    explain_text_begin(out, "request");
    if (given->head.error.status != 0) {
        fputs("is not one that can be read\n", out);
        return;
    }
    explain_text_put(out, given->head.method);
    fputc(' ', out);
    explain_text_put(out, given->head.target.whole);
    fputs(", host ", out);
    explain_text_put(out, given->evaluation.view.host);
    fputs(given->is_http2 ? ", by HTTP/2\n" : "\n", out);
    if (given_request_has_path(given)) {
        explain_text_begin(out, "path");
        explain_text_put(out, given->evaluation.path.text);
        fputs(span_equals(given->evaluation.path.text, given->head.target.path)
                  ? "\n"
                  : "  (normalised: this is what routes and keys see)\n",
              out);
    }
}

/* --- the client --- */

static const char *hop_text(enum client_hop_kind kind)
{
    switch (kind) {
    case CLIENT_HOP_TRUSTED:
        return "one of trusted_proxies: the next to the left is looked at";
    case CLIENT_HOP_FOUND:
        return "not one of trusted_proxies: the client";
    case CLIENT_HOP_NO_ADDRESS:
        return "is no address: the connection's counts";
    case CLIENT_HOP_TOO_FAR:
        return "too many trusted ones: the connection's address counts";
    }
    return "";
}

static size_t width_of_hops(const struct client_walk *walk, size_t width)
{
    for (size_t i = 0; i < walk->n_hops; i++) {
        width = walk->hops[i].text.len > width ? walk->hops[i].text.len : width;
    }
    return width;
}

/* A field that names clients is ignored, as its sender is not trusted. */
static void put_forwarded_ignored(const struct given_request *given, FILE *out)
{
    static const enum field_id FIELDS[] = {FIELD_X_FORWARDED_FOR, FIELD_FORWARDED};
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
        if (head_has(&given->head, FIELDS[i])) {
            explain_text_begin(out, NULL);
            fprintf(out, "%.*s is ignored: ", SPAN_ARGS(field_name(FIELDS[i])));
            put_address(out, &given->peer);
            fprintf(out, " is not one of trusted_proxies%s\n",
                    address_is_near(&given->peer)
                        ? "; name it there if it is a proxy of yours"
                        : "; it may be a client, which can send anything");
            return;
        }
    }
}

static void put_walk(const struct explanation *explanation, FILE *out)
{
    const struct given_request *given = &explanation->given;
    const struct client_walk *walk = &explanation->walk;
    char buffer[ADDRESS_TEXT_MAX];
    char said[128];
    struct text peer = text_of(buffer, sizeof(buffer));
    address_write(&given->peer, &peer);
    const size_t width = width_of_hops(walk, peer.len);
    if (walk->n_hops == 0) {
        put_pair(out, text_span(&peer), width,
                 "connected, one of trusted_proxies; no field says for whom");
        return;
    }
    snprintf(said, sizeof(said), "connected, one of trusted_proxies: %.*s is read from its end",
             SPAN_ARGS(field_name(walk->field)));
    put_pair(out, text_span(&peer), width, said);
    for (size_t i = 0; i < walk->n_hops; i++) {
        put_pair(out, walk->hops[i].text, width, hop_text(walk->hops[i].kind));
    }
    if (walk->n_left > 0) {
        explain_text_begin(out, NULL);
        fprintf(out, "%zu more to the left: not looked at\n", walk->n_left);
    } else if (walk->hops[walk->n_hops - 1].kind == CLIENT_HOP_TRUSTED) {
        explain_text_begin(out, NULL);
        fputs("all are trusted: the one farthest away is the client\n", out);
    }
    if (walk->field == FIELD_X_FORWARDED_FOR && head_has(&given->head, FIELD_FORWARDED)) {
        explain_text_begin(out, NULL);
        fputs("Forwarded is not read: X-Forwarded-For stands beside it\n", out);
    }
}

/* What the databases know of the client, as far as the policy reads it. */
static void put_geo(const struct explanation *explanation, FILE *out)
{
    const unsigned read = explanation->policy->geo.facts;
    const struct geo_facts *facts = &explanation->given.evaluation.view.geo;
    if ((read & GEO_COUNTRY) != 0) {
        const struct span country = geo_country(facts);
        fprintf(out, ", country %.*s", SPAN_ARGS(country.len > 0 ? country : SPAN("unknown")));
    }
    if ((read & GEO_ASN) != 0 && facts->asn != 0) {
        fprintf(out, ", AS%" PRIu32, facts->asn);
    } else if ((read & GEO_ASN) != 0) {
        fputs(", AS unknown", out);
    }
}

static void put_client(const struct explanation *explanation, FILE *out)
{
    explain_text_begin(out, "client");
    put_address(out, &explanation->given.evaluation.view.client);
    put_geo(explanation, out);
    fputc('\n', out);
    if (explanation->walk.peer_is_trusted) {
        put_walk(explanation, out);
    } else {
        put_forwarded_ignored(&explanation->given, out);
    }
}

/* --- the route --- */

static void put_separator(size_t i, size_t n, FILE *out)
{
    fputs(i == 0 ? "" : i + 1 == n ? " nor " : ", ", out);
}

static void put_spans(const struct span *spans, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        put_separator(i, n, out);
        explain_text_put(out, spans[i]);
    }
}

static void put_paths(const struct route_match *match, FILE *out)
{
    for (size_t i = 0; i < match->n_paths; i++) {
        char buffer[VALUE_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        matcher_write_path(&match->paths[i], &text);
        put_separator(i, match->n_paths, out);
        explain_text_put(out, text_span(&text));
    }
}

/* The value that a field or a parameter must have may be a secret. */
static void put_condition(const char *what, const struct value_match *condition, FILE *out)
{
    static const char *const FAULTS[] = {
        [VALUE_MATCH_EQUALS] = " does not have the value that it asks for",
        [VALUE_MATCH_PRESENT] = " is not there",
        [VALUE_MATCH_ABSENT] = " is there",
        [VALUE_MATCH_GRPC] = " is not that of gRPC",
    };
    fprintf(out, "no: the %s ", what);
    explain_text_put(out, condition->name);
    fputs(FAULTS[condition->kind], out);
}

static void put_mismatch(const struct route *route, const struct explained_route *explained,
                         FILE *out)
{
    switch (explained->part) {
    case MATCH_PATH:
        fputs("no: the path is not ", out);
        put_paths(&route->match, out);
        break;
    case MATCH_METHOD:
        fputs("no: the method is not ", out);
        put_spans(route->match.methods, route->match.n_methods, out);
        break;
    case MATCH_HOST:
        fputs("no: the host is not ", out);
        put_spans(route->match.hosts, route->match.n_hosts, out);
        break;
    case MATCH_CLIENT:
        fputs("no: the client is in none of its prefixes", out);
        break;
    case MATCH_COUNTRY:
        fputs("no: the client is in none of its countries", out);
        break;
    case MATCH_ASN:
        fputs("no: the client is in none of its autonomous systems", out);
        break;
    case MATCH_SCHEME:
        fprintf(out, "no: the connection is %s TLS",
                route->match.connection->scheme == SCHEME_MATCH_HTTPS ? "without" : "over");
        break;
    case MATCH_CERTIFICATE:
        fputs("no: the client has shown no such certificate", out);
        break;
    case MATCH_FIELD:
        put_condition("field", explained->condition, out);
        break;
    case MATCH_PARAMETER:
        put_condition("parameter", explained->condition, out);
        break;
    case MATCH_CLAIM:
        fputs("no: no token with the claims that it asks for: see --claim", out);
        break;
    case MATCH_ALL:
        fputs("yes", out);
        break;
    }
    fputc('\n', out);
}

/* Whether the route of index @i is told by itself. */
static bool is_reported(const struct explanation *explanation, size_t i)
{
    return explanation->n_routes <= ROUTES_REPORTED_MAX ||
           explanation->routes[i].part != MATCH_PATH;
}

static int width_of_routes(const struct explanation *explanation)
{
    size_t width = 0;
    for (size_t i = 0; i < explanation->n_routes; i++) {
        const size_t len = explanation->policy->routes[i].name.len;
        width = is_reported(explanation, i) && len > width ? len : width;
    }
    return (int)width;
}

static void put_routes(const struct explanation *explanation, FILE *out)
{
    const struct policy *policy = explanation->policy;
    const int width = width_of_routes(explanation);
    size_t n_other_paths = 0;
    for (size_t i = 0; i < explanation->n_routes; i++) {
        const struct span name = policy->routes[i].name;
        if (!is_reported(explanation, i)) {
            n_other_paths++;
            continue;
        }
        explain_text_begin(out, NULL);
        fprintf(out, "%2zu %.*s%*s  ", i + 1, SPAN_ARGS(name), width - (int)name.len, "");
        put_mismatch(&policy->routes[i], &explanation->routes[i], out);
    }
    if (n_other_paths > 0) {
        explain_text_begin(out, NULL);
        fprintf(out, "%zu others: their path is another\n", n_other_paths);
    }
}

static void put_route(const struct explanation *explanation, FILE *out)
{
    const struct route *route = explanation->given.evaluation.route;
    explain_text_begin(out, "route");
    if (route != NULL) {
        fprintf(out, "%.*s\n", SPAN_ARGS(route->name));
    } else {
        fputs(given_request_has_path(&explanation->given) ? "none\n"
                                                          : "none: the request is refused\n",
              out);
    }
    put_routes(explanation, out);
}

/* --- where it goes --- */

static void put_servers(const struct upstream_spec *upstream, FILE *out)
{
    for (size_t i = 0; i < upstream->n_servers; i++) {
        fputs(i > 0 ? ", " : "", out);
        explain_text_put(out, upstream->servers[i].endpoint.text);
    }
}

static void put_host(const struct upstream_spec *upstream, FILE *out)
{
    explain_text_begin(out, NULL);
    switch (upstream->host) {
    case UPSTREAM_HOST_PRESERVE:
        fputs("the Host is the client's\n", out);
        break;
    case UPSTREAM_HOST_SERVER:
        fputs("the Host is the server's\n", out);
        break;
    case UPSTREAM_HOST_NAME:
        fputs("the Host is ", out);
        explain_text_put(out, upstream->host_name);
        fputc('\n', out);
        break;
    }
}

/* One more name behind @verb, or the first. */
static void put_name(struct span name, const char *what, const char *verb, bool *is_first,
                     FILE *out)
{
    if (*is_first) {
        explain_text_begin(out, NULL);
        fprintf(out, "%s %s ", what, verb);
    } else {
        fputs(", ", out);
    }
    explain_text_put(out, name);
    *is_first = false;
}

/* Names alone: values may be secrets. */
static void put_edits(const char *what, const struct field_edits *edits, FILE *out)
{
    bool is_first = true;
    for (size_t i = 0; i < edits->n_set; i++) {
        put_name(edits->set[i].name, what, "sets", &is_first, out);
    }
    fputs(is_first ? "" : "\n", out);
    is_first = true;
    for (enum field_id id = FIELD_OTHER + 1; id < FIELD_ID_COUNT; id++) {
        if (field_edits_removes(edits, field_name(id))) {
            put_name(field_name(id), what, "removes", &is_first, out);
        }
    }
    for (size_t i = 0; i < edits->n_names; i++) {
        if (field_edits_removes(edits, edits->names[i])) {
            put_name(edits->names[i], what, "removes", &is_first, out);
        }
    }
    fputs(is_first ? "" : "\n", out);
}

static void put_upstream(const struct explanation *explanation, FILE *out)
{
    const struct given_request *given = &explanation->given;
    const struct span path = given->evaluation.upstream_path;
    const struct route *route = explanation->given.evaluation.route;
    explain_text_begin(out, "upstream");
    fprintf(out, "%.*s: ", SPAN_ARGS(route->upstream->name));
    put_servers(route->upstream, out);
    fputc('\n', out);
    put_host(route->upstream, out);
    if (route->edits == NULL) {
        return;
    }
    if (!span_equals(path, given->head.target.path)) {
        explain_text_begin(out, NULL);
        fputs("the path there is ", out);
        explain_text_put(out, path);
        fputs(" (strip_prefix)\n", out);
    }
    put_edits("the request", &route->edits->request, out);
}

static void put_destination(const struct explanation *explanation, FILE *out)
{
    const struct route *route = explanation->given.evaluation.route;
    if (route->upstream != NULL) {
        put_upstream(explanation, out);
    }
    if (route->edits != NULL) {
        put_edits("the response", &route->edits->response, out);
    }
}

/* --- how it ends --- */

static void put_denial(const struct explanation *explanation, FILE *out)
{
    const struct explained_answer *answer = &explanation->answer;
    const struct charge *denied = admission_first_denied(&explanation->admission);
    const struct span denier =
        denied != NULL ? admission_denier(&explanation->admission, denied) : SPAN("");
    fprintf(out, "%u: limit %.*s %s", answer->status, SPAN_ARGS(denier),
            explanation->given.evaluation.result == EVALUATION_BANNED ? "bans its key"
                                                                      : "denies it");
    if (answer->has_retry_after) {
        fprintf(out, "; Retry-After: %" PRIu64, answer->retry_after_s);
    }
}

static void put_hold(uint64_t hold_us, FILE *out)
{
    char buffer[32];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_time(&text, hold_us);
    fprintf(out, ", held for %.*s first", SPAN_ARGS(text_span(&text)));
}

static void put_answer(const struct explanation *explanation, FILE *out)
{
    const struct explained_answer *answer = &explanation->answer;
    const struct evaluation *evaluation = &explanation->given.evaluation;
    explain_text_begin(out, "answer");
    if (answer->reason != NULL) {
        fprintf(out, "%u: %s", answer->status, answer->reason);
    } else if (answer->is_refusal) {
        put_denial(explanation, out);
    } else if (answer->status != 0) {
        const char *by = evaluation->is_preflight             ? "its cors: a preflight"
                         : evaluation->route->respond != NULL ? "the route itself"
                                                              : "its Max-Forwards it ends here";
        fprintf(out, "%u, by %s", answer->status, by);
    } else {
        fputs("the upstream's", out);
    }
    if (explanation_grpc_status(explanation) != GRPC_NONE) {
        fprintf(out, "; grpc-status: %u", explanation_grpc_status(explanation));
    }
    if (answer->hold_us > 0) {
        put_hold(answer->hold_us, out);
    }
    fputs(evaluation->result == EVALUATION_TO_DECIDE && explanation->state != STATE_KNOWN &&
                  answer->reason == evaluation->reason
              ? ", if its limits allow it\n"
              : "\n",
          out);
}

void explain_text_write(const struct explanation *explanation, FILE *out)
{
    const struct given_request *given = &explanation->given;
    if (given->connection.listener != NULL) {
        put_connection(&given->connection, out);
    }
    const char *what;
    const char *fault = given_request_fault(given, &what);
    if (fault != NULL) {
        explain_text_begin(out, "answer");
        fprintf(out, "none, as %s: %s\n", what, fault);
        return;
    }
    put_request(explanation, out);
    if (given->head.error.status == 0) {
        put_client(explanation, out);
        put_route(explanation, out);
    }
    if (given->evaluation.route != NULL) {
        explain_text_limits(explanation, out);
        if (!given->evaluation.is_preflight) {
            put_destination(explanation, out);
        }
    }
    if (explanation->proxy_state[0] != '\0') {
        explain_text_begin(out, "proxy");
        explain_text_put(out, span_of_text(explanation->proxy_state));
        fputc('\n', out);
    }
    put_answer(explanation, out);
}
