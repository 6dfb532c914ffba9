/* A worker that drains ends its loop once its last client connection is freed, and not before. */

#include "proxy/server/worker.h"

#include <check.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/client/client_env.h"
#include "stage.h"

static const char POLICY[] = "listen: 127.0.0.1:0\n"
                             "upstream: http://127.0.0.1:PORT\n";

static struct stage stage;
static int clients[2];

static struct client_connection *oldest(void)
{
    return CONTAINER_OF(stage.worker.clients.open.next, struct client_connection, node);
}

static void close_oldest(struct loop_task *task)
{
    (void)task;
    oldest()->ops->close(oldest());
}

START_TEST(a_connection_that_closes_while_another_is_freed_is_freed_too)
{
    const struct address peer = {.family = ADDRESS_IPV4, .bytes = {192, 0, 2, 1}};
    struct loop_task task;
    stage_open(&stage, POLICY);
    for (size_t i = 0; i < 2; i++) {
        int fds[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        clients[i] = fds[1];
        downstream_open(&stage.worker.clients, fds[0], &peer, false, false, NULL, HTTP_VERSION_1_1);
    }
    stage.worker.env.is_draining = true;
    worker_listeners_close(&stage.worker.listeners);
    loop_task_init(&task, close_oldest);
    loop_at_iteration_end(stage.worker.env.loop, &task); /* just before the first one is freed */
    close_oldest(NULL);
    ck_assert_int_eq(loop_run(stage.worker.env.loop), STATUS_OK);
    ck_assert(list_is_empty(&stage.worker.clients.open));
    ck_assert_uint_eq(stage.worker.clients.downstreams.n_taken, 0);
    stage_close(&stage);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(close(clients[i]), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/worker");
    TCase *drain = tcase_create("drain");
    tcase_add_test(drain, a_connection_that_closes_while_another_is_freed_is_freed_too);
    suite_add_tcase(suite, drain);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
