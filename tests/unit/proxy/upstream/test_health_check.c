#include "proxy/upstream/upstream_server.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/upstream/upstream_process.h"
#include "stage.h"
#include "support/iterations.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "upstreams:\n"
                             "  api:\n"
                             "    servers: http://127.0.0.1:PORT\n"
                             "    host: api.test\n"
                             "    health: {path: '/healthz?a=1', interval: 10ms, timeout: 1500ms, "
                             "fall: 1, rise: 1, status: 204}\n"
                             "routes: [{limits: [], upstream: api}]\n";

static struct stage stage;

static void set_up(void)
{
    stage_open(&stage, POLICY);
}

static void tear_down(void)
{
    stage_close(&stage);
}

static bool is_down(void)
{
    const struct server_health *health = &stage.generation->upstreams[0]->servers[0]->health;
    return (server_health_marks(health) & SERVER_FAILS_CHECKS) != 0;
}

/* Answer checks with @answer until the server is out, or in. */
static void answer_until(bool out, const char *answer)
{
    while (is_down() != out) {
        const int fd = server_accept(&stage);
        server_read_until(&stage, fd, "\r\n\r\n");
        server_send(fd, answer);
        close(fd);
        iterations_once(stage.worker.env.loop);
    }
}

START_TEST(a_check_is_one_get_on_a_connection_of_its_own)
{
    for (unsigned i = 0; i < 3; i++) {
        const int fd = server_accept(&stage);
        ck_assert_str_eq(server_read_until(&stage, fd, "\r\n\r\n"),
                         "GET /healthz?a=1 HTTP/1.1\r\nHost: api.test\r\n"
                         "User-Agent: sluice\r\nConnection: close\r\n\r\n");
        server_send(fd, "HTTP/1.1 204 No Content\r\n\r\n");
        close(fd);
    }
    ck_assert(!is_down());
}
END_TEST

static const char *const BAD_ANSWERS[] = {
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 503 Service Unavailable\r\n\r\n",
    "HTTP/1.1 2",
    "",
    "HTTP/2.0 204 No Content\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/1.1 20x No\r\n\r\n",
    "\r\nHTTP/1.1 204 No Content\r\n\r\n",
};

START_TEST(another_answer_puts_the_server_out_and_the_right_one_in)
{
    answer_until(true, BAD_ANSWERS[_i]);
    answer_until(false, "HTTP/1.0 204 Fine\r\n\r\n");
}
END_TEST

START_TEST(no_answer_in_time_puts_it_out)
{
    while (!is_down()) {
        iterations_once(stage.worker.env.loop);
    }
}
END_TEST

START_TEST(no_connection_puts_it_out)
{
    answer_until(false, "HTTP/1.1 204 Fine\r\n\r\n");
    stage_stop_listening(&stage);
    while (!is_down()) {
        iterations_once(stage.worker.env.loop);
    }
}
END_TEST

START_TEST(an_answer_that_never_ends_is_cut)
{
    static char endless[32 * 1024 + 1];
    memset(endless, 'x', sizeof(endless) - 1);
    const int fd = server_accept(&stage);
    server_read_until(&stage, fd, "\r\n\r\n");
    server_send(fd, "HTTP/1.1 204 Fine\r\n\r\n");
    for (unsigned i = 0; i < 3; i++) {
        server_send(fd, endless);
    }
    server_assert_closed(&stage, fd);
    ck_assert(!is_down());
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/health_check");
    TCase *all = tcase_create("health_check");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, a_check_is_one_get_on_a_connection_of_its_own);
    tcase_add_loop_test(all, another_answer_puts_the_server_out_and_the_right_one_in, 0, 8);
    tcase_add_test(all, no_answer_in_time_puts_it_out);
    tcase_add_test(all, no_connection_puts_it_out);
    tcase_add_test(all, an_answer_that_never_ends_is_cut);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
