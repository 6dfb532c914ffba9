#include "admin/history.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define S (1000u * 1000u)

static struct history history;

static void set_up(void)
{
    history_init(&history);
}

static void tear_down(void)
{
    history_close(&history);
}

static void add(uint64_t now_us, uint64_t n_denied, uint64_t n_connections)
{
    struct history_reading reading = {.values = {0}};
    reading.values[HISTORY_DENIED] = n_denied;
    reading.values[HISTORY_CONNECTIONS] = n_connections;
    ck_assert_int_eq(history_add(&history, now_us, &reading), STATUS_OK);
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

/* --- by route and by limit --- */

enum { MANY = 50 };

static uint64_t routes[MANY][HISTORY_ROUTE_VALUES];
static uint64_t limits[MANY][HISTORY_LIMIT_VALUES];

static void add_lines(uint64_t now_us)
{
    const struct history_reading reading = {
        .routes = (const uint64_t(*)[HISTORY_ROUTE_VALUES])routes,
        .n_routes = MANY,
        .limits = (const uint64_t(*)[HISTORY_LIMIT_VALUES])limits,
        .n_limits = MANY};
    ck_assert_int_eq(history_add(&history, now_us, &reading), STATUS_OK);
}

static void clear_lines(void)
{
    memset(routes, 0, sizeof(routes));
    memset(limits, 0, sizeof(limits));
}

static uint32_t requests_at(const struct history_ring *ring, size_t i, size_t line)
{
    return history_step(ring, i)->routes[line][HISTORY_ROUTE_REQUESTS];
}

START_TEST(a_route_has_its_line_from_its_first_request_on)
{
    clear_lines();
    add_lines(100 * S);
    routes[7][HISTORY_ROUTE_REQUESTS] = 3;
    routes[7][HISTORY_ROUTE_US] = 4500;
    limits[9][HISTORY_LIMIT_DENIED] = 2;
    add_lines(101 * S);
    routes[7][HISTORY_ROUTE_REQUESTS] = 4;
    add_lines(102 * S);
    const struct history_step *first = history_step(&history.fine, 0);
    ck_assert_uint_eq(busiest_place(&history.routes, 7), 0);
    ck_assert_uint_eq(first->routes[0][HISTORY_ROUTE_REQUESTS], 3);
    ck_assert_uint_eq(first->routes[0][HISTORY_ROUTE_US], 4);
    ck_assert_uint_eq(first->routes[BUSIEST_OTHER][HISTORY_ROUTE_REQUESTS], 0);
    ck_assert_uint_eq(first->limits[0][HISTORY_LIMIT_DENIED], 2);
    ck_assert_uint_eq(requests_at(&history.fine, 1, 0), 1);
}
END_TEST

START_TEST(what_was_counted_before_the_first_reading_is_in_no_line)
{
    clear_lines();
    routes[1][HISTORY_ROUTE_REQUESTS] = 1000;
    add_lines(100 * S);
    routes[1][HISTORY_ROUTE_REQUESTS] = 1001;
    add_lines(101 * S);
    ck_assert_uint_eq(requests_at(&history.fine, 0, 0), 1);
}
END_TEST

START_TEST(beyond_the_lines_the_busiest_replace_the_least_and_nothing_is_lost)
{
    clear_lines();
    add_lines(0);
    for (size_t i = 0; i < MANY; i++) {
        routes[i][HISTORY_ROUTE_REQUESTS] = 10;
    }
    add_lines(1 * S);
    ck_assert_uint_eq(history.routes.n_own, BUSIEST_OWN);
    ck_assert_uint_eq(busiest_place(&history.routes, MANY - 1), BUSIEST_OTHER);
    ck_assert_uint_eq(requests_at(&history.fine, 0, BUSIEST_OTHER), (MANY - BUSIEST_OWN) * 10);
    for (uint64_t s = 2; s <= 41; s++) {
        routes[MANY - 1][HISTORY_ROUTE_REQUESTS] += 100;
        add_lines(s * S);
    }
    const size_t place = busiest_place(&history.routes, MANY - 1);
    ck_assert_uint_ne(place, BUSIEST_OTHER);
    uint64_t n = 0;
    for (size_t i = 0; i < history_count(&history.fine); i++) {
        for (size_t line = 0; line < HISTORY_LINES; line++) {
            n += requests_at(&history.fine, i, line);
        }
    }
    ck_assert_uint_eq(n, MANY * 10 + 40 * 100);
    ck_assert_uint_eq(requests_at(&history.fine, 40, place), 100);
}
END_TEST

START_TEST(what_is_more_than_its_type_stays_at_the_largest_value)
{
    clear_lines();
    add_lines(0);
    routes[0][HISTORY_ROUTE_REQUESTS] = UINT64_C(1) << 40;
    add_lines(1 * S);
    add_lines(2 * S);
    ck_assert_uint_eq(requests_at(&history.fine, 0, 0), UINT32_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *cases = tcase_create("history");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, what_was_counted_before_the_first_reading_is_in_no_step);
    tcase_add_test(cases, both_rings_add_up_to_the_same_and_keep_their_last_steps);
    tcase_add_test(cases, steps_without_a_reading_are_empty_however_many);
    tcase_add_test(cases, neither_a_clock_nor_a_counter_that_steps_back_does_harm);
    tcase_add_test(cases, a_route_has_its_line_from_its_first_request_on);
    tcase_add_test(cases, what_was_counted_before_the_first_reading_is_in_no_line);
    tcase_add_test(cases, beyond_the_lines_the_busiest_replace_the_least_and_nothing_is_lost);
    tcase_add_test(cases, what_is_more_than_its_type_stays_at_the_largest_value);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
