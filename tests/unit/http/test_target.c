#include "http/target.h"

#include <check.h>
#include <stdlib.h>

#include "unit/http/span_assert.h"

static const struct {
    const char *method;
    const char *whole;
    enum target_form form;
    const char *authority;
    const char *path;
    const char *query; /* NULL: none */
} GOOD[] = {
    {"GET", "/", TARGET_ORIGIN, "", "/", NULL},
    {"GET", "/a/b?c=d?e", TARGET_ORIGIN, "", "/a/b", "c=d?e"},
    {"GET", "/a?", TARGET_ORIGIN, "", "/a", ""},
    {"GET", "//b/c", TARGET_ORIGIN, "", "//b/c", NULL},
    {"GET", "/http://b/", TARGET_ORIGIN, "", "/http://b/", NULL},
    {"GET", "http://b/c?d", TARGET_ABSOLUTE, "b", "/c", "d"},
    {"GET", "HTTPS://b:1/c", TARGET_ABSOLUTE, "b:1", "/c", NULL},
    {"GET", "http://[::1]:80", TARGET_ABSOLUTE, "[::1]:80", "/", NULL},
    {"GET", "http://b?c", TARGET_ABSOLUTE, "b", "/", "c"},
    {"OPTIONS", "http://b", TARGET_ABSOLUTE, "b", "*", NULL},
    {"OPTIONS", "http://b?c", TARGET_ABSOLUTE, "b", "/", "c"},
    {"OPTIONS", "*", TARGET_ASTERISK, "", "*", NULL},
    {"CONNECT", "b:443", TARGET_AUTHORITY, "b:443", "", NULL},
    {"CONNECT", "[::1]:443", TARGET_AUTHORITY, "[::1]:443", "", NULL},
};

START_TEST(a_target_is_split_by_its_form)
{
    struct target target;

    ck_assert_ptr_null(
        target_parse(span_of_text(GOOD[_i].whole), span_of_text(GOOD[_i].method), &target));
    ck_assert_int_eq(target.form, GOOD[_i].form);
    ck_assert_span_eq(target.whole, GOOD[_i].whole);
    ck_assert_span_eq(target.authority, GOOD[_i].authority);
    ck_assert_span_eq(target.path, GOOD[_i].path);
    ck_assert_int_eq(target.has_query, GOOD[_i].query != NULL);
    ck_assert_span_eq(target.query, GOOD[_i].query != NULL ? GOOD[_i].query : "");
}
END_TEST

static const struct {
    const char *method;
    const char *whole;
} BAD[] = {
    {"GET", ""},          {"GET", "a"},
    {"GET", "a/b"},       {"GET", "?a"},
    {"GET", "*"},         {"OPTIONS", "*/"},
    {"options", "*"},     {"GET", "/a b"},
    {"GET", "/a#b"},      {"GET", "/\x7f"},
    {"GET", "/\xc3\xa4"}, {"GET", "/a\tb"},
    {"GET", "http:/b/"},  {"GET", "http://"},
    {"GET", "http:///a"}, {"GET", "http://u@b/"},
    {"GET", "http://?a"}, {"GET", "http://b,c/"},
    {"GET", "ws://b/"},   {"GET", "b:443"},
    {"CONNECT", "/"},     {"CONNECT", "b"},
    {"CONNECT", "b:"},    {"CONNECT", ":443"},
    {"CONNECT", "b:x"},   {"CONNECT", "http://b:443/"},
};

START_TEST(a_bad_target_is_refused_with_a_phrase)
{
    struct target target;

    ck_assert_ptr_nonnull(
        target_parse(span_of_text(BAD[_i].whole), span_of_text(BAD[_i].method), &target));
}
END_TEST

START_TEST(rule_03_a_host_is_a_name_or_an_address_with_a_port_or_none)
{
    static const char *const good[] = {
        "",
        "a",
        "a.b-c.example",
        "A_b",
        "a.",
        "1.2.3.4",
        "a:0",
        "a:80",
        "a:65535",
        "a:",
        "a.:80",
        "[::1]",
        "[::1]:",
        "[2001:DB8::1]:8080",
        "[::ffff:1.2.3.4]",
        "xn--bcher-kva.example",
        "a~b",
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        ck_assert_msg(target_is_host(span_of_text(good[i])), "%s", good[i]);
    }
}
END_TEST

START_TEST(rule_03_a_host_is_as_long_as_a_name_may_be)
{
    char host[HOST_BYTES_MAX + 1];

    memset(host, 'a', sizeof(host));
    ck_assert(target_is_host(span_of(host, HOST_BYTES_MAX)));
    ck_assert(!target_is_host(span_of(host, HOST_BYTES_MAX + 1)));
}
END_TEST

static const struct {
    const char *host;
    const char *normal;
} HOSTS[] = {
    {"", ""},
    {"a", "a"},
    {"API.Example.COM", "api.example.com"},
    {"api.example.com.", "api.example.com"},
    {"api.example.com:8080", "api.example.com"},
    {"API.example.com.:8080", "api.example.com"},
    {"api.example.com:", "api.example.com"},
    {"[2001:DB8::A]", "[2001:db8::a]"},
    {"[2001:DB8::A]:80", "[2001:db8::a]"},
    {"[2001:db8:0:0:0:0:0:00a]", "[2001:db8::a]"},
    {"[::ffff:192.0.2.1]:80", "192.0.2.1"},
    {"[::FFFF:C000:201]", "192.0.2.1"},
};

START_TEST(rule_73_a_host_is_compared_in_lower_case_without_port_and_final_dot)
{
    char buffer[HOST_BYTES_MAX];

    ck_assert_span_eq(target_normalise_host(span_of_text(HOSTS[_i].host), buffer),
                      HOSTS[_i].normal);
}
END_TEST

static const struct {
    const char *host;
    const char *sent; /* where the default port is 80 */
} SENT_HOSTS[] = {
    {"", ""},
    {"api.example.com", "api.example.com"},
    {"API.example.com.", "api.example.com"},
    {"API.example.com.:8080", "api.example.com:8080"},
    {"api.example.com:443", "api.example.com:443"},
    {"api.example.com:80", "api.example.com"},
    {"api.example.com:0080", "api.example.com"},
    {"api.example.com:008080", "api.example.com:8080"},
    {"api.example.com:", "api.example.com"},
    {"api.example.com:65535", "api.example.com:65535"},
    {"[2001:DB8:0::A]:8080", "[2001:db8::a]:8080"},
    {"[::FFFF:C000:201]:81", "192.0.2.1:81"},
};

START_TEST(rule_73_the_host_that_was_compared_is_sent_with_its_port)
{
    char buffer[HOST_WITH_PORT_BYTES_MAX];

    ck_assert_span_eq(target_normalise_host_port(span_of_text(SENT_HOSTS[_i].host), 80, buffer),
                      SENT_HOSTS[_i].sent);
}
END_TEST

START_TEST(the_longest_host_keeps_its_port)
{
    char host[HOST_WITH_PORT_BYTES_MAX];
    char buffer[HOST_WITH_PORT_BYTES_MAX];

    memset(host, 'a', sizeof(host));
    memcpy(host + HOST_BYTES_MAX, ":65535", 6);
    ck_assert(span_equals(target_normalise_host_port(span_of(host, sizeof(host)), 80, buffer),
                          span_of(host, sizeof(host))));
}
END_TEST

START_TEST(a_host_too_long_to_be_one_is_empty)
{
    char host[HOST_BYTES_MAX + 1];
    char buffer[HOST_BYTES_MAX];

    memset(host, 'A', sizeof(host));
    ck_assert_uint_eq(target_normalise_host(span_of(host, HOST_BYTES_MAX), buffer).len,
                      HOST_BYTES_MAX);
    ck_assert_uint_eq(target_normalise_host(span_of(host, HOST_BYTES_MAX + 1), buffer).len, 0);
}
END_TEST

static Suite *target_suite(void)
{
    Suite *suite = suite_create("http/target");

    TCase *parse = tcase_create("parse");
    tcase_add_loop_test(parse, a_target_is_split_by_its_form, 0, (int)ARRAY_LEN(GOOD));
    tcase_add_loop_test(parse, a_bad_target_is_refused_with_a_phrase, 0, (int)ARRAY_LEN(BAD));
    suite_add_tcase(suite, parse);

    TCase *host = tcase_create("host");
    tcase_add_test(host, rule_03_a_host_is_a_name_or_an_address_with_a_port_or_none);
    tcase_add_test(host, rule_03_a_host_is_as_long_as_a_name_may_be);
    tcase_add_loop_test(host, rule_73_a_host_is_compared_in_lower_case_without_port_and_final_dot,
                        0, (int)ARRAY_LEN(HOSTS));
    tcase_add_loop_test(host, rule_73_the_host_that_was_compared_is_sent_with_its_port, 0,
                        (int)ARRAY_LEN(SENT_HOSTS));
    tcase_add_test(host, the_longest_host_keeps_its_port);
    tcase_add_test(host, a_host_too_long_to_be_one_is_empty);
    suite_add_tcase(suite, host);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(target_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
