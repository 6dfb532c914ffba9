#include "limit/limit.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"

#define S UINT64_C(1000000)
#define DAY (86400 * S)

static struct limit limit_of(const struct algorithm *algorithm, uint32_t rate, uint32_t burst,
                             uint64_t period_us)
{
    const struct limit_spec spec = {
        .algorithm = algorithm, .rate = rate, .burst = burst, .period_us = period_us};
    struct limit limit = {.name = SPAN("limit")};
    const char *fault = limit_init(&limit, &spec);
    ck_assert_msg(fault == NULL, "%s", fault);
    return limit;
}

static bool digests_are_equal(const struct limit *a, const struct limit *b)
{
    return memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* --- limit_coarsen --- */

START_TEST(a_coarser_tick_gives_what_is_owed_more_room)
{
    const struct limit fine = limit_of(&token_bucket_algorithm, 50000, 50000, DAY);
    struct limit coarse;
    ck_assert_uint_eq(limit_room(&fine), 2124);
    ck_assert(limit_coarsen(&fine, 1000, &coarse));
    ck_assert_uint_eq(coarse.tick_us, 1000);
    ck_assert_uint_eq(coarse.params.ticks_per_s, 1000);
    ck_assert_uint_eq(coarse.params.period, DAY / 1000);
    ck_assert_uint_eq(limit_room(&coarse), LIMIT_UNITS_MAX / (DAY / 1000) - 50000);
    ck_assert(!digests_are_equal(&fine, &coarse));
    struct limit coarsest;
    ck_assert(limit_coarsen(&coarse, 1000, &coarsest));
    ck_assert(!limit_coarsen(&coarsest, 1000, &coarse));
    ck_assert(limit_coarsen(&fine, 1000000, &coarse));
    ck_assert(digests_are_equal(&coarse, &coarsest));
}
END_TEST

static const struct limit_spec AS_THEY_ARE[] = {
    {.algorithm = &token_bucket_algorithm, .rate = 10, .burst = 10, .period_us = 1500},
    {.algorithm = &token_bucket_algorithm, .rate = 50000, .burst = 5, .period_us = S},
    {.algorithm = &leaky_bucket_algorithm,
     .rate = 10,
     .burst = 10,
     .period_us = S,
     .max_wait_us = 1500},
    {.algorithm = &gcra_algorithm, .rate = 10, .burst = 10, .period_us = S},
    {.algorithm = &fixed_window_algorithm, .rate = 10, .period_us = S},
    {.algorithm = &sliding_window_algorithm, .rate = 10, .period_us = S, .buckets = 20},
    {.algorithm = &sliding_log_algorithm, .rate = 10, .period_us = S},
};

/* That would not be exact, come back in lumps, or give no more room. */
START_TEST(a_coarser_tick_is_not_always_to_be_had)
{
    struct limit fine = {.name = SPAN("limit")};
    struct limit coarse;
    ck_assert_ptr_null(limit_init(&fine, &AS_THEY_ARE[_i]));
    ck_assert(!limit_coarsen(&fine, 1000, &coarse));
}
END_TEST

/* --- limit_init --- */

static const struct {
    const struct algorithm *algorithm;
    uint32_t rate;
    uint32_t burst;
    uint64_t period_us;
    uint32_t tick_us;
} TICKS[] = {
    {&token_bucket_algorithm, 100, 20, 60 * S, 1},
    {&token_bucket_algorithm, 1, 1, LIMIT_UNITS_MAX, 1},
    {&token_bucket_algorithm, 1000000, 1000000, DAY, 1000},
    {&token_bucket_algorithm, 100000, 100000, 30 * DAY, 1000},
    {&token_bucket_algorithm, UINT32_MAX, 1000000000, DAY / 24, 1000},
    {&token_bucket_algorithm, UINT32_MAX, 1000000000, 30 * DAY, 1000000},
    {&fixed_window_algorithm, UINT32_MAX, 0, 30 * DAY, 1},
};

START_TEST(the_finest_tick_in_which_the_numbers_are_exact_is_chosen)
{
    const struct limit limit =
        limit_of(TICKS[_i].algorithm, TICKS[_i].rate, TICKS[_i].burst, TICKS[_i].period_us);
    ck_assert_uint_eq(limit.tick_us, TICKS[_i].tick_us);
    ck_assert_uint_eq(limit.params.ticks_per_s, S / TICKS[_i].tick_us);
    ck_assert_uint_eq(limit.params.period * limit.tick_us, TICKS[_i].period_us);
    ck_assert_uint_eq(limit.period_us, TICKS[_i].period_us);
}
END_TEST

static const struct {
    struct limit_spec spec;
    const char *says;
} REFUSED[] = {
    {{.algorithm = &token_bucket_algorithm, .rate = 1, .burst = 1, .period_us = 0},
     "period must be at least 1us"},
    {{.algorithm = &token_bucket_algorithm, .rate = 0, .burst = 1, .period_us = S},
     "rate must be at least 1"},
    {{.algorithm = &token_bucket_algorithm, .rate = 1, .burst = 0, .period_us = S},
     "burst must be at least 1"},
    {{.algorithm = &fixed_window_algorithm, .rate = 0, .burst = 0, .period_us = S},
     "rate must be at least 1"},
    {{.algorithm = &token_bucket_algorithm, .rate = 1, .burst = UINT32_MAX, .period_us = 400 * DAY},
     "burst times period must not exceed 2^52 ticks"},
    {{.algorithm = &token_bucket_algorithm, .rate = 1, .burst = 1000000, .period_us = DAY + 1},
     "burst times period must not exceed 2^52 ticks"},
};

START_TEST(what_fits_no_tick_is_refused_with_the_reason)
{
    struct limit limit = {.name = SPAN("limit")};
    ck_assert_str_eq(limit_init(&limit, &REFUSED[_i].spec), REFUSED[_i].says);
}
END_TEST

START_TEST(windows_of_a_week_start_on_monday_and_others_at_the_epoch)
{
    ck_assert_uint_eq(limit_of(&fixed_window_algorithm, 1, 0, 7 * DAY).params.offset, 4 * DAY);
    ck_assert_uint_eq(limit_of(&fixed_window_algorithm, 1, 0, DAY).params.offset, 0);
    ck_assert_uint_eq(limit_of(&token_bucket_algorithm, 1, 1, 7 * DAY).params.offset, 0);
}
END_TEST

START_TEST(the_digest_tells_units_apart_and_nothing_else)
{
    const struct limit base = limit_of(&token_bucket_algorithm, 10, 5, S);
    const struct limit raised = limit_of(&token_bucket_algorithm, 20, 9, S);
    const struct limit longer = limit_of(&token_bucket_algorithm, 10, 5, 2 * S);
    const struct limit window = limit_of(&fixed_window_algorithm, 10, 5, S);
    const struct limit gcra = limit_of(&gcra_algorithm, 10, 5, S);
    const struct limit faster_gcra = limit_of(&gcra_algorithm, 20, 5, S);
    const struct limit deeper_gcra = limit_of(&gcra_algorithm, 10, 60, S);

    ck_assert(!digests_are_equal(&gcra, &faster_gcra));
    ck_assert(!digests_are_equal(&gcra, &deeper_gcra));
    ck_assert(digests_are_equal(&base, &raised));
    ck_assert(!digests_are_equal(&base, &longer));
    ck_assert(!digests_are_equal(&base, &window));
    for (size_t i = 0; i < sizeof(base.digest); i++) {
        ck_assert_ptr_nonnull(strchr("0123456789abcdef", base.digest[i]));
    }
}
END_TEST

static bool ids_are_equal(const struct limit *a, const struct limit *b)
{
    return a->id.low == b->id.low && a->id.high == b->id.high;
}

START_TEST(the_id_tells_names_and_units_apart_and_nothing_else)
{
    const struct limit_spec spec = {
        .algorithm = &token_bucket_algorithm, .rate = 10, .burst = 5, .period_us = S};
    const struct limit base = limit_of(&token_bucket_algorithm, 10, 5, S);
    const struct limit raised = limit_of(&token_bucket_algorithm, 20, 9, S);
    const struct limit longer = limit_of(&token_bucket_algorithm, 10, 5, 2 * S);
    struct limit other = {.name = SPAN("limit ")};
    struct limit share;
    ck_assert_ptr_null(limit_init(&other, &spec));
    limit_share(&base, 2, &share);

    ck_assert(ids_are_equal(&base, &raised));
    ck_assert(!ids_are_equal(&base, &longer));
    ck_assert(!ids_are_equal(&base, &other));
    ck_assert(!ids_are_equal(&base, &share));
}
END_TEST

/* --- limit_share --- */

START_TEST(a_bucket_is_shared_by_a_longer_period_and_a_smaller_burst)
{
    const struct limit limit = limit_of(&token_bucket_algorithm, 100, 20, 60 * S);
    struct limit share;
    limit_share(&limit, 3, &share);

    ck_assert_uint_eq(share.params.rate, 100);
    ck_assert_uint_eq(share.params.period, 180 * S);
    ck_assert_uint_eq(share.params.burst, 6);
    ck_assert_uint_eq(share.tick_us, limit.tick_us);
    ck_assert(span_equals(share.name, limit.name));
    ck_assert(!digests_are_equal(&share, &limit));
}
END_TEST

START_TEST(a_window_is_shared_by_its_count_alone)
{
    const struct limit limit = limit_of(&fixed_window_algorithm, 100, 0, 60 * S);
    struct limit share;
    limit_share(&limit, 3, &share);

    ck_assert_uint_eq(share.params.rate, 33);
    ck_assert_uint_eq(share.params.period, 60 * S);
    ck_assert(digests_are_equal(&share, &limit));
}
END_TEST

START_TEST(a_share_is_at_least_one_unit)
{
    const struct limit bucket = limit_of(&token_bucket_algorithm, 5, 5, S);
    const struct limit window = limit_of(&fixed_window_algorithm, 5, 0, S);
    struct limit share;

    limit_share(&bucket, 6, &share);
    ck_assert_uint_eq(share.params.burst, 1);
    limit_share(&window, 6, &share);
    ck_assert_uint_eq(share.params.rate, 1);
    limit_share(&window, UINT32_MAX, &share);
    ck_assert_uint_eq(share.params.rate, 1);
}
END_TEST

START_TEST(a_share_of_one_is_the_limit_itself)
{
    const struct limit limit = limit_of(&token_bucket_algorithm, 100, 20, 60 * S);
    struct limit share;
    limit_share(&limit, 1, &share);

    ck_assert_uint_eq(share.params.burst, 20);
    ck_assert_uint_eq(share.params.period, 60 * S);
    ck_assert(digests_are_equal(&share, &limit));
}
END_TEST

START_TEST(a_shared_period_that_fits_no_more_is_cut)
{
    const struct limit limit = limit_of(&token_bucket_algorithm, 1, 1, LIMIT_UNITS_MAX / 2);
    struct limit share;
    limit_share(&limit, 1000, &share);

    ck_assert_uint_eq(share.params.period, LIMIT_UNITS_MAX);
    ck_assert_uint_eq(share.params.burst, 1);
}
END_TEST

START_TEST(a_share_of_gcra_has_an_interval_as_many_times_as_long)
{
    const struct limit limit = limit_of(&gcra_algorithm, 30, 16, 60 * S);
    struct limit share;
    limit_share(&limit, 3, &share);
    ck_assert_uint_eq(share.params.period / share.params.rate, 6 * S);
    ck_assert_uint_eq(share.params.burst, 5);

    const struct limit longest = limit_of(&gcra_algorithm, 7, 3, 7 * (LIMIT_UNITS_MAX / 8));
    limit_share(&longest, 1000, &share);
    ck_assert_ptr_null(algorithm_check_params(&gcra_algorithm, &share.params));
}
END_TEST

START_TEST(a_share_of_what_counts_is_a_part_of_the_count)
{
    struct limit_spec spec = {.algorithm = &sliding_window_algorithm,
                              .rate = 100,
                              .period_us = 60 * S,
                              .buckets = 10,
                              .lease_us = 60 * S};
    const struct algorithm *const counting[] = {&sliding_window_algorithm, &sliding_log_algorithm,
                                                &concurrency_algorithm};
    for (size_t i = 0; i < ARRAY_LEN(counting); i++) {
        struct limit limit = {.name = SPAN("limit")};
        struct limit share;
        spec.algorithm = counting[i];
        ck_assert_ptr_null(limit_init(&limit, &spec));
        limit_share(&limit, 3, &share);
        ck_assert_uint_eq(share.params.rate, 33);
        ck_assert_uint_eq(limit_capacity(&share), 33);
        ck_assert_uint_eq(share.params.period, limit.params.period);
        ck_assert_uint_eq(share.params.lease, limit.params.lease);
    }
}
END_TEST

START_TEST(a_share_of_a_queue_spaces_departures_out_as_many_times)
{
    const struct limit_spec spec = {.algorithm = &leaky_bucket_algorithm,
                                    .rate = 4,
                                    .burst = 9,
                                    .period_us = S,
                                    .max_wait_us = 2 * S};
    struct limit limit = {.name = SPAN("limit")};
    struct limit share;
    ck_assert_ptr_null(limit_init(&limit, &spec));
    limit_share(&limit, 3, &share);
    ck_assert_uint_eq(share.params.period, 3 * S);
    ck_assert_uint_eq(share.params.burst, 3);
    ck_assert_uint_eq(share.params.max_wait, 2 * S);
}
END_TEST

static uint32_t random_up_to(uint32_t most)
{
    return 1 + (uint32_t)rand() % (rand() % 2 == 0 ? most : 10);
}

static void ck_shares_fit(const struct limit *limit, uint32_t instances)
{
    struct limit share;
    limit_share(limit, instances, &share);
    ck_assert_ptr_null(algorithm_check_params(limit->algorithm, &share.params));
    ck_assert_uint_ge(limit_capacity(&share), 1);
    if (limit_capacity(limit) >= instances) {
        ck_assert_uint_le(limit_capacity(&share) * instances, limit_capacity(limit));
    }
    if (limit->algorithm->has_burst) {
        ck_assert_uint_eq(share.params.rate, limit->params.rate);
        ck_assert_uint_ge(share.params.period, limit->params.period * instances);
    } else {
        ck_assert_uint_eq(share.params.period, limit->params.period);
    }
    ck_assert_uint_eq(share.params.max_wait, limit->params.max_wait);
    ck_assert_uint_eq(share.tick_us, limit->tick_us);
}

/* But for the unit that each has at least. */
START_TEST(the_shares_of_all_instances_are_at_most_the_limit)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    srand(1);
    for (size_t i = 0; i < n_algorithms * 1000; i++) {
        const struct limit_spec spec = {
            .algorithm = algorithms[i % n_algorithms],
            .rate = random_up_to(50000),
            .burst = random_up_to(1000),
            .period_us = random_up_to(1000) * S,
            .lease_us = 60 * S,
            .max_wait_us = (uint64_t)rand() % 2 * S,
            .buckets = 10,
        };
        struct limit limit = {.name = SPAN("limit")};
        if (limit_init(&limit, &spec) == NULL) { /* gcra refuses some rates */
            ck_shares_fit(&limit, random_up_to(10000));
        }
    }
}
END_TEST

/* --- units of time --- */

START_TEST(now_is_rounded_down_and_waits_are_rounded_up)
{
    const struct limit fine = limit_of(&token_bucket_algorithm, 1, 1, S);
    const struct limit coarse = limit_of(&token_bucket_algorithm, 1, 1000000, DAY);

    ck_assert_uint_eq(limit_ticks(&fine, 1999999), 1999999);
    ck_assert_uint_eq(limit_ticks(&coarse, 1999999), 1999);
    ck_assert_uint_eq(limit_seconds(&fine, 0), 0);
    ck_assert_uint_eq(limit_seconds(&fine, 1), 1);
    ck_assert_uint_eq(limit_seconds(&coarse, 1001), 2);
    ck_assert(limit_seconds(&coarse, RETRY_NEVER) == RETRY_NEVER);
    ck_assert_uint_eq(limit_us(&coarse, 7), 7000);
    ck_assert(limit_us(&coarse, UINT64_MAX / 2) == UINT64_MAX);
}
END_TEST

START_TEST(the_capacity_is_what_passes_at_once)
{
    static const struct algorithm *const WITH_BURST[] = {&token_bucket_algorithm,
                                                         &leaky_bucket_algorithm, &gcra_algorithm};
    static const struct algorithm *const WITHOUT[] = {
        &fixed_window_algorithm, &sliding_window_algorithm, &sliding_log_algorithm,
        &concurrency_algorithm};
    const struct limit_params params = {.rate = 10, .burst = 3};
    for (size_t i = 0; i < ARRAY_LEN(WITH_BURST); i++) {
        const struct limit limit = {.algorithm = WITH_BURST[i], .params = params};
        ck_assert_uint_eq(limit_capacity(&limit), 3);
    }
    for (size_t i = 0; i < ARRAY_LEN(WITHOUT); i++) {
        const struct limit limit = {.algorithm = WITHOUT[i], .params = params};
        ck_assert_uint_eq(limit_capacity(&limit), 10);
    }
}
END_TEST

static Suite *limit_suite(void)
{
    Suite *suite = suite_create("limit/limit");

    TCase *init = tcase_create("limit_init");
    tcase_add_loop_test(init, the_finest_tick_in_which_the_numbers_are_exact_is_chosen, 0,
                        (int)ARRAY_LEN(TICKS));
    tcase_add_loop_test(init, what_fits_no_tick_is_refused_with_the_reason, 0,
                        (int)ARRAY_LEN(REFUSED));
    tcase_add_test(init, windows_of_a_week_start_on_monday_and_others_at_the_epoch);
    tcase_add_test(init, a_coarser_tick_gives_what_is_owed_more_room);
    tcase_add_loop_test(init, a_coarser_tick_is_not_always_to_be_had, 0,
                        (int)ARRAY_LEN(AS_THEY_ARE));
    tcase_add_test(init, the_digest_tells_units_apart_and_nothing_else);
    tcase_add_test(init, the_id_tells_names_and_units_apart_and_nothing_else);
    suite_add_tcase(suite, init);

    TCase *share = tcase_create("limit_share");
    tcase_add_test(share, a_bucket_is_shared_by_a_longer_period_and_a_smaller_burst);
    tcase_add_test(share, a_window_is_shared_by_its_count_alone);
    tcase_add_test(share, a_share_is_at_least_one_unit);
    tcase_add_test(share, a_share_of_one_is_the_limit_itself);
    tcase_add_test(share, a_share_of_gcra_has_an_interval_as_many_times_as_long);
    tcase_add_test(share, a_share_of_what_counts_is_a_part_of_the_count);
    tcase_add_test(share, a_share_of_a_queue_spaces_departures_out_as_many_times);
    tcase_add_test(share, the_shares_of_all_instances_are_at_most_the_limit);
    tcase_add_test(share, a_shared_period_that_fits_no_more_is_cut);
    suite_add_tcase(suite, share);

    TCase *units = tcase_create("units");
    tcase_add_test(units, now_is_rounded_down_and_waits_are_rounded_up);
    tcase_add_test(units, the_capacity_is_what_passes_at_once);
    suite_add_tcase(suite, units);

    return suite;
}

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    SRunner *runner = srunner_create(limit_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
