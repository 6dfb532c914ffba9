#include <check.h>
#include <stdlib.h>

#include "base/hash.h"
#include "jwt/verifier.h"

enum { US_PER_S = 1000 * 1000 };

static struct jwt_failures *failures;
static struct address client;
static struct address neighbour;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    failures = jwt_failures_new();
    ck_assert(address_parse(SPAN("192.0.2.1"), &client));
    ck_assert(address_parse(SPAN("192.0.2.2"), &neighbour));
}

static void teardown(void)
{
    jwt_failures_free(failures);
}

static size_t count_allowed(uint64_t now_us, size_t n)
{
    size_t allowed = 0;
    for (size_t i = 0; i < n; i++) {
        allowed += jwt_failures_allow(failures, &client, now_us);
    }
    return allowed;
}

static void add_failures(size_t n, uint64_t now_us)
{
    for (size_t i = 0; i < n; i++) {
        jwt_failures_add(failures, &client, 1, now_us);
    }
}

START_TEST(after_a_hundred_in_a_minute_ten_a_second_are_verified)
{
    const uint64_t start = 1000 * (uint64_t)US_PER_S;
    add_failures(JWT_FAILURES_PER_MINUTE - 1, start);
    ck_assert_uint_eq(count_allowed(start, 1000), 1000);
    add_failures(1, start);
    ck_assert_uint_eq(count_allowed(start, 1000), 10);
    ck_assert_uint_eq(count_allowed(start + US_PER_S - 1, 1000), 0);
    ck_assert_uint_eq(count_allowed(start + US_PER_S, 1000), 10);
    ck_assert(jwt_failures_allow(failures, &neighbour, start));
    ck_assert_uint_eq(count_allowed(start + 60 * (uint64_t)US_PER_S, 1000), 1000);
}
END_TEST

/* What was allowed and not computed is allowed again, in its second alone. */
START_TEST(what_is_returned_is_allowed_again)
{
    const uint64_t start = 1000 * (uint64_t)US_PER_S;
    jwt_failures_return(failures, &client, start); /* of no one: a no-op */
    add_failures(JWT_FAILURES_PER_MINUTE, start);
    jwt_failures_return(failures, &client, start); /* none was taken */
    ck_assert_uint_eq(count_allowed(start, 1000), 10);
    jwt_failures_return(failures, &client, start + 1);
    jwt_failures_return(failures, &client, start + 2);
    ck_assert_uint_eq(count_allowed(start + 3, 1000), 2);
    ck_assert_uint_eq(count_allowed(start + US_PER_S, 1000), 10);
    jwt_failures_return(failures, &client, start + US_PER_S - 1);
    ck_assert_uint_eq(count_allowed(start + US_PER_S, 1000), 0);
}
END_TEST

START_TEST(a_signature_counts_once_for_each_key_that_it_was_tried_by)
{
    const uint64_t start = 1000 * (uint64_t)US_PER_S;
    for (unsigned i = 0; i < 12; i++) {
        jwt_failures_add(failures, &client, 8, start);
    }
    ck_assert_uint_eq(count_allowed(start, 1000), 1000);
    jwt_failures_add(failures, &client, 8, start);
    ck_assert_uint_eq(count_allowed(start, 1), 1);
    jwt_failures_add(failures, &client, 8, start);
    ck_assert_uint_eq(count_allowed(start, 1000), 2);
    ck_assert_uint_eq(count_allowed(start + US_PER_S, 1000), 10);
}
END_TEST

START_TEST(failures_go_on_counting_in_the_next_minute)
{
    const uint64_t minute = 60 * (uint64_t)US_PER_S;
    add_failures(1000, minute);
    add_failures(JWT_FAILURES_PER_MINUTE, 2 * minute);
    ck_assert_uint_eq(count_allowed(2 * minute, 1000), 10);
}
END_TEST

START_TEST(a_clock_that_steps_back_starts_afresh)
{
    add_failures(JWT_FAILURES_PER_MINUTE, 5000 * (uint64_t)US_PER_S);
    ck_assert_uint_eq(count_allowed(1000, 50), 50);
}
END_TEST

START_TEST(addresses_of_one_household_count_together)
{
    struct address other;
    ck_assert(address_parse(SPAN("2001:db8::1"), &client));
    ck_assert(address_parse(SPAN("2001:db8:0:ffff::"), &other));
    add_failures(JWT_FAILURES_PER_MINUTE, US_PER_S);
    client = other;
    ck_assert_uint_eq(count_allowed(US_PER_S, 50), 10);
    ck_assert(address_parse(SPAN("2001:db8:1::1"), &client));
    ck_assert_uint_eq(count_allowed(US_PER_S, 50), 50);
}
END_TEST

START_TEST(clients_without_an_address_are_not_slowed_down_for_each_other)
{
    client = (struct address){.family = ADDRESS_NONE};
    add_failures(10 * JWT_FAILURES_PER_MINUTE, US_PER_S);
    ck_assert_uint_eq(count_allowed(US_PER_S, 50), 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jwt/failures");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, after_a_hundred_in_a_minute_ten_a_second_are_verified);
    tcase_add_test(tcase, what_is_returned_is_allowed_again);
    tcase_add_test(tcase, a_signature_counts_once_for_each_key_that_it_was_tried_by);
    tcase_add_test(tcase, failures_go_on_counting_in_the_next_minute);
    tcase_add_test(tcase, a_clock_that_steps_back_starts_afresh);
    tcase_add_test(tcase, addresses_of_one_household_count_together);
    tcase_add_test(tcase, clients_without_an_address_are_not_slowed_down_for_each_other);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
