#include "policy/load/value_types.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

static struct arena arena;
static char problem_bytes[512];
static struct text problem;

static void setup(void)
{
    arena_init(&arena, NULL, 0);
    problem = text_of(problem_bytes, sizeof(problem_bytes));
}

static void teardown(void)
{
    arena_reset(&arena);
}

static const struct {
    const char *text;
    enum key_source source;
    const char *name;
    uint32_t number;
    uint8_t ipv6_bits;
} TERMS[] = {
    {"client.ip", KEY_CLIENT_IP, "", 0, 64},
    {"client.ip/128", KEY_CLIENT_IP, "", 0, 128},
    {"client.ip/48", KEY_CLIENT_IP, "", 0, 48},
    {"client.country", KEY_CLIENT_COUNTRY, "", 0, 64},
    {"client.asn", KEY_CLIENT_ASN, "", 0, 64},
    {"client.ja4", KEY_CLIENT_JA4, "", 0, 64},
    {"client.cert", KEY_CLIENT_CERT, "", 0, 64},
    {"client.cert.dns", KEY_CLIENT_CERT_DNS, "", 0, 64},
    {"client.cert.uri", KEY_CLIENT_CERT_URI, "", 0, 64},
    {"client.cert.cn", KEY_CLIENT_CERT_CN, "", 0, 64},
    {"header.X-API-Key", KEY_HEADER, "x-api-key", 0, 64},
    {"cookie.Session", KEY_COOKIE, "Session", 0, 64},
    {"query.api_key", KEY_QUERY, "api_key", 0, 64},
    {"path", KEY_PATH, "", 0, 64},
    {"path.1", KEY_PATH_SEGMENT, "", 1, 64},
    {"path.128", KEY_PATH_SEGMENT, "", 128, 64},
    {"path.tenant", KEY_PATH_CAPTURE, "tenant", 0, 64},
    {"method", KEY_METHOD, "", 0, 64},
    {"host", KEY_HOST, "", 0, 64},
    {"route", KEY_ROUTE, "", 0, 64},
    {"jwt.sub", KEY_JWT, "sub", 0, 64},
    {"jwt.realm_access.\"a|b\"", KEY_JWT, "realm_access.\"a|b\"", 0, 64},
    {"jwt.\"sub\"", KEY_JWT, "sub", 0, 64},
    {"geohash(query.lat query.lon 6)", KEY_GEOHASH, "query.lat query.lon 6", 6, 64},
    {"geohash ( header.X-Lat\tcookie.Lon   9 )", KEY_GEOHASH, "header.x-lat cookie.Lon 9", 9, 64},
    {"global", KEY_GLOBAL, "", 0, 64},
};

START_TEST(each_source_is_read)
{
    struct key_part part;
    ck_assert(value_parse_key_part(span_of_text(TERMS[_i].text), &arena, &part, &problem));
    ck_assert_uint_eq(part.n_terms, 1);
    ck_assert_int_eq(part.terms[0].source, TERMS[_i].source);
    ck_assert(span_equals(part.terms[0].name, span_of_text(TERMS[_i].name)));
    ck_assert_uint_eq(part.terms[0].number, TERMS[_i].number);
    ck_assert_uint_eq(part.terms[0].ipv6_bits, TERMS[_i].ipv6_bits);
    ck_assert_uint_eq(part.terms[0].ipv4_bits, 32);
}
END_TEST

START_TEST(alternatives_are_read_in_order)
{
    struct key_part part;
    ck_assert(value_parse_key_part(SPAN("header.x-api-key|cookie.key |  client.ip"), &arena, &part,
                                   &problem));
    ck_assert_uint_eq(part.n_terms, 3);
    ck_assert_int_eq(part.terms[0].source, KEY_HEADER);
    ck_assert_int_eq(part.terms[1].source, KEY_COOKIE);
    ck_assert_int_eq(part.terms[2].source, KEY_CLIENT_IP);
}
END_TEST

static const char *const BAD[] = {
    "",
    " ",
    "|",
    "client.ip |",
    "client",
    "client.ip/",
    "client.ip/24",
    "client.ip/129",
    "client.ip.x",
    "header",
    "header.",
    "header.x y",
    "header.x/1",
    "method.x",
    "path.",
    "path.0",
    "path/1",
    "global.x",
    "jwt",
    "jwt.",
    "jwt.a b",
    "jwt.\"a|b",
    "jwt/1",
    "client.cert.san",
    "client.cert.dns.x",
    "header.client-cert",
    "ip",
    "client.asn/1",
    "client.country.de",
    "geohash",
    "geohash()",
    "geohash(query.lat query.lon)",
    "geohash(query.lat query.lon 0)",
    "geohash(query.lat query.lon 10)",
    "geohash(query.lat query.lon 6 7)",
    "geohash(query.lat 6)",
    "geohash(query.lat query. 6)",
    "geohash(query lat 6)",
    "geohash(path.1 path.2 6)",
    "geohash(jwt.lat jwt.lon 6)",
    "geohash(client.ip client.ip 6)",
    "geohash(query.lat query.lon 6).x",
    "geohash(query.lat query.lon 6",
    "geohash.query.lat",
    "geohash/6",
    "query(query.lat query.lon 6)",
    "host(a)",
    "client.ip(a)",
    "host | ",
    "host|host|host|host|host|host|host|host|host",
};

START_TEST(what_is_no_key_is_refused_with_a_reason)
{
    struct key_part part;
    ck_assert_msg(!value_parse_key_part(span_of_text(BAD[_i]), &arena, &part, &problem), "\"%s\"",
                  BAD[_i]);
    ck_assert_uint_gt(problem.len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/key_parser");
    TCase *tcase = tcase_create("parse_part");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, each_source_is_read, 0, (int)ARRAY_LEN(TERMS));
    tcase_add_test(tcase, alternatives_are_read_in_order);
    tcase_add_loop_test(tcase, what_is_no_key_is_refused_with_a_reason, 0, (int)ARRAY_LEN(BAD));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
