#include "admin/newcomers.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define S UINT64_C(1000000)

static struct newcomers newcomers;
static const uint64_t NOW_US = 100 * S;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    newcomers = (struct newcomers){0};
}

static struct address address_number(uint32_t number)
{
    struct address address = {.family = ADDRESS_IPV4};
    memcpy(address.bytes, &number, sizeof(number));
    return address;
}

static void add(const struct address *address, unsigned n, uint64_t now_us)
{
    for (unsigned i = 0; i < n; i++) {
        newcomers_add(&newcomers, address, now_us);
    }
}

static uint32_t count(const struct address *address, uint64_t now_us)
{
    return newcomers_count(&newcomers, address, now_us);
}

START_TEST(connections_are_counted_by_address)
{
    const struct address one = address_number(1);
    const struct address other = address_number(2);
    add(&one, 3, NOW_US);
    add(&other, 1, NOW_US);
    ck_assert_uint_eq(count(&one, NOW_US), 3);
    ck_assert_uint_eq(count(&other, NOW_US), 1);
}
END_TEST

START_TEST(who_is_let_in_is_no_newcomer)
{
    const struct address one = address_number(1);
    newcomers_let_in(&newcomers, &one, NOW_US);
    ck_assert_uint_eq(count(&one, NOW_US), 0);
    add(&one, 2, NOW_US);
    newcomers_let_in(&newcomers, &one, NOW_US);
    ck_assert_uint_eq(count(&one, NOW_US), 1);
}
END_TEST

START_TEST(half_of_them_is_forgotten_each_second)
{
    const struct address one = address_number(1);
    add(&one, 12, NOW_US);
    ck_assert_uint_eq(count(&one, NOW_US + S - 1), 12);
    ck_assert_uint_eq(count(&one, NOW_US + S), 6);
    ck_assert_uint_eq(count(&one, NOW_US + 3 * S), 1);
    add(&one, UINT16_MAX, NOW_US + 3 * S);
    ck_assert_uint_eq(count(&one, NOW_US + 35 * S), 0);
}
END_TEST

START_TEST(addresses_of_one_subscriber_of_ipv6_are_one)
{
    struct address one = {.family = ADDRESS_IPV6, .bytes = {0x20, 0x01, [15] = 1}};
    struct address other = {.family = ADDRESS_IPV6, .bytes = {0x20, 0x01, [15] = 2}};
    add(&one, 1, NOW_US);
    add(&other, 1, NOW_US);
    ck_assert_uint_eq(count(&one, NOW_US), 2);
}
END_TEST

START_TEST(who_opens_many_is_not_forgotten_for_thousands_with_one)
{
    const struct address one = address_number(1);
    add(&one, 9, NOW_US);
    for (uint32_t number = 2; number < 100 * 1000; number++) {
        const struct address other = address_number(number);
        add(&other, 1, NOW_US);
    }
    ck_assert_uint_eq(count(&one, NOW_US), 9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("newcomers");
    TCase *cases = tcase_create("newcomers");
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_test(cases, connections_are_counted_by_address);
    tcase_add_test(cases, who_is_let_in_is_no_newcomer);
    tcase_add_test(cases, half_of_them_is_forgotten_each_second);
    tcase_add_test(cases, addresses_of_one_subscriber_of_ipv6_are_one);
    tcase_add_test(cases, who_opens_many_is_not_forgotten_for_thousands_with_one);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
