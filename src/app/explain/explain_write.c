/* The writer of an explanation: each function reports some facts. */

#include "app/explain/explain_output.h"

#include <inttypes.h>
#include <string.h>

#include "app/explain/explain.h"
#include "policy/read_fields.h"

/* Routes whose path is another are told one by one while they are so few. */
enum { ROUTES_REPORTED_MAX = 20 };

/* --- the connection --- */

static void report_certificates(struct explain_output *out,
                                const struct given_connection *connection, json_t *tls)
{
    static const char *const RULES[] = {"off", "optional", "require"};
    const struct tls_client *client = &connection->client;
    const struct tls_entry_section *entry = &connection->listener->tls->entries[connection->entry];
    const struct span shown = client->certificate != NULL
                                  ? client->certificate->facts[CERTIFICATE_FINGERPRINT]
                                  : SPAN("");
    explain_set_list(out, tls, "certificates", entry->certs, entry->n_pairs);
    explain_set_list(out, tls, "names", client->entry->names, client->entry->n_names);
    explain_set(out, tls, "client", json_string(RULES[client->entry->client_rule]));
    explain_set(out, tls, "client_cert", explain_json_or_null(shown));
    explain_line(out, "", "served with ");
    explain_say_list(out, entry->certs, entry->n_pairs, ", ");
    explain_say(out, ", for ");
    explain_say_list(out, client->entry->names, client->entry->n_names, ", ");
    explain_line(out, "", "the client %s%.*s",
                 client->certificate != NULL ? "shows the certificate "
                 : connection->given != NULL ? "is not asked for its certificate: client is off"
                                             : "shows no certificate",
                 EXPLAIN_VALUE(shown));
}

static void report_connection(struct explain_output *out)
{
    const struct given_connection *connection = &out->explanation->given.connection;
    if (connection->listener == NULL) {
        explain_set(out, out->root, "tls", json_null());
        return;
    }
    json_t *tls = explain_set(out, out->root, "tls", json_object());
    explain_set(out, tls, "listener", json_of_bytes(connection->listener->endpoint.text));
    explain_set(out, tls, "sni", explain_json_or_null(connection->server_name));
    explain_line(out, "connection", "TLS to %.*s, %s%.*s",
                 EXPLAIN_VALUE(connection->listener->endpoint.text),
                 connection->server_name.len > 0 ? "SNI " : "no SNI",
                 EXPLAIN_VALUE(connection->server_name));
    if (connection->fault != NULL) {
        explain_set(out, tls, "fault", json_string(connection->fault));
    }
    if (connection->client.entry != NULL) {
        report_certificates(out, connection, tls);
    }
}

/* --- the request --- */

static void report_request(struct explain_output *out)
{
    const struct given_request *given = &out->explanation->given;
    const struct span host = given->evaluation.view.host;
    const struct span path = given->evaluation.path.text;
    json_t *request = explain_set(out, out->root, "request", json_object());
    explain_set(out, request, "version", json_string(given->is_http2 ? "2" : "1.1"));
    explain_set(out, request, "method", json_of_bytes(given->head.method));
    explain_set(out, request, "target", json_of_bytes(given->head.target.whole));
    explain_set(out, request, "host", json_of_bytes(host));
    explain_set(out, request, "path",
                given_request_has_path(given) ? json_of_bytes(path) : json_null());
    explain_line(out, "request", "%.*s %.*s, host %.*s%s", EXPLAIN_VALUE(given->head.method),
                 EXPLAIN_VALUE(given->head.target.whole), EXPLAIN_VALUE(host),
                 given->is_http2 ? ", by HTTP/2" : "");
    if (given_request_has_path(given)) {
        explain_line(out, "path", "%.*s%s", EXPLAIN_VALUE(path),
                     span_equals(path, given->head.target.path)
                         ? ""
                         : "  (normalised: this is what routes and keys see)");
    }
}

/* --- the client --- */

/* Whether the field is ignored, as its sender is not trusted: it names clients, or the policy reads
 * it. */
static bool is_ignored(const struct explain_output *out, const struct field *field)
{
    return field->id == FIELD_X_FORWARDED_FOR || field->id == FIELD_FORWARDED ||
           (field_needs_trust(field->id, field->name) &&
            read_fields_have(&out->explanation->policy->read_fields, field->name));
}

static void report_ignored(struct explain_output *out, json_t *ignored)
{
    const struct given_request *given = &out->explanation->given;
    const struct head *head = &given->head;
    size_t n_said = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        if (!is_ignored(out, field) || head_find_name(head, field->name) != field) {
            continue;
        }
        const struct span name = field->id != FIELD_OTHER ? field_name(field->id) : field->name;
        explain_append(out, ignored, json_of_bytes(name));
        if (n_said++ == 0) {
            explain_line(out, "", "%.*s", EXPLAIN_VALUE(name));
        } else {
            explain_say(out, ", %.*s", EXPLAIN_VALUE(name));
        }
    }
    if (n_said > 0) {
        explain_say(out, " %s ignored: %s is not one of trusted_proxies; %s",
                    n_said == 1 ? "is" : "are", explain_address(&given->peer).text,
                    address_is_near(&given->peer) ? "name it there if it is a proxy of yours"
                                                  : "it may be a client, which can send anything");
    }
}

/* What the databases know of the client, as far as the policy reads it. */
static void report_geo(struct explain_output *out, json_t *client)
{
    const unsigned read = out->explanation->policy->geo.facts;
    const struct geo_facts *facts = &out->explanation->given.evaluation.view.geo;
    const struct span country = geo_country(facts);
    if ((read & GEO_COUNTRY) != 0) {
        explain_set(out, client, "country", explain_json_or_null(country));
        explain_say(out, ", country %.*s", SPAN_ARGS(country.len > 0 ? country : SPAN("unknown")));
    }
    if ((read & GEO_ASN) != 0) {
        explain_set(out, client, "asn", facts->asn != 0 ? json_integer(facts->asn) : json_null());
    }
    if ((read & GEO_ASN) != 0 && facts->asn != 0) {
        explain_say(out, ", AS%" PRIu32, facts->asn);
    } else if ((read & GEO_ASN) != 0) {
        explain_say(out, ", AS unknown");
    }
}

/* Each hop that was looked at, and what was made of it. */
static void report_hops(struct explain_output *out, json_t *client)
{
    static const struct {
        const char *is;
        const char *said;
    } KINDS[] = {
        [CLIENT_HOP_TRUSTED] = {"trusted",
                                "one of trusted_proxies: the next to the left is looked at"},
        [CLIENT_HOP_FOUND] = {"client", "not one of trusted_proxies: the client"},
        [CLIENT_HOP_NO_ADDRESS] = {"no_address", "is no address: the connection's counts"},
        [CLIENT_HOP_TOO_FAR] = {"too_far",
                                "too many trusted ones: the connection's address counts"},
    };
    const struct client_walk *walk = &out->explanation->walk;
    const struct word peer = explain_address(&out->explanation->given.peer);
    size_t width = strlen(peer.text);
    for (size_t i = 0; i < walk->n_hops; i++) {
        width = walk->hops[i].text.len > width ? walk->hops[i].text.len : width;
    }
    width = width < EXPLAIN_VALUE_BYTES_MAX ? width : EXPLAIN_VALUE_BYTES_MAX;
    explain_line(out, "", "%-*s  connected, one of trusted_proxies", (int)width, peer.text);
    if (walk->n_hops == 0) {
        explain_say(out, "; no field says for whom");
    } else {
        explain_say(out, ": %.*s is read from its end", SPAN_ARGS(field_name(walk->field)));
    }
    json_t *hops = explain_set(out, client, "hops", json_array());
    for (size_t i = 0; i < walk->n_hops; i++) {
        const struct client_hop *hop = &walk->hops[i];
        json_t *object = explain_append(out, hops, json_object());
        explain_set(out, object, "text", json_of_bytes(hop->text));
        explain_set(out, object, "is", json_string(KINDS[hop->kind].is));
        explain_line(out, "", "%-*.*s  %s", (int)width, EXPLAIN_VALUE(hop->text),
                     KINDS[hop->kind].said);
    }
}

/* What of the fields that name clients was not looked at. */
static void say_rest_of_walk(struct explain_output *out)
{
    const struct client_walk *walk = &out->explanation->walk;
    if (walk->n_left > 0) {
        explain_line(out, "", "%zu more to the left: not looked at", walk->n_left);
    } else if (walk->n_hops > 0 && walk->hops[walk->n_hops - 1].kind == CLIENT_HOP_TRUSTED) {
        explain_line(out, "", "all are trusted: the one farthest away is the client");
    }
    if (walk->n_hops > 0 && walk->field == FIELD_X_FORWARDED_FOR &&
        head_has(&out->explanation->given.head, FIELD_FORWARDED)) {
        explain_line(out, "", "Forwarded is not read: X-Forwarded-For stands beside it");
    }
}

static void report_client(struct explain_output *out)
{
    const struct given_request *given = &out->explanation->given;
    const struct client_walk *walk = &out->explanation->walk;
    const struct word address = explain_address(&given->evaluation.view.client);
    json_t *client = explain_set(out, out->root, "client", json_object());
    explain_set(out, client, "address", json_string(address.text));
    explain_set(out, client, "peer", json_string(explain_address(&given->peer).text));
    explain_set(out, client, "peer_is_trusted", json_boolean(walk->peer_is_trusted));
    explain_set(out, client, "field",
                walk->n_hops > 0 ? json_of_bytes(field_name(walk->field)) : json_null());
    explain_line(out, "client", "%s", address.text);
    report_geo(out, client);
    if (walk->peer_is_trusted) {
        report_hops(out, client);
        say_rest_of_walk(out);
    } else {
        explain_set(out, client, "hops", json_array());
    }
    json_t *ignored = explain_set(out, client, "ignored", json_array());
    if (!walk->peer_is_trusted) {
        report_ignored(out, ignored);
    }
    explain_set_number(out, client, "not_looked_at", walk->n_left);
}

/* --- the route --- */

/* What is said of the part of a route that the request does not match. */
static const struct {
    const char *name;
    const char *said;
} PARTS[] = {
    [MATCH_ALL] = {NULL, "yes"},
    [MATCH_PATH] = {"path", "no: the path is not "},
    [MATCH_METHOD] = {"method", "no: the method is not "},
    [MATCH_HOST] = {"host", "no: the host is not "},
    [MATCH_CLIENT] = {"client", "no: the client is in none of its prefixes"},
    [MATCH_FIELD] = {"header", "no: the field "},
    [MATCH_PARAMETER] = {"query", "no: the parameter "},
    [MATCH_SCHEME] = {"scheme", "no: the connection is "},
    [MATCH_CERTIFICATE] = {"client_cert", "no: the client has shown no such certificate"},
    [MATCH_CLAIM] = {"jwt", "no: no token with the claims that it asks for: see --claim"},
    [MATCH_COUNTRY] = {"country", "no: the client is in none of its countries"},
    [MATCH_ASN] = {"asn", "no: the client is in none of its autonomous systems"},
};

static void say_paths(struct explain_output *out, const struct route_match *match)
{
    for (size_t i = 0; i < match->n_paths; i++) {
        char buffer[EXPLAIN_VALUE_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        matcher_write_path(&match->paths[i], &text);
        explain_say_item(out, text_span(&text), i, match->n_paths, " nor ");
    }
}

/* The value that a field or a parameter must have may be a secret. */
static void say_condition(struct explain_output *out, const struct value_match *condition)
{
    static const char *const FAULTS[] = {
        [VALUE_MATCH_EQUALS] = "does not have the value that it asks for",
        [VALUE_MATCH_PRESENT] = "is not there",
        [VALUE_MATCH_ABSENT] = "is there",
        [VALUE_MATCH_GRPC] = "is not that of gRPC",
    };
    explain_say(out, "%.*s %s", EXPLAIN_VALUE(condition->name), FAULTS[condition->kind]);
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

static void say_route(struct explain_output *out, size_t i, int width)
{
    const struct route *route = &out->explanation->policy->routes[i];
    const struct route_match *match = &route->match;
    const enum match_part part = out->explanation->routes[i].part;
    explain_line(out, "", "%2zu %-*.*s  %s", i + 1, width, SPAN_ARGS(route->name),
                 PARTS[part].said);
    if (part == MATCH_PATH) {
        say_paths(out, match);
    } else if (part == MATCH_METHOD) {
        explain_say_list(out, match->methods, match->n_methods, " nor ");
    } else if (part == MATCH_HOST) {
        explain_say_list(out, match->hosts, match->n_hosts, " nor ");
    } else if (part == MATCH_FIELD || part == MATCH_PARAMETER) {
        say_condition(out, out->explanation->routes[i].condition);
    } else if (part == MATCH_SCHEME) {
        const bool wants_tls = match->connection->scheme == SCHEME_MATCH_HTTPS;
        explain_say(out, "%s TLS", wants_tls ? "without" : "over");
    }
}

/* Each route up to the one that matches. */
static void report_compared(struct explain_output *out, json_t *routes)
{
    const struct explanation *explanation = out->explanation;
    const int width = width_of_routes(explanation);
    size_t n_others = 0;
    for (size_t i = 0; i < explanation->n_routes; i++) {
        const char *part = PARTS[explanation->routes[i].part].name;
        const struct value_match *condition = explanation->routes[i].condition;
        json_t *route = explain_append(out, routes, json_object());
        explain_set(out, route, "name", json_of_bytes(explanation->policy->routes[i].name));
        explain_set(out, route, "matches", json_boolean(part == NULL));
        if (part != NULL) {
            explain_set(out, route, "because", json_string(part));
        }
        if (condition != NULL) {
            explain_set(out, route, part, json_of_bytes(condition->name));
        }
        if (is_reported(explanation, i)) {
            say_route(out, i, width);
        } else {
            n_others++;
        }
    }
    if (n_others > 0) {
        explain_line(out, "", "%zu others: their path is another", n_others);
    }
}

static void report_route(struct explain_output *out)
{
    const struct given_request *given = &out->explanation->given;
    const struct route *route = given->evaluation.route;
    const struct span none =
        given_request_has_path(given) ? SPAN("none") : SPAN("none: the request is refused");
    explain_set(out, out->root, "route", route != NULL ? json_of_bytes(route->name) : json_null());
    if (given->head.error.status == 0) {
        explain_line(out, "route", "%.*s", SPAN_ARGS(route != NULL ? route->name : none));
    }
    report_compared(out, explain_set(out, out->root, "routes", json_array()));
}

/* --- where it goes --- */

/* One more name behind @verb, or the first. */
static void say_name(struct explain_output *out, struct span name, const char *what,
                     const char *verb, bool *is_first)
{
    if (*is_first) {
        explain_line(out, "", "%s %s %.*s", what, verb, EXPLAIN_VALUE(name));
    } else {
        explain_say(out, ", %.*s", EXPLAIN_VALUE(name));
    }
    *is_first = false;
}

/* Names alone: values may be secrets. */
static void say_edits(struct explain_output *out, const char *what, const struct field_edits *edits)
{
    bool is_first = true;
    for (size_t i = 0; i < edits->n_set; i++) {
        say_name(out, edits->set[i].name, what, "sets", &is_first);
    }
    is_first = true;
    for (enum field_id id = FIELD_OTHER + 1; id < FIELD_ID_COUNT; id++) {
        if (field_edits_removes(edits, field_name(id))) {
            say_name(out, field_name(id), what, "removes", &is_first);
        }
    }
    for (size_t i = 0; i < edits->n_names; i++) {
        if (field_edits_removes(edits, edits->names[i])) {
            say_name(out, edits->names[i], what, "removes", &is_first);
        }
    }
}

static void report_servers(struct explain_output *out, const struct upstream_spec *to,
                           json_t *upstream)
{
    json_t *servers = explain_set(out, upstream, "servers", json_array());
    explain_line(out, "upstream", "%.*s: ", SPAN_ARGS(to->name));
    for (size_t i = 0; i < to->n_servers; i++) {
        const struct span text = to->servers[i].endpoint.text;
        explain_append(out, servers, json_of_bytes(text));
        explain_say_item(out, text, i, to->n_servers, ", ");
    }
    if (to->host == UPSTREAM_HOST_NAME) {
        explain_line(out, "", "the Host is %.*s", EXPLAIN_VALUE(to->host_name));
    } else {
        explain_line(out, "", "the Host is the %s",
                     to->host == UPSTREAM_HOST_SERVER ? "server's" : "client's");
    }
}

static void report_upstream(struct explain_output *out)
{
    const struct given_request *given = &out->explanation->given;
    const struct route *route = given->evaluation.route;
    const struct span path = given->evaluation.upstream_path;
    const bool is_routed = route != NULL && !given->evaluation.is_preflight;
    const struct upstream_spec *to = is_routed ? route->upstream : NULL;
    const struct route_edits *edits = is_routed ? route->edits : NULL;
    json_t *upstream =
        explain_set(out, out->root, "upstream", to != NULL ? json_object() : json_null());
    if (to != NULL) {
        explain_set(out, upstream, "name", json_of_bytes(to->name));
        explain_set(out, upstream, "path", json_of_bytes(path));
        report_servers(out, to, upstream);
    }
    if (to != NULL && edits != NULL) {
        if (!span_equals(path, given->head.target.path)) {
            explain_line(out, "", "the path there is %.*s (strip_prefix)", EXPLAIN_VALUE(path));
        }
        say_edits(out, "the request", &edits->request);
    }
    if (edits != NULL) {
        say_edits(out, "the response", &edits->response);
    }
}

/* --- how it ends --- */

static void report_store(struct explain_output *out)
{
    static const char *const STATES[] = {
        [STATE_NOT_ASKED] = "not_asked",
        [STATE_KNOWN] = "known",
        [STATE_UNKNOWN] = "unknown",
    };
    const struct explanation *explanation = out->explanation;
    const struct span proxy = span_of_text(explanation->proxy_state);
    explain_set(out, out->root, "state", json_string(STATES[explanation->state]));
    if (proxy.len > 0) {
        explain_set(out, out->root, "proxy", json_of_bytes(proxy));
        explain_line(out, "proxy", "%.*s", EXPLAIN_VALUE(proxy));
    }
    if (explanation->state == STATE_UNKNOWN) {
        explain_set(out, out->root, "fault", json_of_bytes(span_of_text(explanation->fault)));
    }
}

/* A limit denies the request, or a ban under it. */
static void report_denial(struct explain_output *out, json_t *object)
{
    const struct explanation *explanation = out->explanation;
    const struct explained_answer *answer = &explanation->answer;
    const struct charge *denied = admission_first_denied(&explanation->admission);
    const struct span denier =
        denied != NULL ? admission_denier(&explanation->admission, denied) : SPAN("");
    const bool is_banned = explanation->given.evaluation.result == EVALUATION_BANNED;
    if (denied != NULL) {
        explain_set(out, object, "limit", json_of_bytes(denier));
    }
    explain_say(out, "%u: limit %.*s %s", answer->status, SPAN_ARGS(denier),
                is_banned ? "bans its key" : "denies it");
    if (answer->has_retry_after) {
        explain_set_number(out, object, "retry_after", answer->retry_after_s);
        explain_say(out, "; Retry-After: %" PRIu64, answer->retry_after_s);
    }
}

static void say_who_answers(struct explain_output *out)
{
    const struct evaluation *evaluation = &out->explanation->given.evaluation;
    const uint16_t status = out->explanation->answer.status;
    if (status == 0) {
        explain_say(out, "the upstream's");
    } else {
        explain_say(out, "%u, by %s", status,
                    evaluation->is_preflight             ? "its cors: a preflight"
                    : evaluation->route->respond != NULL ? "the route itself"
                                                         : "its Max-Forwards it ends here");
    }
}

static void report_answer(struct explain_output *out)
{
    const struct explanation *explanation = out->explanation;
    const struct explained_answer *answer = &explanation->answer;
    const struct evaluation *evaluation = &explanation->given.evaluation;
    const enum grpc_status grpc_status = explanation_grpc_status(explanation);
    json_t *object = explain_set(out, out->root, "answer", json_object());
    explain_set(out, object, "passes",
                answer->is_open ? json_null() : json_boolean(!answer->is_refusal));
    explain_set(out, object, "status",
                answer->status != 0 ? json_integer(answer->status) : json_null());
    explain_line(out, "answer", "");
    if (answer->reason != NULL) {
        explain_set(out, object, "reason", json_string(answer->reason));
        explain_say(out, "%u: %s", answer->status, answer->reason);
    } else if (answer->is_refusal) {
        report_denial(out, object);
    } else {
        say_who_answers(out);
    }
    if (grpc_status != GRPC_NONE) {
        explain_set_number(out, object, "grpc_status", grpc_status);
        explain_say(out, "; grpc-status: %u", grpc_status);
    }
    if (answer->hold_us > 0) {
        explain_say(out, ", held for %s first", explain_time(answer->hold_us).text);
    }
    if (evaluation->result == EVALUATION_TO_DECIDE && explanation->state != STATE_KNOWN &&
        answer->reason == evaluation->reason) {
        explain_say(out, ", if its limits allow it");
    }
}

/* No request comes, as @what: @fault. */
static void report_fault(struct explain_output *out, const char *what, const char *fault)
{
    const char *reset = out->explanation->given.reset;
    if (reset != NULL) {
        explain_set(out, out->root, "reset", json_string(reset));
    }
    explain_set(out, out->root, "answer", json_pack("{sb sn}", "passes", 0, "status"));
    explain_line(out, "answer", "none, as %s: %s", what, fault);
}

static void report_all(struct explain_output *out)
{
    const struct given_request *given = &out->explanation->given;
    const char *what;
    const char *fault = given_request_fault(given, &what);
    report_connection(out);
    if (fault != NULL) {
        report_fault(out, what, fault);
        return;
    }
    if (given->head.error.status == 0) {
        report_request(out);
        report_client(out);
    } else {
        explain_line(out, "request", "is not one that can be read");
    }
    report_route(out);
    explain_limits(out);
    report_upstream(out);
    report_store(out);
    report_answer(out);
}

enum status explain_write(const struct explanation *explanation, bool is_json, FILE *file)
{
    struct explain_output out = {
        .explanation = explanation,
        .root = json_object(),
        .text = is_json ? NULL : file,
    };
    report_all(&out);
    explain_end_line(&out);
    if (is_json) {
        out.is_short = out.is_short || json_dumpf(out.root, file, JSON_INDENT(2)) != 0;
        fputs(out.is_short ? "" : "\n", file);
    }
    json_decref(out.root);
    return is_json && out.is_short ? STATUS_NO_MEMORY : STATUS_OK;
}
