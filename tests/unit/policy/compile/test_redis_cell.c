/* Which limits of a policy are left to redis-cell, and what is told of the others. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "policy/loader.h"
#include "policy/policy.h"

#define HEAD "listen: 127.0.0.1:0\nupstreams: {api: {servers: 'http://127.0.0.1:1'}}\n"
#define ON "store: {redis: 'redis://a', redis_cell: true}\n"
#define ONE(said) HEAD ON "limits: {one: {key: global, algorithm: gcra, " said "}}\n"
#define BY_KEY(key) HEAD ON "limits: {one: {algorithm: gcra, rate: 30/minute, key: " key "}}\n" LONE
#define SEVERAL_VALUES "limit \"one\" is not decided by redis-cell: its key may have several values"
#define LONE "routes: [{limits: [one], upstream: api}]\n"

/* The first limit of each is looked at. */
static const struct {
    const char *yaml;
    bool by_cell;
    const char *warning; /* NULL: none */
} POLICIES[] = {
    {ONE("rate: 30/minute, burst: 16") LONE, true, NULL},
    {ONE("rate: 30/minute, shadow: true") LONE, true, NULL},
    {ONE("rate: 30/minute") "routes: [{match: {path: /a}, limits: [one], upstream: api}, "
                            "{limits: [one], cost: 3, upstream: api}]\n",
     true, NULL},
    {HEAD "store: {redis: 'redis://a'}\n"
          "limits: {one: {key: global, algorithm: gcra, rate: 30/minute}}\n" LONE,
     false, NULL},
    {HEAD ON "limits: {one: {key: global, rate: 30/minute}}\n" LONE, false,
     "redis_cell has no effect: no limit that a route uses has the algorithm gcra"},
    {ONE("rate: 30/minute, charge_denied: true") LONE, false,
     "limit \"one\" is not decided by redis-cell: it counts denied requests"},
    {ONE("rate: 30/minute, charge_on: [404]") LONE, false,
     "limit \"one\" is not decided by redis-cell: answers decide what it charges"},
    {ONE("rate: 30/minute, refund_on: [5xx]") LONE, false,
     "limit \"one\" is not decided by redis-cell: answers decide what it charges"},
    {ONE("rate: [10/s, 30/minute]") LONE, false,
     "limit \"one\" is not decided by redis-cell: it has several rates"},
    {ONE("rate: 5/500ms") LONE, false,
     "limit \"one\" is not decided by redis-cell: its period is no whole number of seconds"},
    {BY_KEY("cookie.sid, duplicates: refuse"), true, NULL},
    {BY_KEY("header.x-user"), true, NULL},
    {BY_KEY("cookie.sid"), false, SEVERAL_VALUES},
    {BY_KEY("header.x-user, duplicates: each"), false, SEVERAL_VALUES},
    {BY_KEY("[client.ip, 'header.x-user | cookie.sid']"), false, SEVERAL_VALUES},
    {HEAD ON "limits: {one: {key: global, algorithm: gcra, rate: 30/minute}, "
             "two: {key: global, rate: 1/s}}\n"
             "routes: [{match: {path: /a}, limits: [one], upstream: api}, "
             "{limits: [one, two], upstream: api}]\n",
     false, "limit \"one\" is not decided by redis-cell: routes.2 has other limits beside it"},
};

START_TEST(redis_cell_has_the_limits_that_it_can_decide_alone_and_a_warning_names_the_others)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(POLICIES[_i].yaml), NULL, &policy, &diags),
                     STATUS_OK);
    ck_assert_int_eq(policy->limits[0].by_cell, POLICIES[_i].by_cell);
    bool is_reported = false;
    for (size_t i = 0; i < diags.n_items; i++) {
        const char *text = diags.items[i].text;
        ck_assert_int_eq(diags.items[i].severity, DIAG_WARNING);
        ck_assert_msg(POLICIES[_i].warning != NULL || strstr(text, "redis") == NULL, "%s", text);
        is_reported = is_reported ||
                      (POLICIES[_i].warning != NULL && strcmp(text, POLICIES[_i].warning) == 0);
    }
    ck_assert_int_eq(is_reported, POLICIES[_i].warning != NULL);
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/redis_cell");
    TCase *tcase = tcase_create("policies");
    tcase_add_loop_test(
        tcase, redis_cell_has_the_limits_that_it_can_decide_alone_and_a_warning_names_the_others, 0,
        (int)ARRAY_LEN(POLICIES));
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
