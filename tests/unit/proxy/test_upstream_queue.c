/* Two workers of one process: the stage's, and a second group that stands for another's. */

#include "proxy/upstream_queue.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "stage.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "upstreams:\n"
                             "  api:\n"
                             "    servers: [http://127.0.0.1:PORT, http://127.0.0.2:PORT]\n"
                             "    max_connections: 1\n"
                             "    queue: 4\n"
                             "routes: [{limits: [], upstream: api}]\n";

enum { WAITERS = 5, NOW = 1000 * 1000 };

static struct stage stage;
static struct upstream_group *group;
static struct upstream_group *other;
static struct server_process **servers;
static struct upstream_choice choices[WAITERS];
static struct upstream_waiter waiters[WAITERS];

static void set_up(void)
{
    stage_open(&stage, POLICY);
    group = stage.worker.regime->upstreams[0];
    servers = stage.edition->upstreams[0]->servers;
    ck_assert_int_eq(upstream_group_new(&stage.worker, stage.policy, 0, stage.edition->upstreams[0],
                                        NULL, &other),
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
    ck_assert(upstream_queue_take_place(servers[0], 1));
    ck_assert(upstream_queue_take_place(servers[1], 1));
}

static void enter(size_t i)
{
    ck_assert_int_eq(upstream_queue_enter(&waiters[i], false, NOW), STATUS_OK);
}

/* Waiter number @i, and nobody else, has been granted a place of server number @server. */
static void assert_granted(struct upstream_group *of, size_t i, size_t server)
{
    ck_assert_ptr_eq(upstream_queue_take_grant(of), &waiters[i]);
    ck_assert_ptr_eq(waiters[i].server, &of->servers[server]);
    ck_assert_int_eq(waiters[i].fd, -1);
    ck_assert_ptr_null(upstream_queue_take_grant(of));
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
        ck_assert(upstream_queue_take_place(servers[0], 3));
    }
    ck_assert(!upstream_queue_take_place(servers[0], 3));
    upstream_queue_give_place(&group->servers[0], NOW);
    ck_assert(upstream_queue_take_place(servers[0], 3));
    ck_assert(!upstream_queue_take_place(servers[0], 3));
}
END_TEST

START_TEST(places_go_to_those_who_wait_in_order)
{
    take_all_places();
    for (size_t i = 0; i < 3; i++) {
        enter(i);
    }
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    upstream_queue_give_place(&group->servers[1], NOW);
    assert_granted(group, 0, 1);
    upstream_queue_give_place(&group->servers[0], NOW);
    assert_granted(group, 1, 0);
    upstream_queue_give_place(&group->servers[1], NOW);
    assert_granted(group, 2, 1);
    ck_assert(!upstream_queue_is_used(&stage.edition->upstreams[0]->queue));
}
END_TEST

START_TEST(a_place_that_is_free_by_then_is_granted_at_once)
{
    ck_assert(upstream_queue_take_place(servers[0], 1));
    enter(0);
    assert_granted(group, 0, 1);
}
END_TEST

START_TEST(as_many_wait_as_may_and_no_more)
{
    take_all_places();
    for (size_t i = 0; i < 4; i++) {
        enter(i);
    }
    ck_assert_int_eq(upstream_queue_enter(&waiters[4], false, NOW), STATUS_FULL);
    ck_assert(upstream_queue_leave(&waiters[1]));
    enter(4);
    leave_all();
}
END_TEST

START_TEST(who_has_left_is_granted_nothing)
{
    take_all_places();
    enter(0);
    enter(1);
    ck_assert(upstream_queue_leave(&waiters[0]));
    upstream_queue_give_place(&group->servers[0], NOW);
    assert_granted(group, 1, 0);
}
END_TEST

START_TEST(who_leaves_too_late_gives_the_place_to_the_next)
{
    take_all_places();
    enter(0);
    enter(1);
    upstream_queue_give_place(&group->servers[0], NOW);
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
    ck_assert_int_eq(upstream_queue_enter(&waiters[1], true, NOW), STATUS_OK);
    upstream_queue_give_place(&group->servers[1], NOW);
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
    upstream_queue_give_place(&group->servers[0], NOW);
    assert_granted(group, 1, 0);
    upstream_queue_give_place(&group->servers[1], NOW);
    assert_granted(group, 0, 1);
}
END_TEST

START_TEST(another_worker_is_granted_places_of_its_own_servers)
{
    take_all_places();
    waiters[0].group = other;
    enter(0);
    enter(1);
    upstream_queue_give_place(&group->servers[1], NOW);
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    assert_granted(other, 0, 1);
    upstream_queue_give_place(&other->servers[1], NOW);
    assert_granted(group, 1, 1);
}
END_TEST

START_TEST(a_server_that_is_out_serves_nobody_who_waits_while_another_is_in)
{
    take_all_places();
    enter(0);
    for (unsigned i = 0; i < 5; i++) {
        (void)server_health_note_failure(&servers[0]->health, group->spec, NOW, false, NOW);
    }
    upstream_queue_give_place(&group->servers[0], NOW);
    ck_assert_ptr_null(upstream_queue_take_grant(group));
    upstream_queue_give_place(&group->servers[1], NOW);
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
    tcase_add_test(all, another_worker_is_granted_places_of_its_own_servers);
    tcase_add_test(all, a_server_that_is_out_serves_nobody_who_waits_while_another_is_in);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
