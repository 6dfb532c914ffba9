/* What well-known limiters were seen to do, and what the program that
 * decides in Redis does instead. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "one_limit.h"

/* One a second and 100 at once, with a lifetime of 2 s: drained, idle for 2.3 s, and full again. */
START_TEST(traefik_fills_a_bucket_that_idles)
{
    use(&token_bucket_algorithm, 1, 100, S);
    for (int i = 0; i < 100; i++) {
        ck_assert(passes(1, 1));
    }
    int n_passed = 0;
    for (int i = 0; i < 130; i++) {
        n_passed += passes(1, 2300000);
    }
    ck_assert_int_eq(n_passed, 2);
    ck_assert_int_gt(integer("PTTL {k}"), 90000);
}
END_TEST

/* A limit of 10, asked 25 times: 25 are stored. */
START_TEST(kong_charges_what_it_denies)
{
    use(&fixed_window_algorithm, 10, 0, MINUTE);
    for (int i = 0; i < 25; i++) {
        ck_assert(passes(1, 1) == (i < 10));
    }
    redisReply *reply = redisCommand(client.connection, "GET {k}");
    double count;
    memcpy(&count, reply->str, sizeof(count));
    ck_assert_double_eq(count, 10);
    freeReplyObject(reply);
}
END_TEST

/* 9 of 10 taken, then 50: denied, and -49 are stored. */
START_TEST(upstash_owes_a_cost_that_it_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use(COUNTING[i], 10, 10, MINUTE);
        ck_assert(passes(9, 1));
        ck_assert(ask(50, 1).retry_after == RETRY_NEVER);
        ck_assert_uint_eq(ask(0, 1).remaining, 1);
        forget();
    }
}
END_TEST

/* 9 of 10 taken, then 50: admitted, and 59 are stored. */
START_TEST(apisix_admits_a_cost_that_does_not_fit)
{
    use(&sliding_window_algorithm, 10, 0, MINUTE);
    ck_assert(passes(9, 1));
    ck_assert(!passes(50, 1));
    ck_assert(!passes(2, 1));
    ck_assert_uint_eq(ask(0, 1).remaining, 1);
}
END_TEST

/* 10 a minute, 10 at once: a cost above the burst is told a time that never comes. */
START_TEST(redis_rate_names_a_time_that_never_comes)
{
    use(&gcra_algorithm, 10, 10, MINUTE);
    int n_passed = 0;
    for (int i = 0; i < 30; i++) {
        n_passed += passes(1, 1);
    }
    ck_assert_int_eq(n_passed, 10);
    ck_assert(ask(11, 1).retry_after == RETRY_NEVER);
}
END_TEST

/* 2 a second, 2 at once, six quick requests: three pass. */
START_TEST(lua_resty_redis_ratelimit_admits_one_beside_the_burst)
{
    use(&leaky_bucket_algorithm, 2, 2, S);
    int n_passed = 0;
    for (int i = 0; i < 6; i++) {
        n_passed += passes(1, 1);
    }
    ck_assert_int_eq(n_passed, 2);
}
END_TEST

/* RATER.LIMIT u 15 30 60 answers 0 16 15 -1 2. */
START_TEST(redis_rate_limiter_has_16_of_which_15_are_left)
{
    use(&gcra_algorithm, 30, 16, MINUTE);
    const struct verdict verdict = ask(1, 1);
    ck_assert(verdict.allowed);
    ck_assert_uint_eq(verdict.limit, 16);
    ck_assert_uint_eq(verdict.remaining, 15);
    ck_assert_uint_eq(verdict.reset_after, 2 * S);
}
END_TEST

static void add_peers(TCase *tcase)
{
    tcase_add_test(tcase, traefik_fills_a_bucket_that_idles);
    tcase_add_test(tcase, kong_charges_what_it_denies);
    tcase_add_test(tcase, upstash_owes_a_cost_that_it_refused);
    tcase_add_test(tcase, apisix_admits_a_cost_that_does_not_fit);
    tcase_add_test(tcase, redis_rate_names_a_time_that_never_comes);
    tcase_add_test(tcase, lua_resty_redis_ratelimit_admits_one_beside_the_burst);
    tcase_add_test(tcase, redis_rate_limiter_has_16_of_which_15_are_left);
}

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("limit/peers");
    TCase *tcase = tcase_create("peers");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 10);
    add_peers(tcase);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
