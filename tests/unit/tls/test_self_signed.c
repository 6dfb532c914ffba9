
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "tls/certificate.h"

enum { NOW_S = 1800000000 };

static struct self_signed made;
static struct certificate *certificate;
static struct certificate_problem problem;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    made = (struct self_signed){.cert = span_of(NULL, 0)};
    certificate = NULL;
}

static void tear_down(void)
{
    certificate_free(certificate);
    self_signed_free(&made);
}

static void make(const struct span *names, size_t n)
{
    size_t bad;
    ck_assert_int_eq(self_signed_make(names, n, 30, NOW_S, &made, &bad), STATUS_OK);
    ck_assert_msg(certificate_read(made.cert, "cert", made.key, "key", &certificate, &problem) ==
                      STATUS_OK,
                  "%s", problem.text);
}

START_TEST(a_pair_is_one_that_the_loader_takes)
{
    const struct span names[] = {SPAN("Api.test"), SPAN("*.b.test"), SPAN("192.0.2.1"),
                                 SPAN("2001:db8::1")};
    make(names, 4);
    ck_assert_uint_eq(certificate->n_names, 2);
    ck_assert_str_eq(certificate->names[0], "api.test");
    ck_assert_str_eq(certificate->names[1], "*.b.test");
    ck_assert(certificate->has_address && certificate->is_self_signed && !certificate->is_rsa);
    ck_assert_str_eq(certificate->subject, "CN=Api.test");
    ck_assert(certificate_check_server(certificate, &problem));
    ck_assert_int_eq(certificate->not_before_s, NOW_S - 3600);
    ck_assert_int_eq(certificate->not_after_s, NOW_S + 30 * 86400);
}
END_TEST

START_TEST(an_address_alone_is_enough)
{
    const struct span name = SPAN("::1");
    make(&name, 1);
    ck_assert(certificate->has_address && certificate->n_names == 0);
    ck_assert(certificate_check_server(certificate, &problem));
}
END_TEST

START_TEST(a_common_name_is_cut_where_names_are_longer)
{
    const struct span name = SPAN("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
                                  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.test");
    make(&name, 1);
    ck_assert_uint_eq(strlen(certificate->subject), strlen("CN=") + 64);
    ck_assert_uint_eq(certificate->n_names, 1);
    ck_assert(span_equals(span_of_text(certificate->names[0]), name));
}
END_TEST

START_TEST(as_many_names_as_may_be_fit)
{
    struct span names[SELF_SIGNED_NAMES_MAX];
    char texts[SELF_SIGNED_NAMES_MAX][HOST_BYTES_MAX];
    for (size_t i = 0; i < SELF_SIGNED_NAMES_MAX; i++) {
        memset(texts[i], 'a', sizeof(texts[i]));
        texts[i][0] = (char)('a' + i % 26);
        texts[i][1] = (char)('a' + i / 26);
        for (size_t dot = 60; dot < sizeof(texts[i]) - 1; dot += 60) {
            texts[i][dot] = '.';
        }
        names[i] = span_of(texts[i], sizeof(texts[i]));
    }
    make(names, SELF_SIGNED_NAMES_MAX);
    ck_assert_uint_eq(certificate->n_names, SELF_SIGNED_NAMES_MAX);
}
END_TEST

static const char *const BAD[] = {"",        "a b",       "a,DNS:b", "*",   "*.192.0.2.1",
                                  "192.0.2", "1.2.3.4.5", "[::1]",   "a/b", "::1%eth0",
                                  "-a..b",   "a.test:443"};

START_TEST(what_is_no_name_is_pointed_out)
{
    const struct span names[] = {SPAN("a.test"), span_of_text(BAD[_i])};
    size_t bad = 0;
    ck_assert_int_eq(self_signed_make(names, 2, 30, NOW_S, &made, &bad), STATUS_INVALID);
    ck_assert_uint_eq(bad, 1);
}
END_TEST

START_TEST(two_pairs_differ_in_key_and_number)
{
    const struct span name = SPAN("a.test");
    struct self_signed other;
    size_t bad;
    make(&name, 1);
    ck_assert_int_eq(self_signed_make(&name, 1, 30, NOW_S, &other, &bad), STATUS_OK);
    ck_assert(!span_equals(made.key, other.key) && !span_equals(made.cert, other.cert));
    self_signed_free(&other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/self_signed");
    TCase *tests = tcase_create("pairs");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_pair_is_one_that_the_loader_takes);
    tcase_add_test(tests, an_address_alone_is_enough);
    tcase_add_test(tests, a_common_name_is_cut_where_names_are_longer);
    tcase_add_test(tests, as_many_names_as_may_be_fit);
    tcase_add_loop_test(tests, what_is_no_name_is_pointed_out, 0, ARRAY_LEN(BAD));
    tcase_add_test(tests, two_pairs_differ_in_key_and_number);
    suite_add_tcase(suite, tests);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
