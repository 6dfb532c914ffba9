#include <check.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/loop.h"
#include "support/failing_events.h"
#include "support/iterations.h"

enum {
    MS = 1000,
    FAILURES_END = 4, /* of libevent, one after another, in tests of those */
};

static struct loop *loop;

static void set_up(void)
{
    loop = iterations_new_loop();
}

static void tear_down(void)
{
    loop_free(loop);
}

/* --- single timers --- */

struct alarm_clock {
    struct timer timer;
    unsigned n_expiries;
    uint64_t expired_us;
    uint64_t rearm_us; /* 0: once */
};

static void on_alarm(void *context)
{
    struct alarm_clock *alarm = context;
    alarm->n_expiries++;
    alarm->expired_us = clock_monotonic_us();
    if (alarm->rearm_us > 0) {
        timer_arm(&alarm->timer, alarm->rearm_us);
    }
}

static void open_alarm(struct alarm_clock *alarm)
{
    *alarm = (struct alarm_clock){.n_expiries = 0};
    timer_init(&alarm->timer, loop, on_alarm, alarm);
}

static const uint64_t DELAYS_US[] = {0, 1, 999, 1 * MS, 1500, 3 * MS, 5 * MS, 7 * MS};

START_TEST(a_timer_expires_once_and_never_early)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    const uint64_t armed_us = clock_monotonic_us();
    timer_arm(&alarm.timer, DELAYS_US[_i]);

    iterations_until_count(loop, &alarm.n_expiries, 1);
    ck_assert_uint_ge(alarm.expired_us, armed_us + DELAYS_US[_i]);
    iterations_for(loop, 2 * MS);
    ck_assert_uint_eq(alarm.n_expiries, 1);
    timer_close(&alarm.timer);
}
END_TEST

struct busy {
    struct loop_task task;
    struct alarm_clock *alarm;
    uint64_t armed_us;
};

static void work_for(uint64_t us)
{
    const uint64_t started_us = clock_monotonic_us();
    while (clock_monotonic_us() - started_us < us) {
    }
}

/* The loop's own idea of the time is as old as its turn: a callback that works long and then arms a
 * timer must not be called early for that. */
static void work_then_arm(struct loop_task *task)
{
    struct busy *busy = CONTAINER_OF(task, struct busy, task);
    work_for(12 * MS);
    busy->armed_us = clock_monotonic_us();
    timer_arm(&busy->alarm->timer, 10 * MS);
}

START_TEST(a_timer_armed_late_in_a_long_turn_is_not_early_either)
{
    struct alarm_clock alarm;
    struct busy busy = {.alarm = &alarm};
    open_alarm(&alarm);
    loop_task_init(&busy.task, work_then_arm);
    loop_at_iteration_end(loop, &busy.task);

    iterations_until_count(loop, &alarm.n_expiries, 1);
    ck_assert_uint_ge(alarm.expired_us, busy.armed_us + 10 * MS);
    timer_close(&alarm.timer);
}
END_TEST

START_TEST(arming_again_moves_a_timer_both_ways)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    timer_arm(&alarm.timer, 3600 * 1000 * (uint64_t)MS);
    timer_arm(&alarm.timer, 1 * MS);
    iterations_until_count(loop, &alarm.n_expiries, 1);

    const uint64_t armed_us = clock_monotonic_us();
    timer_arm(&alarm.timer, 1 * MS);
    timer_arm(&alarm.timer, 8 * MS);
    iterations_until_count(loop, &alarm.n_expiries, 2);
    ck_assert_uint_ge(alarm.expired_us, armed_us + 8 * MS);
    timer_close(&alarm.timer);
}
END_TEST

START_TEST(a_disarmed_timer_does_not_expire)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    timer_disarm(&alarm.timer);
    timer_arm(&alarm.timer, 1 * MS);
    timer_disarm(&alarm.timer);
    iterations_for(loop, 5 * MS);
    ck_assert_uint_eq(alarm.n_expiries, 0);
    timer_close(&alarm.timer);
}
END_TEST

START_TEST(a_timer_may_arm_itself_again)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    alarm.rearm_us = 1;
    timer_arm(&alarm.timer, 1);
    iterations_until_count(loop, &alarm.n_expiries, 3);
    timer_close(&alarm.timer);
}
END_TEST

START_TEST(a_timer_that_libevent_has_no_memory_for_expires_all_the_same)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    const uint64_t armed_us = clock_monotonic_us();
    failing_events_next((unsigned)_i);
    timer_arm(&alarm.timer, 5 * MS);
    while (alarm.n_expiries == 0 && clock_monotonic_us() - armed_us < 1000 * MS) {
        iterations_once(loop);
    }
    failing_events_next(0);
    ck_assert_uint_eq(alarm.n_expiries, 1);
    ck_assert_uint_ge(alarm.expired_us, armed_us + 5 * MS);
    iterations_for(loop, 2 * MS);
    ck_assert_uint_eq(alarm.n_expiries, 1);
    timer_close(&alarm.timer);
}
END_TEST

START_TEST(a_timer_that_libevent_has_no_memory_for_can_be_disarmed)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    failing_events_next(1);
    timer_arm(&alarm.timer, 0);
    timer_disarm(&alarm.timer);
    iterations_for(loop, 2 * MS);
    failing_events_next(1);
    timer_arm(&alarm.timer, 0);
    timer_close(&alarm.timer);
    iterations_for(loop, 2 * MS);
    ck_assert_uint_eq(alarm.n_expiries, 0);
}
END_TEST

START_TEST(closing_disarms_and_may_be_done_twice)
{
    struct alarm_clock alarm;
    open_alarm(&alarm);
    timer_arm(&alarm.timer, 1 * MS);
    timer_close(&alarm.timer);
    timer_close(&alarm.timer);
    iterations_for(loop, 3 * MS);
    ck_assert_uint_eq(alarm.n_expiries, 0);
}
END_TEST

/* --- queues of timeouts --- */

enum { WAITERS = 4 };

static struct timeout_queue queue;
static struct waiter {
    struct timeout timeout;
    uint64_t expired_us; /* 0: not yet */
} waiters[WAITERS];
static struct waiter *order[2 * WAITERS];
static unsigned n_expired;

static void on_wait_end(struct timeout *timeout)
{
    struct waiter *waiter = CONTAINER_OF(timeout, struct waiter, timeout);
    waiter->expired_us = clock_monotonic_us();
    order[n_expired++] = waiter;
}

static void open_queue(uint64_t length_us)
{
    timeout_queue_init(&queue, loop, length_us);
    n_expired = 0;
    for (unsigned i = 0; i < WAITERS; i++) {
        waiters[i].expired_us = 0;
        timeout_init(&waiters[i].timeout, on_wait_end);
    }
}

START_TEST(timeouts_expire_in_order_of_arming_and_never_early)
{
    uint64_t armed_us[WAITERS];
    open_queue(4 * MS);
    for (unsigned i = 0; i < WAITERS; i++) {
        armed_us[i] = clock_monotonic_us();
        timeout_arm(&waiters[i].timeout, &queue, armed_us[i]);
        iterations_for(loop, 500);
    }
    iterations_until_count(loop, &n_expired, WAITERS);
    for (unsigned i = 0; i < WAITERS; i++) {
        ck_assert_ptr_eq(order[i], &waiters[i]);
        ck_assert_uint_ge(waiters[i].expired_us, armed_us[i] + 4 * MS);
    }
    timeout_queue_close(&queue);
}
END_TEST

START_TEST(arming_again_moves_a_timeout_to_the_end)
{
    open_queue(4 * MS);
    for (unsigned i = 0; i < WAITERS; i++) {
        timeout_arm(&waiters[i].timeout, &queue, clock_monotonic_us());
    }
    const uint64_t armed_us = clock_monotonic_us();
    timeout_arm(&waiters[0].timeout, &queue, armed_us);

    iterations_until_count(loop, &n_expired, WAITERS);
    ck_assert_ptr_eq(order[0], &waiters[1]);
    ck_assert_ptr_eq(order[WAITERS - 1], &waiters[0]);
    ck_assert_uint_ge(waiters[0].expired_us, armed_us + 4 * MS);
    timeout_queue_close(&queue);
}
END_TEST

START_TEST(a_timeout_moves_between_queues)
{
    struct timeout_queue slow;
    open_queue(1 * MS);
    timeout_queue_init(&slow, loop, 3600 * 1000 * (uint64_t)MS);
    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
    timeout_arm(&waiters[0].timeout, &slow, clock_monotonic_us());
    iterations_for(loop, 4 * MS);
    ck_assert_uint_eq(n_expired, 0);

    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
    iterations_until_count(loop, &n_expired, 1);
    timeout_queue_close(&queue);
    timeout_queue_close(&slow);
}
END_TEST

START_TEST(a_disarmed_timeout_does_not_expire_and_the_next_is_not_forgotten)
{
    open_queue(2 * MS);
    timeout_disarm(&waiters[0].timeout);
    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us() - 1 * MS);
    timeout_arm(&waiters[1].timeout, &queue, clock_monotonic_us());
    timeout_disarm(&waiters[0].timeout);

    iterations_until_count(loop, &n_expired, 1);
    ck_assert_ptr_eq(order[0], &waiters[1]);
    timeout_queue_close(&queue);
}
END_TEST

static void end_other_and_arm_again(struct timeout *timeout)
{
    n_expired++;
    timeout_disarm(&waiters[1].timeout);
    if (n_expired < 3) {
        timeout_arm(timeout, &queue, clock_monotonic_us());
    }
}

START_TEST(an_expiry_may_disarm_the_next_and_arm_itself)
{
    open_queue(1 * MS);
    timeout_init(&waiters[0].timeout, end_other_and_arm_again);
    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
    timeout_arm(&waiters[1].timeout, &queue, clock_monotonic_us());
    iterations_until_count(loop, &n_expired, 3);
    iterations_for(loop, 3 * MS);
    ck_assert_uint_eq(waiters[1].expired_us, 0);
    timeout_queue_close(&queue);
}
END_TEST

START_TEST(a_queue_made_shorter_while_it_is_idle_does_not_wait_for_who_has_gone)
{
    open_queue(3600 * 1000 * (uint64_t)MS);
    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
    timeout_disarm(&waiters[0].timeout);
    timeout_queue_set_length(&queue, 2 * MS, clock_monotonic_us());
    timeout_arm(&waiters[1].timeout, &queue, clock_monotonic_us());
    iterations_until_count(loop, &n_expired, 1);
    ck_assert_ptr_eq(order[0], &waiters[1]);
    timeout_queue_close(&queue);
}
END_TEST

static bool was_restarted;

static void restart_if_held(struct timeout *timeout)
{
    if (!timeout_restart_if_held(timeout, &queue, &was_restarted)) {
        on_wait_end(timeout);
    }
}

START_TEST(a_loop_that_was_held_up_gives_a_timeout_its_length_once_more)
{
    open_queue(20 * MS);
    was_restarted = false;
    timeout_init(&waiters[0].timeout, restart_if_held);
    const uint64_t armed_us = clock_monotonic_us();
    timeout_arm(&waiters[0].timeout, &queue, armed_us);
    work_for(30 * MS);
    const uint64_t looked_us = clock_monotonic_us();
    iterations_for(loop, 1 * MS);
    ck_assert(was_restarted);
    iterations_until_count(loop, &n_expired, 1);
    ck_assert_uint_ge(waiters[0].expired_us, looked_us + 20 * MS);

    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
    work_for(30 * MS);
    iterations_until_count(loop, &n_expired, 2); /* not a second time */
    timeout_queue_close(&queue);
}
END_TEST

START_TEST(a_loop_that_waits_for_a_timeout_does_not_restart_it)
{
    open_queue(5 * MS);
    was_restarted = false;
    timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
    waiters[0].timeout.deadline_us = clock_monotonic_us();
    ck_assert(!timeout_restart_if_held(&waiters[0].timeout, &queue, &was_restarted));
    ck_assert(!was_restarted);
    timeout_disarm(&waiters[0].timeout);
    timeout_queue_close(&queue);
}
END_TEST

START_TEST(an_idle_queue_serves_again)
{
    open_queue(1 * MS);
    for (unsigned i = 0; i < 3; i++) {
        timeout_arm(&waiters[0].timeout, &queue, clock_monotonic_us());
        iterations_until_count(loop, &n_expired, i + 1);
        iterations_for(loop, 2 * MS);
    }
    timeout_queue_close(&queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/loop_timer");
    TCase *timers = tcase_create("timers");
    TCase *queues = tcase_create("queues");

    tcase_add_checked_fixture(timers, set_up, tear_down);
    tcase_add_loop_test(timers, a_timer_expires_once_and_never_early, 0, ARRAY_LEN(DELAYS_US));
    tcase_add_test(timers, a_timer_armed_late_in_a_long_turn_is_not_early_either);
    tcase_add_test(timers, arming_again_moves_a_timer_both_ways);
    tcase_add_test(timers, a_disarmed_timer_does_not_expire);
    tcase_add_test(timers, a_timer_may_arm_itself_again);
    tcase_add_test(timers, closing_disarms_and_may_be_done_twice);
    tcase_add_loop_test(timers, a_timer_that_libevent_has_no_memory_for_expires_all_the_same, 1,
                        FAILURES_END);
    tcase_add_test(timers, a_timer_that_libevent_has_no_memory_for_can_be_disarmed);
    suite_add_tcase(suite, timers);
    tcase_add_checked_fixture(queues, set_up, tear_down);
    tcase_add_test(queues, timeouts_expire_in_order_of_arming_and_never_early);
    tcase_add_test(queues, arming_again_moves_a_timeout_to_the_end);
    tcase_add_test(queues, a_timeout_moves_between_queues);
    tcase_add_test(queues, a_disarmed_timeout_does_not_expire_and_the_next_is_not_forgotten);
    tcase_add_test(queues, an_expiry_may_disarm_the_next_and_arm_itself);
    tcase_add_test(queues, a_queue_made_shorter_while_it_is_idle_does_not_wait_for_who_has_gone);
    tcase_add_test(queues, an_idle_queue_serves_again);
    tcase_add_test(queues, a_loop_that_was_held_up_gives_a_timeout_its_length_once_more);
    tcase_add_test(queues, a_loop_that_waits_for_a_timeout_does_not_restart_it);
    suite_add_tcase(suite, queues);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
