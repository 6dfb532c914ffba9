#include "proxy/upstream/upstream_bodies.h"

#include <check.h>
#include <string.h>

#include "base/hash.h"

static struct upstream_bodies bodies;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    bodies = (struct upstream_bodies){0};
}

static struct address address_number(uint32_t number)
{
    struct address address = {.family = ADDRESS_IPV4};
    memcpy(address.bytes, &number, sizeof(number));
    return address;
}

START_TEST(bodies_are_summed_up_by_client)
{
    const struct address one = address_number(1);
    upstream_bodies_add(&bodies, &one, 100);
    upstream_bodies_add(&bodies, &one, 10);
    ck_assert_uint_eq(upstream_bodies_of(&bodies, &one), 110);
    ck_assert_uint_eq(bodies.n_bytes, 110);
    upstream_bodies_drop(&bodies, &one, 100);
    ck_assert_uint_eq(upstream_bodies_of(&bodies, &one), 10);
    ck_assert_uint_eq(bodies.n_bytes, 10);
}
END_TEST

START_TEST(few_of_the_others_share_the_row_of_a_client)
{
    enum { N = 1000, N_EXPECTED = N / UPSTREAM_BODIES_ROWS };
    const struct address one = address_number(0);
    unsigned n_sharing = 0;
    upstream_bodies_add(&bodies, &one, 1);
    for (uint32_t number = 1; number <= N; number++) {
        const struct address other = address_number(number);
        n_sharing += upstream_bodies_of(&bodies, &other) > 0;
    }
    ck_assert_uint_lt(n_sharing, 10 * N_EXPECTED);
}
END_TEST

START_TEST(whoever_sends_them_all_count_together)
{
    for (uint32_t number = 0; number < 1000; number++) {
        const struct address one = address_number(number);
        upstream_bodies_add(&bodies, &one, number);
    }
    ck_assert_uint_eq(bodies.n_bytes, 999 * 1000 / 2);
    for (uint32_t number = 0; number < 1000; number++) {
        const struct address one = address_number(number);
        upstream_bodies_drop(&bodies, &one, number);
    }
    const struct upstream_bodies none = {0};
    ck_assert_mem_eq(&bodies, &none, sizeof(bodies));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("upstream_bodies");
    TCase *cases = tcase_create("upstream_bodies");
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_test(cases, bodies_are_summed_up_by_client);
    tcase_add_test(cases, few_of_the_others_share_the_row_of_a_client);
    tcase_add_test(cases, whoever_sends_them_all_count_together);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
