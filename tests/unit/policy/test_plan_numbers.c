/* Numbers in place of a plan: what is taken, and what the limits are. */

#include "policy/limit_rule.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "unit/policy/policy_support.h"

#define POLICY                                                                                     \
    "listen: 127.0.0.1:8080\n"                                                                     \
    "limits:\n"                                                                                    \
    "  a: {key: client.ip, rate: 10/minute, burst: 3, plans: {x: 5/minute}, plan: tenant}\n"       \
    "  b:\n"                                                                                       \
    "    key: host\n"                                                                              \
    "    algorithm: sliding_window\n"                                                              \
    "    rate: [100/minute, 5/hour]\n"                                                             \
    "    plans: {more: [9/hour, 100/minute]}\n"                                                    \
    "    plan: tenant\n"                                                                           \
    "  c: {key: host, algorithm: leaky_bucket, rate: 10/s, max_wait: 1s, plans: {x: 5/s},"         \
    " plan: tenant}\n"                                                                             \
    "  d: {key: host, algorithm: concurrency, rate: 3, lease: 10s, plans: {x: 5}, plan: tenant}\n" \
    "  e: {key: host, rate: 1/s, plans: {x: 5/s}, plan: header.x-plan}\n"                          \
    "routes: [{limits: [a, b, c, d, e], respond: {status: 204}}]\n"

enum { A, B, C, D, E };

static struct policy *policy;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    policy = policy_from_text(POLICY);
}

static void teardown(void)
{
    policy_free(policy);
}

static const struct limit_plan *find(size_t rule, const char *text)
{
    return plan_numbers_find(policy, &policy->rules[rule], span_of_text(text));
}

static const struct limit *must_find(size_t rule, const char *text)
{
    const struct limit_plan *plan = find(rule, text);
    ck_assert_msg(plan != NULL, "%s", text);
    ck_assert(span_equals(plan->name, span_of_text(text)));
    return plan->limits;
}

START_TEST(numbers_are_a_plan_of_the_same_states)
{
    const struct limit *base = policy->rules[A].limits;
    const struct limit *limits = must_find(A, "1000/minute:200");
    ck_assert_uint_eq(limits[0].params.rate, 1000);
    ck_assert_uint_eq(limits[0].params.burst, 200);
    ck_assert_mem_eq(&limits[0].id, &base[0].id, sizeof(base[0].id));
    ck_assert_uint_eq(limits[0].tick_us, base[0].tick_us);
    ck_assert_uint_eq(limits[0].base, base[0].index);
    ck_assert_ptr_eq(limit_first(&limits[0]), policy->limits);
    ck_assert_uint_ge(limits[0].index, policy->n_all_limits);
    ck_assert_uint_eq(must_find(A, "7/1m")->params.burst, 7); /* not that of the limit */
    ck_assert_ptr_eq(must_find(A, "1000/minute:200"), limits);
}
END_TEST

START_TEST(of_several_rates_each_has_its_number)
{
    const struct limit *limits = must_find(B, "9/hour,50/minute");
    ck_assert_uint_eq(limits[0].params.rate, 50);
    ck_assert_uint_eq(limits[1].params.rate, 9);
    ck_assert_uint_eq(limits[1].index, limits[0].index + 1);
    ck_assert_ptr_ne(must_find(B, "50/minute,9/hour"), limits); /* another text */
}
END_TEST

START_TEST(what_the_limit_has_beside_its_rate_stays)
{
    ck_assert_uint_eq(must_find(C, "20/s")->params.burst, 21); /* as many as wait, and one */
    ck_assert_uint_eq(must_find(C, "20/s")->params.max_wait,
                      policy->rules[C].limits[0].params.max_wait);
    ck_assert_uint_eq(must_find(D, "7")->params.rate, 7);
}
END_TEST

static const struct {
    size_t rule;
    const char *text;
    const char *fault;
} BAD[] = {
    {A, "", "numbers are as"},
    {A, "gold", "numbers are as"},
    {A, "0/minute", "numbers are as"},
    {A, "4294967296/minute", "numbers are as"},
    {A, "10/fortnight", "numbers are as"},
    {A, "10", "of the same periods"},
    {A, "10/hour", "of the same periods"},
    {A, "10/minute,10/minute", "of the same periods"},
    {A, "10/minute,10/hour", "of the same periods"},
    {A, "10/minute,", "numbers are as"},
    {A, "10/minute:", "a burst is"},
    {A, "10/minute:0", "a burst is"},
    {A, "10/minute:4294967296", "a burst is"},
    {A, "10/minute:-1", "a burst is"},
    {B, "10/minute", "of the same periods"},
    {B, "10/minute:5,9/hour", "has no burst"},
    {D, "10/s", "of the same periods"},
    {A, "10/minute:4294967295", "differ too much"},
    {A, "1000000000000000000000000000000000000000000000000000000/minute", "numbers are as"},
    {A, "1/minute:00000000000000000000000000000000000000000000000000000001", "are too long"},
};

START_TEST(what_the_loader_would_not_take_is_none)
{
    const char *fault =
        plan_numbers_fault(&policy->rules[BAD[_i].rule], span_of_text(BAD[_i].text));
    ck_assert_msg(fault != NULL && strstr(fault, BAD[_i].fault) != NULL, "%s: %s", BAD[_i].text,
                  fault != NULL ? fault : "none");
    ck_assert_ptr_null(find(BAD[_i].rule, BAD[_i].text));
}
END_TEST

START_TEST(a_limit_that_looks_for_no_tenants_has_none)
{
    ck_assert_ptr_null(find(E, "5/s"));
}
END_TEST

START_TEST(no_more_are_kept_than_there_is_room_for)
{
    const struct limit *first = must_find(A, "1/minute");
    for (unsigned i = 2; i <= NUMBERED_PLANS_MAX; i++) {
        char text[32];
        snprintf(text, sizeof(text), "%u/minute", i);
        ck_assert_uint_eq(must_find(A, text)->params.rate, i);
    }
    ck_assert_ptr_null(find(A, "100000/minute"));
    ck_assert_ptr_eq(must_find(A, "1/minute"), first);
}
END_TEST

enum { N_THREADS = 4, N_TEXTS = 200 };

static void *find_all(void *unused)
{
    (void)unused;
    for (unsigned i = 1; i <= N_TEXTS; i++) {
        char text[32];
        snprintf(text, sizeof(text), "%u/hour,%u/minute", i, i);
        const struct limit_plan *plan = find(B, text);
        ck_assert(plan != NULL && plan->limits[1].params.rate == i);
    }
    return NULL;
}

START_TEST(threads_find_the_same)
{
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, find_all, NULL), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(must_find(B, "201/hour,1/minute")[0].index,
                      policy->n_all_limits + 2 * N_TEXTS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/plan_numbers");
    TCase *tcase = tcase_create("plan_numbers");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, numbers_are_a_plan_of_the_same_states);
    tcase_add_test(tcase, of_several_rates_each_has_its_number);
    tcase_add_test(tcase, what_the_limit_has_beside_its_rate_stays);
    tcase_add_loop_test(tcase, what_the_loader_would_not_take_is_none, 0, ARRAY_LEN(BAD));
    tcase_add_test(tcase, a_limit_that_looks_for_no_tenants_has_none);
    tcase_add_test(tcase, no_more_are_kept_than_there_is_room_for);
    tcase_add_test(tcase, threads_find_the_same);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
