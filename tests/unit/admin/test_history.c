#include "admin/history.h"

#include <check.h>
#include <stdlib.h>

#define S (1000u * 1000u)

static struct history history;

static void set_up(void)
{
    history_init(&history);
}

static void add(uint64_t now_us, uint64_t n_denied, uint64_t n_connections)
{
    struct history_reading reading = {.values = {0}};
    reading.values[HISTORY_DENIED] = n_denied;
    reading.values[HISTORY_CONNECTIONS] = n_connections;
    history_add(&history, now_us, &reading);
}

static uint64_t value(const struct history_ring *ring, size_t i, enum history_value which)
{
    return history_step(ring, i)->values[which];
}

START_TEST(what_was_counted_before_the_first_reading_is_in_no_step)
{
    ck_assert_uint_eq(history_count(&history.fine), 0);
    add(100 * S, 1000, 3);
    ck_assert_uint_eq(history_count(&history.fine), 0);
    add(101 * S, 1007, 4);
    add(102 * S, 1007, 5);
    ck_assert_uint_eq(history_count(&history.fine), 2);
    ck_assert_uint_eq(value(&history.fine, 0, HISTORY_DENIED), 7);
    ck_assert_uint_eq(value(&history.fine, 1, HISTORY_DENIED), 0);
    ck_assert_uint_eq(value(&history.fine, 0, HISTORY_CONNECTIONS), 4);
    ck_assert_uint_eq(value(&history.fine, 1, HISTORY_CONNECTIONS), 5);
    ck_assert_uint_eq(history_end_us(&history.fine), 102 * S);
}
END_TEST

START_TEST(both_rings_add_up_to_the_same_and_keep_their_last_steps)
{
    for (uint64_t s = 0; s <= 4000; s++) {
        add(s * S + 17, 2 * s, 1);
    }
    ck_assert_uint_eq(history_count(&history.fine), 120);
    ck_assert_uint_eq(history_count(&history.coarse), 360);
    for (size_t i = 0; i < 120; i++) {
        ck_assert_uint_eq(value(&history.fine, i, HISTORY_DENIED), 2);
    }
    for (size_t i = 0; i < 360; i++) {
        ck_assert_uint_eq(value(&history.coarse, i, HISTORY_DENIED), 20);
    }
    ck_assert_uint_eq(history_end_us(&history.coarse), 4000 * (uint64_t)S);
}
END_TEST

START_TEST(steps_without_a_reading_are_empty_however_many)
{
    add(0, 0, 1);
    add(1 * S, 5, 2);
    add(4 * S, 9, 3);
    add(5 * S, 9, 3);
    ck_assert_uint_eq(history_count(&history.fine), 5);
    ck_assert_uint_eq(value(&history.fine, 0, HISTORY_DENIED), 5);
    ck_assert_uint_eq(value(&history.fine, 1, HISTORY_DENIED), 4);
    ck_assert_uint_eq(value(&history.fine, 2, HISTORY_DENIED), 0);
    ck_assert_uint_eq(value(&history.fine, 3, HISTORY_CONNECTIONS), 3);
    ck_assert_uint_eq(value(&history.fine, 4, HISTORY_DENIED), 0);
    add(UINT64_MAX, 10, 3);
    ck_assert_uint_eq(history_count(&history.fine), 120);
    for (size_t i = 0; i < 120; i++) {
        ck_assert_uint_eq(value(&history.fine, i, HISTORY_DENIED), 0);
    }
}
END_TEST

START_TEST(neither_a_clock_nor_a_counter_that_steps_back_does_harm)
{
    add(50 * S, 10, 1);
    add(51 * S, 20, 1);
    add(40 * S, 25, 1);
    add(52 * S, 5, 1);
    add(53 * S, 6, 1);
    ck_assert_uint_eq(history_count(&history.fine), 3);
    ck_assert_uint_eq(value(&history.fine, 0, HISTORY_DENIED), 10);
    ck_assert_uint_eq(value(&history.fine, 1, HISTORY_DENIED), 5);
    ck_assert_uint_eq(value(&history.fine, 2, HISTORY_DENIED), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *cases = tcase_create("history");
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_test(cases, what_was_counted_before_the_first_reading_is_in_no_step);
    tcase_add_test(cases, both_rings_add_up_to_the_same_and_keep_their_last_steps);
    tcase_add_test(cases, steps_without_a_reading_are_empty_however_many);
    tcase_add_test(cases, neither_a_clock_nor_a_counter_that_steps_back_does_harm);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
