/* A connection that libevent has no memory to watch: nothing would wake it, so it is lost. */

#include "store/redis/redis_connection.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/failing_events.h"
#include "support/fake_redis.h"
#include "support/iterations.h"

enum {
    MANY = 1000,                      /* more than all calls of event_add() of one test */
    BLOCKING_BYTES = 4 * 1024 * 1024, /* more than the buffers of a socket */
};

static struct loop *loop;
static struct fake_redis fake;
static struct redis_connection connection;
static struct redis_call call;
static unsigned n_lost;
static unsigned n_null_replies;

static void on_lost(void *owner, enum redis_fault why, struct span trouble)
{
    ck_assert_ptr_eq(owner, &connection);
    ck_assert_int_eq(why, REDIS_FAULT_RESET);
    ck_assert(span_equals(trouble, span_of_text(strerror(ENOMEM))));
    n_lost++;
}

static void on_reply(struct redis_call *replied, const struct redis_reply *reply)
{
    ck_assert_ptr_eq(replied, &call);
    ck_assert_ptr_null(reply);
    n_null_replies++;
}

static void start(void)
{
    loop = iterations_new_loop();
    fake_redis_start_silent(&fake);
    n_lost = n_null_replies = 0;
    call.on_reply = on_reply;
    redis_connection_init(&connection, loop, on_lost, &connection);
}

static void stop(void)
{
    redis_connection_free(&connection);
    loop_free(loop);
    fake_redis_stop(&fake);
}

static void send_bytes(size_t n)
{
    char *command = malloc(n);
    ck_assert_ptr_nonnull(command);
    memset(command, 'a', n);
    memcpy(command, "*1\r\n", 4);
    const int len = snprintf(command + 4, 32, "$%zu\r\n", n);
    command[4 + len] = 'a';
    ck_assert_int_eq(
        redis_connection_send(&connection, span_of(command, n), &call, clock_monotonic_us()),
        STATUS_OK);
    free(command);
}

static void assert_is_lost(void)
{
    iterations_until_count(loop, &n_lost, 1);
    failing_events_next(0);
    ck_assert(!redis_connection_is_open(&connection));
    ck_assert_uint_eq(n_null_replies, 1);
    ck_assert_int_eq(redis_connection_open(&connection, NULL, fake.path), STATUS_OK);
    ck_assert_uint_eq(n_lost, 1);
}

START_TEST(a_connection_that_cannot_be_watched_is_not_opened)
{
    failing_events_next(1);
    ck_assert_int_eq(redis_connection_open(&connection, NULL, fake.path), STATUS_NO_MEMORY);
    ck_assert_str_eq(connection.trouble, "out of memory");
    ck_assert_int_eq(redis_connection_open(&connection, NULL, fake.path), STATUS_OK);
    ck_assert_uint_eq(n_lost, 0);
}
END_TEST

START_TEST(a_connection_whose_replies_would_not_be_noticed_is_lost)
{
    ck_assert_int_eq(redis_connection_open(&connection, NULL, fake.path), STATUS_OK);
    send_bytes(64);
    failing_events_next(MANY);
    assert_is_lost();
}
END_TEST

START_TEST(a_blocked_connection_that_would_not_be_woken_is_lost)
{
    ck_assert_int_eq(redis_connection_open(&connection, NULL, fake.path), STATUS_OK);
    iterations_once(loop);
    send_bytes(BLOCKING_BYTES);
    failing_events_next(MANY);
    assert_is_lost();
}
END_TEST

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("store/redis_connection");
    TCase *memory = tcase_create("memory");
    tcase_add_checked_fixture(memory, start, stop);
    tcase_add_test(memory, a_connection_that_cannot_be_watched_is_not_opened);
    tcase_add_test(memory, a_connection_whose_replies_would_not_be_noticed_is_lost);
    tcase_add_test(memory, a_blocked_connection_that_would_not_be_woken_is_lost);
    suite_add_tcase(suite, memory);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
