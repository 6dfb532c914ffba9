#include "policy/key.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "jwt/token.h"
#include "policy/load/value_types.h"
#include "policy/matcher.h"
#include "unit/policy/policy_support.h"

static struct arena arena;
static char identity_bytes[KEY_TEXT_BYTES_MAX];

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    arena_init(&arena, NULL, 0);
}

static void teardown(void)
{
    arena_reset(&arena);
}

/* Compile @parts, separated by ",". */
static struct key compile(const char *parts)
{
    static struct key_part compiled[KEY_PARTS_MAX];
    struct key key = {.parts = compiled};
    struct span rest = span_of_text(parts);
    struct span piece;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    while (span_split(&rest, ',', &piece)) {
        ck_assert(
            value_parse_key_part(span_trim(piece), &arena, &compiled[key.n_parts++], &problem));
    }
    return key;
}

/* The identity of @request, routed through a policy of one route. */
static struct span identity(struct request *request, const char *parts, const char *secret)
{
    struct policy *policy = policy_from_text(
        "listen: 127.0.0.1:0\n"
        "routes:\n"
        "  - {name: users, match: {path: '/users/{id}/**'}, respond: {status: 204}}\n"
        "  - {name: other, respond: {status: 204}}\n");
    const struct route *route = NULL;
    ck_assert_ptr_null(matcher_find_route(policy, &request->view, &route));
    ck_assert_ptr_nonnull(route);
    const struct key key = compile(parts);
    struct text text = text_of(identity_bytes, sizeof(identity_bytes));
    ck_assert_int_eq(
        key_read(&key, KEY_MISSING_SHARED_COUNTER, &request->view, span_of_text(secret), &text),
        KEY_READ);
    policy_free(policy);
    return text_span(&text);
}

static const struct {
    const char *target;
    const char *key;
    const char *identity;
} PLAIN[] = {
    {"/", "client.ip", "{client.ip:9=192.0.2.1}"},
    {"/", "client.ip,method", "{client.ip:9=192.0.2.1},method:3=GET"},
    {"/a/b", "path", "{path:4=/a/b}"},
    {"/a//b/../c", "path", "{path:4=/a/c}"},
    {"/a/b", "path.2", "{segment.2:1=b}"},
    {"/a/b", "path.3", "{none:0=}"},
    {"/a/", "path.2", "{none:0=}"},
    {"/users/7/orders", "path.id", "{capture.id:1=7}"},
    {"/users/7/orders", "route,path.id", "{route:5=users},capture.id:1=7"},
    {"/users/7", "path.nobody | host", "{host:15=api.example.com}"},
    {"/", "host", "{host:15=api.example.com}"},
    {"/", "global", "{global:3=all}"},
    {"/", "header.x-none", "{none:0=}"},
    {"/?a=1", "query.b, cookie.c", "{none:0=},none:0="},
    {"/", "header.x-none | cookie.none | method", "{method:3=GET}"},
};

START_TEST(a_plain_identity_can_be_read_by_people)
{
    struct request request;
    request_init(&request, "GET", PLAIN[_i].target, "API.example.com:8080");
    const struct span got = identity(&request, PLAIN[_i].key, "");
    ck_assert_msg(span_equals(got, span_of_text(PLAIN[_i].identity)), "%s: %.*s", PLAIN[_i].key,
                  SPAN_ARGS(got));
}
END_TEST

START_TEST(ipv6_counts_by_its_prefix)
{
    struct request request;
    request_init(&request, "GET", "/", "a");
    request_set_client(&request, SPAN("2001:db8:1:2:3:4:5:6"));
    ck_assert(
        span_equals(identity(&request, "client.ip", ""), SPAN("{client.ip:14=2001:db8:1:2::}")));
    ck_assert(span_equals(identity(&request, "client.ip/128", ""),
                          SPAN("{client.ip:24=2001:db8:1:2:3:4:5:6/128}")));
    request_set_client(&request, SPAN("::ffff:192.0.2.1"));
    ck_assert(span_equals(identity(&request, "client.ip", ""), SPAN("{client.ip:9=192.0.2.1}")));
}
END_TEST

/* Else a plan or a ban of one would be that of all others in the longest one. */
START_TEST(prefixes_of_one_address_are_different_identities)
{
    struct request request;
    request_init(&request, "GET", "/", "a");
    request_set_client(&request, SPAN("2001:db8:1::"));
    ck_assert(
        span_equals(identity(&request, "client.ip", ""), SPAN("{client.ip:12=2001:db8:1::}")));
    ck_assert(
        span_equals(identity(&request, "client.ip/64", ""), SPAN("{client.ip:12=2001:db8:1::}")));
    ck_assert(span_equals(identity(&request, "client.ip/48", ""),
                          SPAN("{client.ip:15=2001:db8:1::/48}")));
    ck_assert(span_equals(identity(&request, "client.ip/128", ""),
                          SPAN("{client.ip:16=2001:db8:1::/128}")));
    request_set_client(&request, SPAN("192.0.2.1"));
    ck_assert(span_equals(identity(&request, "client.ip/48", ""), SPAN("{client.ip:9=192.0.2.1}")));
}
END_TEST

/* The longest and the shortest of each family, and those with another notation inside. */
START_TEST(a_client_of_any_family_is_written_in_plain_bytes)
{
    static const char *const CLIENTS[] = {"0.0.0.0",
                                          "255.255.255.255",
                                          "::",
                                          "::1",
                                          "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                          "64:ff9b::192.0.2.1",
                                          "::ffff:203.0.113.200"};
    static const char *const PREFIXES[] = {"client.ip", "client.ip/48", "client.ip/128"};
    for (size_t i = 0; i < ARRAY_LEN(CLIENTS); i++) {
        for (size_t j = 0; j < ARRAY_LEN(PREFIXES); j++) {
            struct request request;
            request_init(&request, "GET", "/", "a");
            request_set_client(&request, span_of_text(CLIENTS[i]));
            const struct span got = identity(&request, PREFIXES[j], "");
            const struct span open = SPAN("{client.ip:");
            ck_assert(span_starts_with(got, open));
            const size_t equals = span_find(got, '=');
            ck_assert_uint_lt(equals, got.len - 1);
            for (size_t at = equals + 1; at < got.len - 1; at++) {
                ck_assert_msg(strchr("0123456789abcdef.:/", got.data[at]) != NULL, "%.*s",
                              SPAN_ARGS(got));
            }
        }
    }
}
END_TEST

/* The requests of a connection from a trusted proxy, and limits with several prefixes. */
START_TEST(what_a_connection_keeps_of_its_client_changes_no_identity)
{
    static const char *const CLIENTS[] = {"192.0.2.1",
                                          "192.0.2.1",
                                          "192.0.2.2",
                                          "2001:db8::1",
                                          "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                          "192.0.2.1"};
    static const char *const KEYS[] = {"client.ip",           "client.ip",        "client.ip/48",
                                       "client.ip/128",       "client.ip,method", "method",
                                       "header.a | client.ip"};
    struct client_identity kept = {.len = 0};
    for (size_t i = 0; i < ARRAY_LEN(CLIENTS); i++) {
        for (size_t j = 0; j < ARRAY_LEN(KEYS); j++) {
            struct request request;
            char bytes[KEY_TEXT_BYTES_MAX];
            struct text fresh = text_of(bytes, sizeof(bytes));
            request_init(&request, "GET", "/", "a");
            request_set_client(&request, span_of_text(CLIENTS[i]));
            text_add(&fresh, identity(&request, KEYS[j], ""));
            request.view.identity = &kept;
            ck_assert(span_equals(identity(&request, KEYS[j], ""), text_span(&fresh)));
        }
        const struct hash128 hash = hash_shared(span_of(kept.text, kept.len));
        ck_assert(memcmp(&hash, &kept.hash, sizeof(hash)) == 0);
    }
}
END_TEST

START_TEST(a_connection_keeps_nothing_of_an_unknown_client)
{
    struct client_identity kept = {.len = 0};
    struct request request;
    request_init(&request, "GET", "/", "a");
    request.view.client = (struct address){.family = ADDRESS_NONE};
    request.view.identity = &kept;
    ck_assert(span_equals(identity(&request, "client.ip", ""), SPAN("{none:0=}")));
    ck_assert_uint_eq(kept.len, 0);
}
END_TEST

START_TEST(an_unknown_client_is_missing)
{
    struct request request;
    request_init(&request, "GET", "/", "a");
    request.view.client = (struct address){.family = ADDRESS_NONE};
    ck_assert(span_equals(identity(&request, "client.ip", ""), SPAN("{none:0=}")));
}
END_TEST

/* Copies the identity away from the buffer that the next call uses. */
static struct span kept_identity(struct request *request, const char *parts, const char *secret)
{
    const struct span copy = arena_copy(&arena, identity(request, parts, secret));
    ck_assert_ptr_nonnull(copy.data);
    return copy;
}

START_TEST(what_may_be_secret_is_hashed)
{
    static const char *const KEYS[] = {"header.x-api-key", "cookie.key", "query.key"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        struct request request;
        request_init(&request, "GET", "/?key=s3cret", "a");
        request_add_field(&request, SPAN("X-API-Key"), SPAN("s3cret"));
        request_add_field(&request, SPAN("Cookie"), SPAN("a=b; key=s3cret"));
        const struct span got = kept_identity(&request, KEYS[i], "");
        ck_assert(memmem(got.data, got.len, "s3cret", 6) == NULL);
        ck_assert(memmem(got.data, got.len, "#32=", 4) != NULL);
        ck_assert(span_equals(got, kept_identity(&request, KEYS[i], "")));
        ck_assert(!span_equals(got, kept_identity(&request, KEYS[i], "another secret")));
    }
}
END_TEST

/* Of requests by geohash(query.lat header.x-lon 6) with @other: whether they count as those to
 * 52.520008, 13.404954. */
static const struct {
    const char *target;
    const char *longitude; /* NULL: no such field */
    bool is_same;
} POSITIONS[] = {
    {"/?lat=52.520008", "13.404954", true},
    {"/?lat=52.52001&x=1", " 13.40494999 ", true},
    {"/?lat=%352.520008&lat=52.520008", "+13.404954", true},
    {"/?lat=%2B52.520008", "13.404954", true},
    {"/?lat=-52.520008", "13.404954", false},
    {"/?lat=52.520008", "13.5", false},
};

START_TEST(a_position_counts_by_its_cell)
{
    static const char KEY[] = "geohash(query.lat header.x-lon 6)";
    struct request berlin;
    struct request other;
    request_init(&berlin, "GET", "/?lat=52.520008", "a");
    request_add_field(&berlin, SPAN("X-Lon"), SPAN("13.404954"));
    request_init(&other, "GET", POSITIONS[_i].target, "a");
    request_add_field(&other, SPAN("X-Lon"), span_of_text(POSITIONS[_i].longitude));
    const struct span cell = kept_identity(&berlin, KEY, "");
    ck_assert(span_starts_with(cell, SPAN("{geohash#32=")));
    ck_assert(span_equals(kept_identity(&other, KEY, ""), cell) == POSITIONS[_i].is_same);
    /* Other places of the coordinates, or another size, are another key. */
    ck_assert(!span_equals(kept_identity(&berlin, "geohash(query.lat header.x-lon 5)", ""), cell));
    request_add_field(&berlin, SPAN("X-Long"), SPAN("13.404954"));
    ck_assert(!span_equals(kept_identity(&berlin, "geohash(query.lat header.x-long 6)", ""), cell));
}
END_TEST

START_TEST(what_is_no_position_is_missing)
{
    static const char *const TARGETS[] = {
        "/",
        "/?lat=1",
        "/?lon=1",
        "/?lat=&lon=1",
        "/?lat=1&lon=",
        "/?lat=x&lon=1",
        "/?lat=90.1&lon=1",
        "/?lat=1&lon=-180.5",
        "/?lat=1e1&lon=1",
        "/?lat=1&lon=1,5",
        "/?lat=1&lon=000000000000000000000000000000001",
    };
    for (size_t i = 0; i < ARRAY_LEN(TARGETS); i++) {
        struct request request;
        request_init(&request, "GET", TARGETS[i], "a");
        ck_assert_msg(span_equals(identity(&request, "geohash(query.lat query.lon 6)", ""),
                                  SPAN("{none:0=}")),
                      "%s", TARGETS[i]);
        ck_assert_msg(span_equals(identity(&request, "geohash(query.lat query.lon 6) | method", ""),
                                  SPAN("{method:3=GET}")),
                      "%s", TARGETS[i]);
    }
}
END_TEST

/* The cells of requests whose coordinates come twice. */
START_TEST(coordinates_that_come_twice_follow_the_rules_of_their_sources)
{
    static const struct {
        const char *key;
        const char *target;
        const char *cookie;
        enum key_duplicates duplicates;
        size_t n; /* identities; 0: refused */
    } ROWS[] = {
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=2&lon=1", "", KEY_DUPLICATES_COOKIES, 0},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=1.0&lon=1", "", KEY_DUPLICATES_COOKIES, 0},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lon=1&lon=", "", KEY_DUPLICATES_COOKIES, 0},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lon=1;x", "", KEY_DUPLICATES_COOKIES, 0},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=2&lon=1", "", KEY_DUPLICATES_EACH, 2},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=1.0&lon=1", "", KEY_DUPLICATES_EACH, 1},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=2&lon=1&lon=2", "", KEY_DUPLICATES_EACH, 4},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=2&lat=3&lon=1&lon=2", "",
         KEY_DUPLICATES_EACH, 0},
        {"geohash(query.lat query.lon 6)", "/?lat=1&lat=x&lon=1", "", KEY_DUPLICATES_EACH, 2},
        {"geohash(cookie.lat query.lon 6)", "/?lon=1", "lat=1; lat=2", KEY_DUPLICATES_COOKIES, 2},
        {"geohash(cookie.lat query.lon 6)", "/?lon=1", "lat=1; lat=x", KEY_DUPLICATES_COOKIES, 2},
        {"geohash(cookie.lat query.lon 6)", "/?lon=1&lon=2", "lat=1", KEY_DUPLICATES_COOKIES, 0},
        {"geohash(cookie.lat query.lon 6)", "/?lon=1", "lat=1; lat=2", KEY_DUPLICATES_REFUSE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct request request;
        struct text text = text_of(identity_bytes, sizeof(identity_bytes));
        struct key key = compile(ROWS[i].key);
        size_t n = 0;
        key.duplicates = ROWS[i].duplicates;
        request_init(&request, "GET", ROWS[i].target, "a");
        request_add_field(&request, SPAN("Cookie"), span_of_text(ROWS[i].cookie));
        const enum key_result result =
            key_read_nth(&key, KEY_MISSING_SHARED_COUNTER, &request.view, SPAN(""), 0, &n, &text);
        ck_assert_msg(result == (ROWS[i].n > 0 ? KEY_READ : KEY_IS_AMBIGUOUS), "%s %s",
                      ROWS[i].target, ROWS[i].cookie);
        ck_assert_msg(ROWS[i].n == 0 || n == ROWS[i].n, "%s %s: %zu", ROWS[i].target,
                      ROWS[i].cookie, n);
        ck_assert_int_eq(
            key_may_have_several(&key),
            ROWS[i].duplicates == KEY_DUPLICATES_EACH ||
                (ROWS[i].duplicates == KEY_DUPLICATES_COOKIES && ROWS[i].cookie[0] != '\0'));
    }
}
END_TEST

START_TEST(the_hash_covers_the_name_of_the_part)
{
    struct request a;
    struct request b;
    request_init(&a, "GET", "/", "a");
    request_add_field(&a, SPAN("X-A"), SPAN("value"));
    request_init(&b, "GET", "/", "a");
    request_add_field(&b, SPAN("X-B"), SPAN("value"));
    const char *key = "header.x-a | header.x-b";
    ck_assert(!span_equals(kept_identity(&a, key, ""), kept_identity(&b, key, "")));
}
END_TEST

START_TEST(the_digest_of_a_claim_is_kept_with_its_token)
{
    const struct span value = SPAN("alice");
    struct jwt_digest digest = {.is_known = false};
    struct jwt_claim claim = {.values = &value, .n_values = 1, .is_single = true};
    const struct jwt_claims claims = {.claims = &claim, .n_claims = 1};
    struct request request;
    request_init(&request, "GET", "/", "a");
    request.view.claims = &claims;
    const struct span computed = kept_identity(&request, "jwt.sub", "secret");
    ck_assert(span_starts_with(computed, SPAN("{jwt#32=")));
    claim.digest = &digest;
    ck_assert(span_equals(identity(&request, "jwt.sub", "secret"), computed));
    ck_assert(digest.is_known);
    ck_assert(span_equals(identity(&request, "jwt.sub", "secret"), computed));
    memset(digest.bytes, 0xab, sizeof(digest.bytes));
    ck_assert(span_equals(identity(&request, "jwt.sub", "secret"),
                          SPAN("{jwt#32=abababababababababababababababab}")));
}
END_TEST

START_TEST(a_long_value_is_hashed_whole)
{
    static char lengthy[2000];
    struct request request;
    memset(lengthy, 'a', sizeof(lengthy));
    request_init(&request, "GET", "/", "a");
    request_add_field(&request, SPAN("X-A"), span_of(lengthy, sizeof(lengthy)));
    const struct span whole = kept_identity(&request, "header.x-a", "");
    lengthy[sizeof(lengthy) - 1] = 'b';
    ck_assert(!span_equals(whole, kept_identity(&request, "header.x-a", "")));
}
END_TEST

START_TEST(no_two_composites_meet)
{
    /* Pairs that would meet if parts were joined as they are. */
    struct request a;
    struct request b;
    request_init(&a, "GET", "/a/b%7Cc", "x");
    request_init(&b, "GET", "/a%7Cb/c", "x");
    ck_assert(!span_equals(kept_identity(&a, "path.1,path.2", ""),
                           kept_identity(&b, "path.1,path.2", "")));
    request_init(&a, "GET", "/a,segment.2:1=b", "x");
    request_init(&b, "GET", "/a/b", "x");
    ck_assert(!span_equals(kept_identity(&a, "path.1,path.2", ""),
                           kept_identity(&b, "path.1,path.2", "")));
    request_init(&a, "GET", "/a", "x");
    request_init(&b, "GET", "/none:0=", "x");
    ck_assert(!span_equals(kept_identity(&a, "path.2", ""), kept_identity(&b, "path.1", "")));
}
END_TEST

START_TEST(bytes_that_stand_ill_in_a_redis_key_are_hashed)
{
    static const char *const TARGETS[] = {"/a%7Bb%7D", "/{a}", "/a,b", "/a=b", "/a*"};
    for (size_t i = 0; i < ARRAY_LEN(TARGETS); i++) {
        struct request request;
        request_init(&request, "GET", TARGETS[i], "x");
        const struct span got = identity(&request, "path.1", "");
        for (size_t j = 1; j + 1 < got.len; j++) {
            ck_assert_msg(strchr("{},* \r\n", got.data[j]) == NULL, "%s: %.*s", TARGETS[i],
                          SPAN_ARGS(got));
        }
    }
}
END_TEST

START_TEST(an_empty_value_counts_as_missing)
{
    struct request request;
    request_init(&request, "GET", "/?key=", "x");
    request_add_field(&request, SPAN("X-API-Key"), SPAN(""));
    request_add_field(&request, SPAN("Cookie"), SPAN("key="));
    ck_assert(
        span_equals(identity(&request, "header.x-api-key | cookie.key | query.key | method", ""),
                    SPAN("{method:3=GET}")));
}
END_TEST

START_TEST(a_missing_part_writes_nothing_when_the_rule_says_so)
{
    static const enum key_missing RULES[] = {KEY_MISSING_DENY, KEY_MISSING_SKIP};
    for (size_t i = 0; i < ARRAY_LEN(RULES); i++) {
        struct request request;
        struct text text = text_of(identity_bytes, sizeof(identity_bytes));
        const struct key key = compile("method, header.x-api-key");
        request_init(&request, "GET", "/", "x");
        ck_assert_int_eq(key_read(&key, RULES[i], &request.view, SPAN(""), &text),
                         KEY_LACKS_A_PART);
        ck_assert_uint_eq(text.len, 0);
    }
}
END_TEST

START_TEST(the_longest_key_fits)
{
    struct request request;
    char target[80];
    memset(target, 'a', sizeof(target));
    target[0] = '/';
    target[65] = '\0';
    request_init(&request, "GET", target, "x");
    const struct span got =
        identity(&request, "path.1,path.1,path.1,path.1,path.1,path.1,path.1,path.1", "");
    ck_assert_uint_eq(got.len, 8 * (sizeof("segment.1:64=") - 1 + 64) + 2 + 7);
}
END_TEST

START_TEST(the_first_cookie_of_a_name_counts)
{
    struct request a;
    struct request b;
    request_init(&a, "GET", "/", "x");
    request_add_field(&a, SPAN("Cookie"), SPAN("xkey=1; key=2;key=3"));
    request_add_field(&a, SPAN("Cookie"), SPAN("key=4"));
    request_init(&b, "GET", "/", "x");
    request_add_field(&b, SPAN("Cookie"), SPAN("key=2"));
    ck_assert(
        span_equals(kept_identity(&a, "cookie.key", ""), kept_identity(&b, "cookie.key", "")));
}
END_TEST

START_TEST(a_long_value_leaves_room_for_the_address)
{
    static char cookies[TARGET_BYTES_MAX + 32];
    struct text text = text_of(cookies, sizeof(cookies));
    struct request request;
    text_add_literal(&text, "sid=; sid=\"%zz");
    while (text.len < TARGET_BYTES_MAX + 9) {
        text_add_char(&text, 'a');
    }
    text_add_char(&text, '"');
    request_init(&request, "GET", "/", "192.0.2.1");
    request_add_field(&request, SPAN("Cookie"), text_span(&text));
    const struct key key = compile("cookie.sid | client.ip");
    struct text got = text_of(identity_bytes, sizeof(identity_bytes));
    size_t n;
    ck_assert_int_eq(
        key_read_nth(&key, KEY_MISSING_SHARED_COUNTER, &request.view, SPAN(""), 0, &n, &got),
        KEY_READ);
    got.len = 0;
    ck_assert_int_eq(
        key_read_nth(&key, KEY_MISSING_SHARED_COUNTER, &request.view, SPAN(""), n - 1, &n, &got),
        KEY_READ);
    ck_assert_msg(span_equals(text_span(&got), SPAN("{client.ip:9=192.0.2.1}")), "%.*s",
                  SPAN_ARGS(text_span(&got)));
}
END_TEST

/* What is read of a request with @value as Authorization. */
static enum key_result read_credentials(struct span value)
{
    struct request request;
    struct text text = text_of(identity_bytes, sizeof(identity_bytes));
    const struct key key = compile("header.authorization | client.ip");
    request_init(&request, "GET", "/", "x");
    request_add_field(&request, SPAN("Authorization"), value);
    const enum key_result result =
        key_read(&key, KEY_MISSING_SHARED_COUNTER, &request.view, SPAN(""), &text);
    ck_assert_int_eq(text.len > 0, result == KEY_READ);
    ck_assert(!span_starts_with(text_span(&text), SPAN("{client.ip")));
    return result;
}

START_TEST(credentials_with_words_that_only_some_servers_drop_are_refused)
{
    static const char *const refused[] = {
        "Bearer tok x",
        "bearer  tok x",
        "Bearer tok\tx",
        "Bearer tok\xa0x",
        "Bearer tok\x85x",
        "Bearer t:o/k== x",
        "Bearer tok x=\"1\"",
        "Token tok x",
        "Basic dG9r x",
        "Bearer == x",
        "Bearer eyJhbGciOiJIUzI1NiJ9.e30.abcdefghijklmnopqrstuvwxyz12345 x.y",
        "Bearer tok,x",
        "Bearer tok;1",
        "Bearer ,tok",
        "Bearer \"tok\"",
        "Token token=\"t\", nonce=\"n\"",
        "Bearer token=t,x",
        "Bearer token=\"t",
        "0Bearer tok",
        "tBearer ok",
        "x,bearer tok",
        "toBEARERk",
        "Bearer toBearerk",
        "Bearer=tok"};
    static const char *const taken[] = {
        "Bearer tok",
        "Bearer",
        "tok",
        "Bearer tok \xa0",
        "Bearer tok==",
        "Digest username=\"a b\", realm=\"c\"",
        "Token token=\"t\"",
        "Basic Qk==",
        "AWS4-HMAC-SHA256 Credential=AK/1/2, SignedHeaders=a;b, Signature=c"};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        ck_assert_msg(read_credentials(span_of_text(refused[i])) == KEY_IS_AMBIGUOUS, "%s",
                      refused[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        ck_assert_msg(read_credentials(span_of_text(taken[i])) == KEY_READ, "%s", taken[i]);
    }
}
END_TEST

START_TEST(credentials_count_without_their_scheme)
{
    static const char *const same[] = {
        "Bearer tok",       "bearer  tok",     "Bearer\ttok",  "tok",
        "Token tok",        "S1 tok",          "Basic tok",    "Token token=\"tok\"",
        "Bearer token=tok", "Token token=tok", "Bearer\xa0tok"};
    char first[64] = "";
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        struct request request;
        request_init(&request, "GET", "/", "x");
        request_add_field(&request, SPAN("Authorization"), span_of_text(same[i]));
        const struct span got = identity(&request, "header.authorization", "");
        ck_assert_uint_lt(got.len, sizeof(first));
        if (i == 0) {
            memcpy(first, got.data, got.len);
        }
        ck_assert_msg(span_equals(got, span_of_text(first)), "%s: %.*s", same[i], SPAN_ARGS(got));
    }
}
END_TEST

START_TEST(a_key_is_shared_if_all_its_parts_are)
{
    static const char *const SHARED[] = {
        "{global:3=all}",
        "{none:0=}",
        "{none:0=},none:0=",
        "{path:26=/{client.ip:9=192.0.2.1},a},host:1=a",
        "{client.country:2=DE},client.asn:4=3320,client.ja4:1=a",
        "{path#32=0123456789abcdef0123456789abcdef},method:3=GET",
        "{route:1=a",
        "{path:99=/}",
        "",
        "{",
        "client",
    };
    static const char *const OWN[] = {
        "{client.ip:9=192.0.2.1}",
        "{client.ip:9=192.0.2.1},none:0=",
        "{none:0=},client.ip:9=192.0.2.1",
        "{path:2=/=},header#32=0123456789abcdef0123456789abcdef",
        "{path#32=0123456789abcdef0123456789abcdef},client.cert.cn:1=a",
        "{jwt#32=0123456789abcdef0123456789abcdef}",
    };
    for (size_t i = 0; i < ARRAY_LEN(SHARED); i++) {
        ck_assert_msg(key_is_shared(span_of_text(SHARED[i])), "%s", SHARED[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(OWN); i++) {
        ck_assert_msg(!key_is_shared(span_of_text(OWN[i])), "%s", OWN[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/key");
    TCase *tcase = tcase_create("read");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_plain_identity_can_be_read_by_people, 0, (int)ARRAY_LEN(PLAIN));
    tcase_add_test(tcase, ipv6_counts_by_its_prefix);
    tcase_add_test(tcase, prefixes_of_one_address_are_different_identities);
    tcase_add_test(tcase, a_client_of_any_family_is_written_in_plain_bytes);
    tcase_add_test(tcase, what_a_connection_keeps_of_its_client_changes_no_identity);
    tcase_add_test(tcase, a_connection_keeps_nothing_of_an_unknown_client);
    tcase_add_test(tcase, an_unknown_client_is_missing);
    tcase_add_test(tcase, what_may_be_secret_is_hashed);
    tcase_add_loop_test(tcase, a_position_counts_by_its_cell, 0, (int)ARRAY_LEN(POSITIONS));
    tcase_add_test(tcase, what_is_no_position_is_missing);
    tcase_add_test(tcase, coordinates_that_come_twice_follow_the_rules_of_their_sources);
    tcase_add_test(tcase, the_hash_covers_the_name_of_the_part);
    tcase_add_test(tcase, the_digest_of_a_claim_is_kept_with_its_token);
    tcase_add_test(tcase, a_long_value_is_hashed_whole);
    tcase_add_test(tcase, no_two_composites_meet);
    tcase_add_test(tcase, bytes_that_stand_ill_in_a_redis_key_are_hashed);
    tcase_add_test(tcase, an_empty_value_counts_as_missing);
    tcase_add_test(tcase, a_missing_part_writes_nothing_when_the_rule_says_so);
    tcase_add_test(tcase, the_longest_key_fits);
    tcase_add_test(tcase, the_first_cookie_of_a_name_counts);
    tcase_add_test(tcase, a_long_value_leaves_room_for_the_address);
    tcase_add_test(tcase, credentials_with_words_that_only_some_servers_drop_are_refused);
    tcase_add_test(tcase, credentials_count_without_their_scheme);
    tcase_add_test(tcase, a_key_is_shared_if_all_its_parts_are);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
