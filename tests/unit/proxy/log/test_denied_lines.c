#include "proxy/log/denied_lines.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/status.h"

enum { S = 1000 * 1000, N = 10 };

static struct denied_lines *lines;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    lines = denied_lines_new(N);
    ck_assert_ptr_nonnull(lines);
}

static void teardown(void)
{
    denied_lines_free(lines);
}

/* How many of @n requests of @text have a line. */
static unsigned take(const char *text, unsigned n, uint64_t now_us)
{
    struct address address;
    unsigned n_taken = 0;
    ck_assert(address_parse(span_of_text(text), &address));
    for (unsigned i = 0; i < n; i++) {
        n_taken += denied_lines_take(lines, &address, SPAN("per-client"), now_us);
    }
    return n_taken;
}

START_TEST(a_client_has_so_many_lines_a_second)
{
    for (uint64_t second = 0; second < 3; second++) {
        ck_assert_uint_eq(take("192.0.2.1", N - 1, second * S), N - 1);
        ck_assert_uint_eq(take("192.0.2.1", 100, second * S + S - 1), 1);
        ck_assert_uint_eq(take("192.0.2.2", 100, second * S), N);
    }
    ck_assert_uint_eq(take("192.0.2.1", 100, 0), N); /* a clock that goes back */
    ck_assert_uint_eq(take("192.0.2.1", 100, UINT64_MAX), N);
}
END_TEST

START_TEST(a_client_by_ipv6_is_a_customer)
{
    ck_assert_uint_eq(take("2001:db8:1::1", N, S), N);
    ck_assert_uint_eq(take("2001:db8:1:2::1", N, S), 0);
    ck_assert_uint_eq(take("2001:db8:2::1", N, S), N);
}
END_TEST

START_TEST(what_is_left_out_is_summed_up)
{
    struct address most;
    ck_assert_uint_eq(denied_lines_report(lines).n_lines, 0);
    (void)take("192.0.2.1", N + 5, S);
    (void)take("192.0.2.2", N + 7, S);
    (void)take("192.0.2.3", N, S);
    (void)take("192.0.2.2", N + 2, 2 * S);
    const struct denied_lines_report report = denied_lines_report(lines);
    ck_assert_uint_eq(report.n_lines, 14);
    ck_assert_uint_eq(report.n_clients, 2);
    ck_assert_uint_eq(report.n_most, 9);
    ck_assert(address_parse(SPAN("192.0.2.2"), &most) && address_equals(&report.client, &most));
    ck_assert(span_equals(span_of(report.limit, report.limit_len), SPAN("per-client")));
    ck_assert_uint_eq(denied_lines_report(lines).n_lines, 0);
    (void)take("192.0.2.2", 1, 2 * S);
    ck_assert_uint_eq(denied_lines_report(lines).n_most, 1);
}
END_TEST

/* However many addresses a client has, the lines of a second are bounded; those who were counted
 * already keep theirs, and the next second is another one. */
START_TEST(many_clients_have_no_more_lines_than_there_is_room_for)
{
    unsigned n_taken = 0;
    ck_assert_uint_eq(take("192.0.2.1", 1, S), 1);
    for (unsigned i = 0; i < 20 * DENIED_LINES_CLIENTS; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        n_taken += take(text, N, S);
    }
    ck_assert_uint_gt(n_taken, DENIED_LINES_CLIENTS / 2 * N);
    ck_assert_uint_le(n_taken, (DENIED_LINES_CLIENTS + 1) * N);
    ck_assert_uint_eq(take("192.0.2.1", N, S), N - 1);
    ck_assert_uint_eq(take("10.9.9.9", N, 2 * S), N);
}
END_TEST

START_TEST(none_may_have_a_line)
{
    denied_lines_free(lines);
    lines = denied_lines_new(0);
    ck_assert_uint_eq(take("192.0.2.1", 10, S), 0);
    ck_assert_uint_eq(denied_lines_report(lines).n_lines, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/denied_lines");
    TCase *tcase = tcase_create("lines");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_client_has_so_many_lines_a_second);
    tcase_add_test(tcase, a_client_by_ipv6_is_a_customer);
    tcase_add_test(tcase, what_is_left_out_is_summed_up);
    tcase_add_test(tcase, many_clients_have_no_more_lines_than_there_is_room_for);
    tcase_add_test(tcase, none_may_have_a_line);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
