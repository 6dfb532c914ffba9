/* Redis as it fails: what each failure costs a decision, and how the link comes back. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "store/redis_options.h"
#include "support/fake_redis.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

enum {
    DEADLINE_US =
        1500 * 1000, /* where it passes; a link is given up after two of them without a byte */
    BRISK_US = 600 * 1000,
    SHORT_US = 100 * 1000, /* than anybody waits for a link */
    FEW = 5,               /* open the breaker */
    SOON_US = 10 * 1000 * 1000,
    RETURN_US = 10 * 1000 * 1000, /* within which sharing resumes: 2 s, and what a machine stalls */
};

static struct redis_server server;
static struct redis_client client;

static void start_with(uint64_t deadline_us)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .deadline_us = deadline_us,
    };
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
}

static void start(void)
{
    start_with(0); /* the client's own: long */
}

static void start_impatient(void)
{
    start_with(DEADLINE_US);
}

/* A stall of one deadline is no silence yet. */
static void start_brisk(void)
{
    start_with(BRISK_US);
}

static void stop(void)
{
    redis_client_close(&client);
    redis_server_stop(&server);
}

static enum status decide(void)
{
    struct redis_question question;
    return redis_client_decide(&client, &question);
}

/* Ask until it is answered well, at most once a turn of the loop. */
static void await_decision(void)
{
    while (decide() != STATUS_OK) {
        (void)redis_client_await_up(&client, true);
    }
}

/* --- scripts and refusals --- */

START_TEST(flushed_scripts_are_sent_again_with_the_call)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    redis_server_command(&server, "SCRIPT FLUSH");
    const uint64_t n_calls = redis_store_count(client.store).n_calls;
    ck_assert_int_eq(decide(), STATUS_OK);
    ck_assert_uint_eq(redis_store_count(client.store).n_calls, n_calls + 2);
    ck_assert_int_eq(decide(), STATUS_OK);
    ck_assert_uint_eq(redis_store_count(client.store).n_calls, n_calls + 3);
}
END_TEST

START_TEST(a_server_out_of_memory_refuses_and_the_link_stays)
{
    ck_assert_int_eq(decide(), STATUS_OK);
    redis_server_command(&server, "CONFIG SET maxmemory 1");
    ck_assert_int_eq(decide(), STATUS_REFUSED);
    ck_assert(redis_store_is_up(client.store));
    redis_server_command(&server, "CONFIG SET maxmemory 0");
    ck_assert_int_eq(decide(), STATUS_OK);
    ck_assert_uint_eq(redis_store_count(client.store).n_connects, 1);
}
END_TEST

START_TEST(too_few_replicas_are_a_refusal)
{
    redis_server_command(&server, "CONFIG SET min-replicas-to-write 1");
    ck_assert_int_eq(decide(), STATUS_REFUSED);
    redis_server_command(&server, "CONFIG SET min-replicas-to-write 0");
    ck_assert_int_eq(decide(), STATUS_OK);
}
END_TEST

START_TEST(a_key_of_another_type_is_a_refusal)
{
    struct redis_question question;
    char key[128];
    char command[192];
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    struct text text = text_of(key, sizeof(key) - 1);
    redis_key_write(&text, SPAN("test"), &question.charge);
    key[text.len] = '\0';
    snprintf(command, sizeof(command), "DEL %s", key);
    redis_server_command(&server, command);
    snprintf(command, sizeof(command), "LPUSH %s x", key);
    redis_server_command(&server, command);
    ck_assert_int_eq(decide(), STATUS_REFUSED);
    snprintf(command, sizeof(command), "DEL %s", key);
    redis_server_command(&server, command);
}
END_TEST

START_TEST(a_server_that_became_a_replica_is_left_and_found_again_as_master)
{
    redis_server_command(&server, "REPLICAOF 127.0.0.1 1");
    ck_assert_int_eq(decide(), STATUS_REFUSED);
    ck_assert(!redis_store_is_up(client.store));
    redis_server_command(&server, "REPLICAOF NO ONE");
    await_decision();
    ck_assert_uint_ge(redis_store_count(client.store).n_connects, 2);
}
END_TEST

START_TEST(a_server_busy_with_a_script_refuses)
{
    redis_server_command(&server, "CONFIG SET busy-reply-threshold 1");
    redisContext *connection = redis_server_connect(&server);
    redisAppendCommand(connection, "EVAL %s 0", "while true do end");
    int done = 0;
    while (done == 0) {
        ck_assert_int_eq(redisBufferWrite(connection, &done), REDIS_OK);
    }
    enum status status;
    do {
        status = decide();
    } while (status == STATUS_OK); /* until the endless script has started */
    ck_assert_int_eq(status, STATUS_REFUSED);
    redis_server_command(&server, "SCRIPT KILL");
    await_decision();
    redisFree(connection);
}
END_TEST

/* --- the server goes and comes --- */

START_TEST(a_killed_server_fails_what_is_under_way_and_what_comes_at_once)
{
    struct redis_question questions[3];
    redis_server_pause(&server);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_ask(&client, &questions[i], 1);
    }
    redis_server_kill(&server);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
        redis_client_await(&client, &questions[i].answered);
        ck_assert_int_eq(questions[i].decision.status, STATUS_UNREACHABLE);
    }
    struct redis_question late;
    redis_client_ask(&client, &late, 1);
    ck_assert(late.at_once);
    ck_assert_int_eq(late.decision.status, STATUS_UNREACHABLE);

    redis_server_restart(&server);
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    ck_assert_int_eq(decide(), STATUS_OK);
}
END_TEST

START_TEST(an_idle_link_whose_server_was_restarted_comes_back_by_itself)
{
    redis_server_kill(&server);
    (void)redis_client_await_up(&client, false);
    redis_server_restart(&server);
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    ck_assert_int_eq(decide(), STATUS_OK);
}
END_TEST

/* As many as open the breaker, at once: each costs its deadline. */
static void decide_few_in_vain(void)
{
    struct redis_question questions[FEW];
    for (size_t i = 0; i < FEW; i++) {
        redis_client_ask(&client, &questions[i], 1);
    }
    for (size_t i = 0; i < FEW; i++) {
        redis_client_await(&client, &questions[i].answered);
        ck_assert_int_eq(questions[i].decision.status, STATUS_TIMEOUT);
        ck_assert(!questions[i].at_once);
        ck_assert_uint_ge(questions[i].took_us, DEADLINE_US);
        ck_assert_uint_lt(questions[i].took_us, DEADLINE_US + SOON_US);
    }
}

START_TEST(a_stopped_server_costs_a_few_decisions_one_deadline_and_then_nothing)
{
    struct redis_question question;
    redis_server_pause(&server);
    decide_few_in_vain();
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_TIMEOUT);
        ck_assert(question.at_once);
    }
    redis_server_resume(&server);
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    /* All five were made, too late. */
    ck_assert_uint_eq(redis_store_count(client.store).n_late_replies, 5);
    ck_assert_uint_eq(question.charge.verdict.remaining, 994);
    ck_assert_uint_eq(redis_store_count(client.store).n_connects, 1);
}
END_TEST

/* Stop the server, ask @n_each questions of each of @n_clients at once, and await the deadline. */
static void ask_clients_in_vain(uint8_t n_clients, size_t n_each)
{
    static struct redis_question questions[64];
    const size_t n = n_clients * n_each;
    ck_assert_uint_le(n, ARRAY_LEN(questions));
    redis_server_pause(&server);
    for (size_t i = 0; i < n; i++) {
        const uint8_t bytes[4] = {192, 0, 2, (uint8_t)(i % n_clients)};
        const struct address address = address_of_bytes(ADDRESS_IPV4, bytes);
        redis_client_ask_of(&client, &questions[i], &address);
    }
    for (size_t i = 0; i < n; i++) {
        redis_client_await(&client, &questions[i].answered);
        ck_assert_int_eq(questions[i].decision.status, STATUS_TIMEOUT);
    }
    redis_server_resume(&server);
}

START_TEST(what_few_clients_have_in_flight_does_not_open_the_breaker_in_one_stall)
{
    ask_clients_in_vain(FEW - 1, 12);
    ck_assert_uint_eq(redis_store_count(client.store).n_openings, 0);
    ck_assert_int_eq(decide(), STATUS_OK);
}
END_TEST

START_TEST(a_stall_that_clients_enough_are_met_by_opens_the_breaker)
{
    ask_clients_in_vain(FEW, 12);
    ck_assert_uint_eq(redis_store_count(client.store).n_openings, 1);
}
END_TEST

START_TEST(one_client_alone_opens_the_breaker_after_some_deadlines)
{
    enum { N_EACH = 12 };
    for (unsigned i = 0; i < FEW; i++) {
        ck_assert_uint_eq(redis_store_count(client.store).n_openings, 0);
        ask_clients_in_vain(1, N_EACH);
        while (redis_store_count(client.store).n_late_replies < (i + 1) * N_EACH) {
            redis_client_iterate(&client);
        }
    }
    ck_assert_uint_eq(redis_store_count(client.store).n_openings, 1);
}
END_TEST

START_TEST(a_link_that_stays_silent_is_dropped_and_made_again_when_the_server_goes_on)
{
    redis_server_pause(&server);
    decide_few_in_vain();
    redis_client_await_connects(&client, 2);
    redis_server_resume(&server);
    ck_assert_uint_lt(redis_client_await_up(&client, true), RETURN_US);
    ck_assert_int_eq(decide(), STATUS_OK);
}
END_TEST

START_TEST(a_deadline_runs_while_a_decision_waits_for_the_first_link)
{
    struct fake_redis fake;
    struct redis_client silent;
    struct redis_question question;
    fake_redis_start_silent(&fake);
    const struct redis_store_options options = {
        .unix_path = span_of_text(fake.path),
        .deadline_us = SHORT_US,
    };
    redis_client_open(&silent, &options);
    ck_assert_int_eq(redis_client_decide(&silent, &question), STATUS_TIMEOUT);
    ck_assert_uint_ge(question.took_us, SHORT_US);
    redis_client_close(&silent);
    fake_redis_stop(&fake);
}
END_TEST

START_TEST(without_a_server_the_first_decision_fails_soon_and_the_next_at_once)
{
    struct redis_client alone;
    struct redis_question question;
    const struct redis_store_options options = {
        .unix_path = SPAN("/nonexistent/socket"),
        .deadline_us = 6 * SOON_US,
    };
    redis_client_open(&alone, &options);
    ck_assert_int_eq(redis_client_decide(&alone, &question), STATUS_UNREACHABLE);
    ck_assert_uint_lt(question.took_us, SOON_US);
    ck_assert_int_eq(redis_client_decide(&alone, &question), STATUS_UNREACHABLE);
    ck_assert(question.at_once);
    redis_client_close(&alone);
}
END_TEST

START_TEST(a_port_that_nobody_listens_on_is_unreachable)
{
    struct redis_client alone;
    struct redis_question question;
    const struct redis_store_options options = {
        .host = SPAN("127.0.0.1"),
        .port = redis_server_free_port(),
    };
    redis_client_open(&alone, &options);
    ck_assert_int_eq(redis_client_decide(&alone, &question), STATUS_UNREACHABLE);
    redis_client_close(&alone);
}
END_TEST

/* --- replies that no Redis gives --- */

#define TIME_REPLY "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
#define SHA_REPLY "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"

static const struct {
    const char *says;
    const char *script;
    const char *reply;
    enum status status;
} NONSENSE[] = {
    {"a number for the script", ":1\r\n", "", STATUS_INVALID},
    {"a short name for the script", "$3\r\nabc\r\n", "", STATUS_INVALID},
    {"a fault for the script", "-LOADING loading\r\n", "", STATUS_REFUSED},
    {"no protocol at all", "HTTP/1.1 400 Bad Request\r\n\r\n", "", STATUS_INVALID},
    {"the end instead of the script", "", "", STATUS_UNREACHABLE},
    {"a number", SHA_REPLY, ":1\r\n", STATUS_INVALID},
    {"a string", SHA_REPLY, "$2\r\nOK\r\n", STATUS_INVALID},
    {"nil", SHA_REPLY, "*-1\r\n", STATUS_INVALID},
    {"too few numbers", SHA_REPLY, "*7\r\n:1\r\n:9\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n",
     STATUS_INVALID},
    {"a string among the numbers", SHA_REPLY,
     "*8\r\n:1\r\n:9\r\n:1\r\n$1\r\n9\r\n:0\r\n:0\r\n:0\r\n:0\r\n", STATUS_INVALID},
    {"numbers that make no sense", SHA_REPLY,
     "*8\r\n:1\r\n:9\r\n:7\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n", STATUS_INVALID},
    {"an admission that the verdict denies", SHA_REPLY,
     "*8\r\n:1\r\n:9\r\n:0\r\n:1\r\n:5\r\n:0\r\n:0\r\n:0\r\n", STATUS_INVALID},
    {"no protocol", SHA_REPLY, "!\r\n", STATUS_INVALID},
    {"half a reply, and the end", SHA_REPLY, "*8\r\n:1\r\n", STATUS_UNREACHABLE},
    {"an error and the end", SHA_REPLY, "-ERR whatever\r\n", STATUS_REFUSED},
    {"NOSCRIPT twice", SHA_REPLY, "-NOSCRIPT x\r\n", STATUS_UNREACHABLE},
};

START_TEST(nonsense_fails_the_decision_and_nothing_else)
{
    const char *const replies[] = {TIME_REPLY, NONSENSE[_i].script, NONSENSE[_i].reply};
    struct fake_redis fake;
    struct redis_client fooled;
    struct redis_question question;
    fake_redis_start(&fake, replies, ARRAY_LEN(replies));
    const struct redis_store_options options = {.unix_path = span_of_text(fake.path)};
    redis_client_open(&fooled, &options);
    const enum status status = redis_client_decide(&fooled, &question);
    ck_assert_msg(status == NONSENSE[_i].status, "%s: %s", NONSENSE[_i].says, status_text(status));
    redis_client_close(&fooled);
    fake_redis_stop(&fake);
}
END_TEST

static const struct {
    const char *reply;
    enum status status;
} FIRST_REPLIES[] = {
    {"+OK\r\n", STATUS_INVALID},
    {":1\r\n", STATUS_INVALID},
    {"-NOAUTH Authentication required.\r\n", STATUS_REFUSED},
    {"-BUSY a script\r\n", STATUS_REFUSED},
    {"", STATUS_UNREACHABLE},
};

START_TEST(no_script_is_sent_to_a_server_that_does_not_tell_the_time)
{
    const char *const replies[] = {FIRST_REPLIES[_i].reply, SHA_REPLY, "-OOM x\r\n"};
    struct fake_redis fake;
    struct redis_client fooled;
    struct redis_question question;
    fake_redis_start(&fake, replies, ARRAY_LEN(replies));
    const struct redis_store_options options = {.unix_path = span_of_text(fake.path)};
    redis_client_open(&fooled, &options);
    ck_assert_int_eq(redis_client_decide(&fooled, &question), FIRST_REPLIES[_i].status);
    ck_assert(!redis_store_is_up(fooled.store));
    redis_client_close(&fooled);
    fake_redis_stop(&fake);
}
END_TEST

START_TEST(replies_to_nothing_lose_the_link_and_not_the_process)
{
    const char *const replies[] = {TIME_REPLY, SHA_REPLY ":1\r\n:2\r\n"};
    struct fake_redis fake;
    struct redis_client fooled;
    fake_redis_start(&fake, replies, ARRAY_LEN(replies));
    const struct redis_store_options options = {.unix_path = span_of_text(fake.path)};
    redis_client_open(&fooled, &options);
    redis_client_await_connects(&fooled, 2);
    redis_client_close(&fooled);
    fake_redis_stop(&fake);
}
END_TEST

START_TEST(a_reply_without_end_loses_the_link_and_not_the_memory)
{
    static char endless[200 * 1024];
    const char *const replies[] = {TIME_REPLY, SHA_REPLY, endless};
    struct fake_redis fake;
    struct redis_client fooled;
    struct redis_question question;
    memset(endless, 'x', sizeof(endless) - 1);
    memcpy(endless, "$1000000000\r\n", strlen("$1000000000\r\n"));
    fake_redis_start(&fake, replies, ARRAY_LEN(replies));
    const struct redis_store_options options = {.unix_path = span_of_text(fake.path)};
    redis_client_open(&fooled, &options);
    ck_assert_int_eq(redis_client_decide(&fooled, &question), STATUS_INVALID);
    redis_client_close(&fooled);
    fake_redis_stop(&fake);
}
END_TEST

static Suite *redis_faults_suite(void)
{
    Suite *suite = suite_create("store/redis_faults");
    TCase *real = tcase_create("a real Redis");
    tcase_set_timeout(real, 30);
    tcase_add_checked_fixture(real, start, stop);
    tcase_add_test(real, flushed_scripts_are_sent_again_with_the_call);
    tcase_add_test(real, a_server_out_of_memory_refuses_and_the_link_stays);
    tcase_add_test(real, too_few_replicas_are_a_refusal);
    tcase_add_test(real, a_key_of_another_type_is_a_refusal);
    tcase_add_test(real, a_server_that_became_a_replica_is_left_and_found_again_as_master);
    tcase_add_test(real, a_server_busy_with_a_script_refuses);
    tcase_add_test(real, a_killed_server_fails_what_is_under_way_and_what_comes_at_once);
    tcase_add_test(real, an_idle_link_whose_server_was_restarted_comes_back_by_itself);
    suite_add_tcase(suite, real);

    TCase *stopped = tcase_create("a Redis that stands still");
    tcase_set_timeout(stopped, 30);
    tcase_add_checked_fixture(stopped, start_impatient, stop);
    tcase_add_test(stopped, a_stopped_server_costs_a_few_decisions_one_deadline_and_then_nothing);
    tcase_add_test(stopped,
                   a_link_that_stays_silent_is_dropped_and_made_again_when_the_server_goes_on);
    suite_add_tcase(suite, stopped);

    TCase *stalled = tcase_create("a server that stalls");
    tcase_set_timeout(stalled, 30);
    tcase_add_checked_fixture(stalled, start_brisk, stop);
    tcase_add_test(stalled, a_stall_that_clients_enough_are_met_by_opens_the_breaker);
    suite_add_tcase(suite, stalled);

    /* With time for a machine that is itself held for a second, as each of its stalls may be. */
    TCase *repeated = tcase_create("a server that stalls, on a machine that does");
    tcase_set_timeout(repeated, 60);
    tcase_add_checked_fixture(repeated, start_impatient, stop);
    tcase_add_test(repeated,
                   what_few_clients_have_in_flight_does_not_open_the_breaker_in_one_stall);
    tcase_add_test(repeated, one_client_alone_opens_the_breaker_after_some_deadlines);
    suite_add_tcase(suite, repeated);

    TCase *none = tcase_create("no Redis");
    tcase_set_timeout(none, 30);
    tcase_add_test(none, a_deadline_runs_while_a_decision_waits_for_the_first_link);
    tcase_add_test(none, without_a_server_the_first_decision_fails_soon_and_the_next_at_once);
    tcase_add_test(none, a_port_that_nobody_listens_on_is_unreachable);
    tcase_add_loop_test(none, nonsense_fails_the_decision_and_nothing_else, 0,
                        (int)ARRAY_LEN(NONSENSE));
    tcase_add_loop_test(none, no_script_is_sent_to_a_server_that_does_not_tell_the_time, 0,
                        (int)ARRAY_LEN(FIRST_REPLIES));
    tcase_add_test(none, replies_to_nothing_lose_the_link_and_not_the_process);
    tcase_add_test(none, a_reply_without_end_loses_the_link_and_not_the_memory);
    suite_add_tcase(suite, none);
    return suite;
}

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the program does: hiredis writes to peers that have gone */
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(redis_faults_suite());
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
