/* Admin operations to a real Redis: how long they wait, and what becomes of a link that is silent.
 */

#include "store/redis/redis_store_inner.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

static struct redis_server server;
static struct redis_store_options options;
static struct redis_client client;

static void setup(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
    options = (struct redis_store_options){
        .unix_path = span_of_text(server.socket_path),
        .deadline_us = 2 * 1000 * 1000,
    };
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
}

static void teardown(void)
{
    redis_client_close(&client);
    redis_server_stop(&server);
}

struct call {
    struct store_operation operation;
    bool is_done;
};

static void note_done(struct store_operation *operation)
{
    *(bool *)operation->context = true;
}

/* Have @script run, which is one of a key. */
static void start(struct call *call, const char *script)
{
    *call = (struct call){
        .operation =
            {
                .kind = OPERATION_CALL,
                .source = span_of_text(script),
                .words = {SPAN("test:key")},
                .n_words = 1,
                .on_done = note_done,
                .context = &call->is_done,
            },
    };
    ck_assert_int_eq(store_run(client.store, &call->operation), STORE_PENDING);
}

static void start_and_await(struct call *call, const char *script)
{
    start(call, script);
    redis_client_await(&client, &call->is_done);
}

START_TEST(one_waits_as_long_as_a_decision_may_but_a_second_at_least_and_ten_at_most)
{
    const struct {
        uint64_t deadline_us;
        uint64_t answer_us;
    } rows[] = {
        {1, 1000 * 1000},
        {1000 * 1000, 1000 * 1000},
        {2500 * 1000, 2500 * 1000},
        {10 * 1000 * 1000, 10 * 1000 * 1000},
        {60 * 1000 * 1000, 10 * 1000 * 1000},
        {UINT64_MAX, 10 * 1000 * 1000},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ck_assert_uint_eq(redis_operation_answer_us(rows[i].deadline_us), rows[i].answer_us);
    }
}
END_TEST

START_TEST(a_link_that_was_silent_for_all_of_the_wait_is_dropped_and_made_again)
{
    struct call call;
    const uint64_t n_connects = redis_store_count(client.store).n_connects;
    redis_server_pause(&server);
    start_and_await(&call, "return {1}");
    ck_assert_int_eq(call.operation.status, STATUS_TIMEOUT);
    ck_assert_str_eq(call.operation.fault, "deadline");
    ck_assert(call.operation.may_be_done);
    ck_assert(!redis_store_is_up(client.store));
    redis_server_resume(&server);
    (void)redis_client_await_up(&client, true);
    ck_assert_uint_gt(redis_store_count(client.store).n_connects, n_connects);
    start_and_await(&call, "return {7}");
    ck_assert_int_eq(call.operation.status, STATUS_OK);
    ck_assert_int_eq(call.operation.numbers[0], 7);
    ck_assert(!call.operation.may_be_done);
}
END_TEST

START_TEST(a_node_is_not_idle_while_an_operation_is_awaited)
{
    struct call calls[2];
    ck_assert(redis_store_is_idle(redis_store_of(client.store)));
    redis_server_pause(&server);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        start(&calls[i], "return {1}");
    }
    ck_assert(!redis_store_is_idle(redis_store_of(client.store)));
    redis_server_resume(&server);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        redis_client_await(&client, &calls[i].is_done);
    }
    ck_assert(redis_store_is_idle(redis_store_of(client.store)));
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN);
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_operation");
    TCase *tcase = tcase_create("operations");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase,
                   one_waits_as_long_as_a_decision_may_but_a_second_at_least_and_ten_at_most);
    suite_add_tcase(suite, tcase);
    TCase *running = tcase_create("a running Redis");
    tcase_set_timeout(running, 60);
    tcase_add_checked_fixture(running, setup, teardown);
    tcase_add_test(running, a_link_that_was_silent_for_all_of_the_wait_is_dropped_and_made_again);
    tcase_add_test(running, a_node_is_not_idle_while_an_operation_is_awaited);
    suite_add_tcase(suite, running);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
