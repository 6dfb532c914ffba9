#include "admin/busiest.h"

#include <check.h>

enum { N = 100 };

static struct busiest busiest;
static uint64_t counts[N];
static size_t n_replaced;

static void set_up(void)
{
    busiest = (struct busiest){.n_own = 0};
    n_replaced = 0;
    for (size_t i = 0; i < N; i++) {
        counts[i] = 0;
    }
}

static void tear_down(void)
{
    busiest_close(&busiest);
}

static void on_replaced(void *context, size_t place)
{
    (void)context;
    ck_assert_uint_lt(place, BUSIEST_OWN);
    n_replaced++;
}

static void update(void)
{
    ck_assert_int_eq(busiest_claim(&busiest, counts, N), STATUS_OK);
    ck_assert_int_eq(busiest_update(&busiest, counts, N, on_replaced, NULL), STATUS_OK);
}

START_TEST(what_counts_nothing_gets_no_place)
{
    update();
    ck_assert_uint_eq(busiest.n_own, 0);
    counts[5] = 1;
    update();
    ck_assert_uint_eq(busiest.n_own, 1);
    ck_assert_uint_eq(busiest_place(&busiest, 5), 0);
    ck_assert_uint_eq(busiest_place(&busiest, 6), BUSIEST_OTHER);
    ck_assert_uint_eq(busiest_place(&busiest, N + 1), BUSIEST_OTHER);
}
END_TEST

START_TEST(equals_do_not_replace_each_other)
{
    for (int step = 0; step < 100; step++) {
        for (size_t i = 0; i < N; i++) {
            counts[i] += 10;
        }
        update();
    }
    ck_assert_uint_eq(n_replaced, 0);
}
END_TEST

START_TEST(the_busiest_of_lately_have_the_places)
{
    for (size_t i = 0; i < BUSIEST_OWN; i++) {
        counts[i] = 1000000;
    }
    update();
    for (int step = 0; step < 100; step++) {
        for (size_t i = N - BUSIEST_OWN; i < N; i++) {
            counts[i] += 100;
        }
        update();
    }
    ck_assert_uint_eq(n_replaced, BUSIEST_OWN);
    for (size_t i = N - BUSIEST_OWN; i < N; i++) {
        const size_t place = busiest_place(&busiest, i);
        ck_assert_uint_ne(place, BUSIEST_OTHER);
        ck_assert_uint_eq(busiest.numbers[place], i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("busiest");
    TCase *cases = tcase_create("busiest");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, what_counts_nothing_gets_no_place);
    tcase_add_test(cases, equals_do_not_replace_each_other);
    tcase_add_test(cases, the_busiest_of_lately_have_the_places);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
