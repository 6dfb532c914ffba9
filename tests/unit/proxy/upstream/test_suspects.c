#include "proxy/upstream/upstream_clients.h"

#include <check.h>
#include <stdlib.h>

#include "base/hash.h"

enum { SECOND_US = 1000 * 1000, CLIENTS = 5000 };

static struct suspects suspects;

static struct address client_of(unsigned number)
{
    return (struct address){
        .family = ADDRESS_IPV4,
        .bytes = {10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}};
}

static void add(unsigned number, uint64_t now_us)
{
    const struct address client = client_of(number);
    suspects_add(&suspects, &client, now_us);
}

static bool have(unsigned number, uint64_t now_us)
{
    const struct address client = client_of(number);
    return suspects_have(&suspects, &client, now_us);
}

static void begin(void)
{
    suspects = (struct suspects){0};
}

START_TEST(an_empty_table_has_nobody)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        ck_assert(!have(i, (uint64_t)i * SECOND_US));
    }
}
END_TEST

START_TEST(a_client_is_remembered_for_its_time)
{
    const uint64_t begins[] = {0, 999999, (UINT64_C(1) << 24) * SECOND_US - 1, UINT64_C(1) << 52};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        const uint64_t begin_us = begins[i];
        add(1, begin_us);
        ck_assert(have(1, begin_us));
        ck_assert(have(1, begin_us + (uint64_t)(SUSPECT_FOR_S - 1) * SECOND_US));
        ck_assert(!have(1, begin_us + (uint64_t)SUSPECT_FOR_S * SECOND_US));
        ck_assert(!have(2, begin_us));
    }
}
END_TEST

START_TEST(who_does_it_again_is_remembered_for_longer)
{
    add(1, 0);
    add(1, 200 * (uint64_t)SECOND_US);
    ck_assert(have(1, 400 * (uint64_t)SECOND_US));
    ck_assert(!have(1, 500 * (uint64_t)SECOND_US));
}
END_TEST

START_TEST(the_latest_take_the_places_of_the_oldest)
{
    unsigned n_latest = 0;
    unsigned n_all = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        add(i, (uint64_t)i * SECOND_US / 100);
        ck_assert(have(i, (uint64_t)i * SECOND_US / 100));
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        const bool is_there = have(i, (uint64_t)CLIENTS * SECOND_US / 100);
        n_all += is_there;
        n_latest += is_there && i >= CLIENTS - 100;
    }
    ck_assert_uint_le(n_all, SUSPECTS_ROWS * SUSPECTS_PER_ROW);
    ck_assert_uint_ge(n_latest, 90);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("proxy/suspects");
    TCase *tests = tcase_create("suspects");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_add_test(tests, an_empty_table_has_nobody);
    tcase_add_test(tests, a_client_is_remembered_for_its_time);
    tcase_add_test(tests, who_does_it_again_is_remembered_for_longer);
    tcase_add_test(tests, the_latest_take_the_places_of_the_oldest);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
