/* How the embedded store follows the machine's clocks, which the tests tell: steps, suspensions,
 * and what is neither. Seen with the real ones in tests/e2e/test_clock.py. */

#include "store/memory/memory_clock.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/memory_store.h"

#define S UINT64_C(1000000)
#define HOUR (3600 * S)
#define DAY (24 * HOUR)

static const uint64_t MONOTONIC_US = 5000 * S;
static const uint64_t WALL_US = UINT64_C(20454) * 86400 * S - 60 * S; /* a minute before midnight */

static struct clock_reading machine; /* what its clocks say */
static unsigned n_readings;
static struct memory_clock clock_;

static void read_machine(void *context, struct clock_reading *reading)
{
    (void)context;
    n_readings++;
    *reading = machine;
}

static void pass(uint64_t us)
{
    machine.monotonic_us += us;
    machine.boot_us += us;
    machine.wall_us += us;
}

static void step(int64_t us)
{
    machine.wall_us += (uint64_t)us;
}

static void suspend(uint64_t us)
{
    machine.boot_us += us;
    machine.wall_us += us;
}

static void setup(void)
{
    machine = (struct clock_reading){
        .monotonic_us = MONOTONIC_US, .boot_us = MONOTONIC_US + 9 * S, .wall_us = WALL_US};
    memory_clock_init(&clock_, read_machine, NULL);
    n_readings = 0;
}

static void teardown(void)
{
    memory_clock_close(&clock_);
}

static struct memory_time now(void)
{
    return memory_clock_at(&clock_, machine.monotonic_us);
}

/* --- what is logged --- */

static int kept_stderr;
static FILE *log_file;

static void begin_log(void)
{
    log_file = tmpfile();
    ck_assert_ptr_nonnull(log_file);
    kept_stderr = dup(STDERR_FILENO);
    dup2(fileno(log_file), STDERR_FILENO);
}

/* What was written since begin_log(). */
static const char *end_log(void)
{
    static char text[4096];
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    rewind(log_file);
    text[fread(text, 1, sizeof(text) - 1, log_file)] = '\0';
    fclose(log_file);
    return text;
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

/* --- the clock --- */

START_TEST(both_times_are_the_wall_clocks_at_start_and_go_on_with_the_monotonic_one)
{
    ck_assert_uint_eq(now().state_us, WALL_US);
    ck_assert_uint_eq(now().wall_us, WALL_US);
    pass(HOUR);
    ck_assert_uint_eq(now().state_us, WALL_US + HOUR);
    ck_assert_uint_eq(now().wall_us, WALL_US + HOUR);
}
END_TEST

START_TEST(the_clocks_are_read_once_a_second)
{
    for (int i = 0; i < 100; i++) {
        pass(S / 10);
        (void)now();
    }
    ck_assert_uint_eq(n_readings, 10);
}
END_TEST

START_TEST(a_step_is_followed_within_a_second_by_the_wall_time_alone)
{
    static const int64_t STEPS_US[] = {
        26 * 3600 * 1000000LL, -26 * 3600 * 1000000LL, 200000, -200000, 5000, -5000};
    for (size_t i = 0; i < sizeof(STEPS_US) / sizeof(*STEPS_US); i++) {
        const struct memory_time before = now();
        step(STEPS_US[i]);
        pass(S);
        ck_assert_uint_eq(now().wall_us, before.wall_us + S + (uint64_t)STEPS_US[i]);
        ck_assert_uint_eq(now().wall_us, machine.wall_us);
        ck_assert_uint_eq(now().state_us, before.state_us + S);
    }
}
END_TEST

START_TEST(a_step_is_one_line_that_says_how_far)
{
    begin_log();
    step(-1234567);
    for (int i = 0; i < 10; i++) {
        pass(S);
        (void)now();
    }
    step(93600 * 1000000LL);
    for (int i = 0; i < 10; i++) {
        pass(S);
        (void)now();
    }
    const char *text = end_log();
    ck_assert_uint_eq(count_lines(text), 2);
    ck_assert_ptr_nonnull(strstr(text,
                                 "level=warn mod=store.memory msg=\"the wall clock was set: "
                                 "windows that start at its times follow it\" by_s=-1.234\n"));
    ck_assert_ptr_nonnull(strstr(text, " by_s=93600.000\n"));
}
END_TEST

START_TEST(a_suspension_counts_as_time_that_passed)
{
    begin_log();
    suspend(HOUR);
    pass(S);
    ck_assert_uint_eq(now().state_us, WALL_US + HOUR + S);
    ck_assert_uint_eq(now().wall_us, WALL_US + HOUR + S);
    const char *text = end_log();
    ck_assert_uint_eq(count_lines(text), 1);
    ck_assert_ptr_nonnull(
        strstr(text, "level=info mod=store.memory msg=\"the machine was suspended"));
    ck_assert_ptr_nonnull(strstr(text, " for_s=3600\n"));
}
END_TEST

START_TEST(a_step_in_a_suspension_is_told_from_it)
{
    begin_log();
    suspend(HOUR);
    step(-5 * 1000000LL);
    pass(S);
    ck_assert_uint_eq(now().state_us, WALL_US + HOUR + S);
    ck_assert_uint_eq(now().wall_us, WALL_US + HOUR - 4 * S);
    const char *text = end_log();
    ck_assert_uint_eq(count_lines(text), 2);
    ck_assert_ptr_nonnull(strstr(text, " for_s=3600\n"));
    ck_assert_ptr_nonnull(strstr(text, " by_s=-5.000\n"));
}
END_TEST

/* 500 ppm for an hour, with no second of it logged. Linux slews all its clocks alike. */
START_TEST(a_clock_that_is_slewed_is_followed_and_not_logged)
{
    begin_log();
    for (int i = 0; i < 3600; i++) {
        pass(S);
        step(i % 2000 < 1000 ? 500 : -500);
        const uint64_t wall_us = now().wall_us;
        ck_assert(wall_us <= machine.wall_us + 1500 && machine.wall_us <= wall_us + 1500);
    }
    ck_assert_str_eq(end_log(), "");
    ck_assert_uint_eq(now().state_us, WALL_US + HOUR);
}
END_TEST

START_TEST(clocks_that_are_not_read_at_once_do_not_move_time)
{
    for (int i = 0; i < 100; i++) {
        pass(S);
        step(i % 2 == 0 ? 900 : -900);
        machine.boot_us += i % 2 == 0 ? 900 : (uint64_t)-900;
        ck_assert_uint_eq(now().state_us, WALL_US + (uint64_t)(i + 1) * S);
        ck_assert_uint_eq(now().wall_us, WALL_US + (uint64_t)(i + 1) * S);
    }
}
END_TEST

START_TEST(state_time_never_steps_back)
{
    pass(S);
    suspend(HOUR);
    pass(S);
    const uint64_t before_us = now().state_us;
    machine.boot_us -= HOUR; /* what no kernel does */
    pass(S);
    ck_assert_uint_eq(now().state_us, before_us + S);
}
END_TEST

START_TEST(the_machines_clocks_are_read_at_one_moment)
{
    struct clock_reading reading;
    for (int i = 0; i < 1000; i++) {
        const uint64_t before_us = clock_monotonic_us();
        clock_read(&reading);
        const uint64_t after_us = clock_monotonic_us();
        ck_assert(before_us <= reading.monotonic_us && reading.monotonic_us <= after_us);
        ck_assert(reading.boot_us >= reading.monotonic_us - S);
        ck_assert(reading.wall_us <= clock_wall_us() + S);
    }
}
END_TEST

/* --- many threads --- */

enum { N_THREADS = 4, N_ASKED = 20000 };

static void *ask_for_the_time(void *context)
{
    struct memory_clock *clock = context;
    for (int i = 0; i < N_ASKED; i++) {
        const struct memory_time time = memory_clock_at(clock, memory_clock_monotonic_us(clock));
        if (i % 100 == 0) {
            memory_clock_follow(clock);
        }
        if (time.wall_us + 10 * S < clock_wall_us() || time.state_us + 10 * S < clock_wall_us()) {
            return context;
        }
    }
    return NULL;
}

START_TEST(threads_may_ask_at_once)
{
    struct memory_clock real;
    pthread_t threads[N_THREADS];
    memory_clock_init(&real, NULL, NULL);
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_for_the_time, &real), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    memory_clock_close(&real);
}
END_TEST

/* --- the store --- */

static struct store *store;

static struct limit limit_by(const struct algorithm *algorithm, uint64_t period_us, bool from_first)
{
    const struct limit_spec spec = {.algorithm = algorithm,
                                    .rate = 3,
                                    .burst = 3,
                                    .period_us = period_us,
                                    .buckets = 10,
                                    .from_first = from_first};
    struct limit limit = {.name = span_of_text(algorithm->name)};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    return limit;
}

static void open_store(void)
{
    const struct memory_store_options options = {.memory_bytes = MEMORY_STORE_BYTES_MIN,
                                                 .read_clocks = read_machine};
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_OK);
}

/* How many of five requests pass. */
static unsigned count_passing(const struct limit *limit)
{
    unsigned n = 0;
    for (int i = 0; i < 5; i++) {
        struct charge charge = {.limit = limit, .key = SPAN("{a}"), .cost = 1};
        struct decision decision = {
            .charges = &charge, .n_charges = 1, .now_us = machine.monotonic_us};
        ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
        ck_assert_int_eq(decision.status, STATUS_OK);
        n += decision.allowed;
    }
    return n;
}

START_TEST(a_window_of_the_clock_ends_where_the_wall_clock_says)
{
    const struct limit daily = limit_by(&fixed_window_algorithm, DAY, false);
    open_store();
    ck_assert_uint_eq(count_passing(&daily), 3);
    step(26 * 3600 * 1000000LL);
    ck_assert_uint_eq(count_passing(&daily), 0);
    pass(S);
    ck_assert_uint_eq(count_passing(&daily), 3);
    store_free(store);
}
END_TEST

START_TEST(what_was_taken_counts_in_the_window_that_the_clock_is_set_back_to)
{
    const struct limit daily = limit_by(&fixed_window_algorithm, DAY, false);
    open_store();
    ck_assert_uint_eq(count_passing(&daily), 3);
    step(-26 * 3600 * 1000000LL);
    pass(S);
    ck_assert_uint_eq(count_passing(&daily), 0);
    pass(2 * HOUR + 60 * S); /* the end of the day before, as it is now */
    ck_assert_uint_eq(count_passing(&daily), 3);
    store_free(store);
}
END_TEST

START_TEST(a_step_back_by_less_than_a_second_over_an_edge_gives_nothing_back)
{
    const struct limit daily = limit_by(&fixed_window_algorithm, DAY, false);
    open_store();
    pass(60 * S + S / 4);
    ck_assert_uint_eq(count_passing(&daily), 3);
    step(-900 * 1000LL); /* to before midnight */
    pass(S / 2);
    ck_assert_uint_eq(count_passing(&daily), 0);
    pass(S / 2);
    ck_assert_uint_eq(count_passing(&daily), 0);
    store_free(store);
}
END_TEST

START_TEST(a_step_gives_nothing_back_where_passing_time_counts)
{
    const struct limit limits[] = {
        limit_by(&token_bucket_algorithm, HOUR, false),
        limit_by(&sliding_window_algorithm, HOUR, false),
        limit_by(&fixed_window_algorithm, HOUR, true),
    };
    open_store();
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        ck_assert_uint_eq(count_passing(&limits[i]), 3);
        step(26 * 3600 * 1000000LL);
        pass(S);
        ck_assert_uint_eq(count_passing(&limits[i]), 0);
        step(-26 * 3600 * 1000000LL);
        pass(S);
        ck_assert_uint_eq(count_passing(&limits[i]), 0);
    }
    store_free(store);
}
END_TEST

START_TEST(what_a_suspension_refills_is_there_when_the_machine_resumes)
{
    const struct limit bucket = limit_by(&token_bucket_algorithm, HOUR, false);
    open_store();
    ck_assert_uint_eq(count_passing(&bucket), 3);
    suspend(HOUR);
    pass(S);
    ck_assert_uint_eq(count_passing(&bucket), 3);
    store_free(store);
}
END_TEST

START_TEST(a_charge_by_the_wall_clock_is_settled_in_its_window)
{
    const struct limit daily = limit_by(&fixed_window_algorithm, DAY, false);
    open_store();
    step(26 * 3600 * 1000000LL);
    pass(S);
    struct charge charge = {.limit = &daily, .key = SPAN("{a}"), .cost = 3};
    struct decision decision = {.charges = &charge, .n_charges = 1, .now_us = machine.monotonic_us};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert(decision.allowed);
    ck_assert_uint_eq(count_passing(&daily), 0);
    const struct settlement settlement = {
        .limit = &daily, .key = charge.key, .delta = -2, .charged_at_us = charge.charged_at_us};
    store_settle(store, &settlement, 1);
    ck_assert_uint_eq(count_passing(&daily), 2);
    store_free(store);
}
END_TEST

/* The caller has read the wall clock, and the store last did almost a second ago. */
START_TEST(a_calendar_that_does_not_know_the_stores_time_makes_it_look)
{
    struct limit_spec spec = {
        .algorithm = &fixed_window_algorithm, .rate = 3, .period_us = DAY, .is_calendar = true};
    struct limit daily = {.name = SPAN("daily")};
    ck_assert_ptr_null(limit_init(&daily, &spec));
    open_store();
    step(20 * 86400 * 1000000LL);
    uint64_t edges[LIMIT_EDGES];
    for (size_t i = 0; i < LIMIT_EDGES; i++) {
        edges[i] = (machine.wall_us / DAY + i - 1) * DAY / daily.tick_us;
    }
    struct charge charge = {.limit = &daily, .key = SPAN("{a}"), .cost = 1, .edges = edges};
    struct decision decision = {.charges = &charge, .n_charges = 1, .now_us = machine.monotonic_us};
    ck_assert_int_eq(store_decide(store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_OK);
    ck_assert(decision.allowed);
    ck_assert_uint_eq(charge.charged_at_us, machine.wall_us);
    store_free(store);
}
END_TEST

static Suite *memory_clock_suite(void)
{
    Suite *suite = suite_create("store/memory_clock");
    TCase *times = tcase_create("the clock");
    tcase_add_checked_fixture(times, setup, teardown);
    tcase_add_test(times, both_times_are_the_wall_clocks_at_start_and_go_on_with_the_monotonic_one);
    tcase_add_test(times, the_clocks_are_read_once_a_second);
    tcase_add_test(times, a_step_is_followed_within_a_second_by_the_wall_time_alone);
    tcase_add_test(times, a_step_is_one_line_that_says_how_far);
    tcase_add_test(times, a_suspension_counts_as_time_that_passed);
    tcase_add_test(times, a_step_in_a_suspension_is_told_from_it);
    tcase_add_test(times, a_clock_that_is_slewed_is_followed_and_not_logged);
    tcase_add_test(times, clocks_that_are_not_read_at_once_do_not_move_time);
    tcase_add_test(times, state_time_never_steps_back);
    tcase_add_test(times, the_machines_clocks_are_read_at_one_moment);
    tcase_add_test(times, threads_may_ask_at_once);
    suite_add_tcase(suite, times);
    TCase *stores = tcase_create("the store");
    tcase_add_checked_fixture(stores, setup, teardown);
    tcase_add_test(stores, a_window_of_the_clock_ends_where_the_wall_clock_says);
    tcase_add_test(stores, what_was_taken_counts_in_the_window_that_the_clock_is_set_back_to);
    tcase_add_test(stores, a_step_back_by_less_than_a_second_over_an_edge_gives_nothing_back);
    tcase_add_test(stores, a_step_gives_nothing_back_where_passing_time_counts);
    tcase_add_test(stores, what_a_suspension_refills_is_there_when_the_machine_resumes);
    tcase_add_test(stores, a_charge_by_the_wall_clock_is_settled_in_its_window);
    tcase_add_test(stores, a_calendar_that_does_not_know_the_stores_time_makes_it_look);
    suite_add_tcase(suite, stores);
    return suite;
}

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(memory_clock_suite());
    srunner_run_all(executor, CK_ENV);
    const int n_failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
