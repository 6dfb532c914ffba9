/* Requests that were collected and must ask one by one after all, over a store that
 * is told when to answer. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "limit/algorithms.h"
#include "scripted_store.h"
#include "store/layers.h"
#include "store/redis_fault.h"
#include "support/iterations.h"

enum { FEW = 4, QUESTIONS = 3 * CLIENT_CALLS_MAX, DEADLINE_US = 2000 * 1000 };

static const struct verdict ALLOWED = {.allowed = true, .limit = 1000, .remaining = 999};

struct question {
    struct charge charge;
    struct decision decision;
    unsigned n_answers;
};

static struct loop *loop;
static struct scripted_store below;
static struct store *store;
static struct limit limit;
static struct question questions[QUESTIONS];
static unsigned n_answers;

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
    n_answers = 0;
}

static void teardown(void)
{
    store_free(store);
    loop_free(loop);
}

static void on_answer(struct decision *decision)
{
    struct question *question = decision->context;
    question->n_answers++;
    n_answers++;
}

static void ck_answered(size_t i, enum status status)
{
    ck_assert_uint_eq(questions[i].n_answers, 1);
    ck_assert_int_eq(questions[i].decision.status, status);
    ck_assert_uint_eq(questions[i].decision.n_frames, 0);
}

static void iterations_until_asked(size_t n)
{
    for (unsigned turn = 0; below.n_asked < n; turn++) {
        ck_assert_uint_lt(turn, 10);
        iterations_once(loop);
    }
}

static void ask(size_t i)
{
    struct question *question = &questions[i];
    question->charge = (struct charge){.limit = &limit, .key = SPAN("{a}"), .cost = 1};
    question->decision =
        (struct decision){.charges = &question->charge, .n_charges = 1, .context = question};
    ck_assert_int_eq(store_decide(store, &question->decision, on_answer), STORE_PENDING);
}

/* The first of @n goes by itself and is answered; of the others' call a cluster says what it
 * does of a slot on the move. */
static void ask_and_part(size_t n, bool answers_at_once)
{
    for (size_t i = 0; i < n; i++) {
        ask(i);
    }
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    iterations_until_asked(2);
    ck_assert_uint_eq(below.asked[1]->batch_size, n - 1);
    below.asked[1]->fault = REDIS_FAULT_TRYAGAIN;
    below.answers_at_once = answers_at_once;
    below.at_once = STATUS_UNREACHABLE;
    scripted_store_fail(&below, 1, STATUS_REFUSED);
}

START_TEST(each_has_the_deadline_of_the_store_below)
{
    ask_and_part(FEW, false);
    scripted_store_answer(&below, 3, 1, &ALLOWED);
    ck_answered(2, STATUS_OK);
    iterations_for(loop, 2 * DEADLINE_US);
    ck_assert_uint_eq(n_answers, 2);
    scripted_store_fail(&below, 2, STATUS_TIMEOUT);
    scripted_store_fail(&below, 4, STATUS_TIMEOUT);
    ck_answered(1, STATUS_TIMEOUT);
    ck_answered(3, STATUS_TIMEOUT);
}
END_TEST

START_TEST(each_may_be_answered_at_once)
{
    ask_and_part(FEW, true);
    for (size_t i = 1; i < FEW; i++) {
        ck_answered(i, STATUS_UNREACHABLE);
    }
}
END_TEST

START_TEST(each_may_be_cancelled)
{
    ask_and_part(FEW, false);
    for (size_t i = 1; i < FEW; i++) {
        store_cancel(&questions[i].decision);
        ck_assert_ptr_null(below.asked[i + 1]);
        ck_assert_uint_eq(questions[i].n_answers, 0);
    }
}
END_TEST

START_TEST(no_more_are_asked_at_a_time_than_one_client_may_have_under_way)
{
    ask_and_part(QUESTIONS, false);
    ck_assert_uint_eq(below.n_asked, 2 + CLIENT_CALLS_MAX);
    for (size_t i = 1; i < QUESTIONS; i++) {
        scripted_store_answer(&below, 1 + i, 1, &ALLOWED);
        ck_answered(i, STATUS_OK);
        const size_t left = QUESTIONS - 1 - i;
        const size_t in_flight = below.n_asked - 2 - i;
        ck_assert_uint_eq(in_flight, left < CLIENT_CALLS_MAX ? left : CLIENT_CALLS_MAX);
    }
    ask(0); /* the batch has ended */
    ck_assert_uint_eq(below.asked[1 + QUESTIONS]->batch_size, 1);
    store_cancel(&questions[0].decision);
}
END_TEST

START_TEST(who_comes_meanwhile_is_asked_for_when_all_are_answered)
{
    ask_and_part(FEW, false);
    ask(FEW);
    ask(FEW + 1);
    for (size_t i = 1; i < FEW; i++) {
        ck_assert_uint_eq(below.n_asked, 1 + FEW);
        scripted_store_answer(&below, 1 + i, 1, &ALLOWED);
    }
    ck_assert_uint_eq(below.n_asked, 2 + FEW);
    ck_assert_uint_eq(below.asked[1 + FEW]->batch_size, 2);
    scripted_store_answer(&below, 1 + FEW, 2, &ALLOWED);
    ck_answered(FEW, STATUS_OK);
    ck_answered(FEW + 1, STATUS_OK);
}
END_TEST

START_TEST(the_places_of_those_who_leave_go_to_others)
{
    ask_and_part(QUESTIONS, false);
    store_cancel(&questions[QUESTIONS - 1].decision); /* not asked yet */
    for (size_t i = 1; i <= CLIENT_CALLS_MAX; i++) {
        store_cancel(&questions[i].decision);
    }
    iterations_until_asked(2 + 2 * CLIENT_CALLS_MAX);
    for (size_t i = CLIENT_CALLS_MAX + 1; i < QUESTIONS - 1; i++) {
        scripted_store_answer(&below, 1 + i, 1, &ALLOWED);
        ck_answered(i, STATUS_OK);
    }
    ck_assert_uint_eq(below.n_asked, QUESTIONS);
    ck_assert_uint_eq(n_answers, QUESTIONS - 1 - CLIENT_CALLS_MAX);
    ask(0);
    ck_assert_uint_eq(below.n_asked, QUESTIONS + 1);
    store_cancel(&questions[0].decision);
}
END_TEST

START_TEST(a_batch_whose_last_ones_leave_ends)
{
    ask_and_part(FEW, false);
    for (size_t i = 1; i < FEW; i++) {
        store_cancel(&questions[i].decision);
    }
    iterations_for(loop, 1000);
    ask(0);
    ck_assert_uint_eq(below.n_asked, 2 + FEW);
    store_cancel(&questions[0].decision);
}
END_TEST

START_TEST(a_call_that_follows_at_once_is_not_sent_twice)
{
    ask_and_part(FEW, false);
    ask(FEW);
    store_cancel(&questions[1].decision); /* the batch is due */
    scripted_store_answer(&below, 3, 1, &ALLOWED);
    scripted_store_answer(&below, 4, 1, &ALLOWED);
    ck_assert_uint_eq(below.n_asked, 2 + FEW);
    ask(FEW + 1);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(below.n_asked, 2 + FEW);
    store_cancel(&questions[FEW].decision);
    store_cancel(&questions[FEW + 1].decision);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/coalesce_apart");
    TCase *tcase = tcase_create("apart");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, each_has_the_deadline_of_the_store_below);
    tcase_add_test(tcase, each_may_be_answered_at_once);
    tcase_add_test(tcase, each_may_be_cancelled);
    tcase_add_test(tcase, no_more_are_asked_at_a_time_than_one_client_may_have_under_way);
    tcase_add_test(tcase, who_comes_meanwhile_is_asked_for_when_all_are_answered);
    tcase_add_test(tcase, the_places_of_those_who_leave_go_to_others);
    tcase_add_test(tcase, a_batch_whose_last_ones_leave_ends);
    tcase_add_test(tcase, a_call_that_follows_at_once_is_not_sent_twice);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
