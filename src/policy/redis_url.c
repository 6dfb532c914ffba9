#include "policy/redis_url.h"

#include "policy/endpoint.h"
#include "policy/login.h"

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
            text_add_literal(problem, "an address stands twice");
            return false;
        }
    }
    if (url->n_endpoints == REDIS_ENDPOINTS_MAX) {
        text_add_format(problem, "must have at most %d addresses", REDIS_ENDPOINTS_MAX);
        return false;
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
        if (!endpoint_parse_authority(span_of(list.data, comma), port_default, &endpoint,
                                      problem) ||
            !add_endpoint(url, &endpoint, problem)) {
            return false;
        }
        if (comma == list.len) {
            return true;
        }
        list = span_of(list.data + comma + 1, list.len - comma - 1);
    }
}

/* Cut what stands before the first "/" off @rest, and the "/". */
static struct span cut_segment(struct span *rest)
{
    const struct span segment = span_of(rest->data, span_find(*rest, '/'));
    const size_t taken = segment.len < rest->len ? segment.len + 1 : segment.len;
    *rest = span_of(rest->data + taken, rest->len - taken);
    return segment;
}

static bool parse_database(struct span span, const char *behind, struct redis_url *url,
                           struct text *problem)
{
    uint64_t database = 0;
    if (span.len > 0 && !span_to_u64(span, DATABASE_MAX, &database)) {
        text_add_format(problem, "what follows the %s must be the number of a database", behind);
        return false;
    }
    url->database = (uint32_t)database;
    return true;
}

static bool parse_unix(struct span path, struct arena *arena, struct redis_url *url,
                       struct text *problem)
{
    (void)arena;
    if (path.len < 2 || path.data[0] != '/' || path.len > UNIX_PATH_BYTES_MAX) {
        text_add_literal(problem, "must have the absolute path of a socket, of at most 107 bytes");
        return false;
    }
    return add_endpoint(url, &(struct endpoint){.unix_path = path, .text = path}, problem);
}

static bool parse_servers(struct span rest, struct arena *arena, struct redis_url *url,
                          struct text *problem)
{
    if (!login_cut(&rest, arena, &url->login, problem)) {
        return false;
    }
    const struct span authorities = cut_segment(&rest);
    if (!parse_endpoints(authorities, REDIS_PORT, url, problem) ||
        !parse_database(rest, "host", url, problem)) {
        return false;
    }
    url->kind = url->n_endpoints > 1 ? REDIS_CLUSTER : REDIS_SINGLE;
    if (url->kind == REDIS_CLUSTER && url->database != 0) {
        text_add_literal(problem, "several addresses are a cluster, which has database 0 alone");
        return false;
    }
    return true;
}

/* What Redis itself lets a master be called, but for the bytes that end it here. */
static bool is_master_name(struct span name)
{
    bool plain = name.len > 0 && name.len <= REDIS_MASTER_BYTES_MAX;
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        const char lower = ascii_lower(c);
        plain = plain && ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
                          c == '-' || c == '_');
    }
    return plain;
}

static bool parse_tls_servers(struct span rest, struct arena *arena, struct redis_url *url,
                              struct text *problem)
{
    url->tls = true;
    return parse_servers(rest, arena, url, problem);
}

static bool parse_sentinels(struct span rest, struct arena *arena, struct redis_url *url,
                            struct text *problem)
{
    if (!login_cut(&rest, arena, &url->login, problem)) {
        return false;
    }
    const struct span authorities = cut_segment(&rest);
    if (!parse_endpoints(authorities, SENTINEL_PORT, url, problem)) {
        return false;
    }
    url->kind = REDIS_SENTINEL;
    url->master = cut_segment(&rest);
    if (url->master.len == 0) {
        text_add_literal(problem, "the sentinels must be followed by the name of the master: "
                                  "redis+sentinel://host,host,host/mymaster");
        return false;
    }
    if (!is_master_name(url->master)) {
        text_add_format(problem, "the name of the master must be 1 to %d of A-Z a-z 0-9 . _ -",
                        REDIS_MASTER_BYTES_MAX);
        return false;
    }
    return parse_database(rest, "name of the master", url, problem);
}

#define WRITE_SENTINEL "sentinels are written redis+sentinel://host:26379,host,host/mymaster"
#define WRITE_CLUSTER                                                                              \
    "a cluster is several addresses, redis://host,host,host, or one and \"cluster: true\""
#define NO_TLS                                                                                     \
    "this build has no TLS to Redis, for want of hiredis 1.1 with its TLS part; write redis:// "   \
    "to a "                                                                                        \
    "TLS tunnel on this host, as docs/redis.md shows"
#define NO_TLS_TO_SENTINELS                                                                        \
    "there is no TLS to sentinels; write redis+sentinel:// to TLS tunnels on this host, as "       \
    "docs/redis.md shows"

static const struct {
    const char *scheme;
    bool (*parse)(struct span rest, struct arena *arena, struct redis_url *url,
                  struct text *problem);
    const char *problem; /* where there is no parse */
} SCHEMES[] = {
    {"redis", parse_servers, NULL},
    {"redis+sentinel", parse_sentinels, NULL},
    {"unix", parse_unix, NULL},
    {"redis+unix", parse_unix, NULL},
    {"rediss", SLUICE_REDIS_TLS ? parse_tls_servers : NULL, NO_TLS},
    {"rediss+sentinel", NULL, NO_TLS_TO_SENTINELS},
    {"redis-sentinel", NULL, WRITE_SENTINEL},
    {"sentinel", NULL, WRITE_SENTINEL},
    {"redis+cluster", NULL, WRITE_CLUSTER},
    {"redis-cluster", NULL, WRITE_CLUSTER},
};

/* `redis://a,redis://b`: which of the "@" would end a login is anybody's guess. */
static bool has_second_scheme(struct span rest)
{
    for (size_t i = 1; i < rest.len; i++) {
        const struct span tail = span_of(rest.data + i, rest.len - i);
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
    struct redis_url parsed = {0};
    if (SCHEMES[i].parse == NULL) {
        text_add(problem, span_of_text(SCHEMES[i].problem));
        return false;
    }
    if (has_second_scheme(rest)) {
        text_add_literal(problem, "several URLs are a list, [redis://host, redis://host], or one: "
                                  "redis://host,host");
        return false;
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
    text_add_literal(problem, "must be redis://host:port/database, unix:///path or "
                              "redis+sentinel://host,host,host/mymaster");
    return false;
}

bool redis_url_join(struct redis_url *url, const struct redis_url *other, struct text *problem)
{
    if (url->tls != other->tls) {
        text_add_literal(problem, "either all addresses are rediss://, or none is");
        return false;
    }
    if (url->kind == REDIS_SENTINEL || other->kind == REDIS_SENTINEL) {
        text_add_literal(problem, "sentinels stand in one URL, "
                                  "redis+sentinel://host,host,host/mymaster, not in a list");
        return false;
    }
    if (url->endpoints[0].unix_path.len > 0 || other->endpoints[0].unix_path.len > 0) {
        text_add_literal(problem, "several addresses are a cluster, which no socket leads to");
        return false;
    }
    if (url->database != 0 || other->database != 0) {
        text_add_literal(problem, "several addresses are a cluster, which has database 0 alone");
        return false;
    }
    if (other->login.password.len > 0 &&
        (!span_equals(url->login.user, other->login.user) ||
         !span_equals(url->login.password, other->login.password))) {
        text_add_literal(problem, "all nodes of a cluster have one login: the first URL's");
        return false;
    }
    for (size_t i = 0; i < other->n_endpoints; i++) {
        if (!add_endpoint(url, &other->endpoints[i], problem)) {
            return false;
        }
    }
    url->kind = REDIS_CLUSTER;
    return true;
}
