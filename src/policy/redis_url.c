#include "policy/redis_url.h"

#include "policy/endpoint.h"

enum {
    REDIS_PORT = 6379,
    UNIX_PATH_BYTES_MAX = 107, /* of sockaddr_un, without the NUL */
    DATABASE_MAX = 65535,
};

static int hex_value(char c)
{
    const char lower = ascii_lower(c);
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The octet of the escape at the start of @span, or -1. */
static int read_escape(struct span span)
{
    const int high = span.len > 2 ? hex_value(span.data[1]) : -1;
    const int low = span.len > 2 ? hex_value(span.data[2]) : -1;
    return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

/* Decode the %-escapes of @span into *decoded. */
static bool decode(struct span span, struct arena *arena, struct span *decoded,
                   struct text *problem)
{
    char *out = arena_alloc(arena, span.len + 1);
    size_t len = 0;
    if (out == NULL) {
        text_add_literal(problem, "out of memory");
        return false;
    }
    for (size_t i = 0; i < span.len; i++) {
        if (span.data[i] != '%') {
            out[len++] = span.data[i];
            continue;
        }
        const int octet = read_escape(span_of(span.data + i, span.len - i));
        if (octet < 0) {
            text_add_literal(problem, "a \"%\" in user or password is written \"%25\"");
            return false;
        }
        out[len++] = (char)octet;
        i += 2;
    }
    out[len] = '\0';
    *decoded = span_of(out, len);
    return true;
}

/* Cut `user:password@` off @rest; the last "@" counts, since a password may hold one. */
static bool cut_login(struct span *rest, struct arena *arena, struct redis_url *url,
                      struct text *problem)
{
    size_t at = rest->len;
    while (at > 0 && rest->data[at - 1] != '@') {
        at--;
    }
    if (at == 0) {
        return true;
    }
    const struct span login = span_of(rest->data, at - 1);
    const size_t colon = span_find(login, ':');
    *rest = span_of(rest->data + at, rest->len - at);
    if (!decode(span_of(login.data, colon), arena, &url->user, problem)) {
        return false;
    }
    if (colon == login.len) {
        text_add_literal(problem, "a login is written user:password@, or :password@");
        return false;
    }
    return decode(span_of(login.data + colon + 1, login.len - colon - 1), arena, &url->password,
                  problem);
}

static bool parse_unix(struct span path, struct redis_url *url, struct text *problem)
{
    if (path.len < 2 || path.data[0] != '/' || path.len > UNIX_PATH_BYTES_MAX) {
        text_add_literal(problem, "must have the absolute path of a socket, of at most 107 bytes");
        return false;
    }
    url->endpoint = (struct endpoint){.unix_path = path, .text = path};
    return true;
}

static bool parse_tcp(struct span rest, struct redis_url *url, struct text *problem)
{
    const size_t authority_len = span_find(rest, '/');
    const struct span authority = span_of(rest.data, authority_len);
    uint64_t database = 0;
    if (span_find(authority, ',') < authority.len) {
        text_add_literal(problem, "several Redis addresses (a cluster) are not yet built");
        return false;
    }
    if (authority_len + 1 < rest.len &&
        !span_to_u64(span_of(rest.data + authority_len + 1, rest.len - authority_len - 1),
                     DATABASE_MAX, &database)) {
        text_add_literal(problem, "what follows the host must be the number of a database");
        return false;
    }
    url->database = (uint32_t)database;
    return endpoint_parse_authority(authority, REDIS_PORT, &url->endpoint, problem);
}

bool redis_url_parse(struct span span, struct arena *arena, struct redis_url *url,
                     struct text *problem)
{
    static const struct {
        struct span scheme;
        const char *problem;
    } LATER[] = {
        {{"rediss", 6}, "TLS to Redis (rediss://) is not yet built"},
        {{"redis+sentinel", 14}, "Sentinel (redis+sentinel://) is not yet built"},
        {{"redis-sentinel", 14}, "Sentinel (redis+sentinel://) is not yet built"},
        {{"redis+cluster", 13}, "a Redis cluster is not yet built"},
    };
    struct redis_url parsed = {0};
    struct span rest = span;
    const struct span scheme = endpoint_cut_scheme(&rest);
    for (size_t i = 0; i < ARRAY_LEN(LATER); i++) {
        if (span_equals_ignore_case(scheme, LATER[i].scheme)) {
            text_add(problem, span_of_text(LATER[i].problem));
            return false;
        }
    }
    bool sound = false;
    if (span_equals_ignore_case(scheme, SPAN("redis"))) {
        sound = cut_login(&rest, arena, &parsed, problem) && parse_tcp(rest, &parsed, problem);
    } else if (span_equals_ignore_case(scheme, SPAN("unix")) ||
               span_equals_ignore_case(scheme, SPAN("redis+unix"))) {
        sound = parse_unix(rest, &parsed, problem);
    } else {
        text_add_literal(problem, "must be redis://host:port/database or unix:///path");
    }
    if (sound) {
        *url = parsed;
    }
    return sound;
}
