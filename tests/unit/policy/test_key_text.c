#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "policy/key.h"
#include "policy/load/value_types.h"
#include "policy/policy.h"
#include "unit/policy/policy_support.h"

static struct named_method methods[] = {{{"Purge", 5}, "the request's is Purge"}};
static const struct policy policy = {
    .store.secret = {"secret", 6}, .methods = methods, .n_methods = ARRAY_LEN(methods)};
static struct arena arena;

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

/* What @written means under @parts, in @given; else what is wrong with it is said. */
static bool parse(const char *parts, struct span written, struct key_given *given,
                  struct text *problem)
{
    const struct key key = compile(parts);
    return key_parse(&policy, &key, written, given, problem);
}

#define ALICE "2bd806c97f0e00af1a1fc3328fa763a9"

static const struct {
    const char *key;
    const char *written;
    const char *identity;
} MEANT[] = {
    {"client.ip", "client.ip=192.0.2.1", "{client.ip:9=192.0.2.1}"},
    {"client.ip", "192.0.2.1", "{client.ip:9=192.0.2.1}"},
    {"client.ip", "::ffff:192.0.2.1", "{client.ip:9=192.0.2.1}"},
    {"client.ip", "2001:db8:1:2:3::4", "{client.ip:14=2001:db8:1:2::}"},
    {"client.ip/128", "2001:DB8::4", "{client.ip:15=2001:db8::4/128}"},
    {"client.ip/128", "2001:db8::4/128", "{client.ip:15=2001:db8::4/128}"},
    {"client.ip/48", "2001:db8:1:2::3", "{client.ip:15=2001:db8:1::/48}"},
    {"client.ip/48", "2001:db8:1::/48", "{client.ip:15=2001:db8:1::/48}"},
    {"client.ip/48", "2001:db8::/33", "{client.ip:13=2001:db8::/33}"},
    {"client.ip/48", "192.0.2.1", "{client.ip:9=192.0.2.1}"},
    {"header.x-key | client.ip", "192.0.2.1", "{client.ip:9=192.0.2.1}"},
    {"client.ip", "192.0.2.9/24", "{client.ip:12=192.0.2.0/24}"},
    {"client.ip", "client.ip=192.0.2.9/24", "{client.ip:12=192.0.2.0/24}"},
    {"client.ip", "0.0.0.0/0", "{client.ip:9=0.0.0.0/0}"},
    {"client.ip", "::ffff:192.0.2.0/120", "{client.ip:12=192.0.2.0/24}"},
    {"client.ip", "2001:DB8:1::/48", "{client.ip:15=2001:db8:1::/48}"},
    {"client.ip", "192.0.2.9/32", "{client.ip:9=192.0.2.9}"},
    {"client.ip", "2001:db8:1:2::/64", "{client.ip:14=2001:db8:1:2::}"},
    {"client.ip", "2001:db8:1:2::3/128", "{client.ip:14=2001:db8:1:2::}"},
    {"client.ip/128", "2001:db8:1:2::/64", "{client.ip:17=2001:db8:1:2::/64}"},
    {"header.x-key | client.ip", "192.0.2.0/24", "{client.ip:12=192.0.2.0/24}"},
    {"client.ip", "none", "{none:0=}"},
    {"client.ip", "{none:0=}", "{none:0=}"},
    {"client.ip, method", "client.ip=192.0.2.1,method=GET", "{client.ip:9=192.0.2.1},method:3=GET"},
    {"client.ip, method", "{client.ip:9=192.0.2.1},method:3=GET",
     "{client.ip:9=192.0.2.1},method:3=GET"},
    {"client.ip, method", "{client.ip=192.0.2.1},none", "{client.ip:9=192.0.2.1},none:0="},
    {"path.2, path.id", "path.2=b,path.id=7", "{segment.2:1=b},capture.id:1=7"},
    {"path.2, path.id", "{segment.2:1=b},capture.id:1=7", "{segment.2:1=b},capture.id:1=7"},
    {"path", "path=/a/b:c@d%2F", "{path:11=/a/b:c@d%2F}"},
    {"path", "path=\"/a/b\"", "{path:4=/a/b}"},
    {"path", "path:4=/a/b", "{path:4=/a/b}"},
    {"global", "global=all", "{global:3=all}"},
    {"route, host", "route=users,host=api.example.com", "{route:5=users},host:15=api.example.com"},
    {"header.x-key", "header#" ALICE, "{header#32=" ALICE "}"},
    {"header.x-key", "{header#32=" ALICE "}", "{header#32=" ALICE "}"},
    {"header.x-key", "header.X-Key#" ALICE, "{header#32=" ALICE "}"},
    {"cookie.a | query.b", "query#" ALICE, "{query#32=" ALICE "}"},
    {"client.country", "client.country=de", "{client.country:2=DE}"},
    {"client.country | client.ip", "192.0.2.1", "{client.ip:9=192.0.2.1}"},
    {"client.asn", "client.asn=AS64496", "{client.asn:5=64496}"},
    {"client.asn, method", "{client.asn:5=64496},method:3=GET",
     "{client.asn:5=64496},method:3=GET"},
    {"geohash(query.a query.b 6)", "geohash#" ALICE, "{geohash#32=" ALICE "}"},
    {"geohash(query.a query.b 6)", "geohash(query.a query.b 6)=u33dc0",
     "{geohash#32=c6bc85e9b10adae843be0c63887b7e95}"},
};

START_TEST(a_key_is_read_in_each_of_its_forms)
{
    struct key_given given;
    uint8_t hash[HASH_IDENTITY_BYTES];
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    ck_assert_msg(parse(MEANT[_i].key, span_of_text(MEANT[_i].written), &given, &problem),
                  "%s: %.*s", MEANT[_i].written, SPAN_ARGS(text_span(&problem)));
    ck_assert_msg(span_equals(key_given_identity(&given), span_of_text(MEANT[_i].identity)),
                  "%s: %.*s", MEANT[_i].written, SPAN_ARGS(key_given_identity(&given)));
    key_hash(key_given_identity(&given), SPAN("secret"), hash);
    ck_assert_mem_eq(hash, given.hash, sizeof(hash));
}
END_TEST

START_TEST(a_value_is_one_key_in_each_of_its_spellings)
{
#define TOKEN "eyJhIjoxfQ.ZwAAAA.kYNjRMfPL9a1ccVDs5F3Ry6wD2E"
    static const char *const ROWS[][3] = {
        {"cookie.a", "cookie.a=" TOKEN, "cookie.a=" TOKEN "!"},
        {"query.a", "query.a=" TOKEN, "query.a=" TOKEN "~"},
        {"header.authorization", "header.authorization=Bearer " TOKEN,
         "header.authorization=bearer " TOKEN "="},
        {"header.x-key", "header.x-key=" TOKEN, "header.x-key=" TOKEN "=="},
        {"header.x-key-bin", "header.x-key-bin=QQ", "header.x-key-bin=QQ=="},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct key_given given[2];
        char buffer[256];
        struct text problem = text_of(buffer, sizeof(buffer));
        for (size_t j = 0; j < 2; j++) {
            ck_assert_msg(parse(ROWS[i][0], span_of_text(ROWS[i][j + 1]), &given[j], &problem),
                          "%s: %.*s", ROWS[i][j + 1], SPAN_ARGS(text_span(&problem)));
        }
        ck_assert_mem_eq(given[0].hash, given[1].hash, sizeof(given[0].hash));
    }
}
END_TEST

#define CERTIFICATE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CERTIFICATE_WITH_COLONS                                                                    \
    "01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:"   \
    "CD:"                                                                                          \
    "EF"

/* Each written value with the one that requests are counted by. */
static const struct {
    const char *key;
    const char *written;
    const char *counted;
} SPELLINGS[] = {
    {"host", "host=API.Example", "host=api.example"},
    {"host", "host=api.example.", "host=api.example"},
    {"host", "host=api.example:8080", "host=api.example"},
    {"host", "host=[::0001]", "host=[::1]"},
    {"host", "{host:4=A.B.}", "{host:3=a.b}"},
    {"path", "path=/a//b", "path=/a/b"},
    {"path", "path=/x/../y", "path=/y"},
    {"path", "path=/%61c", "path=/ac"},
    {"path", "path=/caf%c3%a9", "path=/caf%C3%A9"},
    {"path", "path=/k;x=1", "path=/k"},
    {"path", "path=/a%2fb", "path=/a%2Fb"},
    {"path.2", "path.2=A%62", "path.2=Ab"},
    {"path.2", "path.2=k;x=1", "path.2=k"},
    {"path.id", "path.id=A%62", "path.id=Ab"},
    {"query.k", "query.k=%61b", "query.k=ab"},
    {"query.k", "query.k=a+b", "query.k=a b"},
    {"query.k", "query.k= d ", "query.k=d"},
    {"query.k", "query.k=%20d+", "query.k=d"},
    {"cookie.k", "cookie.k=%61b", "cookie.k=ab"},
    {"cookie.k", "cookie.k= d ", "cookie.k=d"},
    {"client.cert", "client.cert=" CERTIFICATE_WITH_COLONS, "client.cert=" CERTIFICATE},
    {"client.cert.dns", "client.cert.dns=Alice.SVC", "client.cert.dns=alice.svc"},
};

START_TEST(a_value_means_the_one_that_requests_with_it_are_counted_by)
{
    struct key_given given;
    struct key_given counted;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    ck_assert_msg(parse(SPELLINGS[_i].key, span_of_text(SPELLINGS[_i].written), &given, &problem),
                  "%s: %.*s", SPELLINGS[_i].written, SPAN_ARGS(text_span(&problem)));
    ck_assert(parse(SPELLINGS[_i].key, span_of_text(SPELLINGS[_i].counted), &counted, &problem));
    ck_assert_msg(span_equals(key_given_identity(&given), key_given_identity(&counted)),
                  "%s: %.*s, not %.*s", SPELLINGS[_i].written,
                  SPAN_ARGS(key_given_identity(&given)), SPAN_ARGS(key_given_identity(&counted)));
}
END_TEST

START_TEST(other_facts_of_certificates_are_taken_as_they_are)
{
    struct key_given given;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    ck_assert(parse("client.cert.cn", SPAN("client.cert.cn=Alice"), &given, &problem));
    ck_assert(span_equals(key_given_identity(&given), SPAN("{client.cert.cn:5=Alice}")));
}
END_TEST

START_TEST(paths_are_in_lower_case_where_all_routes_of_the_limit_ignore_case)
{
    static struct limit_rule rule;
    static const struct limit_rule *rules[] = {&rule};
    struct route routes[] = {{.rules = rules, .n_rules = 1, .match.ignore_case = true},
                             {.rules = rules, .n_rules = 1, .match.ignore_case = false}};
    const struct policy with_routes = {.routes = routes, .n_routes = 1};
    const struct policy with_both = {.routes = routes, .n_routes = 2};
    struct key_given given;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    rule.key = compile("path");
    ck_assert(key_parse(&with_routes, &rule.key, SPAN("path=/A%c3"), &given, &problem));
    ck_assert(span_equals(key_given_identity(&given), SPAN("{path:5=/a%C3}")));
    ck_assert(key_parse(&with_both, &rule.key, SPAN("path=/A%c3"), &given, &problem));
    ck_assert(span_equals(key_given_identity(&given), SPAN("{path:5=/A%C3}")));
}
END_TEST

START_TEST(what_is_printed_is_read_back)
{
    char printed_bytes[256];
    char buffer[256];
    struct text printed = text_of(printed_bytes, sizeof(printed_bytes));
    struct text problem = text_of(buffer, sizeof(buffer));
    struct key_given given;
    key_print(span_of_text(MEANT[_i].identity), &printed);
    ck_assert_msg(parse(MEANT[_i].key, text_span(&printed), &given, &problem), "%.*s: %.*s",
                  SPAN_ARGS(text_span(&printed)), SPAN_ARGS(text_span(&problem)));
    ck_assert(span_equals(key_given_identity(&given), span_of_text(MEANT[_i].identity)));
}
END_TEST

/* The identity that a request has under @parts. */
static struct span identity_of(struct request *request, const char *parts, struct text *text)
{
    const struct key key = compile(parts);
    ck_assert_int_eq(
        key_read(&key, KEY_MISSING_SHARED_COUNTER, &request->view, SPAN("secret"), text), KEY_READ);
    return text_span(text);
}

START_TEST(the_value_of_a_secret_part_means_what_a_request_with_it_is)
{
    static const struct {
        const char *value;
        const char *written;
    } VALUES[] = {
        {"s3cret", "header.x-key=s3cret"}, {"s3cret", "header.X-KEY=\"s3cret\""},
        {"a,b", "header.x-key=\"a,b\""},   {"say \"a\\b\"", "header.x-key=\"say \\\"a\\\\b\\\"\""},
        {"{a}", "header.x-key={a}"},       {"#32=" ALICE, "header.x-key=#32=" ALICE},
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        char bytes[KEY_TEXT_BYTES_MAX];
        char buffer[256];
        struct text wanted = text_of(bytes, sizeof(bytes));
        struct text problem = text_of(buffer, sizeof(buffer));
        struct request request;
        struct key_given given;
        request_init(&request, "GET", "/", "a");
        request_add_field(&request, SPAN("X-Key"), span_of_text(VALUES[i].value));
        (void)identity_of(&request, "header.x-key", &wanted);
        ck_assert_msg(parse("header.x-key", span_of_text(VALUES[i].written), &given, &problem),
                      "%s: %.*s", VALUES[i].written, SPAN_ARGS(text_span(&problem)));
        ck_assert(span_equals(key_given_identity(&given), text_span(&wanted)));
    }
}
END_TEST

START_TEST(a_method_means_what_a_request_with_it_is_counted_as)
{
    static const struct {
        const char *written;
        const char *identity;
    } METHODS[] = {
        {"method=GET", "{method:3=GET}"},        {"method=PROPFIND", "{method:8=PROPFIND}"},
        {"method=Purge", "{method:5=Purge}"},    {"method=FOO", "{method:6=@other}"},
        {"method:3=FOO", "{method:6=@other}"},   {"{method:3=FOO}", "{method:6=@other}"},
        {"method=\"foo\"", "{method:6=@other}"}, {"method=@other", "{method:6=@other}"},
        {"method=HEAD", "{method:3=GET}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++) {
        char buffer[256];
        struct text problem = text_of(buffer, sizeof(buffer));
        struct key_given given;
        ck_assert_msg(parse("method", span_of_text(METHODS[i].written), &given, &problem),
                      "%s: %.*s", METHODS[i].written, SPAN_ARGS(text_span(&problem)));
        ck_assert_msg(span_equals(key_given_identity(&given), span_of_text(METHODS[i].identity)),
                      "%s: %.*s", METHODS[i].written, SPAN_ARGS(key_given_identity(&given)));
    }
}
END_TEST

START_TEST(a_hash_alone_is_taken_as_it_is)
{
    struct key_given given;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    char digits_bytes[2 * HASH_IDENTITY_BYTES];
    struct text digits = text_of(digits_bytes, sizeof(digits_bytes));
    ck_assert(parse("client.ip, method", SPAN(ALICE), &given, &problem));
    ck_assert_uint_eq(key_given_identity(&given).len, 0);
    text_add_hex(&digits, given.hash, sizeof(given.hash));
    ck_assert(span_equals(text_span(&digits), SPAN(ALICE)));
}
END_TEST

static const struct {
    const char *key;
    const char *written;
    const char *problem;
} WRONG[] = {
    {"client.ip", "", "write client.ip=VALUE or none"},
    {"client.ip", "bob", "write client.ip=VALUE or none where it says \"bob\""},
    {"client.ip", "client.ip=bob", "client.ip is an address, as 192.0.2.1 or 2001:db8::1"},
    {"client.ip", "192.0.2.0/33", "write client.ip=VALUE or none where it says \"192.0.2.0/33\""},
    {"client.ip", "2001:db8::/80", "the limit counts by /64: no prefix is longer"},
    {"client.ip, method", "client.ip=192.0.2.0/24,method=GET",
     "a prefix needs a limit that counts by client.ip alone"},
    {"header.x-key | client.ip", "method=GET",
     "write header.x-key=VALUE or client.ip=VALUE or none where it says \"method=GET\""},
    {"method", "method=", "an empty value counts as missing: write none"},
    {"method", "method=\"GET", "a quoted value has no end"},
    {"method", "method=\"GET\\", "a quoted value has no end"},
    {"method", "method:4=GET", "a length is followed by `=` and so many bytes"},
    {"method", "method:18446744073709551615=GET", "a length is followed by `=` and so many bytes"},
    {"method", "{method:3=GET", "a brace is not closed"},
    {"method", "method=get", "methods are case-sensitive: the request's is GET in another case"},
    {"method", "method=PURGE", "the request's is Purge"},
    {"method", "method=\"a b\"", "a method has 1 to 32 letters, digits, \"-\" and the like"},
    {"method", "method=GET,host=a",
     "goes on behind the 1 parts that the limit counts by: \",host=a\""},
    {"client.ip, method", "client.ip=192.0.2.1", "has 1 parts, and the limit counts by 2"},
    {"client.ip, method", "192.0.2.1", "write client.ip=VALUE or none where it says \"192.0.2.1\""},
    {"header.x", "header#12", "a `#` is followed by 32 hex digits, in lower case"},
    {"header.x", "header#2BD806C97F0E00AF1A1FC3328FA763A9",
     "a `#` is followed by 32 hex digits, in lower case"},
    {"client.country", "client.country=DEU", "client.country is two letters, as DE"},
    {"client.asn", "client.asn=0", "client.asn is the number of an AS, as 64496"},
    {"geohash(query.a query.b 6)", "geohash(query.a query.b 6)=u33dc",
     "a cell has 6 characters of 0-9 and b-z without i, l and o"},
    {"geohash(query.a query.b 6)", "geohash(query.a query.b 6)=U33DC0",
     "a cell has 6 characters of 0-9 and b-z without i, l and o"},
    {"geohash(query.a query.b 6)", "geohash(query.a query.b 5)=u33dc",
     "write geohash(query.a query.b 6)=VALUE or none where it says "
     "\"geohash(query.a query.b 5)=u33dc\""},
    {"global", "global=one", "there is one global counter: global=all"},
    {"host", "host=a b", "host is a name or an address, as api.example.com or [2001:db8::1]"},
    {"host", "host=::1", "host is a name or an address, as api.example.com or [2001:db8::1]"},
    {"host", "host=a..", "host is a name or an address, as api.example.com or [2001:db8::1]"},
    {"path", "path=a", "the path does not start with a slash"},
    {"path", "path=/q?x=1", "no request has such a path: write \"/q\""},
    {"path", "path=/a//caf\xc3\xa9", "no request has such a path: write \"/a/caf%C3%A9\""},
    {"path", "path=/a b", "no request has such a path: write \"/a%20b\""},
    {"path.2", "path.2=a b", "no request has such a segment: write \"a%20b\""},
    {"path.2", "path.2=a/b", "a segment has no slash and is no \"..\""},
    {"path.id", "path.id=a/..", "a segment has no slash and is no \"..\""},
    {"path.2", "path.2=?", "no request has such a segment: write none"},
    {"cookie.a", "cookie.a=j:\"a\"",
     "servers read it in several ways, so requests with it are refused"},
    {"header.authorization", "header.authorization=Bearer a b",
     "servers read it in several ways, so requests with it are refused"},
    {"query.k", "query.k=%20", "an empty value counts as missing: write none"},
    {"client.cert", "client.cert=AB", "client.cert is 64 hex digits, a SHA-256"},
    {"client.cert", "client.cert=g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
     "client.cert is 64 hex digits, a SHA-256"},
    {"cookie.a", "cookie.A=1", "write cookie.a=VALUE or none where it says \"cookie.A=1\""},
};

START_TEST(what_is_no_key_of_the_limit_is_refused_with_a_reason)
{
    struct key_given given;
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    ck_assert(!parse(WRONG[_i].key, span_of_text(WRONG[_i].written), &given, &problem));
    ck_assert_msg(span_equals(text_span(&problem), span_of_text(WRONG[_i].problem)), "%s: %.*s",
                  WRONG[_i].written, SPAN_ARGS(text_span(&problem)));
}
END_TEST

START_TEST(what_is_too_long_is_refused)
{
    static char written[KEY_GIVEN_BYTES_MAX + 1];
    struct key_given given;
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    memset(written, 'a', sizeof(written));
    memcpy(written, "path=/", 6);
    ck_assert(!parse("path", span_of(written, sizeof(written)), &given, &problem));
    ck_assert(span_equals(text_span(&problem), SPAN("is longer than 4 KiB")));
    ck_assert(parse("path", span_of(written, sizeof(written) - 1), &given, &problem));
    ck_assert(span_starts_with(key_given_identity(&given), SPAN("{path#32=")));
}
END_TEST

START_TEST(what_is_no_identity_is_printed_as_it_is)
{
    static const char *const TEXTS[] = {"",         "{",      "{}",      "{a:1=b",
                                        "{a:1=b}c", "a:1=b",  "{a:9=b}", "{header#32=12}",
                                        "{a:1=b},", "{a:x=b}"};
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        char buffer[64];
        struct text text = text_of(buffer, sizeof(buffer));
        key_print(span_of_text(TEXTS[i]), &text);
        ck_assert_msg(span_equals(text_span(&text), span_of_text(TEXTS[i])), "%s", TEXTS[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/key_text");
    TCase *tcase = tcase_create("read");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_key_is_read_in_each_of_its_forms, 0, (int)ARRAY_LEN(MEANT));
    tcase_add_test(tcase, a_value_is_one_key_in_each_of_its_spellings);
    tcase_add_loop_test(tcase, a_value_means_the_one_that_requests_with_it_are_counted_by, 0,
                        (int)ARRAY_LEN(SPELLINGS));
    tcase_add_test(tcase, other_facts_of_certificates_are_taken_as_they_are);
    tcase_add_test(tcase, paths_are_in_lower_case_where_all_routes_of_the_limit_ignore_case);
    tcase_add_loop_test(tcase, what_is_printed_is_read_back, 0, (int)ARRAY_LEN(MEANT));
    tcase_add_test(tcase, the_value_of_a_secret_part_means_what_a_request_with_it_is);
    tcase_add_test(tcase, a_method_means_what_a_request_with_it_is_counted_as);
    tcase_add_test(tcase, a_hash_alone_is_taken_as_it_is);
    tcase_add_loop_test(tcase, what_is_no_key_of_the_limit_is_refused_with_a_reason, 0,
                        (int)ARRAY_LEN(WRONG));
    tcase_add_test(tcase, what_is_too_long_is_refused);
    tcase_add_test(tcase, what_is_no_identity_is_printed_as_it_is);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
