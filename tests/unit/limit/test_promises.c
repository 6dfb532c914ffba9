/* What each algorithm promises, over random traces: bursts, costs above one, idle times long enough
 * for a state to be forgotten. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/algorithms.h"

enum { N_ASKED = 3000, STATE_WORDS = 2048 };

static const uint64_t START = UINT64_C(1763667890123456);

struct admitted {
    uint64_t at; /* ticks; of its departure where there is a queue */
    uint64_t cost;
};

/* How a trace goes on: mostly asked again before enough has come back,
 * sometimes after long idle. */
static uint64_t next_time(uint64_t now, const struct limit_params *params)
{
    const uint64_t idle = params->period * 3;
    return now + (rand() % 50 == 0 ? idle : (uint64_t)rand() % (params->period / params->rate * 2));
}

/* What is as if unused is forgotten, as a store may. */
static void maybe_forget(const struct algorithm *algorithm, const struct limit_params *params,
                         const struct limit_call *call, uint64_t state[STATE_WORDS])
{
    struct limit_call ask = *call;
    struct verdict verdict;
    ask.cost = 0;
    algorithm_evaluate(algorithm, state, params, &ask, &verdict);
    if (verdict.reset_after == 0 && rand() % 2 == 0) {
        memset(state, 0, STATE_WORDS * sizeof(state[0]));
    }
}

/* Windows of a calendar that differ in length: every third is longer. */
static void set_edges(const struct limit_params *params, uint64_t now, uint64_t edges[LIMIT_EDGES])
{
    const uint64_t third = params->period * 3 + params->period / 2;
    const uint64_t into = now % third;
    const uint64_t window = into / params->period < 2 ? into / params->period : 2;
    for (uint64_t i = 0; i < LIMIT_EDGES; i++) {
        const uint64_t k = now / third * 3 + window + i - 1;
        edges[i] = k / 3 * third + k % 3 * params->period;
    }
}

static size_t play(const struct algorithm *algorithm, const struct limit_params *params,
                   struct admitted *admitted)
{
    static uint64_t state[STATE_WORDS];
    uint64_t now = START;
    size_t n_admitted = 0;
    memset(state, 0, sizeof(state));
    srand(1);
    ck_assert_ptr_null(algorithm_check_params(algorithm, params));
    for (int i = 0; i < N_ASKED; i++) {
        uint64_t edges[LIMIT_EDGES];
        now = next_time(now, params);
        set_edges(params, now, edges);
        const struct limit_call call = {
            .now = now, .cost = (uint32_t)rand() % 4, .edges = edges, .slot = (uint64_t)i};
        struct verdict verdict;
        maybe_forget(algorithm, params, &call, state);
        algorithm_evaluate(algorithm, state, params, &call, &verdict);
        if (verdict.allowed && call.cost > 0) {
            ck_assert_uint_le(algorithm->state_bytes(state, params, &call), sizeof(state));
            ck_assert_uint_le(verdict.wait, params->max_wait);
            algorithm->charge(state, params, &call);
            admitted[n_admitted++] = (struct admitted){now + verdict.wait, call.cost};
        }
    }
    ck_assert_uint_gt(n_admitted, 100);
    return n_admitted;
}

static const struct limit_params PARAMS[] = {
    {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000},
    {.rate = 8, .burst = 20, .period = 1000000, .ticks_per_s = 1000000},
    {.rate = 3, .burst = 3, .period = 999984, .ticks_per_s = 1000000},
    {.rate = 100, .burst = 10, .period = 86400000, .ticks_per_s = 1000},
};

static struct admitted admitted[N_ASKED];

/* In any interval of length T at most B + T * N / P units. */
static void check_burst_and_rate(const struct algorithm *algorithm,
                                 const struct limit_params *params)
{
    const size_t n = play(algorithm, params, admitted);
    bool kept = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t units = 0;
        for (size_t j = i; j < n; j++) {
            const uint64_t length = admitted[j].at - admitted[i].at;
            units += admitted[j].cost;
            kept = kept &&
                   units * params->period <= params->burst * params->period + length * params->rate;
        }
    }
    ck_assert(kept);
}

/* The most units in any interval that is half open and of @length. */
static uint64_t most_within(size_t n, uint64_t length)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t units = 0;
        for (size_t j = i; j < n && admitted[j].at - admitted[i].at < length; j++) {
            units += admitted[j].cost;
        }
        most = units > most ? units : most;
    }
    return most;
}

START_TEST(buckets_admit_in_any_interval_their_burst_and_what_came_back_meanwhile)
{
    check_burst_and_rate(&token_bucket_algorithm, &PARAMS[_i]);
    check_burst_and_rate(&leaky_bucket_algorithm, &PARAMS[_i]);
    check_burst_and_rate(&gcra_algorithm, &PARAMS[_i]);
}
END_TEST

START_TEST(departures_of_a_queue_are_never_closer_than_their_gaps)
{
    struct limit_params params = PARAMS[_i];
    params.max_wait = params.period / 2;
    params.burst = 60;
    const size_t n = play(&leaky_bucket_algorithm, &params, admitted);
    size_t n_waited = 0;
    for (size_t i = 1; i < n; i++) {
        const uint64_t gap = admitted[i].at - admitted[i - 1].at;
        /* Departures are rounded up to a tick, each by itself. */
        ck_assert_uint_ge((gap + 1) * params.rate, admitted[i - 1].cost * params.period);
        n_waited += gap * params.rate < (admitted[i - 1].cost + 1) * params.period;
    }
    ck_assert_uint_gt(n_waited, 50);
}
END_TEST

START_TEST(a_fixed_window_admits_in_each_window_its_count)
{
    struct limit_params params = PARAMS[_i];
    uint64_t window = 0;
    uint64_t units = 0;
    params.offset = params.period / 3;
    const size_t n = play(&fixed_window_algorithm, &params, admitted);
    for (size_t i = 0; i < n; i++) {
        const uint64_t of = (admitted[i].at - params.offset) / params.period;
        units = of == window ? units : 0;
        window = of;
        units += admitted[i].cost;
        ck_assert_uint_le(units, params.rate);
    }
}
END_TEST

START_TEST(a_window_of_a_calendar_admits_its_count_however_long_it_is)
{
    struct limit_params params = PARAMS[_i];
    uint64_t window = 0;
    uint64_t units = 0;
    params.is_calendar = true;
    const size_t n = play(&fixed_window_algorithm, &params, admitted);
    for (size_t i = 0; i < n; i++) {
        uint64_t edges[LIMIT_EDGES];
        set_edges(&params, admitted[i].at, edges);
        ck_assert(edges[1] <= admitted[i].at && admitted[i].at < edges[2]);
        units = edges[1] == window ? units : 0;
        window = edges[1];
        units += admitted[i].cost;
        ck_assert_uint_le(units, params.rate);
    }
}
END_TEST

START_TEST(a_window_from_the_first_request_admits_its_count_from_then_on)
{
    struct limit_params params = PARAMS[_i];
    uint64_t start = 0;
    uint64_t units = 0;
    params.from_first = true;
    const size_t n = play(&fixed_window_algorithm, &params, admitted);
    for (size_t i = 0; i < n; i++) {
        if (admitted[i].at - start >= params.period) {
            start = admitted[i].at;
            units = 0;
        }
        units += admitted[i].cost;
        ck_assert_uint_le(units, params.rate);
    }
}
END_TEST

static const uint32_t BUCKETS[] = {1, 2, 4, 16};

START_TEST(a_sliding_window_admits_its_rate_in_a_period_less_a_sub_window_and_less_than_twice_it)
{
    for (size_t i = 0; i < ARRAY_LEN(PARAMS); i++) {
        struct limit_params params = PARAMS[i];
        params.buckets = BUCKETS[_i];
        const size_t n = play(&sliding_window_algorithm, &params, admitted);
        ck_assert_uint_le(most_within(n, params.period - params.period / params.buckets),
                          params.rate);
        ck_assert_uint_lt(most_within(n, params.period), UINT64_C(2) * params.rate);
    }
}
END_TEST

START_TEST(a_strict_sliding_window_admits_its_rate_in_any_period)
{
    for (size_t i = 0; i < ARRAY_LEN(PARAMS); i++) {
        struct limit_params params = PARAMS[i];
        params.buckets = BUCKETS[_i];
        params.strict = true;
        const size_t n = play(&sliding_window_algorithm, &params, admitted);
        ck_assert_uint_le(most_within(n, params.period), params.rate);
    }
}
END_TEST

/* Offered evenly, a little more than the rate: what is admitted, in thousandths of the rate. */
static uint64_t share_of_even_traffic(bool strict)
{
    const struct limit_params params = {
        .rate = 600, .period = 60000, .buckets = 10, .strict = strict, .ticks_per_s = 1000};
    const uint64_t n_periods = 20;
    uint64_t state[STATE_WORDS] = {0};
    uint64_t units = 0;
    for (uint64_t at = 0; at < n_periods * params.period; at += 97) {
        const struct limit_call call = {.now = START + at, .cost = 1};
        struct verdict verdict;
        algorithm_evaluate(&sliding_window_algorithm, state, &params, &call, &verdict);
        if (verdict.allowed) {
            sliding_window_algorithm.charge(state, &params, &call);
            units++;
        }
    }
    return units * 1000 / (n_periods * params.rate);
}

START_TEST(even_traffic_gets_the_rate_of_a_sliding_window_and_a_part_less_if_strict)
{
    ck_assert_uint_ge(share_of_even_traffic(false), 990);
    ck_assert_uint_ge(share_of_even_traffic(true), 900);
}
END_TEST

START_TEST(a_sliding_log_admits_its_rate_in_any_period)
{
    const struct limit_params *params = &PARAMS[_i];
    const size_t n = play(&sliding_log_algorithm, params, admitted);
    ck_assert_uint_le(most_within(n, params->period), params->rate);
}
END_TEST

/* Slots in flight at @now, as those know who took them. */
static size_t count_in_flight(const uint64_t *ends, size_t n, uint64_t now)
{
    size_t in_flight = 0;
    for (size_t i = 0; i < n; i++) {
        in_flight += ends[i] > now;
    }
    return in_flight;
}

START_TEST(no_more_slots_are_in_flight_than_there_are)
{
    const struct limit_params params = {.rate = 7, .lease = 1000, .ticks_per_s = 1000};
    const struct algorithm *algorithm = &concurrency_algorithm;
    uint64_t state[STATE_WORDS] = {0};
    static uint64_t ends[N_ASKED];
    uint64_t now = START;
    bool was_full = false;
    srand(1);
    for (size_t i = 0; i < N_ASKED; i++) {
        const struct limit_call call = {.now = now, .cost = 1, .slot = i};
        struct verdict verdict;
        const size_t one = (size_t)rand() % (i + 1);
        algorithm_evaluate(algorithm, state, &params, &call, &verdict);
        ck_assert_uint_eq(verdict.remaining, params.rate - count_in_flight(ends, i, now));
        was_full = was_full || verdict.remaining == 0;
        ends[i] = verdict.allowed ? now + params.lease : 0;
        if (verdict.allowed) {
            algorithm->charge(state, &params, &call);
        }
        if (rand() % 3 == 0) {
            algorithm->release(state, &params, now, one);
            ends[one] = 0;
        } else if (rand() % 3 == 0 && ends[i] > 0) {
            algorithm->renew(state, &params, now + 5, i);
            ends[i] = now + 5 + params.lease;
        }
        now += 5 + (uint64_t)rand() % 200;
    }
    ck_assert(was_full);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/promises");
    TCase *promises = tcase_create("promises");
    const int n = (int)ARRAY_LEN(PARAMS);
    const int n_buckets = (int)ARRAY_LEN(BUCKETS);
    tcase_add_loop_test(
        promises, buckets_admit_in_any_interval_their_burst_and_what_came_back_meanwhile, 0, n);
    tcase_add_loop_test(promises, departures_of_a_queue_are_never_closer_than_their_gaps, 0, n);
    tcase_add_loop_test(promises, a_fixed_window_admits_in_each_window_its_count, 0, n);
    tcase_add_loop_test(promises, a_window_of_a_calendar_admits_its_count_however_long_it_is, 0, n);
    tcase_add_loop_test(promises, a_window_from_the_first_request_admits_its_count_from_then_on, 0,
                        n);
    tcase_add_loop_test(
        promises,
        a_sliding_window_admits_its_rate_in_a_period_less_a_sub_window_and_less_than_twice_it, 0,
        n_buckets);
    tcase_add_loop_test(promises, a_strict_sliding_window_admits_its_rate_in_any_period, 0,
                        n_buckets);
    tcase_add_test(promises,
                   even_traffic_gets_the_rate_of_a_sliding_window_and_a_part_less_if_strict);
    tcase_add_loop_test(promises, a_sliding_log_admits_its_rate_in_any_period, 0, n);
    tcase_add_test(promises, no_more_slots_are_in_flight_than_there_are);
    suite_add_tcase(suite, promises);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
