/* Refunds of the buckets: nothing is gained by charges that are held and given back, and requests
 * that are all given back do not use a limit up. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/algorithms.h"

enum { N_TRACES = 300, N_EVENTS = 300, BURST_MAX = 64 };

static const uint64_t START = UINT64_C(1763667890123456);

static const struct algorithm *const BUCKETS[] = {
    &token_bucket_algorithm,
    &leaky_bucket_algorithm,
    &gcra_algorithm,
};

static const struct limit_params PARAMS[] = {
    {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000, .settles = true},
    {.rate = 3, .burst = 3, .period = 999984, .ticks_per_s = 1000000, .settles = true},
    {.rate = 1, .burst = 20, .period = 86400, .ticks_per_s = 1, .settles = true},
    {.rate = 7, .burst = 11, .period = 70, .ticks_per_s = 1000, .settles = true},
    {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000, .settles = false},
};

struct charged {
    uint64_t at;
    uint64_t dated;  /* by its caller: no later */
    uint32_t cost;   /* that is still charged */
    bool is_settled; /* and stays so */
};

struct bucket {
    const struct algorithm *algorithm;
    const struct limit_params *params;
    uint64_t state[LIMIT_STATE_BYTES_MAX / 8];
    struct charged charges[N_EVENTS * BURST_MAX];
    size_t n_charges;
    uint64_t now;
};

static struct bucket bucket;

static void begin(int number)
{
    bucket = (struct bucket){
        .algorithm = BUCKETS[(size_t)number % ARRAY_LEN(BUCKETS)],
        .params = &PARAMS[(size_t)number / ARRAY_LEN(BUCKETS)],
        .now = START,
    };
    ck_assert_ptr_null(algorithm_check_params(bucket.algorithm, bucket.params));
}

enum { N_BUCKETS = 15 };

static struct verdict look(uint32_t cost)
{
    const struct limit_call call = {.now = bucket.now, .cost = cost};
    struct verdict verdict;
    algorithm_evaluate(bucket.algorithm, bucket.state, bucket.params, &call, &verdict);
    return verdict;
}

static bool charge(uint32_t cost)
{
    const struct limit_call call = {.now = bucket.now, .cost = cost};
    if (!look(cost).allowed) {
        return false;
    }
    bucket.algorithm->charge(bucket.state, bucket.params, &call);
    bucket.charges[bucket.n_charges++] =
        (struct charged){.at = bucket.now, .dated = bucket.now, .cost = cost};
    return true;
}

/* Charge @cost more for @i, which is in flight: refunded apart from it. */
static void take_more(size_t i, uint32_t cost, uint64_t dated)
{
    bucket.algorithm->settle(bucket.state, bucket.params, bucket.charges[i].at, bucket.now, cost);
    bucket.charges[bucket.n_charges++] =
        (struct charged){.at = bucket.now, .dated = dated, .cost = cost};
}

static void give_back(size_t i, uint32_t units)
{
    struct charged *charged = &bucket.charges[i];
    bucket.algorithm->settle(bucket.state, bucket.params, charged->dated, bucket.now,
                             -(int64_t)units);
    charged->cost -= units;
    charged->is_settled = true;
}

/* Ticks until the bucket would be untouched, had it never been charged what was given back. */
static uint64_t reset_after_without_refunded(void)
{
    const struct limit_params *params = bucket.params;
    const bool is_gcra = bucket.algorithm == &gcra_algorithm;
    const uint64_t unit =
        is_gcra ? (params->period + params->rate - 1) / params->rate : params->period;
    const uint64_t per_tick = is_gcra ? 1 : params->rate;
    uint64_t level = 0;
    uint64_t at = START;
    for (size_t i = 0; i <= bucket.n_charges; i++) {
        const uint64_t next = i < bucket.n_charges ? bucket.charges[i].at : bucket.now;
        const uint64_t back = (next - at) * per_tick;
        level = level > back ? level - back : 0;
        level += i < bucket.n_charges ? bucket.charges[i].cost * unit : 0;
        at = next;
    }
    return (level + per_tick - 1) / per_tick;
}

/* One of those in flight, or SIZE_MAX. */
static size_t find_one(void)
{
    for (int tries = 0; tries < 20 && bucket.n_charges > 0; tries++) {
        const size_t i = (size_t)rand() % bucket.n_charges;
        if (!bucket.charges[i].is_settled) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void wait_a_while(void)
{
    const uint64_t unit = bucket.params->period / bucket.params->rate;
    switch (rand() % 8) {
    case 0:
        bucket.now += (uint64_t)rand() % (unit * bucket.params->burst * 2);
        break;
    case 1:
    case 2:
        bucket.now += (uint64_t)rand() % (unit + 1);
        break;
    case 3:
        bucket.now += (uint64_t)rand() % (unit / 5 + 1);
        break;
    default:
        break; /* at the same instant */
    }
}

static void settle_one(void)
{
    const size_t i = find_one();
    if (i == SIZE_MAX) {
        return;
    }
    const uint32_t cost = bucket.charges[i].cost;
    if (rand() % 4 == 0) {
        bucket.charges[i].is_settled = true; /* it is counted, and nobody tells the store */
    } else {
        give_back(i, rand() % 4 == 0 ? 1 + (uint32_t)rand() % cost : cost);
    }
}

static void raise_one(void)
{
    const size_t i = find_one();
    const uint32_t cost = 1 + (uint32_t)rand() % 3;
    /* What does not fit, gcra forgives. */
    if (i != SIZE_MAX && (bucket.algorithm != &gcra_algorithm || look(cost).allowed)) {
        const uint64_t since_us = bucket.now - bucket.charges[i].at;
        take_more(i, cost, bucket.now - (rand() % 2 == 0 ? 0 : (uint64_t)rand() % (since_us + 1)));
    }
}

START_TEST(the_level_is_never_below_that_without_the_refunded_charges)
{
    const bool raises = _i >= N_BUCKETS;
    srand(7);
    for (int trace = 0; trace < (raises ? N_TRACES / 10 : N_TRACES); trace++) {
        const int n_kinds = 2 + rand() % 4; /* more of charges, or of refunds */
        begin(_i % N_BUCKETS);
        for (int event = 0; event < N_EVENTS; event++) {
            wait_a_while();
            if (rand() % n_kinds == 0) {
                settle_one();
            } else if (raises && rand() % 3 == 0) {
                raise_one();
            } else {
                charge(1 + (uint32_t)rand() % 2);
            }
            ck_assert_uint_ge(look(0).reset_after, reset_after_without_refunded());
        }
    }
}
END_TEST

/* Hold as many requests as the refill admits; @renews: and replace held ones by new ones. */
static void hoard(bool renews)
{
    const uint64_t unit = bucket.params->period / bucket.params->rate;
    for (int round = 0; round < 100; round++) {
        while (charge(1)) {
        }
        for (size_t i = 0, n = bucket.n_charges; i < n && renews; i++) {
            if (!bucket.charges[i].is_settled && rand() % 3 == 0) {
                give_back(i, 1);
                charge(1);
            }
        }
        bucket.now += unit;
    }
}

START_TEST(held_requests_gather_no_burst)
{
    begin(_i / 2);
    srand(3);
    hoard(_i % 2 == 1);
    const size_t n = bucket.n_charges;
    size_t n_kept = 0;
    ck_assert_uint_gt(n, 5 * bucket.params->burst);
    for (size_t i = 0; i < n; i++) {
        while (charge(1)) {
            n_kept++;
        }
        if (!bucket.charges[i].is_settled) {
            give_back(i, 1);
        }
    }
    while (charge(1)) {
        n_kept++;
    }
    ck_assert_uint_le(n_kept, bucket.params->burst);
}
END_TEST

/* So many at a time, each for a random time around @takes, all given back, in any order. */
static void run_parallel(size_t k, uint64_t takes, int n_requests)
{
    uint64_t ends[BURST_MAX] = {0};
    size_t of[BURST_MAX];
    for (size_t i = 0; i < k; i++) {
        ck_assert(charge(1));
        of[i] = bucket.n_charges - 1;
        ends[i] = bucket.now + (uint64_t)rand() % (2 * takes);
    }
    for (int request = 0; request < n_requests; request++) {
        size_t first = 0;
        for (size_t i = 1; i < k; i++) {
            first = ends[i] < ends[first] ? i : first;
        }
        bucket.now = ends[first];
        give_back(of[first], 1);
        ck_assert_msg(charge(1), "denied after %d requests", request);
        of[first] = bucket.n_charges - 1;
        ends[first] = bucket.now + (uint64_t)rand() % (2 * takes);
    }
}

static const struct {
    uint32_t burst;
    uint64_t takes; /* thousandths of the time that a unit takes to come back */
} PARALLEL[] = {{11, 1}, {11, 100}, {11, 900}, {11, 3000}, {11, 50000}, {2, 700}, {30, 2500}};

START_TEST(requests_that_are_all_given_back_are_never_denied)
{
    const struct limit_params params = {
        .rate = 1,
        .burst = PARALLEL[_i].burst,
        .period = 1000000,
        .ticks_per_s = 1000000,
        .settles = true,
    };
    srand(5);
    for (size_t i = 0; i < ARRAY_LEN(BUCKETS); i++) {
        begin((int)i);
        bucket.params = &params;
        run_parallel(params.burst - 1, PARALLEL[_i].takes * 1000, 10000);
    }
}
END_TEST

/* The bucket is untouched again when a request turns out to cost more. Its caller dates that a
 * little too early, or exactly. */
START_TEST(what_is_taken_more_is_given_back_whole)
{
    const struct limit_params params = {
        .rate = 1, .burst = 50, .period = 1000000, .ticks_per_s = 1000000, .settles = true};
    for (size_t i = 0; i < ARRAY_LEN(BUCKETS); i++) {
        begin((int)i);
        bucket.params = &params;
        ck_assert(charge(1));
        bucket.now += 10000000;
        take_more(0, 40, bucket.now - (_i == 0 ? 0 : 1000));
        ck_assert_uint_eq(look(0).remaining, 10);
        bucket.now += 5000000;
        give_back(1, 40);
        give_back(0, 1);
        bucket.now += 1000;
        ck_assert_uint_eq(look(0).remaining, 50);
    }
}
END_TEST

START_TEST(counted_requests_come_back_beside_those_that_are_given_back)
{
    const struct limit_params params = {
        .rate = 1, .burst = 5, .period = 1000000, .ticks_per_s = 1000000, .settles = true};
    for (size_t i = 0; i < ARRAY_LEN(BUCKETS); i++) {
        begin((int)i);
        bucket.params = &params;
        for (int round = 0; round < 1000; round++) {
            ck_assert(charge(1)); /* counted */
            for (int free = 0; free < 9; free++) {
                ck_assert(charge(1));
                bucket.now += 20000;
                give_back(bucket.n_charges - 1, 1);
                bucket.now += 150000;
            }
        }
    }
}
END_TEST

/* Requests of @takes each, one every @interval, for @total: each is given back at its end. */
static void run_train(uint64_t takes, uint64_t interval, uint64_t total)
{
    const uint64_t start = bucket.now;
    const size_t first = bucket.n_charges;
    size_t n_ended = 0;
    for (uint64_t at = 0; at < total; at += interval) {
        for (;
             first + n_ended < bucket.n_charges && start + n_ended * interval + takes <= start + at;
             n_ended++) {
            bucket.now = start + n_ended * interval + takes;
            give_back(first + n_ended, 1);
        }
        bucket.now = start + at;
        ck_assert(charge(1));
    }
    for (; first + n_ended < bucket.n_charges; n_ended++) {
        bucket.now = start + n_ended * interval + takes;
        give_back(first + n_ended, 1);
    }
    if (bucket.now < start + total) {
        bucket.now = start + total;
    }
}

/* The example of docs/algorithms.md. */
START_TEST(counted_requests_stay_charged_while_others_are_always_in_flight)
{
    const struct limit_params params = {
        .rate = 1, .burst = 5, .period = 1000000, .ticks_per_s = 1000000, .settles = true};
    for (size_t i = 0; i < ARRAY_LEN(BUCKETS); i++) {
        begin((int)i);
        bucket.params = &params;
        for (int counted = 0; counted < 3; counted++) {
            ck_assert(charge(1));
        }
        run_train(500000, 400000, 60000000);
        ck_assert_uint_eq(look(0).reset_after, 3000000);
        run_train(100000, 400000, 2000000);
        ck_assert_uint_eq(look(0).reset_after, 1500000);
        bucket.now += 1500000;
        ck_assert_uint_eq(look(0).reset_after, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/refunds");
    TCase *tcase = tcase_create("refunds");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, the_level_is_never_below_that_without_the_refunded_charges, 0,
                        2 * N_BUCKETS);
    tcase_add_loop_test(tcase, held_requests_gather_no_burst, 0, 2 * N_BUCKETS);
    tcase_add_loop_test(tcase, requests_that_are_all_given_back_are_never_denied, 0,
                        ARRAY_LEN(PARALLEL));
    tcase_add_loop_test(tcase, what_is_taken_more_is_given_back_whole, 0, 2);
    tcase_add_test(tcase, counted_requests_come_back_beside_those_that_are_given_back);
    tcase_add_test(tcase, counted_requests_stay_charged_while_others_are_always_in_flight);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
