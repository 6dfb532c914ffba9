/* Who waits for a call, and who comes while they collect for the next. */

#include "store/layers.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "limit/identical.h"
#include "scripted_store.h"
#include "support/iterations.h"

enum { QUESTIONS = 300, DEADLINE_US = 2000 * 1000, PATIENCE_US = 1000, COLLECTING_ITERATIONS = 4 };

static const struct verdict ALLOWED = {.allowed = true, .limit = 1000, .remaining = 999};

static struct loop *loop;
static struct scripted_store below;
static struct store *store;
static struct limit limit;

static struct {
    struct charge charge;
    struct decision decision;
    unsigned n_answers;
} questions[QUESTIONS];

static void setup(void)
{
    const struct limit_spec spec = {
        .algorithm = &token_bucket_algorithm, .rate = 1000, .burst = 1000, .period_us = 60000000};
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    loop = iterations_new_loop();
    scripted_store_init(&below);
    ck_assert_int_eq(coalesce_store_new(loop, &below.store, DEADLINE_US, NULL, &store), STATUS_OK);
    memset(questions, 0, sizeof(questions));
}

static void teardown(void)
{
    store_free(store);
    loop_free(loop);
}

static void on_answer(struct decision *decision)
{
    unsigned *n_answers = decision->context;
    (*n_answers)++;
}

static void ask_many(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        questions[i].charge = (struct charge){.limit = &limit, .key = SPAN("{a}"), .cost = 1};
        questions[i].decision = (struct decision){
            .charges = &questions[i].charge,
            .n_charges = 1,
            .context = &questions[i].n_answers,
        };
        ck_assert_int_eq(store_decide(store, &questions[i].decision, on_answer), STORE_PENDING);
    }
}

static void cancel(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        store_cancel(&questions[i].decision);
    }
}

/* Whether somebody may have waited for longer than anybody is put off: the machine stood still. */
static bool is_late(uint64_t start_us)
{
    return clock_monotonic_us() - start_us >= PATIENCE_US;
}

/* All but the first of @n wait. */
static void start_over(size_t n)
{
    cancel(1, n);
    teardown();
    setup();
}

static void let_send(void)
{
    for (unsigned turn = 0; turn < 2 + COLLECTING_ITERATIONS; turn++) {
        iterations_once(loop);
    }
}

START_TEST(who_asks_a_moment_after_the_landing_travels_with_those_who_waited)
{
    for (;;) {
        const uint64_t start_us = clock_monotonic_us();
        ask_many(0, 3);
        scripted_store_answer(&below, 0, 1, &ALLOWED);
        ask_many(3, 4);
        iterations_once(loop);
        ask_many(4, 5);
        if (below.n_asked == 1 || !is_late(start_us)) {
            break;
        }
        start_over(5);
    }
    ck_assert_uint_eq(below.n_asked, 1);
    let_send();
    ck_assert_uint_eq(below.n_asked, 2);
    ck_assert_uint_eq(below.asked[1]->batch_size, 4);
    scripted_store_answer(&below, 1, 4, &ALLOWED);
    ck_assert_uint_eq(questions[4].n_answers, 1);
    ck_assert(questions[4].decision.allowed);
}
END_TEST

/* How many had come until those who waited departed. */
static size_t come_until_departure(void)
{
    size_t n = 2;
    ask_many(0, n);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    while (below.n_asked == 1) {
        ck_assert_uint_lt(n, 2 + 2 * COLLECTING_ITERATIONS);
        ask_many(n, n + 1);
        n++;
        iterations_once(loop);
    }
    return n;
}

START_TEST(those_who_wait_depart_however_many_come)
{
    size_t n;
    for (;;) {
        const uint64_t start_us = clock_monotonic_us();
        n = come_until_departure();
        if (n >= 2 + COLLECTING_ITERATIONS || !is_late(start_us)) {
            break;
        }
        start_over(n);
    }
    ck_assert_uint_ge(n, 2 + COLLECTING_ITERATIONS);
    cancel(1, n);
}
END_TEST

START_TEST(a_turn_that_brings_nobody_ends_the_gathering)
{
    ask_many(0, 2);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    iterations_once(loop);
    ck_assert_uint_eq(below.n_asked, 2);
    scripted_store_answer(&below, 1, 1, &ALLOWED);
}
END_TEST

START_TEST(who_has_waited_for_long_is_not_put_off)
{
    ask_many(0, 2);
    iterations_for(loop, 2000);
    ask_many(2, 3);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    ck_assert_uint_eq(below.n_asked, 2);
    ck_assert_uint_eq(below.asked[1]->batch_size, 2);
    scripted_store_answer(&below, 1, 2, &ALLOWED);
}
END_TEST

START_TEST(a_call_that_is_full_departs_at_once)
{
    ask_many(0, 1 + IDENTICAL_REQUESTS_MAX);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    ck_assert_uint_eq(below.n_asked, 2);
    ck_assert_uint_eq(below.asked[1]->batch_size, IDENTICAL_REQUESTS_MAX);
    scripted_store_answer(&below, 1, IDENTICAL_REQUESTS_MAX, &ALLOWED);
}
END_TEST

START_TEST(behind_a_failure_nobody_gathers)
{
    ask_many(0, 2);
    scripted_store_fail(&below, 0, STATUS_UNREACHABLE);
    ck_assert_uint_eq(below.n_asked, 2);
    scripted_store_answer(&below, 1, 1, &ALLOWED);
}
END_TEST

START_TEST(nobody_departs_when_all_who_waited_have_gone)
{
    ask_many(0, 3);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    cancel(1, 3);
    let_send();
    ck_assert_uint_eq(below.n_asked, 1);
    ask_many(3, 4);
    ck_assert_uint_eq(below.n_asked, 2);
    scripted_store_answer(&below, 1, 1, &ALLOWED);
}
END_TEST

START_TEST(a_flight_whose_first_has_gone_still_lands_for_those_who_wait)
{
    ask_many(0, 1);
    cancel(0, 1);
    ask_many(1, 3);
    ck_assert_uint_eq(below.n_asked, 1);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    let_send();
    ck_assert_uint_eq(below.asked[1]->batch_size, 2);
    scripted_store_answer(&below, 1, 2, &ALLOWED);
    ck_assert_uint_eq(questions[2].n_answers, 1);
}
END_TEST

START_TEST(a_store_is_freed_while_a_flight_gathers)
{
    ask_many(0, 3);
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    cancel(1, 3);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/coalesce_gathering");
    TCase *tcase = tcase_create("gathering");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, who_asks_a_moment_after_the_landing_travels_with_those_who_waited);
    tcase_add_test(tcase, those_who_wait_depart_however_many_come);
    tcase_add_test(tcase, a_turn_that_brings_nobody_ends_the_gathering);
    tcase_add_test(tcase, who_has_waited_for_long_is_not_put_off);
    tcase_add_test(tcase, a_call_that_is_full_departs_at_once);
    tcase_add_test(tcase, behind_a_failure_nobody_gathers);
    tcase_add_test(tcase, nobody_departs_when_all_who_waited_have_gone);
    tcase_add_test(tcase, a_flight_whose_first_has_gone_still_lands_for_those_who_wait);
    tcase_add_test(tcase, a_store_is_freed_while_a_flight_gathers);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
