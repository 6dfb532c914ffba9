/* Heartbeats in a real Redis: who is seen, and who no longer is. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "store/redis/redis_store_inner.h"
#include "store/redis_process.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

/* A process with one worker. */
struct proxy {
    struct redis_process process;
    struct redis_client client;
};

static struct redis_server server;

static void start(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
}

static void stop(void)
{
    redis_server_stop(&server);
}

static void open_proxy(struct proxy *proxy)
{
    ck_assert_int_eq(redis_process_init(&proxy->process), STATUS_OK);
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .process = &proxy->process,
    };
    redis_client_open(&proxy->client, &options);
}

static void close_proxy(struct proxy *proxy)
{
    redis_client_close(&proxy->client);
    redis_process_close(&proxy->process);
}

static void await_instances(struct proxy *proxy, uint32_t n)
{
    while (redis_process_instances(&proxy->process) != n) {
        redis_client_iterate(&proxy->client);
    }
}

/* As if the time for the next heartbeat had come, and nothing were known. */
static void remove_limits(struct proxy *proxy)
{
    const uint64_t now_us = clock_monotonic_us();
    for (uint64_t us = 0; us <= REDIS_SILENCE_US; us += REDIS_HEARTBEAT_US) {
        redis_process_see(&proxy->process, 0, now_us + us);
    }
    redis_process_return_heartbeat(&proxy->process);
}

START_TEST(a_proxy_sees_itself_as_soon_as_it_is_connected)
{
    struct proxy proxy;
    open_proxy(&proxy);
    await_instances(&proxy, 1);
    close_proxy(&proxy);
}
END_TEST

START_TEST(proxies_see_each_other_and_workers_are_not_counted)
{
    struct proxy proxies[3];
    struct redis_client worker;
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        open_proxy(&proxies[i]);
        await_instances(&proxies[i], (uint32_t)i + 1);
    }
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .process = &proxies[0].process,
    };
    redis_client_open(&worker, &options);
    (void)redis_client_await_up(&worker, true);
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        remove_limits(&proxies[i]);
        await_instances(&proxies[i], 3);
    }
    redis_client_close(&worker);
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        close_proxy(&proxies[i]);
    }
}
END_TEST

START_TEST(who_has_fallen_silent_or_lives_in_the_future_is_struck_off)
{
    struct proxy proxy;
    redis_server_command(&server, "ZADD test:instances 1 silent 99999999999999 ahead");
    open_proxy(&proxy);
    await_instances(&proxy, 1);
    close_proxy(&proxy);
}
END_TEST

START_TEST(what_was_seen_stays_known_while_redis_is_away_and_is_seen_anew_after)
{
    struct proxy proxies[2];
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        open_proxy(&proxies[i]);
        await_instances(&proxies[i], (uint32_t)i + 1);
    }
    redis_server_kill(&server);
    (void)redis_client_await_up(&proxies[1].client, false);
    ck_assert_uint_eq(redis_process_instances(&proxies[1].process), 2);
    redis_server_restart(&server); /* and the instance registry is gone */
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        remove_limits(&proxies[i]);
        await_instances(&proxies[i], (uint32_t)i + 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        close_proxy(&proxies[i]);
    }
}
END_TEST

/* While nothing works at its Redis a link heartbeats out of turn. */
START_TEST(a_beat_out_of_turn_that_fails_leaves_the_next_one_to_its_time)
{
    struct proxy proxy;
    open_proxy(&proxy);
    await_instances(&proxy, 1);
    struct redis_store *redis = redis_store_of(proxy.client.store);
    const struct redis_heartbeat *heartbeat = &redis->heartbeat;
    const uint64_t next_us = atomic_load(&proxy.process.next_heartbeat_us);
    redis_server_pause(&server);
    redis_target_note(redis->link.target, false);
    redis_heartbeat_on_change(redis);
    ck_assert(heartbeat->is_under_way);
    redis_server_kill(&server);
    while (heartbeat->is_under_way) {
        redis_client_iterate(&proxy.client);
    }
    ck_assert_uint_eq(atomic_load(&proxy.process.next_heartbeat_us), next_us);
    redis_server_restart(&server);
    close_proxy(&proxy);
}
END_TEST

START_TEST(a_roll_that_is_none_stops_no_decision)
{
    struct proxy proxy;
    struct redis_question question;
    redis_server_command(&server, "SET test:instances nonsense EX 60");
    open_proxy(&proxy);
    ck_assert_int_eq(redis_client_decide(&proxy.client, &question), STATUS_OK);
    ck_assert_uint_eq(redis_process_instances(&proxy.process), 0);
    close_proxy(&proxy);
}
END_TEST

/* As many links as Redis takes, and as many again: all in one loop. */
enum { WELCOME = 16, REFUSED = 48, WATCHED_S = 4, PACE = 8 };

static void open_links(struct proxy *proxy, struct store **stores, size_t n)
{
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .prefix = SPAN("test"),
        .deadline_us = 1000 * 1000,
        .process = &proxy->process,
    };
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(redis_store_new(proxy->client.loop, &options, &stores[i]), STATUS_OK);
    }
}

static void await_welcome(struct proxy *proxy, struct store *const *stores)
{
    for (size_t i = 0; i < WELCOME; i++) {
        while (!redis_store_is_up(stores[i])) {
            redis_client_iterate(&proxy->client);
        }
    }
}

/* Each link tries once at the start, and once more when another was well; then all in turn. */
START_TEST(links_that_fail_where_others_work_keep_the_pace)
{
    struct proxy proxy;
    struct store *stores[WELCOME + REFUSED];
    uint64_t n_connects = 0;
    open_proxy(&proxy);
    open_links(&proxy, stores, WELCOME);
    await_welcome(&proxy, stores);
    redisContext *admin = redis_server_connect(&server);
    freeReplyObject(redisCommand(admin, "CONFIG SET maxclients 1"));
    const uint64_t start_us = clock_monotonic_us();
    open_links(&proxy, stores + WELCOME, REFUSED);
    while (clock_monotonic_us() - start_us < WATCHED_S * UINT64_C(1000000)) {
        redis_client_iterate(&proxy.client);
    }
    const uint64_t took_us = clock_monotonic_us() - start_us;
    for (size_t i = WELCOME; i < WELCOME + REFUSED; i++) {
        n_connects += redis_store_count(stores[i]).n_connects;
    }
    ck_assert_uint_le(n_connects, 2 * REFUSED + 1 + PACE * took_us / 1000000);
    for (size_t i = 0; i < WELCOME + REFUSED; i++) {
        store_free(stores[i]);
    }
    freeReplyObject(redisCommand(admin, "CONFIG SET maxclients 1000"));
    redisFree(admin);
    close_proxy(&proxy);
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the program does: hiredis writes to peers that have gone */
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_heartbeat");
    TCase *tcase = tcase_create("heartbeats");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, a_proxy_sees_itself_as_soon_as_it_is_connected);
    tcase_add_test(tcase, proxies_see_each_other_and_workers_are_not_counted);
    tcase_add_test(tcase, who_has_fallen_silent_or_lives_in_the_future_is_struck_off);
    tcase_add_test(tcase, what_was_seen_stays_known_while_redis_is_away_and_is_seen_anew_after);
    tcase_add_test(tcase, a_beat_out_of_turn_that_fails_leaves_the_next_one_to_its_time);
    tcase_add_test(tcase, a_roll_that_is_none_stops_no_decision);
    tcase_add_test(tcase, links_that_fail_where_others_work_keep_the_pace);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
