#include "proxy/forwarded.h"

#include "http/message.h"
#include "proxy/trailers.h"
#include "proxy/upgrade.h"
#include "proxy/worker.h"

/* The fields that we write ourselves, or append to. */
static bool is_ours(enum field_id id)
{
    return id == FIELD_HOST || id == FIELD_X_FORWARDED_FOR || id == FIELD_X_FORWARDED_PROTO ||
           id == FIELD_X_FORWARDED_HOST || id == FIELD_X_REAL_IP || id == FIELD_FORWARDED ||
           id == FIELD_X_REQUEST_ID;
}

void forwarded_write_server_host(const struct endpoint *server, struct text *text)
{
    const bool is_ipv6 = span_find(server->host, ':') < server->host.len;
    if (server->unix_path.len > 0) {
        text_add_literal(text, "localhost");
        return;
    }
    text_add(text, is_ipv6 ? SPAN("[") : SPAN(""));
    text_add(text, server->host);
    text_add(text, is_ipv6 ? SPAN("]") : SPAN(""));
    if (server->port != 80) {
        text_add_char(text, ':');
        text_add_u64(text, server->port);
    }
}

static void write_host(const struct exchange *exchange, struct text *text)
{
    const struct upstream_spec *spec = exchange->route->upstream;
    text_add_literal(text, "Host: ");
    switch (spec->host) {
    case UPSTREAM_HOST_PRESERVE:
        text_add(text, exchange->request.host);
        break;
    case UPSTREAM_HOST_SERVER:
        forwarded_write_server_host(exchange->server->endpoint, text);
        break;
    case UPSTREAM_HOST_NAME:
        text_add(text, spec->host_name);
        break;
    }
    text_add_literal(text, "\r\n");
}

static void write_request_line(const struct head *request, struct text *text)
{
    const struct target *target = &request->target;
    text_add(text, request->method);
    text_add_char(text, ' ');
    if (target->form == TARGET_ABSOLUTE) {
        /* "http://host?query" has no path of its own: the server's root is meant. */
        text_add(text, target->path);
        text_add(text, target->has_query ? SPAN("?") : SPAN(""));
        text_add(text, target->query);
    } else {
        text_add(text, target->whole);
    }
    text_add_literal(text, " HTTP/1.1\r\n");
}

/* "Name: " and what trusted proxies have said so far. False: nothing is to follow: the hop to us is a unix
 * socket, whose "unknown" would hide from the next who reads the list what they have said. */
static bool begin_list(const struct exchange *exchange, enum field_id id, struct text *text)
{
    bool has_members = false;
    text_add(text, field_name(id));
    text_add_literal(text, ": ");
    if (!exchange->view.peer_is_trusted) {
        return true;
    }
    for (size_t i = 0; i < exchange->request.n_fields; i++) {
        const struct field *field = &exchange->request.fields[i];
        if (field->id == id && field->value.len > 0) {
            text_add(text, has_members ? SPAN(", ") : SPAN(""));
            text_add(text, field->value);
            has_members = true;
        }
    }
    const bool is_to_follow = !has_members || exchange->peer.family != ADDRESS_NONE;
    text_add(text, has_members && is_to_follow ? SPAN(", ") : SPAN(""));
    return is_to_follow;
}

/* A single value: what a trusted proxy said, or @ours. */
static void write_single(const struct exchange *exchange, enum field_id id, struct span ours,
                         struct text *text)
{
    const struct field *theirs =
        exchange->view.peer_is_trusted ? head_find(&exchange->request, id) : NULL;
    message_write_field(text, field_name(id), theirs != NULL ? theirs->value : ours);
}

static void write_forwarded(const struct exchange *exchange, struct span peer, struct text *text)
{
    const bool is_ipv6 = exchange->peer.family == ADDRESS_IPV6;
    if (!begin_list(exchange, FIELD_FORWARDED, text)) {
        text_add_literal(text, "\r\n");
        return;
    }
    text_add_literal(text, "for=");
    text_add(text, is_ipv6 ? SPAN("\"[") : SPAN(""));
    text_add(text, peer);
    text_add(text, is_ipv6 ? SPAN("]\"") : SPAN(""));
    if (exchange->request.host.len > 0) {
        /* A Host has no byte that would end the quotes: see target_is_host(). */
        text_add_literal(text, ";host=\"");
        text_add(text, exchange->request.host);
        text_add_literal(text, "\"");
    }
    text_add_literal(text, ";proto=http\r\n");
}

static void write_request_id(const struct exchange *exchange, struct text *text)
{
    if (exchange->client_request_id.len > 0) {
        message_write_field(text, field_name(FIELD_X_REQUEST_ID), exchange->client_request_id);
        return;
    }
    text_add(text, field_name(FIELD_X_REQUEST_ID));
    text_add_literal(text, ": ");
    text_add_hex(text, exchange->request_id, sizeof(exchange->request_id));
    text_add_literal(text, "\r\n");
}

static void write_forwarding_fields(const struct exchange *exchange, struct text *text)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text peer = text_of(buffer, sizeof(buffer));
    address_write(&exchange->peer, &peer);
    /* RFC 7239 section 6.2 */
    const struct span peer_text =
        exchange->peer.family == ADDRESS_NONE ? SPAN("unknown") : text_span(&peer);

    if (begin_list(exchange, FIELD_X_FORWARDED_FOR, text)) {
        text_add(text, peer_text);
    }
    text_add_literal(text, "\r\n");
    write_single(exchange, FIELD_X_FORWARDED_PROTO, SPAN("http"), text);
    if (exchange->request.host.len > 0) {
        write_single(exchange, FIELD_X_FORWARDED_HOST, exchange->request.host, text);
    }
    write_single(exchange, FIELD_X_REAL_IP, peer_text, text);
    write_forwarded(exchange, peer_text, text);
    write_request_id(exchange, text);
    via_write(&exchange->worker->shared->via, exchange->request.minor, text);
}

void forwarded_write_request(struct exchange *exchange, struct text *text)
{
    const struct head *request = &exchange->request;
    write_request_line(request, text);
    write_host(exchange, text);
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (!field->hop_by_hop && !is_ours(field->id)) {
            message_write_field(text, field->name, field->value);
        }
    }
    if (request->body == BODY_CHUNKED) {
        text_add_literal(text, "Transfer-Encoding: chunked\r\n");
    }
    if (request->has_max_forwards) {
        message_write_field_u64(text, field_name(FIELD_MAX_FORWARDS), request->max_forwards - 1);
    }
    exchange->is_upgrade_offered =
        request->has_upgrade && upgrade_write_offer(request, exchange->route, text);
    if (!exchange->is_upgrade_offered && trailers_are_wanted(request)) {
        text_add_literal(text, "Connection: TE\r\nTE: trailers\r\n");
    }
    write_forwarding_fields(exchange, text);
    text_add_literal(text, "\r\n");
}
