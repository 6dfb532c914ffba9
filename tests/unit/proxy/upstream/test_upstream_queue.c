/* Two workers of one process: the stage's, and a second group that stands for another's. */

#include "proxy/upstream/upstream_queue.h"

#include <check.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_group.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_server.h"
#include "stage.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "upstreams:\n"
                             "  api:\n"
                             "    servers: [http://127.0.0.1:PORT, http://127.0.0.2:PORT]\n"
                             "    max_connections: 1\n"
                             "    queue: 41\n"
                             "routes: [{limits: [], upstream: api}]\n";

enum { BARRED = UPSTREAM_QUEUE_CHECKS + 8, WAITERS = BARRED + 1, NOW = 1000 * 1000 };

static struct stage stage;
static struct upstream_group *group;
static struct upstream_group *other;
static struct server_process **servers;
static struct upstream_choice choices[WAITERS];
static struct upstream_waiter waiters[WAITERS];

static void set_up(void)
{
    stage_open(&stage, POLICY);
    group = stage.worker.env.config->upstreams[0];
    servers = stage.generation->upstreams[0]->servers;
    ck_assert_int_eq(upstream_group_new(&stage.worker.env, stage.policy, 0,
                                        stage.generation->upstreams[0], NULL, &other),
                     STATUS_OK);
    for (size_t i = 0; i < WAITERS; i++) {
        choices[i] = (struct upstream_choice){.fresh = false};
        waiters[i] = (struct upstream_waiter){.group = group, .choice = &choices[i]};
    }
}

static void tear_down(void)
{
    loop_task_cancel(&group->grants_task); /* the waiters are no exchanges */
    upstream_group_leave(other);
    stage_close(&stage);
}

static void take_all_places(void)
{
    ck_assert(server_process_take_place(servers[0], 1));
    ck_assert(server_process_take_place(servers[1], 1));
}

static void enter(size_t i)
{
    ck_assert_int_eq(upstream_queue_enter(&waiters[i], NOW), STATUS_OK);
}

/* Waiter number @i, and nobody else, has been granted a place of server number @server. */
static void assert_granted(struct upstream_group *of, size_t i, size_t server)
{
    ck_assert_ptr_eq(upstream_queue_take_grant(of), &waiters[i]);
    ck_assert_ptr_eq(waiters[i].server, &of->servers[server]);
    ck_assert_int_eq(waiters[i].fd, -1);
    ck_assert_ptr_null(upstream_queue_take_grant(of));
}

/* Whether the worker was woken since the last call. */
static bool is_woken(void)
{
    uint64_t n;
    return read(stage.worker.env.wakeup.fd, &n, sizeof(n)) == sizeof(n);
}

static void leave_all(void)
{
    for (size_t i = 0; i < WAITERS; i++) {
        if (!list_is_empty(&waiters[i].node) && waiters[i].node.next != NULL) {
            (void)upstream_queue_leave(&waiters[i]);
        }
    }
}

START_TEST(a_server_has_so_many_places_and_no_more)
{
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(server_process_take_place(servers[0], 3));
    }
    ck_assert(!server_process_take_place(servers[0], 3));
    upstream_queue_release_slot(&group->servers[0], NOW);
    ck_assert(server_process_take_place(servers[0], 3));
    ck_assert(!server_process_take_place(servers[0], 3));
}
END_TEST

START_TEST(places_go_to_those_who_wait_in_order)
{
    take_all_places();
    for (size_t i = 0; i < 3; i++) {
        enter(i);
    }
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    upstream_queue_release_slot(&group->servers[1], NOW);
    assert_granted(group, 0, 1);
    upstream_queue_release_slot(&group->servers[0], NOW);
    assert_granted(group, 1, 0);
    upstream_queue_release_slot(&group->servers[1], NOW);
    assert_granted(group, 2, 1);
    ck_assert(!upstream_queue_is_used(&stage.generation->upstreams[0]->queue));
}
END_TEST

START_TEST(a_place_that_is_free_by_then_is_granted_at_once)
{
    ck_assert(server_process_take_place(servers[0], 1));
    enter(0);
    assert_granted(group, 0, 1);
}
END_TEST

START_TEST(as_many_wait_as_may_and_no_more)
{
    struct upstream_waiter late = {.group = group, .choice = &choices[0]};
    take_all_places();
    for (size_t i = 0; i < WAITERS; i++) {
        enter(i);
    }
    ck_assert_int_eq(upstream_queue_enter(&late, NOW), STATUS_FULL);
    ck_assert(upstream_queue_leave(&waiters[1]));
    enter(1);
    leave_all();
}
END_TEST

START_TEST(who_has_left_is_granted_nothing)
{
    take_all_places();
    enter(0);
    enter(1);
    ck_assert(upstream_queue_leave(&waiters[0]));
    upstream_queue_release_slot(&group->servers[0], NOW);
    assert_granted(group, 1, 0);
}
END_TEST

START_TEST(who_leaves_too_late_gives_the_place_to_the_next)
{
    take_all_places();
    enter(0);
    enter(1);
    upstream_queue_release_slot(&group->servers[0], NOW);
    ck_assert(!upstream_queue_leave(&waiters[0]));
    upstream_queue_return_grant(&waiters[0], NOW);
    assert_granted(group, 1, 0);
}
END_TEST

START_TEST(who_has_waited_before_goes_first)
{
    take_all_places();
    enter(0);
    upstream_choice_note(&choices[1], &group->servers[0]);
    enter(1);
    upstream_queue_release_slot(&group->servers[1], NOW);
    assert_granted(group, 1, 1);
    leave_all();
}
END_TEST

START_TEST(who_may_not_use_a_server_lets_those_behind_go_first)
{
    take_all_places();
    upstream_choice_note(&choices[0], &group->servers[0]);
    enter(0);
    enter(1);
    upstream_queue_release_slot(&group->servers[0], NOW);
    assert_granted(group, 1, 0);
    upstream_queue_release_slot(&group->servers[1], NOW);
    assert_granted(group, 0, 1);
}
END_TEST

/* --- the bound of a check --- */

/* The last waiter alone may use server number 0; the others have tried it. */
static void enter_barred(void)
{
    take_all_places();
    for (size_t i = 0; i < WAITERS; i++) {
        upstream_choice_note(&choices[i], &group->servers[i < BARRED ? 0 : 1]);
    }
    for (size_t i = 0; i < WAITERS; i++) {
        enter(i);
    }
    (void)is_woken();
}

START_TEST(few_waiters_are_checked_at_a_time_and_none_is_left_out)
{
    enter_barred();
    upstream_queue_release_slot(&group->servers[0], NOW);
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    ck_assert(is_woken());
    upstream_queue_continue(group, NOW);
    assert_granted(group, BARRED, 0);
    ck_assert(!is_woken());
    leave_all();
}
END_TEST

START_TEST(a_slot_that_nobody_may_use_wakes_its_worker_for_one_pass)
{
    enter_barred();
    ck_assert(upstream_queue_leave(&waiters[BARRED]));
    upstream_queue_release_slot(&group->servers[0], NOW);
    ck_assert(is_woken());
    upstream_queue_continue(group, NOW);
    ck_assert(!is_woken());
    leave_all();
}
END_TEST

START_TEST(waiters_behind_many_others_have_their_turn_while_slots_come_and_go)
{
    enter_barred();
    upstream_queue_release_slot(&group->servers[0], NOW);
    ck_assert(server_process_take_place(servers[0], 1));
    upstream_queue_release_slot(&group->servers[0], NOW);
    assert_granted(group, BARRED, 0);
    leave_all();
}
END_TEST

START_TEST(waiters_keep_their_order_when_all_are_passed_over)
{
    enter_barred();
    upstream_queue_release_slot(&group->servers[0], NOW);
    upstream_queue_continue(group, NOW);
    assert_granted(group, BARRED, 0);
    upstream_queue_release_slot(&group->servers[1], NOW);
    assert_granted(group, 0, 1);
    leave_all();
}
END_TEST

/* --- idle connections --- */

static void on_nothing(void *owner)
{
    (void)owner;
}

static const struct stream_handler HANDLER = {.on_readable = on_nothing, .on_drained = on_nothing};

static void free_upstream(struct loop_task *task)
{
    free(CONTAINER_OF(task, struct upstream, death));
}

/* A connection to server number @i becomes idle. The server's end of it. */
static int add_idle(size_t i)
{
    int fds[2];
    struct proxy_env *env = &stage.worker.env;
    struct upstream *upstream = calloc(1, sizeof(*upstream));
    ck_assert_ptr_nonnull(upstream);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(stream_open(&upstream->stream, env->loop, fds[0], &HANDLER, upstream),
                     STATUS_OK);
    inbox_init(&upstream->inbox, &upstream->stream, &env->config->pools->answer_blocks,
               &env->body_blocks, &env->body_blocks);
    list_init(&upstream->node);
    timeout_init(&upstream->timeout, NULL);
    loop_task_init(&upstream->death, free_upstream);
    upstream->server = &group->servers[i];
    upstream->has_slot = true;
    upstream->server->n_connections++;
    counter_up(&upstream_server_meters(upstream->server)->connections);
    upstream_enter_idle(upstream, NOW);
    return fds[1];
}

static bool is_closed(int peer)
{
    char byte;
    return recv(peer, &byte, 1, MSG_DONTWAIT) == 0;
}

START_TEST(each_idle_connection_goes_to_the_next_that_may_use_it)
{
    int peers[2];
    take_all_places();
    peers[0] = add_idle(0);
    peers[1] = add_idle(0);
    upstream_choice_note(&choices[0], &group->servers[0]);
    for (size_t i = 0; i < 4; i++) {
        enter(i);
    }
    ck_assert(upstream_queue_yield_idle(group, NOW));
    for (size_t i = 1; i < 3; i++) {
        ck_assert_ptr_eq(upstream_queue_take_grant(group), &waiters[i]);
        ck_assert_int_ge(waiters[i].fd, 0);
        ck_assert(!is_closed(peers[2 - i]) && !is_closed(peers[i - 1]));
    }
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    for (size_t i = 0; i < 2; i++) {
        close(waiters[i + 1].fd);
        close(peers[i]);
    }
    (void)upstream_queue_leave(&waiters[0]);
    (void)upstream_queue_leave(&waiters[3]);
}
END_TEST

START_TEST(an_idle_connection_is_closed_when_no_waiter_at_the_front_may_use_it)
{
    enter_barred();
    const int peer = add_idle(0);
    ck_assert(is_closed(peer));
    upstream_queue_continue(group, NOW);
    assert_granted(group, BARRED, 0);
    close(peer);
    leave_all();
}
END_TEST

/* A close may take long: no worker waits for the lock meanwhile. */
START_TEST(who_wants_a_fresh_connection_has_the_idle_one_closed_when_it_takes_the_place)
{
    take_all_places();
    choices[0].fresh = true;
    enter(0);
    const int peer = add_idle(1);
    ck_assert(!is_closed(peer));
    assert_granted(group, 0, 1);
    ck_assert(is_closed(peer));
    close(peer);
}
END_TEST

START_TEST(another_worker_is_granted_places_of_its_own_servers)
{
    take_all_places();
    waiters[0].group = other;
    enter(0);
    enter(1);
    upstream_queue_release_slot(&group->servers[1], NOW);
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    assert_granted(other, 0, 1);
    upstream_queue_release_slot(&other->servers[1], NOW);
    assert_granted(group, 1, 1);
}
END_TEST

START_TEST(a_server_that_is_out_serves_nobody_who_waits_while_another_is_in)
{
    take_all_places();
    enter(0);
    for (unsigned i = 0; i < 5; i++) {
        (void)server_health_note_failure(&servers[0]->health, group->spec, NOW, SERVER_ANY_CLIENT,
                                         false, NOW);
    }
    upstream_queue_release_slot(&group->servers[0], NOW);
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    upstream_queue_release_slot(&group->servers[1], NOW);
    assert_granted(group, 0, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upstream_queue");
    TCase *all = tcase_create("upstream_queue");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, a_server_has_so_many_places_and_no_more);
    tcase_add_test(all, places_go_to_those_who_wait_in_order);
    tcase_add_test(all, a_place_that_is_free_by_then_is_granted_at_once);
    tcase_add_test(all, as_many_wait_as_may_and_no_more);
    tcase_add_test(all, who_has_left_is_granted_nothing);
    tcase_add_test(all, who_leaves_too_late_gives_the_place_to_the_next);
    tcase_add_test(all, who_has_waited_before_goes_first);
    tcase_add_test(all, who_may_not_use_a_server_lets_those_behind_go_first);
    tcase_add_test(all, few_waiters_are_checked_at_a_time_and_none_is_left_out);
    tcase_add_test(all, a_slot_that_nobody_may_use_wakes_its_worker_for_one_pass);
    tcase_add_test(all, waiters_behind_many_others_have_their_turn_while_slots_come_and_go);
    tcase_add_test(all, waiters_keep_their_order_when_all_are_passed_over);
    tcase_add_test(all, an_idle_connection_is_closed_when_no_waiter_at_the_front_may_use_it);
    tcase_add_test(all, each_idle_connection_goes_to_the_next_that_may_use_it);
    tcase_add_test(all,
                   who_wants_a_fresh_connection_has_the_idle_one_closed_when_it_takes_the_place);
    tcase_add_test(all, another_worker_is_granted_places_of_its_own_servers);
    tcase_add_test(all, a_server_that_is_out_serves_nobody_who_waits_while_another_is_in);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
