#include "tls/certificate.h"

#include <check.h>
#include <stdlib.h>

#include "base/hash.h"

static struct server_names *names;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(server_names_new(8, &names), STATUS_OK);
}

static void tear_down(void)
{
    server_names_free(names);
}

static enum status add(const char *name, size_t entry)
{
    size_t other;
    return server_names_add(names, span_of_text(name), entry, &other);
}

static size_t find(const char *name)
{
    return server_names_find(names, span_of_text(name));
}

START_TEST(an_exact_name_goes_before_a_wildcard)
{
    ck_assert_int_eq(add("*.example.com", 1), STATUS_OK);
    ck_assert_int_eq(add("a.example.com", 2), STATUS_OK);
    ck_assert_uint_eq(find("a.example.com"), 2);
    ck_assert_uint_eq(find("b.example.com"), 1);
}
END_TEST

START_TEST(a_wildcard_stands_for_exactly_one_label)
{
    ck_assert_int_eq(add("*.example.com", 1), STATUS_OK);
    ck_assert_uint_eq(find("example.com"), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find("a.b.example.com"), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find(".example.com"), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find("x.example.com"), 1);
}
END_TEST

START_TEST(case_and_a_dot_at_the_end_do_not_matter)
{
    ck_assert_int_eq(add("api.example.com", 3), STATUS_OK);
    ck_assert_int_eq(add("*.test", 4), STATUS_OK);
    ck_assert_uint_eq(find("API.Example.COM"), 3);
    ck_assert_uint_eq(find("api.example.com."), 3);
    ck_assert_uint_eq(find("A.TEST."), 4);
    ck_assert_uint_eq(find("api.example.com.."), SERVER_NAMES_NONE);
}
END_TEST

START_TEST(a_single_label_is_a_name_and_nothing_is_none)
{
    ck_assert_int_eq(add("localhost", 0), STATUS_OK);
    ck_assert_uint_eq(find("localhost"), 0);
    ck_assert_uint_eq(find(""), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find("."), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find("other"), SERVER_NAMES_NONE);
}
END_TEST

START_TEST(a_name_that_is_taken_tells_by_whom)
{
    size_t other = SERVER_NAMES_NONE;
    ck_assert_int_eq(add("a.example.com", 5), STATUS_OK);
    ck_assert_int_eq(server_names_add(names, SPAN("a.example.com"), 6, &other), STATUS_IN_USE);
    ck_assert_uint_eq(other, 5);
    ck_assert_int_eq(server_names_add(names, SPAN("a.example.com"), 5, &other), STATUS_IN_USE);
    ck_assert_uint_eq(find("a.example.com"), 5);
    ck_assert_int_eq(server_names_add(names, SPAN("*.example.com"), 6, &other), STATUS_OK);
}
END_TEST

#define LABEL_63 "aaaaaaaaabbbbbbbbbcccccccccdddddddddeeeeeeeeefffffffffggggggggg"

static const char *const IMPOSSIBLE[] = {
    "",
    ".",
    "*",
    "*.",
    "a..b",
    ".a",
    "*.*.com",
    "a.*.com",
    "a*.com",
    "*a.com",
    "A.com",
    "a.com.",
    "*.com.",
    "a b",
    "a/b",
    "a:1",
    "192.0.2.1",
    "*.192.0.2.1",
    "[::1]",
    "a.b.1",
    "b\xc3\xbc.de",
    "a%",
    "1",
    LABEL_63 "x.com",
    LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_63 ".a",
};

START_TEST(a_name_that_no_server_can_have_is_refused)
{
    ck_assert_int_eq(add(IMPOSSIBLE[_i], 1), STATUS_INVALID);
    ck_assert_uint_eq(find(IMPOSSIBLE[_i]), SERVER_NAMES_NONE);
}
END_TEST

START_TEST(any_first_label_is_one_of_a_wildcard)
{
    ck_assert_int_eq(add("*.w.test", 1), STATUS_OK);
    ck_assert_uint_eq(find("a~b.w.test"), 1);
    ck_assert_uint_eq(find(LABEL_63 "x.w.test"), 1);
    ck_assert_uint_eq(find("*.w.test"), 1);
    ck_assert_uint_eq(find("a!$&'()*+,;=%20.W.test."), 1);
    ck_assert_uint_eq(find(".w.test"), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find("~.a.w.test"), SERVER_NAMES_NONE);
}
END_TEST

START_TEST(the_longest_name_is_found)
{
    ck_assert_int_eq(add(LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_63, 1), STATUS_OK);
    ck_assert_uint_eq(find(LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_63), 1);
    ck_assert_int_eq(add("_sip.x-1.xn--bcher-kva.example", 2), STATUS_OK);
    ck_assert_uint_eq(find("_SIP.x-1.XN--bcher-kva.example"), 2);
}
END_TEST

START_TEST(a_set_holds_as_many_names_as_it_was_made_for)
{
    for (size_t i = 0; i < 8; i++) {
        const char name[] = {(char)('a' + i), '\0'};
        ck_assert_int_eq(add(name, i), STATUS_OK);
    }
    ck_assert_int_eq(add("one-more", 9), STATUS_NO_MEMORY);
    ck_assert_uint_eq(find("one-more"), SERVER_NAMES_NONE);
    ck_assert_uint_eq(find("h"), 7);
}
END_TEST

START_TEST(a_name_is_normalised_into_the_buffer)
{
    char buffer[HOST_BYTES_MAX];
    struct span normal;
    ck_assert(server_names_normalise(SPAN("WWW.Example.com."), buffer, &normal));
    ck_assert(span_equals(normal, SPAN("www.example.com")));
    ck_assert(!server_names_normalise(SPAN("*.example.com"), buffer, &normal));
    ck_assert(!server_names_normalise(span_of("a\0b", 3), buffer, &normal));
    ck_assert(!server_names_normalise(span_of(NULL, 0), buffer, &normal));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/server_names");
    TCase *tests = tcase_create("names");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_exact_name_goes_before_a_wildcard);
    tcase_add_test(tests, a_wildcard_stands_for_exactly_one_label);
    tcase_add_test(tests, case_and_a_dot_at_the_end_do_not_matter);
    tcase_add_test(tests, a_single_label_is_a_name_and_nothing_is_none);
    tcase_add_test(tests, a_name_that_is_taken_tells_by_whom);
    tcase_add_loop_test(tests, a_name_that_no_server_can_have_is_refused, 0, ARRAY_LEN(IMPOSSIBLE));
    tcase_add_test(tests, any_first_label_is_one_of_a_wildcard);
    tcase_add_test(tests, the_longest_name_is_found);
    tcase_add_test(tests, a_set_holds_as_many_names_as_it_was_made_for);
    tcase_add_test(tests, a_name_is_normalised_into_the_buffer);
    suite_add_tcase(suite, tests);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
