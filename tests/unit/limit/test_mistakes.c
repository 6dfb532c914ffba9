/* What others get wrong, each in the program that decides in Redis: the rows of docs/algorithms.md.
 * The C answers as it does: see tests/differential. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "one_limit.h"

static uint64_t server_time_us(void)
{
    redisReply *reply = redisCommand(client.connection, "TIME");
    const uint64_t us =
        strtoull(reply->element[0]->str, NULL, 10) * S + strtoull(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us;
}

/* --- the page on algorithms, row by row --- */

START_TEST(a_member_that_is_a_time_would_make_two_requests_one)
{
    use(&sliding_log_algorithm, 5, 0, MINUTE);
    ck_assert(passes(1, 7));
    ck_assert(passes(1, 7));
    ck_assert_uint_eq(ask(0, 7).remaining, 3);
}
END_TEST

START_TEST(adding_before_counting_would_lock_a_denied_client_out)
{
    use(&sliding_log_algorithm, 2, 0, MINUTE);
    ck_assert(passes(2, 1));
    for (uint64_t at = S; at < MINUTE; at += S) {
        ck_assert(!passes(1, at));
    }
    ck_assert(passes(1, MINUTE + 1));
}
END_TEST

/* Both are sent before either is answered. */
START_TEST(commands_in_a_pipeline_would_admit_the_last_unit_twice)
{
    struct script_client other = {.connection = redis_server_connect(&server)};
    memcpy(other.sha, client.sha, sizeof(other.sha));
    use(&token_bucket_algorithm, 1, 1, MINUTE);
    struct charge here = {.limit = &limit, .key = SPAN("{k}"), .cost = 1};
    struct charge there = here;
    script_client_send(&client, &here, 1, START_US);
    script_client_send(&other, &there, 1, START_US);
    const bool here_passes = script_client_read(&client, &here, 1);
    const bool there_passes = script_client_read(&other, &there, 1);
    ck_assert(here_passes != there_passes);
    script_client_close(&other);
}
END_TEST

START_TEST(the_clock_of_the_application_would_mint_quota)
{
    use(&fixed_window_algorithm, 5, 0, MINUTE);
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = 1};
    const uint64_t before_us = server_time_us();
    script_client_send(&client, &charge, 1, 0);
    ck_assert(script_client_read(&client, &charge, 1));
    ck_assert(before_us <= charge.charged_at_us && charge.charged_at_us <= server_time_us());
}
END_TEST

START_TEST(whole_seconds_would_refill_in_lumps)
{
    use(&token_bucket_algorithm, 3, 3, S);
    ck_assert(passes(3, 1));
    ck_assert(!passes(1, 333334));
    ck_assert(passes(1, 333335));
    ck_assert(passes(1, 666668));
}
END_TEST

/* While nothing passes, and while each call takes one of the one and a half that came back. */
START_TEST(a_fraction_that_is_lost_at_every_call_would_never_refill)
{
    use(&token_bucket_algorithm, 1, 2, MINUTE);
    ck_assert(passes(2, 1));
    for (uint64_t i = 1; i < 600; i++) {
        ck_assert(!passes(1, 1 + i * S / 10));
    }
    ck_assert(passes(1, MINUTE + 1));
    forget();
    for (size_t i = 0; i < N_BUCKETS; i++) {
        use(COUNTING[i], 10, 100, S);
        ck_assert(passes(100, 1));
        for (uint64_t j = 1; j <= 20; j++) {
            ck_assert(passes(1, 1 + j * 3 * S / 20));
        }
        ck_assert_uint_eq(ask(0, 1 + 3 * S).remaining, 10);
        forget();
    }
}
END_TEST

START_TEST(a_lifetime_shorter_than_the_refill_would_fill_the_bucket)
{
    for (size_t i = 0; i < N_BUCKETS; i++) {
        use(COUNTING[i], 1, 100, S);
        ck_assert(passes(100, 1));
        ck_assert_int_gt(integer("PTTL {k}"), 99000);
        ck_assert_uint_eq(ask(0, 2 * S + 1).remaining, 2);
        forget();
    }
}
END_TEST

START_TEST(a_test_for_nothing_left_would_let_a_fraction_pass)
{
    use(&token_bucket_algorithm, 1, 1, 10 * S);
    ck_assert(passes(1, 1));
    ck_assert(!passes(1, 5 * S));
    ck_assert(!passes(1, 10 * S));
    ck_assert(passes(1, 10 * S + 1));
}
END_TEST

START_TEST(an_expiry_with_a_fraction_would_fail_after_it_has_written)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use(COUNTING[i], 7, 7, i == 2 ? 7 * S : 10 * S + 10);
        ck_assert(passes(1, 3));
        ck_assert_int_gt(integer("PTTL {k}"), 0);
        forget();
    }
}
END_TEST

START_TEST(an_expiry_that_is_renewed_would_make_a_window_endless)
{
    use(&fixed_window_algorithm, 100, 0, MINUTE);
    ck_assert(passes(1, 1));
    for (uint64_t at = S; at < MINUTE; at += S) {
        ck_assert(passes(1, at));
        ck_assert_int_le(integer("PTTL {k}"), (long long)((MINUTE - at) / 1000) + 2000);
    }
    ck_assert_uint_eq(ask(0, MINUTE).remaining, 100);
}
END_TEST

START_TEST(removing_by_value_would_drop_another_of_the_same_value)
{
    use(&sliding_log_algorithm, 9, 0, MINUTE);
    ck_assert(passes(1, 1) && passes(1, 1) && passes(1, 1));
    const struct settlement refund = {
        .limit = &limit,
        .key = SPAN("{k}"),
        .kind = SETTLE_COST,
        .delta = -1,
        .charged_at_us = START_US + 1,
    };
    script_client_send_settlements(&client, &refund, 1, START_US + 2);
    script_client_read_settled(&client);
    ck_assert_uint_eq(ask(0, 2).remaining, 7);
    ck_assert_int_eq(integer("LLEN {k}"), 3); /* the sum, and two */
}
END_TEST

static void give_back(uint64_t charged_at, uint64_t at)
{
    const struct settlement refund = {
        .limit = &limit,
        .key = SPAN("{k}"),
        .kind = SETTLE_COST,
        .delta = -1,
        .charged_at_us = START_US + charged_at,
    };
    script_client_send_settlements(&client, &refund, 1, START_US + at);
    script_client_read_settled(&client);
}

/* A burst of 3, and 24 requests that were held while they came back. */
START_TEST(a_refund_of_what_came_back_meanwhile_would_let_held_requests_gather_a_burst)
{
    enum { N_HELD = 27 };
    uint64_t held[N_HELD];
    uint64_t now = 1;
    use(COUNTING[_i % N_BUCKETS], 60, 3, MINUTE);
    limit.params.settles = _i >= N_BUCKETS;
    for (size_t i = 0; i < N_HELD; i++) {
        now += i < 3 ? 0 : S;
        ck_assert(passes(1, now));
        held[i] = now;
    }
    size_t n_passed = 0;
    for (size_t i = 0; i < N_HELD; i++) {
        give_back(held[i], now);
        n_passed += passes(1, now);
    }
    while (passes(1, now)) {
        n_passed++;
    }
    ck_assert_uint_le(n_passed, 3);
}
END_TEST

START_TEST(refills_that_each_refund_leaves_would_deny_requests_that_all_are_given_back)
{
    enum { N_AT_ONCE = 10, N_ROUNDS = 30 };
    use(COUNTING[_i], 60, N_AT_ONCE + 1, MINUTE);
    limit.params.settles = true;
    uint64_t now = 1;
    for (uint64_t round = 0; round < N_ROUNDS; round++, now += 2 * S) {
        for (size_t i = 0; i < N_AT_ONCE; i++) {
            if (round > 0) {
                give_back(now - 2 * S, now);
            }
            ck_assert(passes(1, now));
        }
    }
}
END_TEST

START_TEST(one_stale_counter_dropped_a_call_would_count_what_is_long_past)
{
    use(&sliding_window_algorithm, 100, 0, MINUTE);
    for (uint64_t i = 0; i < 10; i++) {
        ck_assert(passes(10, 1 + i * 6 * S));
    }
    ck_assert(!passes(1, 55 * S));
    ck_assert(passes(100, 3 * MINUTE));
    forget();
    use(&sliding_log_algorithm, 100, 0, MINUTE);
    for (uint64_t i = 0; i < 50; i++) {
        ck_assert(passes(2, 1 + i));
    }
    ck_assert(passes(100, 3 * MINUTE));
    ck_assert_int_eq(integer("LLEN {k}"), 2);
}
END_TEST

START_TEST(a_count_without_the_cost_would_admit_fifty_with_one_left)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use(COUNTING[i], 100, 100, MINUTE);
        ck_assert(passes(99, 1));
        ck_assert(!passes(50, 1));
        ck_assert_uint_eq(ask(0, 1).remaining, 1);
        forget();
    }
}
END_TEST

START_TEST(a_refused_cost_that_is_charged_would_lock_out_for_several_windows)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use(COUNTING[i], 10, 10, MINUTE);
        ck_assert(passes(9, 1));
        for (int j = 0; j < 20; j++) {
            ck_assert(!passes(10, 1));
        }
        ck_assert(passes(1, 1));
        ck_assert_uint_le(ask(1, 1).retry_after, 66 * S);
        forget();
    }
}
END_TEST

START_TEST(a_time_for_what_never_fits_would_have_the_client_retry_for_ever)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use(COUNTING[i], 10, 10, MINUTE);
        ck_assert(ask(11, 1).retry_after == RETRY_NEVER);
        ck_assert(ask(UINT32_MAX, 1).retry_after == RETRY_NEVER);
        ck_assert(passes(10, 1));
        forget();
    }
}
END_TEST

START_TEST(a_bucket_that_must_exist_beforehand_would_fail_without)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use(COUNTING[i], 10, 10, MINUTE);
        ck_assert_uint_eq(ask(0, 1).remaining, 10);
        ck_assert_int_eq(integer("EXISTS {k}"), 0);
        ck_assert(passes(10, 1));
        ck_assert(passes(10, 3 * MINUTE));
        forget();
    }
}
END_TEST

START_TEST(a_queue_without_bound_would_admit_everything_hours_late)
{
    const struct limit_spec spec = {
        .algorithm = &leaky_bucket_algorithm,
        .rate = 4,
        .burst = 9,
        .period_us = S,
        .max_wait_us = 2 * S,
    };
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    for (uint64_t i = 0; i < 9; i++) {
        const struct verdict verdict = ask(1, 1);
        ck_assert(verdict.allowed);
        ck_assert_uint_eq(verdict.wait, i * S / 4);
    }
    ck_assert(!passes(1, 1));
}
END_TEST

START_TEST(a_time_outside_the_calendar_is_an_error_that_has_written_nothing)
{
    static const uint64_t outside[][LIMIT_EDGES] = {
        {1, 2, 3, 4},
        {START_US - 3, START_US - 2, START_US - 1, START_US},
        {START_US + 1, START_US + 2, START_US + 3, START_US + 4},
    };
    struct limit calendar = {.name = SPAN("calendar"), .algorithm = &fixed_window_algorithm};
    use(&token_bucket_algorithm, 5, 5, MINUTE);
    calendar.tick_us = 1;
    calendar.params =
        (struct limit_params){.rate = 5, .period = MINUTE, .ticks_per_s = S, .is_calendar = true};
    for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
        struct charge charges[] = {
            {.limit = &limit, .key = SPAN("{k}"), .cost = 1},
            {.limit = &calendar, .key = SPAN("{k}:calendar"), .cost = 1, .edges = outside[i]},
        };
        void *any;
        script_client_send(&client, charges, 2, START_US);
        ck_assert_int_eq(redisGetReply(client.connection, &any), REDIS_OK);
        redisReply *reply = any;
        ck_assert_int_eq(reply->type, REDIS_REPLY_ERROR);
        ck_assert(strncmp(reply->str, "CLOCK ", strlen("CLOCK ")) == 0);
        freeReplyObject(reply);
        ck_assert_int_eq(integer("DBSIZE"), 0);
    }
}
END_TEST

static void add_rows(TCase *tcase)
{
    tcase_add_test(tcase, a_member_that_is_a_time_would_make_two_requests_one);
    tcase_add_test(tcase, adding_before_counting_would_lock_a_denied_client_out);
    tcase_add_test(tcase, commands_in_a_pipeline_would_admit_the_last_unit_twice);
    tcase_add_test(tcase, the_clock_of_the_application_would_mint_quota);
    tcase_add_test(tcase, whole_seconds_would_refill_in_lumps);
    tcase_add_test(tcase, a_fraction_that_is_lost_at_every_call_would_never_refill);
    tcase_add_test(tcase, a_lifetime_shorter_than_the_refill_would_fill_the_bucket);
    tcase_add_test(tcase, a_test_for_nothing_left_would_let_a_fraction_pass);
    tcase_add_test(tcase, an_expiry_with_a_fraction_would_fail_after_it_has_written);
    tcase_add_test(tcase, an_expiry_that_is_renewed_would_make_a_window_endless);
    tcase_add_test(tcase, removing_by_value_would_drop_another_of_the_same_value);
    tcase_add_loop_test(tcase,
                        a_refund_of_what_came_back_meanwhile_would_let_held_requests_gather_a_burst,
                        0, 2 * N_BUCKETS);
    tcase_add_loop_test(tcase,
                        refills_that_each_refund_leaves_would_deny_requests_that_all_are_given_back,
                        0, N_BUCKETS);
    tcase_add_test(tcase, one_stale_counter_dropped_a_call_would_count_what_is_long_past);
    tcase_add_test(tcase, a_count_without_the_cost_would_admit_fifty_with_one_left);
    tcase_add_test(tcase, a_refused_cost_that_is_charged_would_lock_out_for_several_windows);
    tcase_add_test(tcase, a_time_for_what_never_fits_would_have_the_client_retry_for_ever);
    tcase_add_test(tcase, a_bucket_that_must_exist_beforehand_would_fail_without);
    tcase_add_test(tcase, a_queue_without_bound_would_admit_everything_hours_late);
    tcase_add_test(tcase, a_time_outside_the_calendar_is_an_error_that_has_written_nothing);
}

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("limit/mistakes");
    TCase *tcase = tcase_create("mistakes commonly copied");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 10);
    add_rows(tcase);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
