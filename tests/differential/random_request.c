#include "random_request.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/compiler.h"

#include "chance.h"

enum { POLICY_LIMITS = 5, POLICY_ROUTES_MAX = 8 };

#define PICK(...)                                                                                  \
    pick((const char *const[]){__VA_ARGS__},                                                       \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const char *pick(const char *const *words, size_t n)
{
    return words[random_below(n)];
}

static void add(struct text *text, const char *words)
{
    text_add(text, span_of_text(words));
}

/* --- policies --- */

static const char *random_part(void)
{
    return PICK("client.ip", "client.ip", "client.ip/48", "header.x-key", "header.x-key",
                "cookie.id", "query.q", "path", "path.1", "method", "host", "route", "global",
                "header.x-key | client.ip");
}

static const char *random_rate(void)
{
    return PICK("rate: 2/hour", "rate: 1000/day", "rate: [2/hour, 100/day]", "rate: 5/minute",
                "rate: 3/month, algorithm: fixed_window",
                "rate: [4/day, 9/week], algorithm: fixed_window, timezone: Europe/Berlin",
                "rate: 2/hour, algorithm: gcra, burst: 3",
                "rate: 3/hour, algorithm: sliding_window",
                "rate: 2/minute, algorithm: leaky_bucket, max_wait: 10m",
                "rate: 3, algorithm: concurrency");
}

static void add_limit(struct text *yaml, unsigned number)
{
    text_add_format(yaml, "  l%u: {key: [%s", number, random_part());
    if (one_in(2)) {
        text_add_format(yaml, ", %s", random_part());
    }
    text_add_format(yaml, "], %s", random_rate());
    text_add_format(yaml, ", missing: %s",
                    PICK("shared_counter", "shared_counter", "skip", "deny"));
    add(yaml, one_in(5) ? PICK(", duplicates: each", ", duplicates: refuse") : "");
    add(yaml, one_in(5) ? ", shadow: true" : "");
    add(yaml, one_in(4) ? ", except: {client: [127.0.0.2, 192.0.2.0/24]}" : "");
    add(yaml, one_in(5) ? ", deny: {status: 420, body: enough}" : "");
    add(yaml, one_in(6) ? ", on_failure: deny" : "");
    add(yaml, "}\n");
}

static void add_path(struct text *yaml)
{
    const uint64_t n = random_below(4);
    bool has_capture = false;
    add(yaml, "path: \"");
    for (uint64_t i = 0; i < n; i++) {
        const char *part = PICK("a", "b", "login", "*", "lo*n", "{one}");
        text_add_format(yaml, "/%s", *part == '{' && has_capture ? "*" : part);
        has_capture = has_capture || *part == '{';
    }
    add(yaml, one_in(2) || n == 0 ? "/**\"" : "\"");
}

static void add_match(struct text *yaml)
{
    add(yaml, "match: {");
    add_path(yaml);
    add(yaml, one_in(4) ? PICK(", method: [GET, POST]", ", method: [OPTIONS, TRACE, PURGE]") : "");
    add(yaml, one_in(6) ? PICK(", host: a.test", ", host: \"*.test\"") : "");
    add(yaml, one_in(6) ? PICK(", header: {x-key: true}", ", header: {x-key: \"1\"}") : "");
    add(yaml, one_in(6) ? ", client: [127.0.0.2, 192.0.2.0/24]" : "");
    add(yaml, one_in(4) ? ", ignore_case: true" : "");
    add(yaml, one_in(4) ? ", encoded_slash: allow" : "");
    add(yaml, "}");
}

static void add_route(struct text *yaml, unsigned number)
{
    const uint64_t first = random_below(POLICY_LIMITS);
    const uint64_t n_limits = random_below(4);
    text_add_format(yaml, "- {name: r%u, ", number);
    if (one_in(4)) { /* a prefix that every path of the route begins with */
        text_add_format(yaml, "match: {path: /%s/**}, strip_prefix: /%s", "a", "a");
    } else {
        add_match(yaml);
    }
    add(yaml, ", limits: [");
    for (uint64_t i = 0; i < n_limits; i++) {
        text_add_format(yaml, "%sl%u", i > 0 ? ", " : "", (unsigned)((first + i) % POLICY_LIMITS));
    }
    add(yaml, "]");
    add(yaml, one_in(5) ? PICK(", cost: 2", ", cost: {POST: 3, default: 1}",
                               ", cost: {from: header.x-cost, max: 2, trust: any}")
                        : "");
    add(yaml, one_in(3) ? ", max_body: 100B" : "");
    add(yaml, one_in(4) ? PICK(", respond: {status: 204}", ", respond: {status: 503, body: no}")
                        : ", upstream: api");
    add(yaml, "}\n");
}

void random_policy(struct text *yaml)
{
    const uint64_t n_routes = 1 + random_below(POLICY_ROUTES_MAX);
    add(yaml, "listen: 127.0.0.1:0\nworkers: 1\n"
              "store: {secret: abc}\n"
              "upstreams: {api: {servers: [http://127.0.0.1:PORT]}}\n");
    add(yaml, one_in(3) ? ""
                        : PICK("trusted_proxies: [127.0.0.1]\n",
                               "trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]\n"));
    add(yaml, one_in(8) ? "max: {headers: 6}\n" : "");
    add(yaml, "limits:\n");
    for (unsigned i = 0; i < POLICY_LIMITS; i++) {
        add_limit(yaml, i);
    }
    add(yaml, "routes:\n");
    for (unsigned i = 0; i < n_routes; i++) {
        add_route(yaml, i);
    }
}

/* --- requests --- */

static void PRINTF_LIKE(2, 3) add_field(struct random_request *request, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(request->fields[request->n_fields++], REQUEST_FIELD_BYTES, format, values);
    va_end(values);
}

static void make_target(struct random_request *request)
{
    struct text target = text_of(request->target, sizeof(request->target) - 1);
    const uint64_t n = 1 + random_below(4);
    for (uint64_t i = 0; i < n; i++) {
        text_add_format(&target, "/%s",
                        one_in(20) ? PICK("%61", "a%2fb", "a%5cb", "..", ".", "", "%", "%00", "c d")
                                   : PICK("a", "a", "a", "b", "login", "logan", "Login", "a;v=1"));
    }
    add(&target, PICK("", "", "?q=1", "?q=%31&q=2", "?q=1&q=1"));
    request->target[target.len] = '\0';
    if (one_in(40)) {
        snprintf(request->target, sizeof(request->target), "%s", PICK("*", "a", "", "/a#b"));
    }
}

static void add_clients(struct random_request *request)
{
    const uint64_t n = random_below(3);
    for (uint64_t i = 0; i < n; i++) {
        const char *name = PICK("X-Forwarded-For", "X-Forwarded-For", "Forwarded", "X-Real-IP");
        add_field(request, "%s: %s", name,
                  PICK("192.0.2.1", "1.1.1.1, 10.0.0.1", "for=192.0.2.7", "junk",
                       "2001:db8:1:2:3::4, 127.0.0.9", ""));
    }
}

static void add_keys(struct random_request *request)
{
    const uint64_t n_keys = one_in(2) ? 0 : 1 + one_in(6);
    const uint64_t n_cookies = one_in(3) ? 1 + one_in(6) : 0;
    for (uint64_t i = 0; i < n_keys; i++) {
        const char *name = one_in(40) ? "X_Key" : "X-Key";
        add_field(request, "%s: %s", name, PICK("1", "1", "2, 3", "it's", ""));
    }
    for (uint64_t i = 0; i < n_cookies; i++) {
        add_field(request, "Cookie: %s", PICK("x=1; id=a", "id=b", "id=a; id=b", "id"));
    }
    if (one_in(6)) {
        add_field(request, "X-Cost: %s", PICK("1", "2", "9", "x"));
    }
}

void random_request(struct random_request *request)
{
    request->method =
        PICK("GET", "GET", "POST", "POST", "OPTIONS", "TRACE", "HEAD", "PURGE", "post");
    request->peer = PICK("127.0.0.1", "127.0.0.2", "198.51.100.7", "192.0.2.9", "2001:db8::7");
    request->n_fields = 0;
    make_target(request);
    add_field(request, "Host: %s", PICK("a.test", "B.test:80", "x.a.test.", "a.test", "[::1]"));
    add_clients(request);
    add_keys(request);
    if (one_in(5)) {
        add_field(request, "Via: %s",
                  PICK("1.1 " REQUEST_OWN_NAME, "1.0 a, 1.1 " REQUEST_OWN_NAME " (b)", "1.1 a",
                       "1.1 sluice-ffffffffffff"));
    }
    if (one_in(3)) {
        add_field(request, "Max-Forwards: %s", one_in(20) ? "x" : PICK("0", "1"));
    }
    if (one_in(3)) {
        add_field(request, "%s",
                  one_in(20) ? "Content-Length: 1x"
                             : PICK("Content-Length: 100", "Content-Length: 101",
                                    "Transfer-Encoding: chunked"));
    }
    if (one_in(30)) {
        add_field(request, "%s", PICK("Connection: x-key", "Bad Name: 1", "Connection: close"));
    }
}

void random_request_write(const struct random_request *request, struct text *head)
{
    text_add_format(head, "%s %s HTTP/1.1\r\n", request->method, request->target);
    for (size_t i = 0; i < request->n_fields; i++) {
        text_add_format(head, "%s\r\n", request->fields[i]);
    }
    text_add(head, span_of("\r\n", 3));
}
