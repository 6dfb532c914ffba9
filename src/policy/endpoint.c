#include "policy/endpoint.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

static bool is_address_of(int family, struct span host)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char bytes[sizeof(struct in6_addr)];
    if (host.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, host.data, host.len);
    text[host.len] = '\0';
    return inet_pton(family, text, bytes) == 1;
}

static bool is_name(struct span host)
{
    if (host.len == 0 || host.len > HOST_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < host.len; i++) {
        const char c = host.data[i];
        const char lower = ascii_lower(c);
        const bool plain = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        if (!plain && c != '.' && c != '-' && c != '_') {
            return false;
        }
    }
    return true;
}

static bool parse_port(struct span text, uint16_t min, uint16_t *port, struct text *problem)
{
    uint64_t number = 0;
    if (!span_to_u64(text, UINT16_MAX, &number) || number < min) {
        text_add_format(problem, "the port must be a number from %u to 65535", min);
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

/* Split `host:port` or `[v6]:port`; *port_text has data NULL where none stands. */
static bool split_authority(struct span span, struct span *host, struct span *port_text,
                            struct text *problem)
{
    struct span rest;
    if (span.len > 0 && span.data[0] == '[') {
        const size_t end = span_find(span, ']');
        if (end == span.len || !is_address_of(AF_INET6, span_of(span.data + 1, end - 1))) {
            text_add_literal(problem, "what stands in brackets must be an IPv6 address");
            return false;
        }
        *host = span_of(span.data + 1, end - 1);
        rest = span_of(span.data + end + 1, span.len - end - 1);
    } else {
        *host = span_of(span.data, span_find(span, ':'));
        rest = span_of(span.data + host->len, span.len - host->len);
        if (is_address_of(AF_INET6, span)) {
            text_add_format(problem, "an IPv6 address stands in brackets: [%.*s]:8080",
                            SPAN_ARGS(span));
            return false;
        }
        if (!is_name(*host)) {
            text_add(problem, host->len == 0 ? SPAN("has no host before the port")
                                             : SPAN("is not a host name or address"));
            return false;
        }
    }
    *port_text = (struct span){NULL, 0};
    if (rest.len > 0 && rest.data[0] == ':') {
        *port_text = span_of(rest.data + 1, rest.len - 1);
    } else if (rest.len > 0) {
        text_add_literal(problem, "must be host:port");
        return false;
    }
    return true;
}

bool endpoint_parse_authority(struct span span, uint16_t port_default, struct endpoint *endpoint,
                              struct text *problem)
{
    struct span host;
    struct span port_text;
    uint16_t port = port_default;
    if (!split_authority(span, &host, &port_text, problem)) {
        return false;
    }
    if (port_text.data == NULL && port_default == 0) {
        text_add_literal(problem, "has no port");
        return false;
    }
    if (port_text.data != NULL && !parse_port(port_text, 1, &port, problem)) {
        return false;
    }
    *endpoint = (struct endpoint){.host = host, .port = port, .text = span};
    return true;
}

static bool parse_unix(struct span span, struct endpoint *endpoint, struct text *problem)
{
    static const size_t PATH_BYTES_MAX = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    const size_t start = SPAN("unix:").len;
    const struct span path = span_of(span.data + start, span.len - start);
    if (path.len < 2 || path.data[0] != '/' || span_find(path, '\0') < path.len) {
        text_add_literal(problem, "must be an absolute path, such as unix:/run/sluice.sock");
        return false;
    }
    if (path.len > PATH_BYTES_MAX) {
        text_add_format(problem, "the path of a unix socket has at most %zu bytes", PATH_BYTES_MAX);
        return false;
    }
    *endpoint = (struct endpoint){.host = span_of("", 0), .unix_path = path, .text = span};
    return true;
}

bool endpoint_parse_listen(struct span span, struct endpoint *endpoint, struct text *problem)
{
    struct span host;
    struct span port_text;
    uint16_t port = 0;
    uint64_t bare = 0;
    if (span_starts_with(span, SPAN("unix:"))) {
        return parse_unix(span, endpoint, problem);
    }
    if (span_to_u64(span, UINT16_MAX, &bare)) {
        text_add_format(problem,
                        "has no address; did you mean \"127.0.0.1:%u\", or "
                        "\"0.0.0.0:%u\" for everybody?",
                        (unsigned)bare, (unsigned)bare);
        return false;
    }
    if (!split_authority(span, &host, &port_text, problem)) {
        return false;
    }
    if (port_text.data == NULL) {
        text_add_literal(problem, "has no port; write address:port");
        return false;
    }
    if (!parse_port(port_text, 0, &port, problem)) {
        return false;
    }
    if (span_equals_ignore_case(host, SPAN("localhost"))) {
        host = SPAN("127.0.0.1");
    }
    if (!is_address_of(AF_INET, host) && !is_address_of(AF_INET6, host)) {
        text_add_literal(problem, "must be an address and a port, such as 127.0.0.1:8080, or "
                                  "unix:/path");
        return false;
    }
    *endpoint = (struct endpoint){.host = host, .port = port, .text = span};
    return true;
}

bool endpoint_parse_name_server(struct span span, struct endpoint *endpoint, struct text *problem)
{
    if (!endpoint_parse_authority(span, 53, endpoint, problem)) {
        return false;
    }
    if (!is_address_of(AF_INET, endpoint->host) && !is_address_of(AF_INET6, endpoint->host)) {
        text_add_literal(problem, "must be an address, such as 10.0.0.53 or [fd00::53]:53");
        return false;
    }
    return true;
}

struct span endpoint_cut_scheme(struct span *span)
{
    const size_t colon = span_find(*span, ':');
    if (colon + 2 >= span->len || span->data[colon + 1] != '/' || span->data[colon + 2] != '/') {
        return span_of(span->data, 0);
    }
    const struct span scheme = span_of(span->data, colon);
    *span = span_of(span->data + colon + 3, span->len - colon - 3);
    return scheme;
}

bool endpoint_parse_server(struct span span, struct endpoint *endpoint, struct text *problem)
{
    struct span rest = span;
    const struct span scheme = endpoint_cut_scheme(&rest);
    if (span_equals_ignore_case(scheme, SPAN("https"))) {
        text_add_literal(problem, "https:// servers are not yet built");
        return false;
    }
    if (span_starts_with(span, SPAN("unix:"))) {
        return parse_unix(span, endpoint, problem);
    }
    if (span_equals_ignore_case(scheme, SPAN("http+unix"))) {
        text_add_literal(problem, "a server on a unix socket is written unix:/path");
        return false;
    }
    if (!span_equals_ignore_case(scheme, SPAN("http"))) {
        text_add_literal(problem, "must be a URL such as http://127.0.0.1:9000, or unix:/path");
        return false;
    }
    const size_t authority_len = span_find(rest, '/');
    if (authority_len + 1 < rest.len) {
        text_add_literal(problem, "must end after host and port: the client's path is passed on "
                                  "as it is");
        return false;
    }
    if (!endpoint_parse_authority(span_of(rest.data, authority_len), 80, endpoint, problem)) {
        return false;
    }
    endpoint->text = span;
    return true;
}
