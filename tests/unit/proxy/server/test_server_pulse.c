#include <check.h>
#include <stdlib.h>

#include "proxy/server.h"
#include "proxy/server/server_inner.h"

enum { N_WORKERS = 3 };

static struct worker *workers;
static struct server *server;

static void set_up(void)
{
    workers = calloc(N_WORKERS, sizeof(workers[0]));
    server = calloc(1, sizeof(*server));
    ck_assert(workers != NULL && server != NULL);
    server->workers = workers;
    server->n_workers = N_WORKERS;
    for (unsigned i = 0; i < N_WORKERS; i++) {
        workers[i].env.number = i + 1;
        atomic_init(&workers[i].heartbeat_us, 1000);
    }
}

static void tear_down(void)
{
    free(workers);
    free(server);
}

static struct server_pulse read_at(uint64_t now_us)
{
    struct server_pulse pulse;
    server_read_pulse(server, now_us, &pulse);
    return pulse;
}

START_TEST(the_slowest_worker_is_reported)
{
    atomic_store(&workers[0].heartbeat_us, 5000);
    atomic_store(&workers[1].heartbeat_us, 3000);
    atomic_store(&workers[2].heartbeat_us, 4000);
    const struct server_pulse pulse = read_at(7000);
    ck_assert_uint_eq(pulse.n_workers, N_WORKERS);
    ck_assert_uint_eq(pulse.slowest, 2);
    ck_assert_uint_eq(pulse.silence_us, 4000);
}
END_TEST

START_TEST(who_has_not_begun_or_has_ended_is_not_missed)
{
    atomic_store(&workers[0].heartbeat_us, WORKER_HAS_NO_PULSE);
    atomic_store(&workers[2].heartbeat_us, WORKER_HAS_NO_PULSE);
    const struct server_pulse pulse = read_at(UINT64_C(3600) * 1000000);
    ck_assert_uint_eq(pulse.n_workers, 1);
    ck_assert_uint_eq(pulse.slowest, 2);
    ck_assert_uint_gt(pulse.silence_us, UINT64_C(3599) * 1000000);
}
END_TEST

START_TEST(a_beat_after_the_question_is_no_silence)
{
    const struct server_pulse pulse = read_at(500);
    ck_assert_uint_eq(pulse.n_workers, N_WORKERS);
    ck_assert_uint_eq(pulse.silence_us, 0);
}
END_TEST

START_TEST(where_nobody_runs_nobody_is_slow)
{
    for (unsigned i = 0; i < N_WORKERS; i++) {
        atomic_store(&workers[i].heartbeat_us, WORKER_HAS_NO_PULSE);
    }
    ck_assert_uint_eq(read_at(9000).n_workers, 0);
    ck_assert_uint_eq(read_at(9000).silence_us, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/server_pulse");
    TCase *cases = tcase_create("server_pulse");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_slowest_worker_is_reported);
    tcase_add_test(cases, who_has_not_begun_or_has_ended_is_not_missed);
    tcase_add_test(cases, a_beat_after_the_question_is_no_silence);
    tcase_add_test(cases, where_nobody_runs_nobody_is_slow);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
