#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/loop.h"
#include "support/iterations.h"

static struct loop *loop;
static unsigned n_wakes;

static void on_wake(void *context)
{
    ck_assert_ptr_eq(context, &n_wakes);
    n_wakes++;
}

static void set_up(void)
{
    loop = iterations_new_loop();
    n_wakes = 0;
}

static void tear_down(void)
{
    loop_free(loop);
}

START_TEST(signals_before_a_turn_are_told_as_one)
{
    struct wakeup wakeup;
    ck_assert_int_eq(wakeup_init(&wakeup, loop, on_wake, &n_wakes), STATUS_OK);
    iterations_once(loop);
    ck_assert_uint_eq(n_wakes, 0);
    wakeup_signal(&wakeup);
    wakeup_signal(&wakeup);
    iterations_once(loop);
    iterations_once(loop);
    ck_assert_uint_eq(n_wakes, 1);
    wakeup_signal(&wakeup);
    iterations_once(loop);
    ck_assert_uint_eq(n_wakes, 2);
    wakeup_close(&wakeup);
}
END_TEST

START_TEST(a_signal_beyond_all_counts_is_told_and_leaves_errno_alone)
{
    const uint64_t full = UINT64_MAX - 1;
    struct wakeup wakeup;
    ck_assert_int_eq(wakeup_init(&wakeup, loop, on_wake, &n_wakes), STATUS_OK);
    ck_assert_int_eq(write(wakeup.fd, &full, sizeof(full)), sizeof(full));
    errno = ENOENT;
    wakeup_signal(&wakeup);
    ck_assert_int_eq(errno, ENOENT);
    iterations_once(loop);
    ck_assert_uint_eq(n_wakes, 1);
    wakeup_close(&wakeup);
    wakeup_close(&wakeup);
}
END_TEST

enum { THREADS = 4, SIGNALS = 1000 };

static atomic_uint n_signalled;
static struct wakeup shared;

static void *signal_many(void *context)
{
    (void)context;
    for (unsigned i = 0; i < SIGNALS; i++) {
        atomic_fetch_add(&n_signalled, 1);
        wakeup_signal(&shared);
    }
    return NULL;
}

static void stop_after_the_last(void *context)
{
    (void)context;
    if (atomic_load(&n_signalled) == THREADS * SIGNALS) {
        loop_stop(loop);
    }
}

START_TEST(a_waiting_loop_is_woken_by_other_threads_and_misses_no_last_signal)
{
    pthread_t threads[THREADS];
    atomic_init(&n_signalled, 0);
    ck_assert_int_eq(wakeup_init(&shared, loop, stop_after_the_last, NULL), STATUS_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, signal_many, NULL), 0);
    }
    ck_assert_int_eq(loop_run(loop), STATUS_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    wakeup_close(&shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/wakeup");
    TCase *all = tcase_create("wakeup");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, signals_before_a_turn_are_told_as_one);
    tcase_add_test(all, a_signal_beyond_all_counts_is_told_and_leaves_errno_alone);
    tcase_add_test(all, a_waiting_loop_is_woken_by_other_threads_and_misses_no_last_signal);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
