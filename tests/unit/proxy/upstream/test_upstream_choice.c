#include "proxy/upstream/upstream_choice.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "stage.h"

static const char POLICY[] =
    "listen: 127.0.0.1:1\n"
    "log: off\n"
    "upstreams:\n"
    "  turns: {servers: [http://127.0.0.1:PORT, http://127.0.0.2:PORT, http://127.0.0.3:PORT]}\n"
    "  one: {servers: http://127.0.0.1:PORT}\n"
    "  load: {servers: [http://127.0.0.1:PORT, http://127.0.0.2:PORT], balance: least_requests}\n"
    "  hash: {servers: [http://127.0.0.1:PORT, http://127.0.0.2:PORT], balance: hash(path)}\n"
    "routes:\n"
    "- {match: {path: /one}, limits: [], upstream: one}\n"
    "- {match: {path: /load}, limits: [], upstream: load}\n"
    "- {match: {path: /hash}, limits: [], upstream: hash}\n"
    "- {match: {path: /**}, limits: [], upstream: turns}\n";

enum { ITERATIONS, ONE, LOAD, HASH };

static struct stage stage;
static struct upstream_choice choice;
static uint64_t now_us;

static void set_up(void)
{
    stage_open(&stage, POLICY);
    choice = (struct upstream_choice){.fresh = false};
    now_us = 1000 * 1000;
}

static void tear_down(void)
{
    stage_close(&stage);
}

static struct upstream_server *make(size_t group)
{
    struct upstream_server *server = NULL;
    return upstream_choice_make(stage.worker.env.config->upstreams[group], &choice, now_us,
                                &server) == CHOICE_MADE
               ? server
               : NULL;
}

static struct upstream_server *make_first(size_t group)
{
    choice = (struct upstream_choice){.fresh = false};
    return make(group);
}

START_TEST(servers_take_iterations)
{
    const struct upstream_server *first = make_first(ITERATIONS);
    const struct upstream_server *second = make_first(ITERATIONS);
    const struct upstream_server *third = make_first(ITERATIONS);
    ck_assert_ptr_ne(first, second);
    ck_assert_ptr_ne(second, third);
    ck_assert_ptr_ne(third, first);
    ck_assert_ptr_eq(make_first(ITERATIONS), first);
}
END_TEST

START_TEST(a_server_without_an_address_is_passed_over)
{
    struct upstream_group *group = stage.worker.env.config->upstreams[ITERATIONS];
    group->servers[1].n_addresses = 0;
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_ptr_ne(make_first(ITERATIONS), &group->servers[1]);
    }
    group->servers[0].n_addresses = 0;
    group->servers[2].n_addresses = 0;
    ck_assert_ptr_null(make_first(ITERATIONS));
}
END_TEST

START_TEST(one_request_asks_each_server_once)
{
    static const struct {
        size_t group;
        size_t n_servers;
    } CASES[] = {{ITERATIONS, 3}, {ONE, 1}, {LOAD, 2}, {HASH, 2}};
    const size_t group = CASES[_i].group;
    const struct upstream_server *asked[3] = {NULL};
    for (size_t i = 0; i < CASES[_i].n_servers; i++) {
        asked[i] = make(group);
        ck_assert_ptr_nonnull(asked[i]);
        for (size_t j = 0; j < i; j++) {
            ck_assert_ptr_ne(asked[i], asked[j]);
        }
    }
    ck_assert_ptr_null(make(group));
}
END_TEST

START_TEST(a_server_whose_kept_connection_died_is_asked_again_when_no_other_is_left)
{
    struct upstream_server *first = make(ITERATIONS);
    choice.stale = first;
    ck_assert_ptr_ne(make(ITERATIONS), first);
    ck_assert_ptr_ne(make(ITERATIONS), first);
    ck_assert_ptr_eq(make(ITERATIONS), first);
    ck_assert_ptr_null(make(ITERATIONS));

    first = make_first(ONE);
    choice.stale = first;
    ck_assert_ptr_eq(make(ONE), first);
    ck_assert_ptr_null(make(ONE));
}
END_TEST

START_TEST(load_is_that_of_all_workers)
{
    struct upstream_server *servers = stage.worker.env.config->upstreams[LOAD]->servers;
    atomic_fetch_add(&stage.generation->upstreams[LOAD]->servers[0]->n_requests, 3); /* another's */
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_ptr_eq(make_first(LOAD), &servers[1]);
    }
    atomic_fetch_add(&stage.generation->upstreams[LOAD]->servers[1]->n_requests, 4);
    ck_assert_ptr_eq(make_first(LOAD), &servers[0]);
}
END_TEST

START_TEST(a_key_has_one_server_and_a_request_without_it_takes_turns)
{
    const struct upstream_group *group = stage.worker.env.config->upstreams[HASH];
    const struct upstream_server *of_key = NULL;
    for (unsigned i = 0; i < 8; i++) {
        choice = (struct upstream_choice){
            .has_key = true,
            .key = hash_table(&group->hash_key, SPAN("a")),
        };
        const struct upstream_server *server = make(HASH);
        ck_assert(of_key == NULL || server == of_key);
        of_key = server;
    }
    ck_assert_ptr_ne(make_first(HASH), make_first(HASH));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upstream_choice");
    TCase *all = tcase_create("upstream_choice");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, servers_take_iterations);
    tcase_add_test(all, a_server_without_an_address_is_passed_over);
    tcase_add_loop_test(all, one_request_asks_each_server_once, 0, 4);
    tcase_add_test(all, a_server_whose_kept_connection_died_is_asked_again_when_no_other_is_left);
    tcase_add_test(all, load_is_that_of_all_workers);
    tcase_add_test(all, a_key_has_one_server_and_a_request_without_it_takes_turns);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
