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

enum { QUESTIONS = 4, DEADLINE_US = 2000 * 1000 };

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

/* The first goes by itself and is answered; of the others' call a cluster says what it
 * does of a slot on the move. */
static void ask_and_part(bool answers_at_once)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        struct question *question = &questions[i];
        question->charge = (struct charge){.limit = &limit, .key = SPAN("{a}"), .cost = 1};
        question->decision =
            (struct decision){.charges = &question->charge, .n_charges = 1, .context = question};
        ck_assert_int_eq(store_decide(store, &question->decision, on_answer), STORE_PENDING);
    }
    scripted_store_answer(&below, 0, 1, &ALLOWED);
    iterations_until_asked(2);
    ck_assert_uint_eq(below.asked[1]->batch_size, QUESTIONS - 1);
    below.asked[1]->fault = REDIS_FAULT_TRYAGAIN;
    below.answers_at_once = answers_at_once;
    below.at_once = STATUS_UNREACHABLE;
    scripted_store_fail(&below, 1, STATUS_REFUSED);
    ck_assert_uint_eq(below.n_asked, 1 + QUESTIONS);
}

START_TEST(each_has_the_deadline_of_the_store_below)
{
    ask_and_part(false);
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
    ask_and_part(true);
    for (size_t i = 1; i < QUESTIONS; i++) {
        ck_answered(i, STATUS_UNREACHABLE);
    }
}
END_TEST

START_TEST(each_may_be_cancelled)
{
    ask_and_part(false);
    for (size_t i = 1; i < QUESTIONS; i++) {
        store_cancel(&questions[i].decision);
        ck_assert_ptr_null(below.asked[i + 1]);
        ck_assert_uint_eq(questions[i].n_answers, 0);
    }
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
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
