#include "net/loop.h"

#include <check.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/iterations.h"

enum { PIPES = 3 };

/* What happened, in order: digits are I/O callbacks, letters are tasks and timers. */
static char story[64];
static size_t story_len;
static struct loop *loop;

static void report(char c)
{
    ck_assert_uint_lt(story_len, sizeof(story) - 1);
    story[story_len++] = c;
    story[story_len] = '\0';
}

static void set_up(void)
{
    story_len = 0;
    story[0] = '\0';
    loop = iterations_new_loop();
}

static void tear_down(void)
{
    loop_free(loop);
}

static void report_t(struct loop_task *task)
{
    (void)task;
    report('t');
}

/* --- the end of the turn --- */

struct pipe_end {
    struct event *event;
    int fds[2];
    char name;
    struct loop_task *task; /* asked for when it is readable */
};

static void on_pipe(evutil_socket_t fd, short events, void *context)
{
    struct pipe_end *end = context;
    char byte;
    (void)events;
    ck_assert_int_eq(read((int)fd, &byte, 1), 1);
    report(end->name);
    loop_at_iteration_end(loop, end->task);
}

static void open_ready_pipe(struct pipe_end *end, char name, struct loop_task *task)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, end->fds), 0);
    ck_assert_int_eq(write(end->fds[1], "x", 1), 1);
    end->name = name;
    end->task = task;
    end->event = event_new(loop_base(loop), end->fds[0], EV_READ | EV_PERSIST, on_pipe, end);
    event_add(end->event, NULL);
}

static void close_pipe(struct pipe_end *end)
{
    event_free(end->event);
    close(end->fds[0]);
    close(end->fds[1]);
}

START_TEST(a_task_runs_once_after_all_callbacks_of_its_turn)
{
    struct pipe_end ends[PIPES];
    struct loop_task task;
    loop_task_init(&task, report_t);
    for (int i = 0; i < PIPES; i++) {
        open_ready_pipe(&ends[i], (char)('0' + i), &task);
    }

    iterations_once(loop);
    ck_assert_uint_eq(story_len, PIPES + 1);
    ck_assert_int_eq(story[PIPES], 't');
    iterations_once(loop);
    ck_assert_uint_eq(story_len, PIPES + 1);
    for (int i = 0; i < PIPES; i++) {
        close_pipe(&ends[i]);
    }
}
END_TEST

struct chain {
    struct loop_task task;
    struct loop_task *follower;
    char name;
};

static void run_chain(struct loop_task *task)
{
    struct chain *chain = CONTAINER_OF(task, struct chain, task);
    report(chain->name);
    if (chain->follower != NULL) {
        loop_at_iteration_end(loop, chain->follower);
    }
}

START_TEST(a_task_that_asks_for_itself_lets_the_loop_go_on_in_between)
{
    struct chain chain = {.name = 'a'};
    struct pipe_end end;
    struct loop_task other;
    loop_task_init(&other, report_t);
    loop_task_init(&chain.task, run_chain);
    chain.follower = &chain.task;
    loop_at_iteration_end(loop, &chain.task);

    iterations_once(loop);
    ck_assert_str_eq(story, "a");
    open_ready_pipe(&end, '1', &other);
    iterations_once(loop);
    ck_assert_str_eq(story, "a1at");
    loop_task_cancel(&chain.task);
    close_pipe(&end);
}
END_TEST

START_TEST(what_a_task_asks_for_runs_within_the_next_turn)
{
    struct chain second = {.name = 'b'};
    struct chain first = {.name = 'a', .follower = &second.task};
    loop_task_init(&first.task, run_chain);
    loop_task_init(&second.task, run_chain);
    loop_at_iteration_end(loop, &first.task);
    iterations_once(loop);
    ck_assert_str_eq(story, "a");
    iterations_once(loop);
    ck_assert_str_eq(story, "ab");
}
END_TEST

static void run_and_write(struct loop_task *task)
{
    struct chain *chain = CONTAINER_OF(task, struct chain, task);
    report(chain->name);
    loop_after_tasks(loop, chain->follower);
}

START_TEST(what_tasks_collect_is_written_in_the_same_turn_after_all_of_them)
{
    struct loop_task write;
    struct chain first = {.name = 'a', .follower = &write};
    struct chain second = {.name = 'b', .follower = &write};
    loop_task_init(&write, report_t);
    loop_task_init(&first.task, run_and_write);
    loop_task_init(&second.task, run_and_write);
    loop_at_iteration_end(loop, &first.task);
    loop_at_iteration_end(loop, &second.task);
    iterations_once(loop);
    ck_assert_str_eq(story, "abt");
    iterations_once(loop);
    ck_assert_str_eq(story, "abt");
}
END_TEST

START_TEST(a_write_that_asks_for_itself_lets_the_loop_go_on_in_between)
{
    struct chain chain = {.name = 'a'};
    struct pipe_end end;
    struct loop_task other;
    loop_task_init(&other, report_t);
    loop_task_init(&chain.task, run_and_write);
    chain.follower = &chain.task;
    loop_after_tasks(loop, &chain.task);

    iterations_once(loop);
    ck_assert_str_eq(story, "a");
    open_ready_pipe(&end, '1', &other);
    iterations_once(loop);
    ck_assert_str_eq(story, "a1ta");
    loop_task_cancel(&chain.task);
    close_pipe(&end);
}
END_TEST

START_TEST(a_cancelled_task_does_not_run_and_may_be_asked_for_again)
{
    struct loop_task task;
    loop_task_init(&task, report_t);
    loop_task_cancel(&task);
    loop_at_iteration_end(loop, &task);
    loop_task_cancel(&task);
    iterations_once(loop);
    ck_assert_str_eq(story, "");

    loop_at_iteration_end(loop, &task);
    loop_at_iteration_end(loop, &task);
    iterations_once(loop);
    ck_assert_str_eq(story, "t");
}
END_TEST

static struct loop_task victim;

static void cancel_victim(struct loop_task *task)
{
    (void)task;
    report('c');
    loop_task_cancel(&victim);
}

START_TEST(a_task_may_cancel_one_that_is_due_in_the_same_turn)
{
    struct loop_task canceller;
    loop_task_init(&canceller, cancel_victim);
    loop_task_init(&victim, report_t);
    loop_at_iteration_end(loop, &canceller);
    loop_at_iteration_end(loop, &victim);

    iterations_once(loop);
    ck_assert_str_eq(story, "c");
}
END_TEST

static void free_itself(struct loop_task *task)
{
    report('f');
    free(task);
}

START_TEST(a_task_may_free_itself)
{
    struct loop_task *task = malloc(sizeof(*task));
    ck_assert_ptr_nonnull(task);
    loop_task_init(task, free_itself);
    loop_at_iteration_end(loop, task);
    iterations_once(loop);
    ck_assert_str_eq(story, "f");
}
END_TEST

START_TEST(freeing_a_loop_runs_what_still_waits)
{
    struct loop *other = iterations_new_loop();
    struct loop_task *task = malloc(sizeof(*task));
    ck_assert_ptr_nonnull(task);
    loop_task_init(task, free_itself);
    loop_at_iteration_end(other, task);
    loop_free(other);
    loop_free(NULL);
    ck_assert_str_eq(story, "f");
}
END_TEST

/* --- run and stop --- */

static void stop(struct loop_task *task)
{
    loop_stop(loop);
    loop_at_iteration_end(loop, task);
    report('s');
}

START_TEST(a_stopped_loop_returns_and_may_run_again)
{
    struct loop_task task;
    loop_task_init(&task, stop);
    loop_at_iteration_end(loop, &task);
    ck_assert_int_eq(loop_run(loop), STATUS_OK);
    ck_assert_str_eq(story, "s");
    ck_assert_int_eq(loop_run(loop), STATUS_OK);
    ck_assert_str_eq(story, "ss");
    loop_task_cancel(&task);
}
END_TEST

static void stop_on_expiry(void *context)
{
    (void)context;
    loop_stop(loop);
}

START_TEST(a_loop_without_events_keeps_running_until_it_is_stopped)
{
    struct timer timer;
    timer_init(&timer, loop, stop_on_expiry, NULL);
    timer_arm(&timer, 1000);
    ck_assert_int_eq(loop_run(loop), STATUS_OK);
    timer_close(&timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/loop");
    TCase *iteration_end = tcase_create("turn_end");
    TCase *run = tcase_create("run");

    tcase_add_checked_fixture(iteration_end, set_up, tear_down);
    tcase_add_test(iteration_end, a_task_runs_once_after_all_callbacks_of_its_turn);
    tcase_add_test(iteration_end, a_task_that_asks_for_itself_lets_the_loop_go_on_in_between);
    tcase_add_test(iteration_end, what_a_task_asks_for_runs_within_the_next_turn);
    tcase_add_test(iteration_end, what_tasks_collect_is_written_in_the_same_turn_after_all_of_them);
    tcase_add_test(iteration_end, a_write_that_asks_for_itself_lets_the_loop_go_on_in_between);
    tcase_add_test(iteration_end, a_cancelled_task_does_not_run_and_may_be_asked_for_again);
    tcase_add_test(iteration_end, a_task_may_cancel_one_that_is_due_in_the_same_turn);
    tcase_add_test(iteration_end, a_task_may_free_itself);
    tcase_add_test(iteration_end, freeing_a_loop_runs_what_still_waits);
    suite_add_tcase(suite, iteration_end);
    tcase_add_checked_fixture(run, set_up, tear_down);
    tcase_add_test(run, a_stopped_loop_returns_and_may_run_again);
    tcase_add_test(run, a_loop_without_events_keeps_running_until_it_is_stopped);
    suite_add_tcase(suite, run);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
