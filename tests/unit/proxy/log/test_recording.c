#include "proxy/recording.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define S UINT64_C(1000000)

static struct recording_report read_at(uint64_t now_us)
{
    struct recording_report report;
    recording_read(now_us, &report);
    return report;
}

static void tear_down(void)
{
    recording_forget();
}

START_TEST(lines_are_kept_in_their_order)
{
    size_t bytes;
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    ck_assert(recording_is_on());
    recording_add(SPAN("one\n"), 1 * S);
    recording_add(SPAN("two\n"), 2 * S);
    const struct recording_report report = read_at(4 * S);
    ck_assert_int_eq(report.state, RECORDING_ON);
    ck_assert_uint_eq(report.n_lines, 2);
    ck_assert_uint_eq(report.bytes, 8);
    ck_assert_uint_eq(report.left_us, 7 * S);
    char *copy = recording_copy(&bytes);
    ck_assert(span_equals(span_of(copy, bytes), SPAN("one\ntwo\n")));
    free(copy);
}
END_TEST

START_TEST(what_is_left_out_is_counted_while_it_is_on)
{
    recording_leave_out(1 * S);
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    ck_assert_uint_eq(read_at(1 * S).n_too_long, 0);
    recording_leave_out(2 * S);
    recording_add(SPAN("one\n"), 2 * S);
    recording_leave_out(3 * S);
    recording_leave_out(11 * S);
    ck_assert_uint_eq(read_at(12 * S).n_too_long, 2);
    ck_assert_uint_eq(read_at(12 * S).n_lines, 1);
    ck_assert_int_eq(recording_start(12 * S, 10 * S), STATUS_OK);
    ck_assert_uint_eq(read_at(12 * S).n_too_long, 0);
}
END_TEST

START_TEST(nothing_is_recorded_while_it_is_off)
{
    size_t bytes;
    ck_assert(!recording_is_on());
    recording_add(SPAN("one\n"), 1 * S);
    ck_assert_int_eq(read_at(1 * S).state, RECORDING_NONE);
    ck_assert_ptr_null(recording_copy(&bytes));
    ck_assert_uint_eq(bytes, 0);
    recording_forget();
}
END_TEST

START_TEST(a_line_after_its_time_ends_it)
{
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    recording_add(SPAN("one\n"), 11 * S - 1);
    recording_add(SPAN("two\n"), 11 * S);
    ck_assert(!recording_is_on());
    const struct recording_report report = read_at(11 * S);
    ck_assert_int_eq(report.state, RECORDING_COMPLETE);
    ck_assert_uint_eq(report.n_lines, 1);
    ck_assert_uint_eq(report.left_us, 0);
}
END_TEST

START_TEST(one_that_is_stopped_keeps_its_lines)
{
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    recording_add(SPAN("one\n"), 2 * S);
    recording_stop(3 * S);
    ck_assert(!recording_is_on());
    recording_add(SPAN("two\n"), 3 * S);
    const struct recording_report report = read_at(3 * S);
    ck_assert_int_eq(report.state, RECORDING_COMPLETE);
    ck_assert_uint_eq(report.n_lines, 1);
    ck_assert_uint_eq(report.left_us, 0);
    recording_stop(4 * S);
    ck_assert_int_eq(read_at(4 * S).state, RECORDING_COMPLETE);
    recording_forget();
    recording_stop(5 * S);
    ck_assert_int_eq(read_at(5 * S).state, RECORDING_NONE);
}
END_TEST

START_TEST(a_look_after_its_time_ends_it_too)
{
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    ck_assert_int_eq(read_at(11 * S - 1).state, RECORDING_ON);
    ck_assert_int_eq(read_at(11 * S).state, RECORDING_COMPLETE);
    ck_assert(!recording_is_on());
}
END_TEST

START_TEST(it_ends_with_the_line_that_has_no_room)
{
    static char line[1000];
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    const size_t n = RECORDING_BYTES_MAX / sizeof(line);
    for (size_t i = 0; i < n; i++) {
        recording_add(span_of(line, sizeof(line)), 1 * S);
    }
    ck_assert_int_eq(read_at(1 * S).state, RECORDING_ON);
    recording_add(span_of(line, sizeof(line)), 1 * S);
    recording_add(SPAN("short\n"), 1 * S); /* no line is missing in between */
    const struct recording_report report = read_at(20 * S);
    ck_assert_int_eq(report.state, RECORDING_FULL);
    ck_assert_uint_eq(report.n_lines, n);
    ck_assert_uint_eq(report.bytes, n * sizeof(line));
}
END_TEST

START_TEST(a_new_one_forgets_the_one_before)
{
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    recording_add(SPAN("one\n"), 1 * S);
    ck_assert_int_eq(recording_start(2 * S, 20 * S), STATUS_OK);
    const struct recording_report report = read_at(2 * S);
    ck_assert_uint_eq(report.n_lines, 0);
    ck_assert_uint_eq(report.left_us, 20 * S);
    recording_forget();
    ck_assert(!recording_is_on());
    ck_assert_int_eq(read_at(2 * S).state, RECORDING_NONE);
}
END_TEST

enum { THREADS = 4, LINES_EACH = 20000 };

static void *add_lines(void *context)
{
    (void)context;
    for (size_t i = 0; i < LINES_EACH; i++) {
        if (recording_is_on()) {
            recording_add(SPAN("0123456789abcde\n"), 1 * S);
        }
    }
    return NULL;
}

START_TEST(threads_add_whole_lines_while_copies_are_taken)
{
    pthread_t threads[THREADS];
    ck_assert_int_eq(recording_start(1 * S, 10 * S), STATUS_OK);
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_lines, NULL), 0);
    }
    for (size_t i = 0; i < 10; i++) {
        size_t bytes;
        char *copy = recording_copy(&bytes);
        for (size_t at = 0; at < bytes; at += 16) {
            ck_assert_int_eq(memcmp(copy + at, "0123456789abcde\n", 16), 0);
        }
        free(copy);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(read_at(1 * S).n_lines, THREADS * LINES_EACH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/log/recording");
    TCase *cases = tcase_create("recording");
    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, lines_are_kept_in_their_order);
    tcase_add_test(cases, what_is_left_out_is_counted_while_it_is_on);
    tcase_add_test(cases, nothing_is_recorded_while_it_is_off);
    tcase_add_test(cases, a_line_after_its_time_ends_it);
    tcase_add_test(cases, one_that_is_stopped_keeps_its_lines);
    tcase_add_test(cases, a_look_after_its_time_ends_it_too);
    tcase_add_test(cases, it_ends_with_the_line_that_has_no_room);
    tcase_add_test(cases, a_new_one_forgets_the_one_before);
    tcase_add_test(cases, threads_add_whole_lines_while_copies_are_taken);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
