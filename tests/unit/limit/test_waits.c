/* What a verdict says of the time to come is true to the tick, whatever happened before:
 * retry_after, next_after and reset_after of random traces, tried with a clock that stops
 * just before and just then. */

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/algorithms.h"
#include "limit/fields.h"

enum { N_ASKED = 4000, STATE_WORDS = 4096, COST_MAX = 6 };

static const uint64_t START = UINT64_C(1763667890123456);

#define MS_TICKS 1000
#define US_TICKS 1000000

static const struct row {
    const char *name;
    const struct algorithm *algorithm;
    struct limit_params params;
} ROWS[] = {
    {"token_bucket", &token_bucket_algorithm, {.rate = 10, .burst = 5, .period = 1000000}},
    {"a burst above the rate", &token_bucket_algorithm, {.rate = 3, .burst = 20, .period = 999983}},
    {"leaky_bucket", &leaky_bucket_algorithm, {.rate = 7, .burst = 9, .period = 1000000}},
    {"a queue",
     &leaky_bucket_algorithm,
     {.rate = 7, .burst = 12, .period = 1000000, .max_wait = 1000003}},
    {"a queue whose burst is what fits least",
     &leaky_bucket_algorithm,
     {.rate = 7, .burst = 6, .period = 1000000, .max_wait = 2000003}},
    {"gcra", &gcra_algorithm, {.rate = 7, .burst = 9, .period = 1000000}},
    {"fixed_window", &fixed_window_algorithm, {.rate = 9, .period = 1000000, .offset = 333}},
    {"from the first", &fixed_window_algorithm, {.rate = 9, .period = 1000000, .from_first = true}},
    {"a calendar", &fixed_window_algorithm, {.rate = 9, .period = 1000000, .is_calendar = true}},
    {"sliding_window", &sliding_window_algorithm, {.rate = 9, .period = 1000000, .buckets = 10}},
    {"one bucket", &sliding_window_algorithm, {.rate = 50, .period = 999983, .buckets = 1}},
    {"strict",
     &sliding_window_algorithm,
     {.rate = 9, .period = 1000000, .buckets = 4, .strict = true}},
    {"sliding_log", &sliding_log_algorithm, {.rate = 9, .period = 1000000}},
    {"concurrency", &concurrency_algorithm, {.rate = 5, .lease = 1000000}},
};

/* One limit and its only key. */
struct trace {
    const struct algorithm *algorithm;
    struct limit_params params;
    struct limit_params said; /* before the policy changed */
    uint64_t state[STATE_WORDS];
    uint64_t now;
    uint64_t n_slots;
    size_t n_reported; /* times that were tried */
};

/* Windows of a calendar that differ in length: every third is longer. */
static void set_edges(uint64_t period, uint64_t now, uint64_t edges[LIMIT_EDGES])
{
    const uint64_t third = period * 3 + period / 2;
    const uint64_t into = now % third;
    const uint64_t window = into / period < 2 ? into / period : 2;
    for (uint64_t i = 0; i < LIMIT_EDGES; i++) {
        const uint64_t k = now / third * 3 + window + i - 1;
        edges[i] = k / 3 * third + k % 3 * period;
    }
}

static struct verdict ask(const struct trace *trace, uint32_t cost, uint64_t at)
{
    uint64_t edges[LIMIT_EDGES];
    const struct limit_call call = {.now = at, .cost = cost, .edges = edges};
    struct verdict verdict;
    set_edges(trace->params.period + 1, at, edges);
    algorithm_evaluate(trace->algorithm, trace->state, &trace->params, &call, &verdict);
    return verdict;
}

static void take(struct trace *trace, uint32_t cost, bool to_full)
{
    uint64_t edges[LIMIT_EDGES];
    const struct limit_call call = {.now = trace->now,
                                    .cost = cost,
                                    .to_full = to_full,
                                    .edges = edges,
                                    .slot = trace->n_slots++};
    set_edges(trace->params.period + 1, trace->now, edges);
    ck_assert_uint_le(trace->algorithm->state_bytes(trace->state, &trace->params, &call),
                      sizeof(trace->state));
    trace->algorithm->charge(trace->state, &trace->params, &call);
}

/* --- what was said, tried --- */

static void try_retry(struct trace *trace, const struct row *row, uint32_t cost,
                      const struct verdict *reported)
{
    if (reported->allowed || reported->retry_after >= RETRY_UNKNOWN) {
        ck_assert(!reported->allowed || reported->retry_after == 0);
        return;
    }
    ck_assert_uint_gt(reported->retry_after, 0);
    ck_assert_msg(!ask(trace, cost, trace->now + reported->retry_after - 1).allowed,
                  "%s: %u units pass a tick before retry_after", row->name, cost);
    ck_assert_msg(ask(trace, cost, trace->now + reported->retry_after).allowed,
                  "%s: %u units do not pass after retry_after %" PRIu64, row->name, cost,
                  reported->retry_after);
    trace->n_reported++;
}

static void try_field(struct trace *trace, const struct row *row, uint32_t cost,
                      const struct verdict *reported)
{
    const struct limit limit = {
        .algorithm = trace->algorithm, .params = trace->params, .tick_us = 1};
    uint64_t seconds;
    if (!reported->allowed && fields_retry_after_s(&limit, reported, &seconds)) {
        const uint64_t ticks = seconds * trace->params.ticks_per_s;
        ck_assert_msg(ask(trace, cost, trace->now + ticks).allowed,
                      "%s: %u units do not pass after Retry-After: %" PRIu64, row->name, cost,
                      seconds);
        ck_assert_msg(seconds == 1 || ticks - trace->params.ticks_per_s < reported->retry_after,
                      "%s: Retry-After is a second too long", row->name);
    }
}

static void try_next(struct trace *trace, const struct row *row, const struct verdict *reported)
{
    if (reported->remaining == reported->limit) {
        return;
    }
    ck_assert_uint_gt(reported->next_after, 0);
    ck_assert_msg(ask(trace, 0, trace->now + reported->next_after - 1).remaining ==
                      reported->remaining,
                  "%s: there is one more a tick before next_after", row->name);
    ck_assert_msg(ask(trace, 0, trace->now + reported->next_after).remaining > reported->remaining,
                  "%s: there is not one more after next_after %" PRIu64, row->name,
                  reported->next_after);
    trace->n_reported++;
}

static void try_reset(struct trace *trace, const struct row *row, const struct verdict *reported)
{
    const struct verdict then = ask(trace, 0, trace->now + reported->reset_after);
    ck_assert_msg(then.remaining == then.limit && then.next_after == 0 && then.reset_after == 0,
                  "%s: it is not untouched after reset_after %" PRIu64, row->name,
                  reported->reset_after);
    if (reported->reset_after > 0) {
        ck_assert_msg(ask(trace, 0, trace->now + reported->reset_after - 1).reset_after == 1,
                      "%s: it is untouched a tick before reset_after", row->name);
        trace->n_reported++;
    }
}

/* --- what happens --- */

/* The rate of gcra is a part of what its state means. */
static void change_policy(struct trace *trace)
{
    trace->params = trace->said;
    if (rand() % 2 == 0) {
        trace->params.burst = 1 + (uint32_t)rand() % (2 * trace->said.burst + 1);
        if (!trace->algorithm->has_numbers_in_digest) {
            trace->params.rate = 1 + (uint32_t)rand() % (2 * trace->said.rate);
        }
    }
    ck_assert_ptr_null(algorithm_check_params(trace->algorithm, &trace->params));
}

static void settle(struct trace *trace)
{
    const uint64_t ago = (uint64_t)rand() % 200000;
    if (trace->algorithm->has_slots) {
        trace->algorithm->release(trace->state, &trace->params, trace->now,
                                  (uint64_t)rand() % (trace->n_slots + 1));
    } else {
        trace->algorithm->settle(trace->state, &trace->params, trace->now - ago, trace->now,
                                 rand() % 12 - 6);
    }
}

static uint64_t pass_time(const struct trace *trace)
{
    switch (rand() % 8) {
    case 0:
        return (uint64_t)rand() % (3 * (trace->params.period + trace->params.lease));
    case 1:
    case 2:
        return 0;
    default:
        return (uint64_t)rand() % ((trace->params.period + trace->params.lease) / 10);
    }
}

/* As limit/judge.h does. A burst of gcra that was lowered by much looks like a
 * clock that was set back. */
static void follow(struct trace *trace)
{
    if (trace->algorithm->is_ahead(trace->state, &trace->params, trace->now)) {
        ck_assert_ptr_eq(trace->algorithm, &gcra_algorithm);
        take(trace, 0, false);
    }
}

static void step(struct trace *trace, const struct row *row)
{
    const uint32_t cost = 1 + (uint32_t)rand() % COST_MAX;
    const struct verdict reported = ask(trace, cost, trace->now);
    follow(trace);
    try_retry(trace, row, cost, &reported);
    try_field(trace, row, cost, &reported);
    try_next(trace, row, &reported);
    try_reset(trace, row, &reported);
    if (reported.allowed) {
        take(trace, cost, false);
    } else if (rand() % 8 == 0) {
        take(trace, cost, true);
    } else if (rand() % 8 == 0) {
        settle(trace);
    } else if (rand() % 16 == 0) {
        change_policy(trace);
    }
    trace->now += pass_time(trace);
}

START_TEST(what_is_said_of_the_time_to_come_is_true_to_the_tick)
{
    const struct row *row = &ROWS[_i];
    static struct trace trace;
    trace = (struct trace){
        .algorithm = row->algorithm,
        .params = row->params,
        .now = START,
    };
    trace.params.ticks_per_s = _i % 2 == 0 ? US_TICKS : MS_TICKS;
    trace.said = trace.params;
    srand(1);
    for (int i = 0; i < N_ASKED; i++) {
        step(&trace, row);
    }
    ck_assert_uint_gt(trace.n_reported, N_ASKED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/waits");
    TCase *waits = tcase_create("waits");
    tcase_add_loop_test(waits, what_is_said_of_the_time_to_come_is_true_to_the_tick, 0,
                        (int)ARRAY_LEN(ROWS));
    suite_add_tcase(suite, waits);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
