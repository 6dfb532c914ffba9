/* Replies to a call for identical requests. That they say what deciding one after another says is
 * the differential's to show. */

#include "limit/identical.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"

enum { NOW_US = 1000000000, MINUTE_US = 60000000 };

static struct limit bucket;
static struct limit window;

static struct limit make(const struct algorithm *algorithm, uint32_t rate)
{
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = rate,
        .burst = rate,
        .period_us = MINUTE_US,
        .lease_us = MINUTE_US,
        .buckets = 2,
    };
    struct limit limit = {.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    return limit;
}

static void setup(void)
{
    bucket = make(&token_bucket_algorithm, 10);
    window = make(&fixed_window_algorithm, 10);
}

static struct identical identical;

static bool begin(uint64_t n_requests, const long long *ints, size_t n_ints)
{
    const struct script_charge charges[] = {{.limit = &bucket, .cost = 4},
                                            {.limit = &window, .cost = 1}};
    return identical_begin(&identical, n_requests, charges, 2, ints, n_ints);
}

START_TEST(each_request_has_its_own_verdict_and_the_denied_ones_the_same)
{
    const long long ints[] = {2, NOW_US, 0, 0, 3, NOW_US};
    const uint64_t left[][2] = {{6, 6}, {2, 5}, {2, 5}, {2, 5}};
    ck_assert(begin(4, ints, ARRAY_LEN(ints)));
    for (size_t i = 0; i < 4; i++) {
        bool admitted;
        ck_assert(identical_next(&identical, &admitted));
        ck_assert(admitted == (i < 2));
        ck_assert(identical.judged[0].charged == (i < 2));
        ck_assert_uint_eq(identical.verdicts[0].remaining, left[i][0]);
        ck_assert_uint_eq(identical.verdicts[1].remaining, left[i][1]);
        ck_assert_uint_eq(identical.verdicts[0].retry_after, i < 2 ? 0 : 12000000);
        ck_assert(identical.verdicts[1].allowed);
    }
}
END_TEST

START_TEST(no_more_verdicts_come_than_there_were_requests)
{
    const long long ints[] = {2, NOW_US, 0, 0, 0, 0};
    bool admitted;
    ck_assert(begin(2, ints, ARRAY_LEN(ints)));
    ck_assert(identical_next(&identical, &admitted));
    ck_assert(identical_next(&identical, &admitted));
    ck_assert(!identical_next(&identical, &admitted));
}
END_TEST

START_TEST(a_script_that_admits_another_number_is_not_believed)
{
    const long long too_many[] = {3, NOW_US, 0, 0, 0, 0};
    const long long too_few[] = {1, NOW_US, 0, 0, 0, 0};
    bool admitted;
    ck_assert(begin(3, too_many, ARRAY_LEN(too_many)));
    ck_assert(identical_next(&identical, &admitted));
    ck_assert(identical_next(&identical, &admitted));
    ck_assert(!identical_next(&identical, &admitted));
    ck_assert(begin(3, too_few, ARRAY_LEN(too_few)));
    ck_assert(identical_next(&identical, &admitted));
    ck_assert(!identical_next(&identical, &admitted));
}
END_TEST

START_TEST(a_reply_that_makes_no_sense_is_refused)
{
    static const struct {
        size_t n;
        long long ints[8];
    } replies[] = {
        {0, {0}},
        {1, {1}},
        {2, {1, NOW_US}},
        {5, {1, NOW_US, 0, 0, 0}},                  /* a number is missing */
        {7, {1, NOW_US, 0, 0, 0, 0, 0}},            /* one too many */
        {6, {-1, NOW_US, 0, 0, 0, 0}},              /* admitted */
        {6, {4, NOW_US, 0, 0, 0, 0}},               /* more than asked */
        {6, {1, -1, 0, 0, 0, 0}},                   /* the time */
        {6, {1, (1LL << 52) + 1, 0, 0, 0, 0}},      /* later than can be judged */
        {6, {1, NOW_US, -1, 0, 0, 0}},              /* a state */
        {6, {1, NOW_US, 0, (1LL << 53) + 1, 0, 0}}, /* not exact */
    };
    for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
        ck_assert_msg(!begin(3, replies[i].ints, replies[i].n), "reply %zu", i);
    }
}
END_TEST

START_TEST(counters_that_pass_the_greatest_make_no_sense)
{
    const struct limit limit = make(&sliding_window_algorithm, 10);
    const struct script_charge charge = {.limit = &limit, .cost = 1};
    const long long most = (1LL << 52) / (MINUTE_US / 2);
    const long long well[] = {0, NOW_US, 0, most, 0, 0};
    const long long ill[] = {0, NOW_US, 0, most + 1, 0, 0};
    ck_assert(identical_begin(&identical, 2, &charge, 1, well, ARRAY_LEN(well)));
    ck_assert(!identical_begin(&identical, 2, &charge, 1, ill, ARRAY_LEN(ill)));
}
END_TEST

START_TEST(a_time_outside_the_calendar_is_not_judged)
{
    static const uint64_t edges[LIMIT_EDGES] = {1, 2, 3, 4};
    bool admitted;
    window.params.is_calendar = true;
    const struct script_charge charge = {.limit = &window, .cost = 1, .edges = edges};
    const long long ints[] = {2, NOW_US, 0, 0};
    ck_assert(identical_begin(&identical, 2, &charge, 1, ints, ARRAY_LEN(ints)));
    ck_assert(!identical_next(&identical, &admitted));
}
END_TEST

START_TEST(what_is_held_logged_in_flight_or_counted_when_denied_is_decided_alone)
{
    struct limit counting = bucket;
    struct limit shaping = make(&leaky_bucket_algorithm, 10);
    const struct limit policing = shaping;
    const struct limit log = make(&sliding_log_algorithm, 10);
    const struct limit slots = make(&concurrency_algorithm, 10);
    const struct limit gcra = make(&gcra_algorithm, 10);
    counting.charge_denied = true;
    shaping.params.max_wait = 1;
    ck_assert(limit_takes_identical(&bucket));
    ck_assert(limit_takes_identical(&window));
    ck_assert(limit_takes_identical(&policing));
    ck_assert(limit_takes_identical(&gcra));
    ck_assert(!limit_takes_identical(&counting));
    ck_assert(!limit_takes_identical(&shaping));
    ck_assert(!limit_takes_identical(&log));
    ck_assert(!limit_takes_identical(&slots));
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("limit/alike");
    TCase *tcase = tcase_create("alike");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, each_request_has_its_own_verdict_and_the_denied_ones_the_same);
    tcase_add_test(tcase, no_more_verdicts_come_than_there_were_requests);
    tcase_add_test(tcase, a_script_that_admits_another_number_is_not_believed);
    tcase_add_test(tcase, a_reply_that_makes_no_sense_is_refused);
    tcase_add_test(tcase, counters_that_pass_the_greatest_make_no_sense);
    tcase_add_test(tcase, a_time_outside_the_calendar_is_not_judged);
    tcase_add_test(tcase, what_is_held_logged_in_flight_or_counted_when_denied_is_decided_alone);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
