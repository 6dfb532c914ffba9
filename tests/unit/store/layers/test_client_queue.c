/* The client queue over a store that is told when to answer. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "scripted_store.h"
#include "store/layers.h"
#include "support/iterations.h"

enum {
    QUESTIONS_MAX = 1200,
    DEADLINE_US = 2000 * 1000,
    CALLS = CLIENT_CALLS_FREE + CLIENT_CALLS_MAX, /* of a client that is alone */
};

static const struct verdict ALLOWED = {.allowed = true, .limit = 1000, .remaining = 999};

static struct loop *loop;
static struct scripted_store below;
static struct store *store; /* the client queue */
static struct client_queue_meters meters;
static struct limit limit;

/* One request, and how often it was answered. */
struct question {
    char key[32];
    struct charge charge;
    struct decision decision;
    unsigned n_answers;
};

static struct question questions[QUESTIONS_MAX];
static unsigned n_answers; /* of all */
static struct address clients[3];

static void on_answer(struct decision *decision)
{
    struct question *question = decision->context;
    question->n_answers++;
    n_answers++;
}

static void open_stores(bool coalesces)
{
    const struct limit_spec spec = {
        .algorithm = &token_bucket_algorithm, .rate = 1000, .burst = 1000, .period_us = 60000000};
    struct client_calls *calls;
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    loop = iterations_new_loop();
    scripted_store_init(&below);
    meters = (struct client_queue_meters){0};
    calls = client_calls_new(loop);
    ck_assert_ptr_nonnull(calls);
    ck_assert_int_eq(call_counter_new(calls, &below.store, &store), STATUS_OK);
    if (coalesces) {
        ck_assert_int_eq(coalesce_store_new(loop, store, DEADLINE_US, NULL, &store), STATUS_OK);
    }
    ck_assert_int_eq(client_queue_new(calls, store, &meters, &store), STATUS_OK);
    client_calls_leave(calls);
    memset(questions, 0, sizeof(questions));
    n_answers = 0;
    ck_assert(address_parse(SPAN("192.0.2.1"), &clients[0]));
    ck_assert(address_parse(SPAN("2001:db8::1"), &clients[1]));
    ck_assert(address_parse(SPAN("2001:db8:0:7::2"), &clients[2])); /* the same customer's */
}

static void setup(void)
{
    open_stores(false);
}

static void setup_with_coalescing(void)
{
    open_stores(true);
}

static void teardown(void)
{
    store_free(store);
    ck_assert(below.is_freed);
    loop_free(loop);
}

static enum store_outcome ask(size_t i, const struct address *client, const char *key)
{
    struct question *question = &questions[i];
    snprintf(question->key, sizeof(question->key), "%s", key);
    question->charge =
        (struct charge){.limit = &limit, .key = span_of_text(question->key), .cost = 1};
    question->decision = (struct decision){.charges = &question->charge,
                                           .n_charges = 1,
                                           .now_us = 1,
                                           .client = client != NULL ? *client : (struct address){0},
                                           .context = question};
    return store_decide(store, &question->decision, on_answer);
}

/* Asks from @from to @to - 1, each for a key of its own. */
static void ask_many(size_t from, size_t to, const struct address *client)
{
    for (size_t i = from; i < to; i++) {
        char key[32];
        snprintf(key, sizeof(key), "{%zu}", i);
        ck_assert_int_eq(ask(i, client, key), STORE_PENDING);
    }
}

static void complete(size_t call)
{
    scripted_store_answer(&below, call, 1, &ALLOWED);
    iterations_once(loop);
}

static void complete_all(void)
{
    for (size_t i = 0; i < below.n_asked; i++) {
        if (below.asked[i] != NULL) {
            complete(i);
        }
    }
}

START_TEST(what_a_client_asks_beyond_its_calls_waits_in_order)
{
    ask_many(0, CALLS + 4, &clients[0]);
    ck_assert_uint_eq(below.n_asked, CALLS);
    ck_assert_uint_eq(counter_read(&meters.waits), 4);
    complete(CLIENT_CALLS_FREE + 5);
    ck_assert_uint_eq(below.n_asked, CALLS + 1);
    ck_assert_ptr_eq(below.asked[CALLS], &questions[CALLS].decision);
    ck_assert_uint_eq(below.asked[CALLS]->now_us, 0); /* not of the request */
    ask_many(CALLS + 4, CALLS + 5, &clients[0]);
    complete_all();
    for (size_t i = 0; i < CALLS + 5; i++) {
        ck_assert_uint_eq(questions[i].n_answers, 1);
        ck_assert_int_eq(questions[i].decision.status, STATUS_OK);
    }
    ck_assert_uint_eq(counter_read(&meters.refused), 0);
}
END_TEST

START_TEST(one_client_does_not_delay_others)
{
    ask_many(0, 30, &clients[0]);
    ask_many(30, 40, &clients[1]);
    ask_many(40, 50, NULL);
    ck_assert_uint_eq(below.n_asked, CALLS + 20);
    complete_all();
    ck_assert_uint_eq(n_answers, 50);
}
END_TEST

START_TEST(addresses_of_one_customer_are_one_client)
{
    ask_many(0, 20, &clients[1]);
    ask_many(20, 40, &clients[2]);
    ck_assert_uint_eq(below.n_asked, CALLS);
    complete_all();
    ck_assert_uint_eq(n_answers, 40);
}
END_TEST

START_TEST(decisions_that_are_not_of_a_client_never_wait)
{
    ask_many(0, 60, NULL);
    ck_assert_uint_eq(below.n_asked, 60);
    complete_all();
}
END_TEST

START_TEST(a_request_that_leaves_frees_its_place)
{
    ask_many(0, CALLS + 3, &clients[0]);
    store_cancel(&questions[CALLS].decision);             /* waits */
    store_cancel(&questions[CLIENT_CALLS_FREE].decision); /* is asked for */
    iterations_once(loop);
    ck_assert_uint_eq(below.n_asked, CALLS + 1);
    ck_assert_ptr_eq(below.asked[CALLS], &questions[CALLS + 1].decision);
    complete_all();
    ck_assert_uint_eq(n_answers, CALLS + 1);
    ck_assert_uint_eq(questions[CLIENT_CALLS_FREE].n_answers + questions[CALLS].n_answers, 0);
}
END_TEST

START_TEST(what_waits_is_answered_where_the_store_answers_at_once)
{
    ask_many(0, CALLS + 20, &clients[0]);
    below.answers_at_once = true; /* its link is lost */
    below.at_once = STATUS_UNREACHABLE;
    complete(CLIENT_CALLS_FREE);
    ck_assert_uint_eq(n_answers, 21);
    ck_assert_int_eq(questions[CALLS + 19].decision.status, STATUS_UNREACHABLE);
    ck_assert_int_eq(ask(100, &clients[0], "{a}"), STORE_ANSWERED);
    for (size_t i = 0; i < CALLS; i++) {
        if (i != CLIENT_CALLS_FREE) {
            complete(i);
        }
    }
    ck_assert_uint_eq(n_answers, CALLS + 20);
}
END_TEST

START_TEST(who_waits_too_long_is_refused_and_nothing_was_asked)
{
    ask_many(0, CALLS + 2, &clients[0]);
    iterations_until_count(loop, &n_answers, 2);
    for (size_t i = CALLS; i < CALLS + 2; i++) {
        ck_assert_int_eq(questions[i].decision.status, STATUS_CROWDED);
        ck_assert_int_eq(questions[i].decision.fault, REDIS_FAULT_NONE);
    }
    ck_assert_uint_eq(below.n_asked, CALLS);
    ck_assert_uint_eq(counter_read(&meters.refused), 2);
    complete_all();
    ck_assert_uint_eq(n_answers, CALLS + 2);
}
END_TEST

START_TEST(a_client_has_so_many_that_wait_and_no_more)
{
    const size_t n = CALLS + CLIENT_WAITERS_MAX;
    ask_many(0, n, &clients[0]);
    ck_assert_int_eq(ask(n, &clients[0], "{a}"), STORE_ANSWERED);
    ck_assert_int_eq(questions[n].decision.status, STATUS_CROWDED);
    ck_assert_int_eq(ask(n + 1, &clients[1], "{a}"), STORE_PENDING);
    for (size_t i = 0; i < n; i++) {
        store_cancel(&questions[i].decision);
    }
    store_cancel(&questions[n + 1].decision);
}
END_TEST

/* --- over a coalescing store --- */

START_TEST(identical_requests_wait_for_their_batch_alone)
{
    for (size_t i = 0; i < 60; i++) {
        ck_assert_int_eq(ask(i, &clients[0], "{a}"), STORE_PENDING);
    }
    ck_assert_uint_eq(counter_read(&meters.waits), 0);
    ask_many(100, 100 + CALLS - 1, &clients[0]); /* its calls are counted, not those */
    ck_assert_uint_eq(below.n_asked, CALLS);
    ck_assert_int_eq(ask(200, &clients[0], "{b}"), STORE_PENDING);
    ck_assert_int_eq(ask(201, &clients[0], "{a}"), STORE_PENDING);
    ck_assert_uint_eq(counter_read(&meters.waits), 1);
    for (unsigned turn = 0; turn < 20 && n_answers < 60 + CALLS + 1; turn++) {
        complete_all();
        iterations_once(loop);
    }
    ck_assert_uint_eq(n_answers, 60 + CALLS - 1 + 2);
    ck_assert_uint_eq(below.n_asked, CALLS + 2);
}
END_TEST

START_TEST(batches_that_go_on_are_counted)
{
    for (size_t i = 0; i < CALLS; i++) {
        char key[32];
        snprintf(key, sizeof(key), "{%zu}", i);
        ck_assert_int_eq(ask(2 * i, &clients[0], key), STORE_PENDING);
        ck_assert_int_eq(ask(2 * i + 1, &clients[0], key), STORE_PENDING);
    }
    ck_assert_int_eq(ask(100, &clients[0], "{b}"), STORE_PENDING);
    for (size_t i = 1; i < CALLS; i++) {
        scripted_store_answer(&below, i, 1, &ALLOWED);
    }
    for (unsigned turn = 0; turn < 8; turn++) {
        iterations_once(loop); /* the second calls of 15 batches, and the one that waited */
    }
    ck_assert_uint_le(below.n_asked, CALLS + CALLS);
    ck_assert_int_eq(ask(101, &clients[0], "{c}"), STORE_PENDING);
    ck_assert_uint_eq(counter_read(&meters.waits), 2);
    for (unsigned turn = 0; turn < 20 && n_answers < 2 * CALLS + 2; turn++) {
        complete_all();
        iterations_once(loop);
    }
    ck_assert_uint_eq(n_answers, 2 * CALLS + 2);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/client_queue");
    TCase *tcase = tcase_create("client queue");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_a_client_asks_beyond_its_calls_waits_in_order);
    tcase_add_test(tcase, one_client_does_not_delay_others);
    tcase_add_test(tcase, addresses_of_one_customer_are_one_client);
    tcase_add_test(tcase, decisions_that_are_not_of_a_client_never_wait);
    tcase_add_test(tcase, a_request_that_leaves_frees_its_place);
    tcase_add_test(tcase, what_waits_is_answered_where_the_store_answers_at_once);
    tcase_add_test(tcase, who_waits_too_long_is_refused_and_nothing_was_asked);
    tcase_add_test(tcase, a_client_has_so_many_that_wait_and_no_more);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("over a coalescing store");
    tcase_add_checked_fixture(tcase, setup_with_coalescing, teardown);
    tcase_add_test(tcase, identical_requests_wait_for_their_batch_alone);
    tcase_add_test(tcase, batches_that_go_on_are_counted);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
