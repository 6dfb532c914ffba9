#include "proxy/exchange/exchange_steps.h"

#include "http/head_builder.h"
#include "policy/edits.h"
#include "policy/read_fields.h"
#include "proxy/client_address.h"
#include "proxy/core/via.h"
#include "proxy/exchange/hop_by_hop.h"
#include "proxy/upstream/upstream_server.h"
#include "tls/tls_stream.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

#define BIT(id) (UINT64_C(1) << FIELD_##id)

/* The fields that the proxy writes or appends to, and those that only it could say truly. */
static const uint64_t OURS = BIT(HOST) | BIT(X_FORWARDED_FOR) | BIT(X_FORWARDED_PROTO) |
                             BIT(X_FORWARDED_HOST) | BIT(X_REAL_IP) | BIT(FORWARDED) |
                             BIT(X_REQUEST_ID) | BIT(CLIENT_CERT) | BIT(CLIENT_CERT_CHAIN) |
                             BIT(EARLY_DATA);

/* Whether a field of the request is passed on, as far as the route does not edit it. */
static bool passes(const struct exchange *exchange, const struct field *field)
{
    if (field->hop_by_hop || (OURS >> field->id & 1) != 0) {
        return false;
    }
    return field->id != FIELD_OTHER || exchange->evaluation.view.peer_is_trusted ||
           !field_is_x_forwarded(field->name);
}

static bool names_port(const struct route_match *match, uint16_t port)
{
    for (size_t i = 0; i < match->n_ports; i++) {
        if (match->ports[i] == port) {
            return true;
        }
    }
    return false;
}

/* The host as the policy compares it. A port that its route does not name is left out, as servers
 * that compare hosts with their port would take it for another host. */
static NEVER_INLINE struct span compared_host(const struct exchange *exchange,
                                              char buffer[HOST_WITH_PORT_BYTES_MAX])
{
    const struct route_match *match = &exchange->evaluation.route->match;
    const struct span host = exchange->request.host;
    uint16_t port;
    if (match->n_hosts > 0 && target_port(host, &port) && !names_port(match, port)) {
        return target_normalise_host(host, buffer);
    }
    return target_normalise_host_port(host, exchange->client->tls != NULL ? HTTPS_PORT : HTTP_PORT,
                                      buffer);
}

/* The host that servers hear of. Where routes compare hosts it is the one that was compared, since
 * servers that compare bytes would take another spelling for another host. */
static ALWAYS_INLINE struct span sent_host(const struct exchange *exchange,
                                           char buffer[HOST_WITH_PORT_BYTES_MAX])
{
    if (LIKELY(!exchange->config->policy->compares_hosts)) {
        return exchange->request.host;
    }
    return compared_host(exchange, buffer);
}

/* @host: sent_host(). */
static void write_host(const struct exchange *exchange, struct span host, struct text *text)
{
    const struct upstream_spec *spec = exchange->evaluation.route->upstream;
    text_add_literal(text, "Host: ");
    switch (spec->host) {
    case UPSTREAM_HOST_PRESERVE:
        text_add(text, host);
        break;
    case UPSTREAM_HOST_SERVER:
        upstream_name_write_host(exchange->server->endpoint, text);
        break;
    case UPSTREAM_HOST_NAME:
        text_add(text, spec->host_name);
        break;
    }
    text_add_literal(text, "\r\n");
}

static bool strips_prefix(const struct exchange *exchange)
{
    const struct route_edits *edits = exchange->evaluation.route->edits;
    return edits != NULL && edits->prefix.len > 0;
}

static void write_request_line(const struct exchange *exchange, struct text *text)
{
    const struct target *target = &exchange->request.target;
    text_add(text, exchange->request.method);
    text_add_char(text, ' ');
    if (target->form == TARGET_ABSOLUTE || strips_prefix(exchange)) {
        /* "http://host?query" has no path of its own: it means the server's root. */
        text_add(text, exchange->evaluation.upstream_path);
        text_add(text, target->has_query ? SPAN("?") : SPAN(""));
        text_add(text, target->query);
    } else {
        text_add(text, target->whole);
    }
    text_add_literal(text, " HTTP/1.1\r\n");
}

static struct span protocol_of(const struct exchange *exchange)
{
    return exchange->client->tls != NULL ? SPAN("https") : SPAN("http");
}

/* Write an element of Forwarded. @node: an address, or `unknown`. @host, @proto: empty if they are
 * not known. */
static void write_element(struct span node, bool is_ipv6, struct span host, struct span proto,
                          struct text *text)
{
    text_add_literal(text, "for=");
    text_add(text, is_ipv6 ? SPAN("\"[") : SPAN(""));
    text_add(text, node);
    text_add(text, is_ipv6 ? SPAN("]\"") : SPAN(""));
    if (host.len > 0) {
        /* A Host contains no byte that ends the quotes: see target_is_host(). */
        text_add_literal(text, ";host=\"");
        text_add(text, host);
        text_add_literal(text, "\"");
    }
    if (proto.len > 0) {
        text_add_literal(text, ";proto=");
        text_add(text, proto);
    }
}

/* The value of the field @id, if it has one line alone; empty: it has not. */
static struct span find_single(const struct head *request, enum field_id id)
{
    struct span value = SPAN("");
    size_t n = 0;
    for (size_t i = 0; i < request->n_fields; i++) {
        if (request->fields[i].id == id) {
            value = request->fields[i].value;
            n++;
        }
    }
    return n == 1 ? value : SPAN("");
}

/* Begin the list @id with the client, whom a trusted proxy names in the other field: it may have
 * let this one through as the client sent it. False: nothing was written, as the client is the
 * peer. */
COLD static bool begin_anew(const struct exchange *exchange, enum field_id id,
                            struct span sent_host, struct text *text)
{
    const struct head *request = &exchange->request;
    const struct address *client = &exchange->evaluation.view.client;
    const struct span their_host = find_single(request, FIELD_X_FORWARDED_HOST);
    const struct span their_proto = find_single(request, FIELD_X_FORWARDED_PROTO);
    const bool is_last = exchange->peer.family == ADDRESS_NONE;
    struct span host = is_last ? sent_host : SPAN("");
    struct span proto = is_last ? protocol_of(exchange) : SPAN("");
    char buffer[ADDRESS_TEXT_MAX];
    struct text address = text_of(buffer, sizeof(buffer));
    if (address_equals(client, &exchange->peer)) {
        return false;
    }
    address_write(client, &address);
    if (id == FIELD_X_FORWARDED_FOR) {
        text_add(text, text_span(&address));
        return true;
    }
    if (their_host.len > 0 && target_is_host(their_host)) {
        host = their_host;
    }
    if (span_equals_ignore_case(their_proto, SPAN("https")) ||
        span_equals_ignore_case(their_proto, SPAN("http"))) {
        proto = their_proto;
    }
    write_element(text_span(&address), client->family == ADDRESS_IPV6, host, proto, text);
    return true;
}

/* Write the members of the list that came from trusted proxies. False: there are none. */
COLD static bool copy_members(const struct exchange *exchange, enum field_id id, struct text *text)
{
    bool has_members = false;
    for (size_t i = 0; i < exchange->request.n_fields; i++) {
        const struct field *field = &exchange->request.fields[i];
        if (field->id == id && field->value.len > 0) {
            text_add(text, has_members ? SPAN(", ") : SPAN(""));
            text_add(text, field->value);
            has_members = true;
        }
    }
    return has_members;
}

/* Write "Name: " and the members of the list so far. False: append no member, because the peer is a
 * unix socket: its "unknown" would hide the earlier members from the next reader of the list. */
static bool begin_list(const struct exchange *exchange, enum field_id id, struct span host,
                       struct text *text)
{
    text_add(text, field_name(id));
    text_add_literal(text, ": ");
    if (!exchange->evaluation.view.peer_is_trusted) {
        return true;
    }
    const bool has_members = client_address_field(&exchange->request) == id
                                 ? copy_members(exchange, id, text)
                                 : begin_anew(exchange, id, host, text);
    const bool is_to_follow = !has_members || exchange->peer.family != ADDRESS_NONE;
    text_add(text, has_members && is_to_follow ? SPAN(", ") : SPAN(""));
    return is_to_follow;
}

/* What the trusted proxy says, as it says it: a list stays one, and its lines are one list. Else
 * @ours. */
static void write_theirs(const struct exchange *exchange, enum field_id id, struct span ours,
                         struct text *text)
{
    if (LIKELY(!exchange->evaluation.view.peer_is_trusted)) {
        message_write_field(text, field_name(id), ours);
        return;
    }
    text_add(text, field_name(id));
    text_add_literal(text, ": ");
    if (!copy_members(exchange, id, text)) {
        text_add(text, ours);
    }
    text_add_literal(text, "\r\n");
}

static void write_forwarded(const struct exchange *exchange, struct span peer, struct span host,
                            struct text *text)
{
    if (begin_list(exchange, FIELD_FORWARDED, host, text)) {
        write_element(peer, exchange->peer.family == ADDRESS_IPV6, host, protocol_of(exchange),
                      text);
    }
    text_add_literal(text, "\r\n");
}

/* X-Real-IP: the client that is counted, whatever the peer says of it. */
static void write_real_ip(const struct exchange *exchange, struct span peer, struct text *text)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text client = text_of(buffer, sizeof(buffer));
    if (UNLIKELY(exchange->evaluation.view.peer_is_trusted) &&
        exchange->evaluation.view.client.family != ADDRESS_NONE) {
        address_write(&exchange->evaluation.view.client, &client);
        peer = text_span(&client);
    }
    message_write_field(text, field_name(FIELD_X_REAL_IP), peer);
}

COLD static void write_client_certificate(const struct exchange *exchange, struct text *text)
{
    const struct client_certificate *certificate =
        tls_client_of(exchange->client->tls)->certificate;
    if (certificate != NULL) {
        message_write_field(text, field_name(FIELD_CLIENT_CERT), certificate->field);
    }
}

static void write_request_id(const struct exchange *exchange, struct text *text)
{
    if (exchange->client_request_id.len > 0) {
        message_write_field(text, field_name(FIELD_X_REQUEST_ID), exchange->client_request_id);
        return;
    }
    text_add_literal(text, "X-Request-ID: ");
    text_add_hex(text, exchange->request_id, sizeof(exchange->request_id));
    text_add_literal(text, "\r\n");
}

/* The proxy's fields that the route removes or sets itself. */
static uint64_t edited_fields(const struct exchange *exchange)
{
    const struct route_edits *edits = exchange->evaluation.route->edits;
    return edits != NULL ? edits->request.known : 0;
}

static void write_forwarding_fields(const struct exchange *exchange, struct span host,
                                    struct text *text)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text peer = text_of(buffer, sizeof(buffer));
    address_write(&exchange->peer, &peer);
    /* RFC 7239 section 6.2 */
    const struct span peer_text =
        exchange->peer.family == ADDRESS_NONE ? SPAN("unknown") : text_span(&peer);
    const uint64_t edited = edited_fields(exchange);

    if ((edited & BIT(X_FORWARDED_FOR)) == 0) {
        if (begin_list(exchange, FIELD_X_FORWARDED_FOR, host, text)) {
            text_add(text, peer_text);
        }
        text_add_literal(text, "\r\n");
    }
    if ((edited & BIT(X_FORWARDED_PROTO)) == 0) {
        write_theirs(exchange, FIELD_X_FORWARDED_PROTO, protocol_of(exchange), text);
    }
    if ((edited & BIT(X_FORWARDED_HOST)) == 0 && host.len > 0) {
        write_theirs(exchange, FIELD_X_FORWARDED_HOST, host, text);
    }
    if ((edited & BIT(X_REAL_IP)) == 0) {
        write_real_ip(exchange, peer_text, text);
    }
    if ((edited & BIT(FORWARDED)) == 0) {
        write_forwarded(exchange, peer_text, host, text);
    }
    if (UNLIKELY(exchange->client->tls != NULL) && (edited & BIT(CLIENT_CERT)) == 0) {
        write_client_certificate(exchange, text);
    }
    write_request_id(exchange, text);
    via_write(exchange->env->via,
              exchange->client->is_http2 ? VIA_HTTP_2 : (enum via_protocol)exchange->request.minor,
              text);
}

/* The value of a claim as that of a field; empty: it is missing, or no field can have it. A server
 * drops the blanks at the ends of a value, and would read another identity than the one that
 * counts. */
static struct span claim_of(const struct request_view *view, uint16_t claim)
{
    const struct span value =
        view->claims != NULL ? jwt_claim_text(&view->claims->claims[claim]) : SPAN("");
    return field_is_value(value) && span_trim(value).len == value.len ? value : SPAN("");
}

/* Whether the server is not to be told when the client gives up: libraries end a call then
 * by themselves, with the answer that a client chose, and its handler works on. It would free the
 * slots, and be an answer without the cost. */
static bool hides_deadline(const struct exchange *exchange)
{
    return exchange->evaluation.route->cost.kind == COST_RESPONSE_HEADER ||
           admission_has_slots(&exchange->admission);
}

static bool is_deadline(const struct field *field)
{
    return span_equals_ignore_case(field->name, SPAN("grpc-timeout")) ||
           span_equals_ignore_case(field->name, SPAN("connect-timeout-ms"));
}

/* Write the fields that pass the edits of the route, without a deadline if it @hides one, then the
 * fields that the route sets. */
static void write_edited_fields(const struct exchange *exchange, bool hides, struct text *text)
{
    static const struct field_edits NONE = {.n_set = 0};
    const struct route_edits *route_edits = exchange->evaluation.route->edits;
    const struct field_edits *edits = route_edits != NULL ? &route_edits->request : &NONE;
    const struct head *request = &exchange->request;
    struct line_run run = line_run_begin(text);
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (passes(exchange, field) && !field_edits_drop(edits, field) &&
            !(hides && is_deadline(field))) {
            line_run_add(&run, field);
        }
    }
    line_run_end(&run);
    for (size_t i = 0; i < edits->n_set; i++) {
        const struct field_setting *setting = &edits->set[i];
        const struct span value = setting->is_claim
                                      ? claim_of(&exchange->evaluation.view, setting->claim)
                                      : setting->value;
        if (value.len > 0 || !setting->is_claim) {
            message_write_field(text, setting->name, value);
        }
    }
}

static void write_fields(const struct exchange *exchange, struct text *text)
{
    const struct head *request = &exchange->request;
    const bool hides = hides_deadline(exchange);
    if (hides || exchange->evaluation.route->edits != NULL) {
        write_edited_fields(exchange, hides, text);
        return;
    }
    struct line_run run = line_run_begin(text);
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (passes(exchange, field)) {
            line_run_add(&run, field);
        }
    }
    line_run_end(&run);
}

/* Servers such as Go's net/http give their handlers announced trailers alone. */
static NEVER_INLINE void write_trailer_names(const struct exchange *exchange, struct text *text)
{
    const struct head *request = &exchange->request;
    const struct read_fields *read = &exchange->config->policy->read_fields;
    const char *before = "Trailer: ";
    for (size_t i = 0; i < request->n_fields; i++) {
        struct span rest = request->fields[i].value;
        struct span name;
        while (request->fields[i].id == FIELD_TRAILER && field_list_next(&rest, &name)) {
            const struct field field = {.name = name, .id = field_identify(name)};
            if (field_is_token(name) &&
                trailer_of_request_passes(&field, request, read, exchange->evaluation.route)) {
                text_add_format(text, "%s%.*s", before, SPAN_ARGS(name));
                before = ", ";
            }
        }
    }
    text_add(text, before[0] == ',' ? SPAN("\r\n") : SPAN(""));
}

/* Whether the end of the connection is to tell when the handler has ended: its answer to HEAD does
 * not, and the slots are held until then. */
static bool awaits_close(const struct exchange *exchange)
{
    return exchange->upstream->stream_ops == NULL &&
           !exchange->evaluation.route->upstream->reuse_after_head &&
           admission_has_slots(&exchange->admission);
}

void forwarded_write_request(struct exchange *exchange, struct text *text)
{
    char buffer[HOST_WITH_PORT_BYTES_MAX];
    const struct head *request = &exchange->request;
    const struct span host = sent_host(exchange, buffer);
    write_request_line(exchange, text);
    write_host(exchange, host, text);
    write_fields(exchange, text);
    if (request->body == BODY_CHUNKED) {
        text_add_literal(text, "Transfer-Encoding: chunked\r\n");
    }
    if (request->has_max_forwards) {
        message_write_field_u64(text, field_name(FIELD_MAX_FORWARDS), request->max_forwards - 1);
    }
    exchange->is_upgrade_offered = request->has_upgrade && exchange->upstream->stream_ops == NULL &&
                                   upgrade_write_offer(request, exchange->evaluation.route, text);
    if (head_has(request, FIELD_TE) && !exchange->is_upgrade_offered &&
        trailers_are_wanted(request)) {
        text_add_literal(text, "Connection: TE\r\nTE: trailers\r\n");
    }
    if (UNLIKELY(exchange->upstream_user.is_head_request) && awaits_close(exchange)) {
        text_add_literal(text, "Connection: close\r\n");
        exchange->upstream->ends_after_answer = true;
    }
    if (head_has(request, FIELD_TRAILER) && exchange->upstream->stream_ops != NULL &&
        trailers_of_request_pass(request, exchange->evaluation.route)) {
        write_trailer_names(exchange, text);
    }
    write_forwarding_fields(exchange, host, text);
    text_add_literal(text, "\r\n");
}
