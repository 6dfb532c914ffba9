#include "proxy/meters.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "policy/loader.h"

enum { MANY = 10000, POLICY_BYTES = 100 * MANY };

static struct meters *meters;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(meters_new(1000000, &meters), STATUS_OK);
}

static void teardown(void)
{
    meters_free(meters);
}

static struct policy *load(struct span yaml)
{
    struct policy *policy;
    struct diags diags;
    diags_init(&diags, "test.yaml");
    const enum status status = loader_load_text(yaml, NULL, &policy, &diags);
    diags_print(&diags, stderr);
    ck_assert_int_eq(status, STATUS_OK);
    diags_close(&diags);
    ck_assert_int_eq(meters_enter(meters, policy), STATUS_OK);
    return policy;
}

static struct counter *count_route(struct worker_meters *worker, const struct policy *policy,
                                   size_t route)
{
    struct route_meters *block = counter_table_at(&worker->routes, policy->routes[route].meter);
    return &block->requests[2][METER_ALLOWED];
}

START_TEST(what_comes_back_under_its_name_goes_on_counting)
{
    const struct span BOTH = SPAN("listen: 127.0.0.1:1\n"
                                  "upstreams: {u: {servers: ['http://127.0.0.1:1']}}\n"
                                  "limits: {l: {key: client.ip, rate: 1/s}}\n"
                                  "routes:\n"
                                  "  - {name: a, match: {path: /a}, respond: {status: 204}}\n"
                                  "  - {name: b, upstream: u, limits: [l]}\n");
    const struct span ONE = SPAN("listen: 127.0.0.1:1\n"
                                 "routes: [{name: c, respond: {status: 204}}]\n");
    struct policy *first = load(BOTH);
    struct worker_meters *worker = meters_of_worker(meters, 0);
    counter_up(count_route(worker, first, 1));
    struct policy *second = load(ONE);
    struct policy *third = load(BOTH);
    ck_assert_uint_eq(counter_read(count_route(worker, third, 1)), 1);
    ck_assert_uint_eq(counter_read(count_route(worker, second, 0)), 0);
    ck_assert_uint_eq(third->limits[0].meter, first->limits[0].meter);
    ck_assert_uint_eq(third->upstreams[0].meter, first->upstreams[0].meter);
    ck_assert_uint_eq(third->upstreams[0].servers[0].meter, first->upstreams[0].servers[0].meter);
    ck_assert_uint_ne(second->routes[0].meter, first->routes[0].meter);
    policy_free(first);
    policy_free(second);
    policy_free(third);
}
END_TEST

/* @n routes whose names begin with @letter. */
static struct policy *load_many(char letter, size_t n)
{
    char *yaml = malloc(POLICY_BYTES);
    struct text text = text_of(yaml, POLICY_BYTES);
    text_add_literal(&text, "listen: 127.0.0.1:1\nroutes:\n");
    for (size_t i = 0; i < n; i++) {
        text_add_format(&text, "- {name: %c%zu, match: {path: /%zu}, respond: {status: 204}}\n",
                        letter, i, i);
    }
    ck_assert(!text.truncated);
    struct policy *policy = load(text_span(&text));
    free(yaml);
    return policy;
}

START_TEST(ten_thousand_routes_each_have_their_own_and_what_is_beyond_the_room_shares_one)
{
    struct worker_meters *worker = meters_of_worker(meters, 0);
    const size_t n_fitting = METER_ROUTES_MAX / MANY;
    for (size_t i = 0; i <= n_fitting; i++) {
        struct policy *policy = load_many((char)('a' + i), MANY);
        for (size_t route = 0; route < MANY; route++) {
            counter_up(count_route(worker, policy, route));
        }
        ck_assert_uint_eq(policy->routes[MANY - 1].meter == 0, i == n_fitting);
        if (i < n_fitting) {
            ck_assert_uint_eq(counter_read(count_route(worker, policy, MANY - 1)), 1);
        }
        policy_free(policy);
    }
    const struct route_meters *other = counter_table_peek(&worker->routes, 0);
    ck_assert_uint_eq(counter_read(&other->requests[2][METER_ALLOWED]),
                      (n_fitting + 1) * MANY - (METER_ROUTES_MAX - METER_NO_ROUTE));
}
END_TEST

START_TEST(workers_that_come_later_have_room_for_all_names)
{
    struct policy *policy = load_many('a', 200);
    struct worker_meters *worker = meters_of_worker(meters, 3);
    ck_assert_ptr_nonnull(worker);
    counter_up(count_route(worker, policy, 199));
    ck_assert_ptr_eq(meters_of_worker(meters, 3), worker);
    ck_assert_ptr_eq(meters_snapshot(meters, 3), worker);
    ck_assert_ptr_null(meters_snapshot(meters, 2));
    policy_free(policy);
}
END_TEST

START_TEST(a_reload_that_fails_leaves_the_time_of_the_policy_as_it_was)
{
    meters_note_reload(meters, false, 2000000);
    struct reload_counts reloads = meters_count_reloads(meters);
    ck_assert_uint_eq(reloads.n_failed, 1);
    ck_assert_uint_eq(reloads.is_last_good, 0);
    ck_assert_uint_eq(reloads.loaded_us, 1000000);
    meters_note_reload(meters, true, 3000000);
    reloads = meters_count_reloads(meters);
    ck_assert_uint_eq(reloads.n_done, 1);
    ck_assert_uint_eq(reloads.n_failed, 1);
    ck_assert_uint_eq(reloads.is_last_good, 1);
    ck_assert_uint_eq(reloads.loaded_us, 3000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/meters");
    TCase *tests = tcase_create("meters");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_comes_back_under_its_name_goes_on_counting);
    tcase_add_test(tests,
                   ten_thousand_routes_each_have_their_own_and_what_is_beyond_the_room_shares_one);
    tcase_add_test(tests, workers_that_come_later_have_room_for_all_names);
    tcase_add_test(tests, a_reload_that_fails_leaves_the_time_of_the_policy_as_it_was);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
