#include "proxy/upstream/upstream_group.h"
#include "proxy/upstream/upstream_server.h"

#include <check.h>
#include <stdlib.h>

#include "stage.h"
#include "support/iterations.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "upstreams:\n"
    "  api: {servers: [http://127.0.0.1:PORT, http://127.0.0.2:PORT, http://127.0.0.3:PORT]}\n"
    "  named: {servers: [http://localhost:PORT]}\n"
    "routes:\n"
    "- {match: {path: /named}, limits: [], upstream: named}\n"
    "- {match: {path: /**}, limits: [], upstream: api}\n";

static struct stage stage;

static void set_up(void)
{
    stage_open(&stage, POLICY);
}

static void tear_down(void)
{
    stage_close(&stage);
}

/* The stage's second upstream, once its name is known. */
static struct upstream_server *named_server(void)
{
    struct upstream_server *server = &stage.worker.env.config->upstreams[1]->servers[0];
    while (server->n_addresses == 0) {
        iterations_once(stage.worker.env.loop);
    }
    return server;
}

START_TEST(a_name_is_looked_up_at_the_start)
{
    const struct upstream_server *server = named_server();
    ck_assert(server->is_name);
    ck_assert_ptr_null(server->query);
}
END_TEST

START_TEST(a_failure_moves_on_to_the_next_address)
{
    struct upstream_server *server = named_server();
    server->addresses[1] = server->addresses[0];
    server->n_addresses = 2;
    upstream_name_on_failure(server);
    ck_assert_uint_eq(server->next_address, 1);
    upstream_name_on_failure(server);
    ck_assert_uint_eq(server->next_address, 0);
}
END_TEST

/* Or, with enough traffic, a server that has moved would never be found again. */
START_TEST(failures_one_after_another_do_not_put_off_the_next_look_up)
{
    struct upstream_server *server = named_server();
    upstream_name_on_failure(server);
    const uint64_t due_us = server->resolve_timer.deadline_us;
    iterations_for(stage.worker.env.loop, 2000);
    upstream_name_on_failure(server);
    ck_assert_uint_eq(server->resolve_timer.deadline_us, due_us);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upstream_group");
    TCase *all = tcase_create("upstream_group");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, a_name_is_looked_up_at_the_start);
    tcase_add_test(all, a_failure_moves_on_to_the_next_address);
    tcase_add_test(all, failures_one_after_another_do_not_put_off_the_next_look_up);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
