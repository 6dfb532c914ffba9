#include "http/target.h"

#include "base/address.h"
#include "base/text.h"
#include "http/octet.h"

enum { PORT_MAX = 65535 };

/* The name without the port after it; brackets, and the colons in them, belong to the name. */
static struct span split_port(struct span authority, struct span *port)
{
    *port = span_of(NULL, 0);
    if (authority.len == 0) {
        return authority;
    }
    const bool has_brackets = authority.data[0] == '[';
    const size_t start = has_brackets ? span_find(authority, ']') : 0;
    const size_t len = start + span_find(span_from(authority, start), ':');

    if (len < authority.len) {
        *port = span_from(authority, len + 1);
    }
    return span_of(authority.data, len);
}

static bool is_ip_literal(struct span name)
{
    struct address address;

    for (size_t i = 1; i + 1 < name.len; i++) {
        if (!octet_is(name.data[i], OCTET_HEX) && name.data[i] != ':' && name.data[i] != '.') {
            return false;
        }
    }
    return name.len > 2 && name.data[name.len - 1] == ']' && address_parse(name, &address);
}

/* The length of the name at the start of @host: labels separated by dots; a dot at the end is
 * allowed. */
static size_t host_name_len(struct span host)
{
    size_t label = 0;
    for (size_t at = 0;; at++) {
        if (at < host.len && octet_is(host.data[at], OCTET_HOST)) {
            continue;
        }
        if (at == label || at == host.len || host.data[at] != '.') {
            return at;
        }
        label = at + 1;
    }
}

static bool is_port(struct span port)
{
    uint64_t number;
    return port.len == 0 || span_to_u64(port, PORT_MAX, &number);
}

bool target_is_host(struct span host)
{
    if (host.len == 0) {
        return true;
    }
    if (host.data[0] == '[') {
        struct span port;
        const struct span name = split_port(host, &port);
        return is_port(port) && name.len <= HOST_BYTES_MAX && is_ip_literal(name);
    }
    const size_t len = host_name_len(host);
    return len > 0 && len <= HOST_BYTES_MAX &&
           (len == host.len || (host.data[len] == ':' && is_port(span_from(host, len + 1))));
}

/* The canonical form of an address in brackets. Empty: it is none. */
static struct span normalise_ip_literal(struct span name, char *buffer)
{
    struct text text = text_of(buffer, HOST_BYTES_MAX);
    struct address address;

    if (!address_parse(name, &address)) {
        return span_of(buffer, 0);
    }
    const bool is_ipv6 = address.family == ADDRESS_IPV6;
    text_add(&text, is_ipv6 ? SPAN("[") : SPAN(""));
    address_write(&address, &text);
    text_add(&text, is_ipv6 ? SPAN("]") : SPAN(""));
    return text_span(&text);
}

struct span target_normalise_host(struct span host, char *buffer)
{
    struct span port;
    struct span name = split_port(host, &port);

    if (name.len > 0 && name.data[0] == '[') {
        return normalise_ip_literal(name, buffer);
    }
    if (name.len > 0 && name.data[name.len - 1] == '.') {
        name.len--;
    }
    if (name.len > HOST_BYTES_MAX) {
        return span_of(buffer, 0);
    }
    for (size_t i = 0; i < name.len; i++) {
        buffer[i] = ascii_lower(name.data[i]);
    }
    return span_of(buffer, name.len);
}

bool target_port(struct span host, uint16_t *port)
{
    struct span digits;
    uint64_t number;
    (void)split_port(host, &digits);
    if (digits.len == 0 || !span_to_u64(digits, PORT_MAX, &number)) {
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

struct span target_normalise_host_port(struct span host, uint16_t default_port, char *buffer)
{
    uint16_t port;
    struct text text = text_of(buffer, HOST_WITH_PORT_BYTES_MAX);

    text.len = target_normalise_host(host, buffer).len;
    if (target_port(host, &port) && port != default_port) {
        text_add_char(&text, ':');
        text_add_u64(&text, port);
    }
    return text_span(&text);
}

static void split_query(struct span text, struct target *target)
{
    const size_t mark = span_find(text, '?');

    target->path = span_of(text.data, mark);
    target->has_query = mark < text.len;
    if (target->has_query) {
        target->query = span_from(text, mark + 1);
    }
}

/* The length of "http://" or "https://" at the start of @whole, or 0. */
static size_t scheme_len(struct span whole)
{
    static const struct span schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        if (whole.len >= schemes[i].len &&
            span_equals_ignore_case(span_of(whole.data, schemes[i].len), schemes[i])) {
            return schemes[i].len;
        }
    }
    return 0;
}

static const char *parse_absolute(struct span whole, struct span method, struct target *target)
{
    const size_t scheme = scheme_len(whole);
    if (scheme == 0) {
        return "the target is neither a path nor an http URI";
    }
    size_t end = scheme;
    while (end < whole.len && whole.data[end] != '/' && whole.data[end] != '?') {
        end++;
    }
    target->form = TARGET_ABSOLUTE;
    target->authority = span_of(whole.data + scheme, end - scheme);
    if (target->authority.len == 0 || !target_is_host(target->authority)) {
        return "the authority in the target is not a host";
    }
    split_query(span_from(whole, end), target);
    if (target->path.len == 0) {
        /* RFC 9112 section 3.2.4: such an OPTIONS asks about the server as a whole. */
        const bool is_asterisk = span_equals(method, SPAN("OPTIONS")) && !target->has_query;
        target->path = is_asterisk ? SPAN("*") : SPAN("/");
    }
    return NULL;
}

static const char *parse_authority(struct span whole, struct target *target)
{
    struct span port;
    const struct span name = split_port(whole, &port);

    if (name.len == 0 || port.len == 0 || !target_is_host(whole)) {
        return "the target of CONNECT is not a host and a port";
    }
    target->form = TARGET_AUTHORITY;
    target->authority = whole;
    return NULL;
}

static const char *parse_asterisk(struct span whole, struct span method, struct target *target)
{
    if (!span_equals(method, SPAN("OPTIONS"))) {
        return "the target * is for OPTIONS alone";
    }
    target->form = TARGET_ASTERISK;
    target->path = whole;
    return NULL;
}

static bool has_target_octets_alone(struct span whole)
{
    for (size_t i = 0; i < whole.len; i++) {
        if (!octet_is(whole.data[i], OCTET_TARGET)) {
            return false;
        }
    }
    return true;
}

const char *target_parse(struct span whole, struct span method, struct target *target)
{
    *target = (struct target){.whole = whole};
    if (whole.len == 0) {
        return "the target is empty";
    }
    if (!has_target_octets_alone(whole)) {
        return "the target holds white space, a control, a byte beyond ASCII or #";
    }
    if (span_equals(method, SPAN("CONNECT"))) {
        return parse_authority(whole, target);
    }
    if (whole.data[0] == '/') {
        target->form = TARGET_ORIGIN;
        split_query(whole, target);
        return NULL;
    }
    if (span_equals(whole, SPAN("*"))) {
        return parse_asterisk(whole, method, target);
    }
    return parse_absolute(whole, method, target);
}
