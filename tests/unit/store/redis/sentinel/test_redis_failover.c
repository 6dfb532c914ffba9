/* A store whose Redis is the master that a sentinel names, while that changes. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "support/fake_sentinel.h"
#include "support/iterations.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

enum {
    RETURN_US = 10 * 1000 * 1000
}; /* within which sharing resumes: 2 s, and what a machine stalls */

static struct redis_server first;
static struct redis_server second;
static struct fake_sentinel sentinel;
static struct redis_client client;

static void start_server(struct redis_server *server)
{
    *server = (struct redis_server){.port = redis_server_free_port()};
    redis_server_start(server);
}

static void start(void)
{
    start_server(&first);
    start_server(&second);
    sentinel = (struct fake_sentinel){.master_host = "127.0.0.1", .master_port = first.port};
    fake_sentinel_bind(&sentinel);
    const struct redis_store_options options = {
        .sentinels = {.hosts = {{SPAN("127.0.0.1"), sentinel.port}},
                      .n_hosts = 1,
                      .master = SPAN("mymaster")},
    };
    redis_client_open(&client, &options);
    fake_sentinel_start(&sentinel, client.loop);
    (void)redis_client_await_up(&client, true);
}

static void stop(void)
{
    fake_sentinel_stop(&sentinel);
    redis_client_close(&client);
    redis_server_stop(&first);
    redis_server_stop(&second);
}

static enum status decide(void)
{
    struct redis_question question;
    return redis_client_decide(&client, &question);
}

/* How many decisions @server was asked for. */
static long long count_decisions(const struct redis_server *server)
{
    redisContext *connection = redis_server_connect(server);
    redisReply *reply = redisCommand(connection, "INFO commandstats");
    ck_assert_ptr_nonnull(reply);
    const char *calls = strstr(reply->str, "cmdstat_evalsha:calls=");
    const long long n = calls == NULL ? 0 : strtoll(strchr(calls, '=') + 1, NULL, 10);
    freeReplyObject(reply);
    redisFree(connection);
    return n;
}

static void await_decision(void)
{
    const uint64_t start_us = clock_monotonic_us();
    while (decide() != STATUS_OK) {
        ck_assert_uint_lt(clock_monotonic_us() - start_us, 5 * RETURN_US);
        (void)redis_client_await_up(&client, true);
    }
}

START_TEST(a_store_decides_where_the_sentinel_says)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    ck_assert_int_eq(count_decisions(&first), 1);
    ck_assert_int_eq(count_decisions(&second), 0);
}
END_TEST

START_TEST(a_failover_is_followed_although_the_old_master_still_answers)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    sentinel.master_port = second.port;
    fake_sentinel_report_switch(&sentinel, "mymaster");
    (void)redis_client_await_up(&client, false);
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    ck_assert_int_eq(decide(), STATUS_OK);
    ck_assert_int_eq(count_decisions(&first), 1);
    ck_assert_int_eq(count_decisions(&second), 1);
}
END_TEST

START_TEST(a_replica_that_the_sentinel_names_is_never_asked_to_decide)
{
    char command[64];
    snprintf(command, sizeof(command), "REPLICAOF 127.0.0.1 %u", first.port);
    redis_server_command(&second, command);
    ck_assert_int_eq(decide(), STATUS_OK);
    sentinel.master_port = second.port;
    fake_sentinel_report_switch(&sentinel, "mymaster");
    (void)redis_client_await_up(&client, false);
    redis_client_await_connects(&client, 3);
    ck_assert_int_eq(decide(), STATUS_REFUSED);
    ck_assert_int_eq(count_decisions(&second), 0);
    ck_assert_uint_ge(sentinel.n_asked, 3); /* it was asked again, each time */
    redis_server_command(&second, "REPLICAOF NO ONE");
    await_decision();
    ck_assert_int_eq(count_decisions(&second), 1);
}
END_TEST

START_TEST(a_master_that_was_demoted_is_left_for_the_one_that_the_sentinel_names)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    sentinel.master_port = second.port; /* and the message is lost */
    redis_server_command(&first, "REPLICAOF 127.0.0.1 1");
    ck_assert_int_eq(decide(), STATUS_REFUSED);
    await_decision();
    ck_assert_int_eq(count_decisions(&second), 1);
    redis_server_command(&first, "REPLICAOF NO ONE");
}
END_TEST

START_TEST(a_master_that_is_gone_is_left_for_the_one_that_the_sentinel_names)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    redis_server_kill(&first);
    (void)redis_client_await_up(&client, false);
    sentinel.master_port = second.port;
    fake_sentinel_report_switch(&sentinel, "mymaster");
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    ck_assert_int_eq(decide(), STATUS_OK);
    redis_server_restart(&first);
}
END_TEST

START_TEST(a_sentinel_that_goes_away_leaves_the_link_alone)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    sentinel.manner = FAKE_SENTINEL_HANGS_UP;
    fake_sentinel_hang_up(&sentinel);
    while (sentinel.n_accepted < 3) { /* it is sought again */
        ck_assert_int_eq(decide(), STATUS_OK);
    }
    ck_assert_uint_eq(redis_store_count(client.store).n_connects, 1);
}
END_TEST

START_TEST(without_a_sentinel_decisions_fail_and_go_on_when_it_is_back)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    sentinel.manner = FAKE_SENTINEL_KNOWS_NOTHING;
    fake_sentinel_hang_up(&sentinel);
    redis_server_kill(&first);
    (void)redis_client_await_up(&client, false);
    ck_assert_int_eq(decide(), STATUS_UNREACHABLE);
    iterations_until_count(client.loop, &sentinel.n_asked, 3);
    ck_assert_int_eq(decide(), STATUS_UNREACHABLE);
    sentinel.manner = FAKE_SENTINEL_TELLS;
    redis_server_restart(&first);
    await_decision();
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    Suite *suite = suite_create("store/redis_failover");
    TCase *tcase = tcase_create("failover");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_store_decides_where_the_sentinel_says);
    tcase_add_test(tcase, a_failover_is_followed_although_the_old_master_still_answers);
    tcase_add_test(tcase, a_replica_that_the_sentinel_names_is_never_asked_to_decide);
    tcase_add_test(tcase, a_master_that_was_demoted_is_left_for_the_one_that_the_sentinel_names);
    tcase_add_test(tcase, a_master_that_is_gone_is_left_for_the_one_that_the_sentinel_names);
    tcase_add_test(tcase, a_sentinel_that_goes_away_leaves_the_link_alone);
    tcase_add_test(tcase, without_a_sentinel_decisions_fail_and_go_on_when_it_is_back);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
