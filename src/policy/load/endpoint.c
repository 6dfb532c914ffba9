#include "policy/load/endpoint.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "http/octet.h"

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
    return host.len > 0 && host.len <= HOST_BYTES_MAX && span_has_only(host, ".-_");
}

static bool parse_port(struct span text, uint16_t min, uint16_t *port, struct text *problem)
{
    uint64_t number = 0;
    if (!span_to_u64(text, UINT16_MAX, &number) || number < min) {
        return text_refuse(problem, "the port must be a number from %u to 65535", min);
    }
    *port = (uint16_t)number;
    return true;
}

/* Split `host:port` or `[v6]:port`; port_text->data is NULL if there is no port. */
static bool split_authority(struct span span, struct span *host, struct span *port_text,
                            struct text *problem)
{
    struct span rest;
    if (span.len > 0 && span.data[0] == '[') {
        const size_t end = span_find(span, ']');
        if (end == span.len || !is_address_of(AF_INET6, span_of(span.data + 1, end - 1))) {
            return text_refuse(problem, "what stands in brackets must be an IPv6 address");
        }
        *host = span_of(span.data + 1, end - 1);
        rest = span_from(span, end + 1);
    } else {
        *host = span_of(span.data, span_find(span, ':'));
        rest = span_from(span, host->len);
        if (is_address_of(AF_INET6, span)) {
            return text_refuse(problem, "an IPv6 address stands in brackets: [%.*s]:8080",
                               SPAN_ARGS(span));
        }
        if (!is_name(*host)) {
            text_add(problem, host->len == 0 ? SPAN("has no host before the port")
                                             : SPAN("is not a host name or address"));
            return false;
        }
    }
    *port_text = (struct span){NULL, 0};
    if (rest.len > 0 && rest.data[0] == ':') {
        *port_text = span_from(rest, 1);
    } else if (rest.len > 0) {
        return text_refuse(problem, "must be host:port");
    }
    return true;
}

/* `host:port` or `[v6]:port`, after a scheme. @port_default replaces a missing port; 0: the port is
 * required. */
static bool parse_authority(struct span span, uint16_t port_default, struct endpoint *endpoint,
                            struct text *problem)
{
    struct span host;
    struct span port_text;
    uint16_t port = port_default;
    if (!split_authority(span, &host, &port_text, problem)) {
        return false;
    }
    if (port_text.data == NULL && port_default == 0) {
        return text_refuse(problem, "has no port");
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
    const struct span path = span_from(span, start);
    if (path.len < 2 || path.data[0] != '/' || span_find(path, '\0') < path.len) {
        return text_refuse(problem, "must be an absolute path, such as unix:/run/sluice.sock");
    }
    if (path.len > PATH_BYTES_MAX) {
        return text_refuse(problem, "the path of a unix socket has at most %zu bytes",
                           PATH_BYTES_MAX);
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
    const bool has_colon = span.len > 0 && span.data[0] == ':';
    if (span_to_u64(span_from(span, has_colon), UINT16_MAX, &bare)) {
        return text_refuse(problem,
                           "has no address; did you mean \"127.0.0.1:%u\", or "
                           "\"0.0.0.0:%u\" for all addresses?",
                           (unsigned)bare, (unsigned)bare);
    }
    if (span_starts_with(span, SPAN("http://")) || span_starts_with(span, SPAN("https://"))) {
        return text_refuse(problem, "is a URL; write only the address and the port, such as "
                                    "127.0.0.1:8080");
    }
    if (!split_authority(span, &host, &port_text, problem)) {
        return false;
    }
    if (port_text.data == NULL) {
        return text_refuse(problem, "has no port; write address:port");
    }
    if (!parse_port(port_text, 0, &port, problem)) {
        return false;
    }
    if (span_equals_ignore_case(host, SPAN("localhost"))) {
        host = SPAN("127.0.0.1");
    }
    if (!is_address_of(AF_INET, host) && !is_address_of(AF_INET6, host)) {
        return text_refuse(problem, "must be an address and a port, such as 127.0.0.1:8080, or "
                                    "unix:/path");
    }
    *endpoint = (struct endpoint){.host = host, .port = port, .text = span};
    return true;
}

bool endpoint_parse_name_server(struct span span, struct endpoint *endpoint, struct text *problem)
{
    if (!parse_authority(span, 53, endpoint, problem)) {
        return false;
    }
    if (!is_address_of(AF_INET, endpoint->host) && !is_address_of(AF_INET6, endpoint->host)) {
        return text_refuse(problem, "must be an address, such as 10.0.0.53 or [fd00::53]:53");
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
    *span = span_from(*span, colon + 3);
    return scheme;
}

bool endpoint_parse_server(struct span span, struct endpoint *endpoint, struct text *problem)
{
    struct span rest = span;
    const struct span scheme = endpoint_cut_scheme(&rest);
    const bool is_https = span_equals_ignore_case(scheme, SPAN("https"));
    const bool is_h2c = span_equals_ignore_case(scheme, SPAN("h2c"));
    if (span_starts_with(span, SPAN("unix:"))) {
        return parse_unix(span, endpoint, problem);
    }
    if (span_equals_ignore_case(scheme, SPAN("http+unix"))) {
        return text_refuse(problem, "a server on a unix socket is written unix:/path");
    }
    if (!is_https && !is_h2c && !span_equals_ignore_case(scheme, SPAN("http"))) {
        return text_refuse(problem, "must be a URL such as http://127.0.0.1:9000, or unix:/path");
    }
    const size_t authority_len = span_find(rest, '/');
    if (authority_len + 1 < rest.len) {
        return text_refuse(problem, "must end after host and port: the client's path is passed on "
                                    "as it is");
    }
    if (!parse_authority(span_of(rest.data, authority_len), is_https ? 443 : 80, endpoint,
                         problem)) {
        return false;
    }
    endpoint->text = span;
    endpoint->is_https = is_https;
    endpoint->is_h2c = is_h2c;
    return true;
}

/* --- logins --- */

/* Decode the %-escapes of @span into *decoded. */
static bool decode(struct span span, struct arena *arena, struct span *decoded,
                   struct text *problem)
{
    char *out = arena_alloc(arena, span.len + 1);
    size_t len = 0;
    if (out == NULL) {
        return text_refuse(problem, "out of memory");
    }
    for (size_t i = 0; i < span.len; i++) {
        if (span.data[i] != '%') {
            out[len++] = span.data[i];
            continue;
        }
        const int octet = octet_escape(span, i);
        if (octet < 0) {
            return text_refuse(problem, "a \"%%\" in user or password is written \"%%25\"");
        }
        out[len++] = (char)octet;
        i += 2;
    }
    out[len] = '\0';
    *decoded = span_of(out, len);
    return true;
}

struct span login_find(struct span rest)
{
    const size_t at = span_find_last(rest, '@');
    return span_of(rest.data, at < rest.len ? at : 0);
}

/* Cut `[user]:password@` off @rest and decode its %-escapes into @arena; without one @login is
 * unchanged. False: @problem describes the error without quoting @rest. */
static bool cut_login(struct span *rest, struct arena *arena, struct login *login,
                      struct text *problem)
{
    const struct span text = login_find(*rest);
    const size_t colon = span_find(text, ':');
    if (text.len == rest->len || rest->data[text.len] != '@') {
        return true;
    }
    *rest = span_from(*rest, text.len + 1);
    if (!decode(span_of(text.data, colon), arena, &login->user, problem)) {
        return false;
    }
    if (colon == text.len) {
        return text_refuse(problem, "a login is written user:password@, or :password@");
    }
    return decode(span_from(text, colon + 1), arena, &login->password, problem);
}

/* --- URLs of Redis --- */

enum {
    REDIS_PORT = 6379,
    SENTINEL_PORT = 26379,
    UNIX_PATH_BYTES_MAX = 107, /* of sockaddr_un, without the NUL */
    DATABASE_MAX = 65535,
};

static bool add_endpoint(struct redis_url *url, const struct endpoint *endpoint,
                         struct text *problem)
{
    for (size_t i = 0; i < url->n_endpoints; i++) {
        if (url->endpoints[i].port == endpoint->port &&
            span_equals_ignore_case(url->endpoints[i].host, endpoint->host)) {
            return text_refuse(problem, "an address stands twice");
        }
    }
    if (url->n_endpoints == REDIS_ENDPOINTS_MAX) {
        return text_refuse(problem, "must have at most %d addresses", REDIS_ENDPOINTS_MAX);
    }
    url->endpoints[url->n_endpoints++] = *endpoint;
    return true;
}

/* `host[:port],host[:port]...` */
static bool parse_endpoints(struct span list, uint16_t port_default, struct redis_url *url,
                            struct text *problem)
{
    for (;;) {
        const size_t comma = span_find(list, ',');
        struct endpoint endpoint;
        if (!parse_authority(span_of(list.data, comma), port_default, &endpoint, problem) ||
            !add_endpoint(url, &endpoint, problem)) {
            return false;
        }
        if (comma == list.len) {
            return true;
        }
        list = span_from(list, comma + 1);
    }
}

/* Remove the text before the first "/" from @rest, and the "/". */
static struct span cut_segment(struct span *rest)
{
    const struct span segment = span_of(rest->data, span_find(*rest, '/'));
    const size_t taken = segment.len < rest->len ? segment.len + 1 : segment.len;
    *rest = span_from(*rest, taken);
    return segment;
}

static bool parse_database(struct span span, const char *behind, struct redis_url *url,
                           struct text *problem)
{
    uint64_t database = 0;
    if (span.len > 0 && !span_to_u64(span, DATABASE_MAX, &database)) {
        return text_refuse(problem, "what follows the %s must be the number of a database", behind);
    }
    url->database = (uint32_t)database;
    return true;
}

static bool parse_redis_unix(struct span path, struct arena *arena, struct redis_url *url,
                             struct text *problem)
{
    (void)arena;
    if (path.len < 2 || path.data[0] != '/' || path.len > UNIX_PATH_BYTES_MAX) {
        return text_refuse(problem,
                           "must have the absolute path of a socket, of at most 107 bytes");
    }
    return add_endpoint(url, &(struct endpoint){.unix_path = path, .text = path}, problem);
}

static bool parse_redis_servers(struct span rest, struct arena *arena, struct redis_url *url,
                                struct text *problem)
{
    if (!cut_login(&rest, arena, &url->login, problem)) {
        return false;
    }
    const struct span authorities = cut_segment(&rest);
    if (!parse_endpoints(authorities, REDIS_PORT, url, problem) ||
        !parse_database(rest, "host", url, problem)) {
        return false;
    }
    url->kind = url->n_endpoints > 1 ? REDIS_CLUSTER : REDIS_SINGLE;
    if (url->kind == REDIS_CLUSTER && url->database != 0) {
        return text_refuse(problem, "several addresses are a cluster, which has only database 0");
    }
    return true;
}

/* Names that Redis allows for a master, except for bytes that end the name in a URL. */
static bool is_master_name(struct span name)
{
    return name.len > 0 && name.len <= REDIS_MASTER_BYTES_MAX && span_has_only(name, ".-_");
}

static bool parse_sentinels(struct span rest, struct arena *arena, struct redis_url *url,
                            struct text *problem)
{
    if (!cut_login(&rest, arena, &url->login, problem)) {
        return false;
    }
    const struct span authorities = cut_segment(&rest);
    if (!parse_endpoints(authorities, SENTINEL_PORT, url, problem)) {
        return false;
    }
    url->kind = REDIS_SENTINEL;
    url->master = cut_segment(&rest);
    if (url->master.len == 0) {
        return text_refuse(problem, "the sentinels must be followed by the name of the master: "
                                    "redis+sentinel://host,host,host/mymaster");
    }
    if (!is_master_name(url->master)) {
        return text_refuse(problem, "the name of the master must be 1 to %d of A-Z a-z 0-9 . _ -",
                           REDIS_MASTER_BYTES_MAX);
    }
    return parse_database(rest, "name of the master", url, problem);
}

#define WRITE_SENTINEL "sentinels are written redis+sentinel://host:26379,host,host/mymaster"
#define WRITE_CLUSTER                                                                              \
    "a cluster is several addresses, redis://host,host,host, or one and \"cluster: true\""

static const struct {
    const char *scheme;
    bool (*parse)(struct span rest, struct arena *arena, struct redis_url *url,
                  struct text *problem);
    const char *problem; /* where there is no parse */
    bool tls;
} SCHEMES[] = {
    {"redis", parse_redis_servers, NULL, false},
    {"redis+sentinel", parse_sentinels, NULL, false},
    {"unix", parse_redis_unix, NULL, false},
    {"redis+unix", parse_redis_unix, NULL, false},
    {"rediss", parse_redis_servers, NULL, true},
    {"rediss+sentinel", parse_sentinels, NULL, true},
    {"redis-sentinel", NULL, WRITE_SENTINEL, false},
    {"sentinel", NULL, WRITE_SENTINEL, false},
    {"redis+cluster", NULL, WRITE_CLUSTER, false},
    {"redis-cluster", NULL, WRITE_CLUSTER, false},
};

/* `redis://a,redis://b` is refused: it is ambiguous which "@" ends a login. */
static bool has_second_scheme(struct span rest)
{
    for (size_t i = 1; i < rest.len; i++) {
        const struct span tail = span_from(rest, i);
        if ((rest.data[i - 1] == ',' || rest.data[i - 1] == ' ') &&
            (span_starts_with(tail, SPAN("redis://")) ||
             span_starts_with(tail, SPAN("rediss://")))) {
            return true;
        }
    }
    return false;
}

static bool parse_scheme(size_t i, struct span rest, struct arena *arena, struct redis_url *url,
                         struct text *problem)
{
    struct redis_url parsed = {.tls = SCHEMES[i].tls};
    if (SCHEMES[i].parse == NULL) {
        text_add(problem, span_of_text(SCHEMES[i].problem));
        return false;
    }
    if (has_second_scheme(rest)) {
        return text_refuse(problem,
                           "several URLs are a list, [redis://host, redis://host], or one: "
                           "redis://host,host");
    }
    if (!SCHEMES[i].parse(rest, arena, &parsed, problem)) {
        return false;
    }
    *url = parsed;
    return true;
}

bool redis_url_parse(struct span span, struct arena *arena, struct redis_url *url,
                     struct text *problem)
{
    struct span rest = span;
    const struct span scheme = endpoint_cut_scheme(&rest);
    for (size_t i = 0; i < ARRAY_LEN(SCHEMES); i++) {
        if (span_equals_ignore_case(scheme, span_of_text(SCHEMES[i].scheme))) {
            return parse_scheme(i, rest, arena, url, problem);
        }
    }
    return text_refuse(problem, "must be redis://host:port/database, unix:///path or "
                                "redis+sentinel://host,host,host/mymaster");
}

bool redis_url_join(struct redis_url *url, const struct redis_url *other, struct text *problem)
{
    if (url->tls != other->tls) {
        return text_refuse(problem, "either all addresses are rediss://, or none is");
    }
    if (url->kind == REDIS_SENTINEL || other->kind == REDIS_SENTINEL) {
        return text_refuse(problem, "sentinels stand in one URL, "
                                    "redis+sentinel://host,host,host/mymaster, not in a list");
    }
    if (url->endpoints[0].unix_path.len > 0 || other->endpoints[0].unix_path.len > 0) {
        return text_refuse(problem, "several addresses are a cluster, which no socket leads to");
    }
    if (url->database != 0 || other->database != 0) {
        return text_refuse(problem, "several addresses are a cluster, which has only database 0");
    }
    if (other->login.password.len > 0 &&
        (!span_equals(url->login.user, other->login.user) ||
         !span_equals(url->login.password, other->login.password))) {
        return text_refuse(problem, "all nodes of a cluster have one login: the first URL's");
    }
    for (size_t i = 0; i < other->n_endpoints; i++) {
        if (!add_endpoint(url, &other->endpoints[i], problem)) {
            return false;
        }
    }
    url->kind = REDIS_CLUSTER;
    return true;
}
