/* Coalescing over a store that is told when to answer. */

#include "store/layers.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "limit/algorithms.h"
#include "limit/identical.h"
#include "scripted_store.h"
#include "support/iterations.h"

enum { QUESTIONS_MAX = 2000, DEADLINE_US = 2000 * 1000, COLLECTING_ITERATIONS = 4 };

static const struct verdict ALLOWED = {.allowed = true, .limit = 1000, .remaining = 999};

static struct loop *loop;
static struct scripted_store below;
static struct store *store;
static struct coalesce_meters meters;
static struct limit limit;
static struct limit other_limit;

/* One request: what it asks, and how often it was answered, as which. */
struct question {
    char key[KEY_TEXT_BYTES_MAX];
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    struct decision decision;
    unsigned n_answers;
    unsigned turn; /* of all answers, from 1 */
};

static struct question questions[QUESTIONS_MAX];
static unsigned n_iterations;
static void (*then)(void); /* once, from within the next answer */

static void on_answer(struct decision *decision)
{
    struct question *question = decision->context;
    void (*do_now)(void) = then;
    question->n_answers++;
    question->turn = ++n_iterations;
    then = NULL;
    if (do_now != NULL) {
        do_now();
    }
}

static struct limit make(const struct algorithm *algorithm)
{
    const struct limit_spec spec = {.algorithm = algorithm,
                                    .rate = 1000,
                                    .burst = 1000,
                                    .period_us = 60000000,
                                    .lease_us = 60000000};
    struct limit made = {.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&made, &spec));
    return made;
}

static void setup(void)
{
    limit = make(&token_bucket_algorithm);
    other_limit = make(&fixed_window_algorithm);
    loop = iterations_new_loop();
    scripted_store_init(&below);
    meters = (struct coalesce_meters){0};
    ck_assert_int_eq(coalesce_store_new(loop, &below.store, DEADLINE_US, &meters, &store),
                     STATUS_OK);
    memset(questions, 0, sizeof(questions));
    n_iterations = 0;
    then = NULL;
}

static void teardown(void)
{
    store_free(store);
    ck_assert(below.is_freed);
    loop_free(loop);
}

static void prepare(size_t i, const struct limit *of, const char *key, uint32_t cost)
{
    struct question *question = &questions[i];
    snprintf(question->key, sizeof(question->key), "%s", key);
    question->charges[0] =
        (struct charge){.limit = of, .key = span_of_text(question->key), .cost = cost};
    question->decision = (struct decision){
        .charges = question->charges,
        .n_charges = 1,
        .context = question,
    };
}

static enum store_outcome send(size_t i)
{
    return store_decide(store, &questions[i].decision, on_answer);
}

/* The usual request: one unit of {a}. */
static void ask(size_t i)
{
    prepare(i, &limit, "{a}", 1);
    ck_assert_int_eq(send(i), STORE_PENDING);
}

static void ask_many(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        ask(i);
    }
}

/* Those who wait have collected, and are on their way. */
static void let_send(void)
{
    for (unsigned turn = 0; turn < 2 + COLLECTING_ITERATIONS; turn++) {
        iterations_once(loop);
    }
}

static void complete(size_t call, size_t n_admitted)
{
    scripted_store_answer(&below, call, n_admitted, &ALLOWED);
    let_send();
}

static void lose(size_t call, enum status status)
{
    scripted_store_fail(&below, call, status);
    let_send();
}

static void ck_answered(size_t i, enum status status)
{
    ck_assert_msg(questions[i].n_answers == 1, "%zu: %u answers", i, questions[i].n_answers);
    ck_assert_int_eq(questions[i].decision.status, status);
    ck_assert_uint_eq(questions[i].decision.n_frames, 0);
}

START_TEST(the_first_goes_at_once_and_the_others_as_one_call_after_it)
{
    ask_many(0, 5);
    ck_assert_uint_eq(below.n_asked, 1);
    ck_assert_uint_eq(below.asked[0]->batch_size, 1);
    complete(0, 1);
    ck_answered(0, STATUS_OK);
    ck_assert_uint_eq(below.n_asked, 2);
    ck_assert_uint_eq(below.asked[1]->batch_size, 4);
    ck_assert_uint_eq(questions[1].n_answers, 0);
    complete(1, 4);
    ck_answered(4, STATUS_OK);
    ck_assert_uint_eq(below.n_asked, 2);

    ck_assert_uint_eq(counter_read(&meters.decisions), 5);
    ck_assert_uint_eq(counter_read(&meters.calls), 2);
    ck_assert_uint_eq(counter_read(&meters.batched), 4);
}
END_TEST

START_TEST(each_gets_its_own_verdict_in_order_of_arrival)
{
    ask_many(0, 4);
    complete(0, 1);
    complete(1, 2);
    for (size_t i = 1; i < 4; i++) {
        const struct charge *charge = &questions[i].charges[0];
        ck_answered(i, STATUS_OK);
        ck_assert_uint_eq(questions[i].turn, i + 1);
        ck_assert(questions[i].decision.allowed == (i < 3));
        ck_assert(charge->charged == (i < 3));
        ck_assert_uint_eq(charge->verdict.remaining, i < 3 ? 999 - (i - 1) : 999);
        ck_assert_uint_eq(charge->charged_at_us, 1000 + i - 1);
        ck_assert_int_eq(questions[i].decision.source, DECISION_REDIS);
    }
}
END_TEST

START_TEST(what_differs_in_key_cost_limit_number_or_window_does_not_wait)
{
    static const uint64_t now[LIMIT_EDGES] = {1, 2, 3, 4};
    static const uint64_t then_edges[LIMIT_EDGES] = {2, 3, 4, 5};
    struct limit calendar = other_limit;
    calendar.params.is_calendar = true;
    ask(0);
    prepare(1, &limit, "{b}", 1);
    prepare(2, &limit, "{a}", 2);
    prepare(3, &other_limit, "{a}", 1);
    prepare(4, &limit, "{a}", 1);
    questions[4].charges[1] = (struct charge){.limit = &limit, .key = SPAN("{b}"), .cost = 1};
    questions[4].decision.n_charges = 2;
    prepare(5, &calendar, "{a}", 1);
    questions[5].charges[0].edges = now;
    prepare(6, &calendar, "{a}", 1);
    questions[6].charges[0].edges = then_edges;
    for (size_t i = 1; i <= 6; i++) {
        ck_assert_int_eq(send(i), STORE_PENDING);
        ck_assert_uint_eq(below.n_asked, i + 1);
    }
    for (size_t i = 0; i <= 6; i++) {
        complete(i, 1);
        ck_answered(i, STATUS_OK);
    }
}
END_TEST

START_TEST(a_key_split_between_two_charges_is_another_question)
{
    prepare(0, &limit, "{a}b", 1);
    questions[0].charges[1] = (struct charge){.limit = &limit, .key = SPAN("c"), .cost = 1};
    prepare(1, &limit, "{a}", 1);
    questions[1].charges[1] = (struct charge){.limit = &limit, .key = SPAN("bc"), .cost = 1};
    for (size_t i = 0; i < 2; i++) {
        questions[i].decision.n_charges = 2;
        ck_assert_int_eq(send(i), STORE_PENDING);
    }
    ck_assert_uint_eq(below.n_asked, 2);
    complete(0, 1);
    complete(1, 1);
}
END_TEST

START_TEST(what_must_be_decided_alone_goes_straight)
{
    struct limit limits[] = {
        limit,
        make(&sliding_log_algorithm),
        make(&concurrency_algorithm),
        make(&leaky_bucket_algorithm),
        other_limit,
    };
    limits[0].charge_denied = true;
    limits[3].params.max_wait = 1;
    limits[4].params.is_calendar = true; /* without edges: the store says that it knows none */
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        for (size_t twice = 0; twice < 2; twice++) {
            prepare(2 * i + twice, &limits[i], "{a}", 1);
            ck_assert_int_eq(send(2 * i + twice), STORE_PENDING);
        }
        ck_assert_uint_eq(below.n_asked, 2 * i + 2);
    }
    for (size_t i = 0; i < below.n_asked; i++) {
        ck_assert_ptr_eq(below.asked[i], &questions[i].decision);
        complete(i, 1);
        ck_answered(i, STATUS_OK);
    }
}
END_TEST

START_TEST(other_aims_and_stores_that_take_none_alike_go_straight)
{
    prepare(0, &limit, "{a}", 1);
    questions[0].decision.aim = DECISION_JUDGE;
    ck_assert_int_eq(send(0), STORE_PENDING);
    ck_assert_ptr_eq(below.asked[0], &questions[0].decision);
    below.takes_identical = false;
    ask(1);
    ck_assert_ptr_eq(below.asked[1], &questions[1].decision);
    store_cancel(&questions[1].decision);
    ck_assert_ptr_null(below.asked[1]);
    lose(0, STATUS_TIMEOUT);
    ck_answered(0, STATUS_TIMEOUT);
}
END_TEST

START_TEST(keys_up_to_the_bound_are_gathered_and_longer_ones_go_straight)
{
    static char key[1024];
    memset(key, 'k', sizeof(key) - 1);
    for (size_t i = 0; i < 4; i++) {
        prepare(i, &limit, "{a}", 1);
        questions[i].decision.n_charges = 3;
        questions[i].charges[1] =
            (struct charge){.limit = &other_limit, .key = span_of(key, sizeof(key) - 1), .cost = 1};
        questions[i].charges[2] =
            (struct charge){.limit = &limit, .key = span_of(key, i < 2 ? 1022 : 1023), .cost = 1};
        ck_assert_int_eq(send(i), STORE_PENDING);
    }
    ck_assert_uint_eq(below.n_asked, 3); /* 3 + 1023 + 1022 bytes are 2048 */
    store_cancel(&questions[2].decision);
    store_cancel(&questions[3].decision);
    store_cancel(&questions[1].decision);
    complete(0, 1);
}
END_TEST

START_TEST(a_call_takes_256_and_the_next_the_rest)
{
    ask_many(0, 1 + IDENTICAL_REQUESTS_MAX + 1);
    complete(0, 1);
    ck_assert_uint_eq(below.asked[1]->batch_size, IDENTICAL_REQUESTS_MAX);
    complete(1, IDENTICAL_REQUESTS_MAX);
    ck_assert_uint_eq(below.asked[2]->batch_size, 1);
    complete(2, 1);
    ck_answered(1 + IDENTICAL_REQUESTS_MAX, STATUS_OK);
    ck_assert_uint_eq(questions[1 + IDENTICAL_REQUESTS_MAX].turn, 2 + IDENTICAL_REQUESTS_MAX);
}
END_TEST

START_TEST(a_lost_call_fails_its_own_and_is_not_sent_again)
{
    ask_many(0, 3);
    complete(0, 1);
    ask(3);
    lose(1, STATUS_UNREACHABLE);
    ck_answered(1, STATUS_UNREACHABLE);
    ck_answered(2, STATUS_UNREACHABLE);
    ck_assert_uint_eq(questions[3].n_answers, 0);
    ck_assert_uint_eq(below.n_asked, 3);
    ck_assert_uint_eq(below.asked[2]->batch_size, 1);
    complete(2, 1);
    ck_answered(3, STATUS_OK);
}
END_TEST

START_TEST(who_waits_fails_when_the_next_call_cannot_be_made)
{
    ask_many(0, 300);
    below.answers_at_once = true;
    below.at_once = STATUS_UNREACHABLE;
    lose(0, STATUS_UNREACHABLE);
    for (size_t i = 0; i < 300; i++) {
        ck_answered(i, STATUS_UNREACHABLE);
        ck_assert_uint_eq(questions[i].turn, i + 1);
    }
    ck_assert_uint_eq(below.n_asked, 3);
}
END_TEST

START_TEST(an_answer_at_once_is_passed_on_at_once)
{
    below.answers_at_once = true;
    below.at_once = STATUS_REFUSED;
    prepare(0, &limit, "{a}", 1);
    ck_assert_int_eq(send(0), STORE_ANSWERED);
    ck_assert_int_eq(questions[0].decision.status, STATUS_REFUSED);
    ck_assert_uint_eq(questions[0].n_answers, 0);
    ck_assert_uint_eq(questions[0].decision.n_frames, 0);
}
END_TEST

START_TEST(who_is_cancelled_before_departure_is_not_sent)
{
    ask_many(0, 4);
    store_cancel(&questions[2].decision);
    memset(&questions[2], 0xee, sizeof(questions[2])); /* its memory may be used at once */
    complete(0, 1);
    ck_assert_uint_eq(below.asked[1]->batch_size, 2);
    complete(1, 1);
    ck_assert(questions[1].decision.allowed);
    ck_assert(!questions[3].decision.allowed);
}
END_TEST

START_TEST(who_is_cancelled_in_flight_leaves_its_place)
{
    ask_many(0, 5);
    complete(0, 1);
    store_cancel(&questions[1].decision);
    store_cancel(&questions[3].decision);
    memset(&questions[1], 0xee, sizeof(questions[1]));
    memset(&questions[3], 0xee, sizeof(questions[3]));
    ck_assert_uint_eq(span_equals(below.asked[1]->charges[0].key, SPAN("{a}")), true);
    complete(1, 3);
    ck_assert_uint_eq(questions[2].charges[0].verdict.remaining, 998);
    ck_assert(questions[2].decision.allowed);
    ck_assert(!questions[4].decision.allowed);
}
END_TEST

static void cancel_the_next_and_ask_again(void)
{
    store_cancel(&questions[2].decision);
    ask(4);
}

START_TEST(an_answer_may_cancel_those_beside_it_and_ask_again)
{
    ask_many(0, 4);
    complete(0, 1);
    then = cancel_the_next_and_ask_again;
    complete(1, 3);
    ck_answered(1, STATUS_OK);
    ck_assert_uint_eq(questions[2].n_answers, 0);
    ck_answered(3, STATUS_OK);
    ck_assert_uint_eq(questions[3].charges[0].verdict.remaining, 997);
    ck_assert_uint_eq(below.n_asked, 3);
    complete(2, 1);
    ck_answered(4, STATUS_OK);
}
END_TEST

START_TEST(each_deadline_runs_from_its_own_arrival)
{
    ask_many(0, 3);
    iterations_until_count(loop, &n_iterations, 2);
    ck_answered(1, STATUS_TIMEOUT);
    ck_answered(2, STATUS_TIMEOUT);
    ck_assert_int_eq(questions[2].decision.fault, REDIS_FAULT_DEADLINE);
    ask(3);
    lose(0, STATUS_TIMEOUT); /* its own is that of the store below */
    ck_answered(0, STATUS_TIMEOUT);
    ck_assert_uint_eq(below.asked[1]->batch_size, 1);
    complete(1, 1);
    ck_answered(3, STATUS_OK);
}
END_TEST

START_TEST(in_flight_the_deadline_is_that_of_the_call)
{
    ask_many(0, 2);
    complete(0, 1);
    iterations_for(loop, DEADLINE_US + DEADLINE_US / 4);
    ck_assert_uint_eq(questions[1].n_answers, 0);
    lose(1, STATUS_TIMEOUT);
    ck_answered(1, STATUS_TIMEOUT);
}
END_TEST

static void open_with_deadline(uint64_t deadline_us)
{
    store_free(store);
    scripted_store_init(&below);
    ck_assert_int_eq(coalesce_store_new(loop, &below.store, deadline_us, &meters, &store),
                     STATUS_OK);
}

/* A busy machine may hold the loop up, which gives each who waits the deadline once more. */
START_TEST(who_waits_while_calls_are_answered_is_no_failure_of_redis)
{
    const struct question *last = &questions[QUESTIONS_MAX - 1]; /* seven calls are before it */
    open_with_deadline(400 * 1000);
    ask_many(0, QUESTIONS_MAX);
    complete(0, 1);
    size_t call = 1;
    while (last->n_answers == 0 && call <= 6) {
        iterations_for(loop, 300 * 1000);
        complete(call++, IDENTICAL_REQUESTS_MAX);
    }
    ck_assert_uint_ge(call, 4); /* a second at least */
    ck_answered(QUESTIONS_MAX - 1, STATUS_CROWDED);
    ck_assert_int_eq(last->decision.fault, REDIS_FAULT_NONE);
    while (call < below.n_asked) {
        complete(call, below.asked[call]->batch_size);
        call++;
    }
}
END_TEST

START_TEST(who_waits_while_none_is_answered_fails_in_time)
{
    open_with_deadline(100 * 1000);
    ask_many(0, 600);
    complete(0, 1);
    complete(1, IDENTICAL_REQUESTS_MAX);
    iterations_until_count(loop, &questions[599].n_answers, 1);
    ck_answered(599, STATUS_TIMEOUT);
    ck_assert_int_eq(questions[599].decision.fault, REDIS_FAULT_DEADLINE);
    complete(2, IDENTICAL_REQUESTS_MAX);
}
END_TEST

START_TEST(a_call_that_is_told_again_from_the_first_counts_once)
{
    ask_many(0, 3);
    complete(0, 1);
    struct decision *call = below.asked[1];
    call->charges[0].verdict = (struct verdict){.remaining = 1};
    call->on_each(call, 0);
    complete(1, 2);
    ck_assert_uint_eq(questions[1].charges[0].verdict.remaining, 999);
    ck_assert_uint_eq(questions[2].charges[0].verdict.remaining, 998);
}
END_TEST

START_TEST(settlements_pass_through)
{
    const struct settlement settlement = {.limit = &limit, .key = SPAN("{a}"), .delta = -1};
    store_settle(store, &settlement, 1);
    ck_assert_uint_eq(below.n_settled, 1);
}
END_TEST

START_TEST(a_store_with_calls_under_way_is_freed_once_nobody_waits)
{
    ask_many(0, 3);
    complete(0, 1);
    store_cancel(&questions[1].decision);
    store_cancel(&questions[2].decision);
    ck_assert_ptr_nonnull(below.asked[1]);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/coalesce_store");
    TCase *tcase = tcase_create("coalesce");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_first_goes_at_once_and_the_others_as_one_call_after_it);
    tcase_add_test(tcase, each_gets_its_own_verdict_in_order_of_arrival);
    tcase_add_test(tcase, what_differs_in_key_cost_limit_number_or_window_does_not_wait);
    tcase_add_test(tcase, a_key_split_between_two_charges_is_another_question);
    tcase_add_test(tcase, what_must_be_decided_alone_goes_straight);
    tcase_add_test(tcase, other_aims_and_stores_that_take_none_alike_go_straight);
    tcase_add_test(tcase, keys_up_to_the_bound_are_gathered_and_longer_ones_go_straight);
    tcase_add_test(tcase, a_call_takes_256_and_the_next_the_rest);
    tcase_add_test(tcase, a_lost_call_fails_its_own_and_is_not_sent_again);
    tcase_add_test(tcase, who_waits_fails_when_the_next_call_cannot_be_made);
    tcase_add_test(tcase, an_answer_at_once_is_passed_on_at_once);
    tcase_add_test(tcase, who_is_cancelled_before_departure_is_not_sent);
    tcase_add_test(tcase, who_is_cancelled_in_flight_leaves_its_place);
    tcase_add_test(tcase, an_answer_may_cancel_those_beside_it_and_ask_again);
    tcase_add_test(tcase, each_deadline_runs_from_its_own_arrival);
    tcase_add_test(tcase, in_flight_the_deadline_is_that_of_the_call);
    tcase_add_test(tcase, who_waits_while_calls_are_answered_is_no_failure_of_redis);
    tcase_add_test(tcase, who_waits_while_none_is_answered_fails_in_time);
    tcase_add_test(tcase, a_call_that_is_told_again_from_the_first_counts_once);
    tcase_add_test(tcase, settlements_pass_through);
    tcase_add_test(tcase, a_store_with_calls_under_way_is_freed_once_nobody_waits);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
