#include "store/redis_options.h"
#include "store/redis_store.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "support/redis_client.h"
#include "support/redis_server.h"
#include "support/store_contract.h"

static struct redis_server server;
static struct redis_client client;
static struct redis_store_options options;

static void start(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
    options = (struct redis_store_options){.unix_path = span_of_text(server.socket_path)};
}

static void stop(void)
{
    redis_server_stop(&server);
}

/* --- the contract --- */

static void open_contract(void)
{
    start();
    options.limits = store_contract_limits(&options.n_limits);
    redis_client_open(&client, &options);
}

static void close_contract(void)
{
    redis_client_close(&client);
    stop();
}

static struct store *get_store(void)
{
    return client.store;
}

static void await(const bool *answered)
{
    redis_client_await(&client, answered);
}

static const struct store_contract CONTRACT = {
    .open = open_contract,
    .close = close_contract,
    .store = get_store,
    .await = await,
};

/* --- the life of a link --- */

static long long ask_server(const char *command)
{
    redisContext *connection = redis_server_connect(&server);
    redisReply *reply = redisCommand(connection, command);
    ck_assert_msg(reply != NULL && reply->type == REDIS_REPLY_INTEGER, "%s", command);
    const long long integer = reply->integer;
    freeReplyObject(reply);
    redisFree(connection);
    return integer;
}

START_TEST(the_first_decision_waits_for_the_link)
{
    struct redis_question question;
    redis_client_open(&client, &options);
    ck_assert(!redis_store_is_up(client.store));
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert(!question.at_once);
    ck_assert(question.decision.allowed);
    ck_assert_int_eq(question.decision.source, DECISION_REDIS);
    ck_assert(redis_store_is_up(client.store));
    redis_client_close(&client);
}
END_TEST

START_TEST(a_key_is_prefix_identity_limit_and_digest_and_always_expires)
{
    struct redis_question question;
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);

    char key[128];
    struct text text = text_of(key, sizeof(key) - 1);
    redis_key_write(&text, SPAN("test"), &question.charge);
    key[text.len] = '\0';
    ck_assert(span_starts_with(text_span(&text), SPAN("test:{a}:limit:")));

    redisContext *connection = redis_server_connect(&server);
    redisReply *reply = redisCommand(connection, "PTTL %s", key);
    ck_assert_int_gt(reply->integer, 0);
    freeReplyObject(reply);
    redisFree(connection);
    redis_client_close(&client);
}
END_TEST

START_TEST(all_decisions_of_a_turn_are_made_and_no_unit_too_many_is_admitted)
{
    enum { N = 3000 };
    static struct redis_question questions[N];
    size_t n_allowed = 0;
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
    for (size_t i = 0; i < N; i++) {
        redis_client_ask(&client, &questions[i], 1);
    }
    for (size_t i = 0; i < N; i++) {
        redis_client_await(&client, &questions[i].answered);
        ck_assert_int_eq(questions[i].decision.status, STATUS_OK);
        n_allowed += questions[i].decision.allowed;
    }
    ck_assert_uint_eq(n_allowed, 1000);
    ck_assert_uint_eq(redis_store_count(client.store).n_calls, N);
    redis_client_close(&client);
}
END_TEST

/* In a child: ask often on a link of its own; the exit code is not enough
 * for the number admitted. */
static void ask_and_report(int fd)
{
    enum { N = 400 };
    static struct redis_question questions[N];
    uint32_t n_allowed = 0;
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
    for (size_t i = 0; i < N; i++) {
        redis_client_ask(&client, &questions[i], 1);
        if (i % 7 == 0) {
            redis_client_await(&client, &questions[i].answered);
        }
    }
    for (size_t i = 0; i < N; i++) {
        redis_client_await(&client, &questions[i].answered);
        n_allowed += questions[i].decision.status == STATUS_OK && questions[i].decision.allowed;
    }
    redis_client_close(&client);
    _exit(write(fd, &n_allowed, sizeof(n_allowed)) == sizeof(n_allowed) ? 0 : 1);
}

START_TEST(four_processes_on_one_key_admit_exactly_what_one_would)
{
    int fds[2];
    uint32_t n_admitted = 0;
    ck_assert_int_eq(pipe(fds), 0);
    for (int i = 0; i < 4; i++) {
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            ask_and_report(fds[1]);
        }
    }
    for (int i = 0; i < 4; i++) {
        uint32_t n_allowed = 0;
        ck_assert_int_eq(read(fds[0], &n_allowed, sizeof(n_allowed)), sizeof(n_allowed));
        n_admitted += n_allowed;
    }
    ck_assert_uint_eq(n_admitted, 1000);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(a_name_is_resolved_and_a_tcp_port_connected_to)
{
    struct redis_question question;
    redis_server_stop(&server);
    server = (struct redis_server){.port = redis_server_free_port()};
    redis_server_start(&server);
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        options = (struct redis_store_options){
            .host = span_of_text(hosts[i]),
            .port = server.port,
        };
        redis_client_open(&client, &options);
        ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
        redis_client_close(&client);
    }
}
END_TEST

START_TEST(a_database_is_selected)
{
    struct redis_question question;
    options.database = 3;
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert_int_eq(ask_server("DBSIZE"), 0);
    redis_client_close(&client);
}
END_TEST

START_TEST(a_database_that_is_not_there_is_a_refusal)
{
    struct redis_question question;
    options.database = 1000;
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_REFUSED);
    redis_client_close(&client);
}
END_TEST

START_TEST(a_password_signs_in_and_a_wrong_one_is_a_refusal)
{
    struct redis_question question;
    redis_server_stop(&server);
    server = (struct redis_server){.password = "a b\"c"};
    redis_server_start(&server);
    options = (struct redis_store_options){
        .unix_path = span_of_text(server.socket_path),
        .password = SPAN("a b\"c"),
    };
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    redis_client_close(&client);

    options.password = SPAN("wrong");
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_REFUSED);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_REFUSED);
    ck_assert(question.at_once);
    redis_client_close(&client);

    options.password = SPAN("");
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_REFUSED);
    redis_client_close(&client);
}
END_TEST

START_TEST(a_user_with_the_least_rights_can_decide)
{
    struct redis_question question;
    redis_server_command(&server, "ACL SETUSER limiter on >secret ~test:* resetchannels -@all "
                                  "+script|load +evalsha +eval +get +set +time +ping");
    options.user = SPAN("limiter");
    options.password = SPAN("secret");
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert(question.decision.allowed);
    redis_client_close(&client);
}
END_TEST

START_TEST(a_cancelled_decision_is_charged_and_its_reply_dropped)
{
    struct redis_question question;
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
    redis_client_ask(&client, &question, 5);
    store_cancel(&question.decision);
    memset(&question, 0xee, sizeof(question));

    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert_uint_eq(question.charge.verdict.remaining, 994);
    ck_assert_uint_eq(redis_store_count(client.store).n_late_replies, 1);
    redis_client_close(&client);
}
END_TEST

START_TEST(a_decision_can_be_cancelled_while_it_waits_for_the_link)
{
    struct redis_question question;
    redis_client_open(&client, &options);
    redis_client_ask(&client, &question, 5);
    store_cancel(&question.decision);
    memset(&question, 0xee, sizeof(question));
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert_uint_eq(question.charge.verdict.remaining, 999);
    redis_client_close(&client);
}
END_TEST

START_TEST(a_store_can_be_freed_with_cancelled_calls_under_way)
{
    struct redis_question question;
    redis_client_open(&client, &options);
    (void)redis_client_await_up(&client, true);
    redis_client_ask(&client, &question, 5);
    store_cancel(&question.decision);
    redis_client_close(&client);
}
END_TEST

static Suite *redis_store_suite(void)
{
    Suite *suite = suite_create("store/redis_store");
    TCase *contract = store_contract_tcase(&CONTRACT);
    tcase_set_timeout(contract, 20);
    suite_add_tcase(suite, contract);

    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 20);
    tcase_add_checked_fixture(life, start, stop);
    tcase_add_test(life, the_first_decision_waits_for_the_link);
    tcase_add_test(life, a_key_is_prefix_identity_limit_and_digest_and_always_expires);
    tcase_add_test(life, all_decisions_of_a_turn_are_made_and_no_unit_too_many_is_admitted);
    tcase_add_test(life, four_processes_on_one_key_admit_exactly_what_one_would);
    tcase_add_test(life, a_name_is_resolved_and_a_tcp_port_connected_to);
    tcase_add_test(life, a_database_is_selected);
    tcase_add_test(life, a_database_that_is_not_there_is_a_refusal);
    tcase_add_test(life, a_password_signs_in_and_a_wrong_one_is_a_refusal);
    tcase_add_test(life, a_user_with_the_least_rights_can_decide);
    tcase_add_test(life, a_cancelled_decision_is_charged_and_its_reply_dropped);
    tcase_add_test(life, a_decision_can_be_cancelled_while_it_waits_for_the_link);
    tcase_add_test(life, a_store_can_be_freed_with_cancelled_calls_under_way);
    suite_add_tcase(suite, life);
    return suite;
}

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *executor = srunner_create(redis_store_suite());
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
