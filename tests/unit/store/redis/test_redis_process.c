#include "store/redis_process.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/store_meters.h"

enum { LINKS = 64, OUTAGE_S = 60, MS = 1000, SECOND = 1000 * 1000 };

static struct redis_process process;
static struct redis_target *target;

static struct redis_target *find(struct redis_process *in, uint16_t port)
{
    const struct redis_store_options options = {.host = SPAN("127.0.0.1"), .port = port};
    return redis_process_target(in, &options);
}

static struct redis_target *find_socket(void)
{
    const struct redis_store_options options = {.unix_path = SPAN("127.0.0.1")};
    return redis_process_target(&process, &options);
}

static void setup(void)
{
    ck_assert_int_eq(redis_process_init(&process), STATUS_OK);
    target = find(&process, 6379);
}

static void teardown(void)
{
    redis_process_close(&process);
}

START_TEST(while_all_is_well_every_link_may_connect_at_once)
{
    for (int i = 0; i < LINKS; i++) {
        ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
    }
}
END_TEST

START_TEST(in_an_outage_all_links_together_connect_eight_times_a_second_at_most)
{
    unsigned n_in_second = 0;
    redis_target_note(target, false);
    for (uint64_t now_us = SECOND; now_us < (1 + OUTAGE_S) * (uint64_t)SECOND; now_us += MS) {
        n_in_second = now_us % SECOND == 0 ? 0 : n_in_second;
        for (int i = 0; i < LINKS; i++) {
            n_in_second += redis_target_may_connect(target, false, now_us) == 0;
        }
        ck_assert_uint_le(n_in_second, 8);
    }
    ck_assert_uint_eq(n_in_second, 8);
}
END_TEST

START_TEST(who_may_not_connect_is_told_when_to_ask_again)
{
    redis_target_note(target, false);
    ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
    const uint64_t wait_us = redis_target_may_connect(target, false, SECOND + 25 * MS);
    ck_assert_uint_eq(wait_us, 100 * MS);
    ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND + 25 * MS + wait_us), 0);
}
END_TEST

START_TEST(what_works_for_one_link_lets_all_connect)
{
    redis_target_note(target, false);
    ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
    ck_assert_uint_gt(redis_target_may_connect(target, false, SECOND), 0);
    redis_target_note(target, true);
    for (int i = 0; i < LINKS; i++) {
        ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
    }
}
END_TEST

START_TEST(who_connects_in_turn_waits_though_others_work)
{
    ck_assert_uint_eq(redis_target_may_connect(target, true, SECOND), 0);
    ck_assert_uint_eq(redis_target_may_connect(target, true, SECOND), 125 * MS);
    ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
}
END_TEST

START_TEST(targets_are_told_apart_and_share_one_pace)
{
    struct redis_target *other = find(&process, 6380);
    ck_assert_ptr_eq(find(&process, 6379), target);
    ck_assert_ptr_ne(other, target);
    ck_assert_ptr_ne(find_socket(), target);

    redis_target_note(target, false);
    ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
    ck_assert_uint_eq(redis_target_may_connect(other, false, SECOND),
                      0); /* nothing ails that one */
    redis_target_note(other, false);
    ck_assert_uint_gt(redis_target_may_connect(other, false, SECOND), 0);
    redis_target_note(target, true);
    ck_assert_uint_gt(redis_target_may_connect(other, false, SECOND), 0);
    ck_assert_uint_eq(redis_target_may_connect(target, false, SECOND), 0);
}
END_TEST

START_TEST(more_targets_than_there_is_room_for_share_the_last)
{
    for (uint16_t port = 1; port < 2 * REDIS_TARGETS_MAX; port++) {
        ck_assert_ptr_nonnull(find(&process, port));
    }
    ck_assert_ptr_eq(find(&process, 1000), find(&process, 1001));
    ck_assert_ptr_eq(find(&process, 6379), target);
}
END_TEST

START_TEST(without_a_process_a_redis_always_works)
{
    struct redis_target *none = find(NULL, 6379);
    redis_target_note(none, false);
    ck_assert(redis_target_has_worked(none));
    ck_assert_uint_eq(redis_target_may_connect(none, false, SECOND), 0);
    ck_assert_uint_eq(redis_target_may_connect(none, true, SECOND), 0);
}
END_TEST

START_TEST(a_beat_is_taken_once_in_its_time_unless_it_is_given_back)
{
    ck_assert(redis_process_take_heartbeat(&process, SECOND));
    ck_assert(!redis_process_take_heartbeat(&process, SECOND + REDIS_HEARTBEAT_US - 1));
    ck_assert(redis_process_take_heartbeat(&process, SECOND + REDIS_HEARTBEAT_US));
    ck_assert(!redis_process_take_heartbeat(&process, SECOND + REDIS_HEARTBEAT_US));
    redis_process_return_heartbeat(&process);
    ck_assert(redis_process_take_heartbeat(&process, SECOND + REDIS_HEARTBEAT_US));
}
END_TEST

START_TEST(what_was_seen_last_stays_known)
{
    ck_assert_uint_eq(redis_process_instances(&process), 0);
    redis_process_see(&process, 3, SECOND);
    redis_target_note(target, false);
    ck_assert_uint_eq(redis_process_instances(&process), 3);
}
END_TEST

/* @n are seen with every heartbeat from @from_us on, as long as fewer are not believed. */
static void see_for_a_silence(uint32_t n, uint64_t from_us)
{
    for (uint64_t us = 0; us < REDIS_SILENCE_US; us += REDIS_HEARTBEAT_US) {
        redis_process_see(&process, n, from_us + us);
    }
}

START_TEST(more_proxies_are_believed_at_once_and_fewer_when_the_others_had_time_to_be_heard)
{
    const uint64_t outage_us = 100 * (uint64_t)SECOND;
    redis_process_see(&process, 3, SECOND);
    redis_process_see(&process, 4, 2 * SECOND);
    ck_assert_uint_eq(redis_process_instances(&process), 4);
    see_for_a_silence(2, outage_us);
    redis_process_see(&process, 2, outage_us + REDIS_SILENCE_US - 1);
    ck_assert_uint_eq(redis_process_instances(&process), 4);
    redis_process_see(&process, 2, outage_us + REDIS_SILENCE_US);
    ck_assert_uint_eq(redis_process_instances(&process), 2);
    redis_process_see(&process, 1, outage_us + REDIS_SILENCE_US + 1);
    ck_assert_uint_eq(redis_process_instances(&process), 2);
}
END_TEST

START_TEST(a_redis_that_comes_back_empty_while_fewer_are_seen_makes_no_share_larger)
{
    const uint64_t fewer_us = 100 * (uint64_t)SECOND;
    redis_process_see(&process, 4, SECOND);
    see_for_a_silence(3, fewer_us);
    redis_process_see(&process, 1, fewer_us + REDIS_SILENCE_US); /* first to enter itself */
    ck_assert_uint_eq(redis_process_instances(&process), 3);
}
END_TEST

START_TEST(a_redis_that_comes_back_empty_twice_makes_no_share_larger)
{
    const uint64_t first_us = 100 * (uint64_t)SECOND;
    redis_process_see(&process, 4, SECOND);
    redis_process_see(&process, 1, first_us);
    redis_process_see(&process, 1, first_us + REDIS_SILENCE_US);
    ck_assert_uint_eq(redis_process_instances(&process), 4);
    redis_process_see(&process, 1, first_us + 10 * REDIS_SILENCE_US);
    ck_assert_uint_eq(redis_process_instances(&process), 4);
    see_for_a_silence(1, first_us + 10 * REDIS_SILENCE_US);
    redis_process_see(&process, 1, first_us + 11 * REDIS_SILENCE_US);
    ck_assert_uint_eq(redis_process_instances(&process), 1);
}
END_TEST

START_TEST(two_workers_that_see_fewer_at_once_are_believed_no_sooner)
{
    const uint64_t now_us = 100 * (uint64_t)SECOND;
    redis_process_see(&process, 4, SECOND);
    redis_process_see(&process, 1, now_us);
    redis_process_see(&process, 1, now_us - 1); /* it read the clock first, and came second */
    ck_assert_uint_eq(redis_process_instances(&process), 4);
}
END_TEST

START_TEST(processes_have_ids_of_their_own)
{
    struct redis_process other;
    ck_assert_int_eq(redis_process_init(&other), STATUS_OK);
    ck_assert_int_ne(memcmp(process.id, other.id, sizeof(process.id)), 0);
    redis_process_close(&other);
}
END_TEST

START_TEST(what_stores_have_counted_is_added_up)
{
    const struct redis_store_counters counters = {.n_calls = 5, .n_connects = 2, .n_openings = 1};
    redis_process_add(&process, &counters);
    redis_process_add(&process, &counters);
    const struct redis_store_counters sum = redis_process_count(&process);
    ck_assert_uint_eq(sum.n_calls, 10);
    ck_assert_uint_eq(sum.n_connects, 4);
    ck_assert_uint_eq(sum.n_openings, 2);
}
END_TEST

START_TEST(what_clusters_have_counted_is_added_up_beside_their_nodes)
{
    const struct redis_store_counters node = {.n_calls = 5};
    const struct redis_cluster_counters counters = {
        .nodes = {.n_calls = 5},
        .n_maps = 1,
        .n_redirections = 2,
        .n_spread = 3,
        .n_by_key = 4,
        .n_given_back = 5,
    };
    for (int i = 0; i < 2; i++) {
        redis_process_add(&process, &node);
        redis_process_add_cluster(&process, &counters);
    }
    const struct redis_cluster_counters sum = redis_process_count_clusters(&process);
    ck_assert_uint_eq(sum.nodes.n_calls, 10);
    ck_assert_uint_eq(sum.n_maps, 2);
    ck_assert_uint_eq(sum.n_redirections, 4);
    ck_assert_uint_eq(sum.n_spread, 6);
    ck_assert_uint_eq(sum.n_by_key, 8);
    ck_assert_uint_eq(sum.n_given_back, 10);
}
END_TEST

START_TEST(nodes_are_numbered_by_where_they_are_and_those_beyond_the_room_share_one)
{
    const struct redis_store_options at = {.host = SPAN("redis.example"), .port = 6379};
    const struct redis_store_options unix_socket = {.unix_path = SPAN("/run/redis.sock")};
    const struct redis_store_options watched = {
        .host = SPAN("redis.example"),
        .sentinels = {.n_hosts = 1, .master = SPAN("main")},
    };
    const struct name_directory *nodes = redis_process_nodes(&process);
    ck_assert_uint_eq(redis_process_node(&process, &at), 1);
    ck_assert_uint_eq(redis_process_node(&process, &unix_socket), 2);
    ck_assert_uint_eq(redis_process_node(&process, &watched), 3);
    ck_assert_uint_eq(redis_process_node(&process, &at), 1);
    ck_assert(span_equals(name_directory_name(nodes, 1), SPAN("redis.example:6379")));
    ck_assert(span_equals(name_directory_name(nodes, 2), SPAN("/run/redis.sock")));
    ck_assert(span_equals(name_directory_name(nodes, 3), SPAN("main")));
    for (uint16_t port = 1; port < 2 * STORE_NODES_MAX; port++) {
        const struct redis_store_options other = {.host = SPAN("b"), .port = port};
        ck_assert_uint_lt(redis_process_node(&process, &other), STORE_NODES_MAX);
    }
    ck_assert_uint_eq(name_directory_count(nodes), STORE_NODES_MAX);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_process");
    TCase *tcase = tcase_create("process");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, while_all_is_well_every_link_may_connect_at_once);
    tcase_add_test(tcase, in_an_outage_all_links_together_connect_eight_times_a_second_at_most);
    tcase_add_test(tcase, who_may_not_connect_is_told_when_to_ask_again);
    tcase_add_test(tcase, what_works_for_one_link_lets_all_connect);
    tcase_add_test(tcase, who_connects_in_turn_waits_though_others_work);
    tcase_add_test(tcase, targets_are_told_apart_and_share_one_pace);
    tcase_add_test(tcase, more_targets_than_there_is_room_for_share_the_last);
    tcase_add_test(tcase, without_a_process_a_redis_always_works);
    tcase_add_test(tcase, a_beat_is_taken_once_in_its_time_unless_it_is_given_back);
    tcase_add_test(tcase, what_was_seen_last_stays_known);
    tcase_add_test(
        tcase, more_proxies_are_believed_at_once_and_fewer_when_the_others_had_time_to_be_heard);
    tcase_add_test(tcase, a_redis_that_comes_back_empty_while_fewer_are_seen_makes_no_share_larger);
    tcase_add_test(tcase, a_redis_that_comes_back_empty_twice_makes_no_share_larger);
    tcase_add_test(tcase, two_workers_that_see_fewer_at_once_are_believed_no_sooner);
    tcase_add_test(tcase, processes_have_ids_of_their_own);
    tcase_add_test(tcase, what_stores_have_counted_is_added_up);
    tcase_add_test(tcase, what_clusters_have_counted_is_added_up_beside_their_nodes);
    tcase_add_test(tcase, nodes_are_numbered_by_where_they_are_and_those_beyond_the_room_share_one);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
