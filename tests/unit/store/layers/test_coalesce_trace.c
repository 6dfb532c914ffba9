/* One trace of requests, decided by Redis one by one, and collected: the same, request
 * by request. (That the verdicts are the same in every field, whatever the time, is
 * the differential's to show.)
 *
 * Periods are of weeks, so that nothing comes back meanwhile. */

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/layers.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

enum {
    N_LIMITS = 6,
    N_KINDS = 200, /* of questions: some limits, a cost for each, and keys of its own */
    N_REQUESTS = 8000,
    BURST_MAX = 60, /* requests that are asked before any answer is read */
    KEY_BYTES = 24,
};

static const uint64_t WEEK_US = UINT64_C(604800000000);

static struct redis_server server;
static struct limit limits[N_LIMITS];
static uint64_t random_state;

struct kind {
    size_t n_charges;
    size_t limits[N_LIMITS];
    uint32_t costs[N_LIMITS];
    char key[KEY_BYTES];
};

struct request {
    const struct kind *kind;
    struct charge charges[N_LIMITS];
    struct decision decision;
    bool is_answered;
};

/* The trace: which kind each request is of, and how many come at once. */
static struct kind kinds[N_KINDS];
static size_t trace[N_REQUESTS];
static size_t bursts[N_REQUESTS];
static struct request alone[N_REQUESTS];
static struct request gathered[N_REQUESTS];

static uint64_t random_below(uint64_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % bound;
}

static void make_limits(void)
{
    const struct limit_spec specs[N_LIMITS] = {
        {.algorithm = &token_bucket_algorithm, .rate = 40, .burst = 40, .period_us = WEEK_US},
        {.algorithm = &gcra_algorithm, .rate = 30, .burst = 30, .period_us = WEEK_US},
        {.algorithm = &leaky_bucket_algorithm, .rate = 50, .burst = 50, .period_us = WEEK_US},
        {.algorithm = &fixed_window_algorithm,
         .rate = 35,
         .period_us = WEEK_US,
         .from_first = true},
        {.algorithm = &sliding_window_algorithm, .rate = 45, .period_us = WEEK_US, .buckets = 10},
        {.algorithm = &token_bucket_algorithm, .rate = 10, .burst = 10, .period_us = WEEK_US},
    };
    static const char *const names[N_LIMITS] = {"token", "gcra",    "leaky",
                                                "fixed", "sliding", "shadow"};
    for (uint32_t i = 0; i < N_LIMITS; i++) {
        limits[i] = (struct limit){.name = span_of_text(names[i]), .index = i};
        ck_assert_ptr_null(limit_init(&limits[i], &specs[i]));
    }
    limits[N_LIMITS - 1].shadow = true;
}

static void make_trace(void)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        struct kind *kind = &kinds[i];
        kind->n_charges = 1 + random_below(3);
        const size_t first = random_below(N_LIMITS);
        for (size_t j = 0; j < kind->n_charges; j++) {
            kind->limits[j] = (first + j) % N_LIMITS;
            kind->costs[j] = (uint32_t)(random_below(8) == 0 ? 0 : 1 + random_below(3));
        }
        snprintf(kind->key, sizeof(kind->key), "{%zu}", i);
    }
    for (size_t i = 0; i < N_REQUESTS; i++) {
        const bool is_hot = i > 0 && random_below(4) > 0;
        trace[i] = is_hot ? trace[i - 1] : random_below(N_KINDS);
        bursts[i] = 1 + random_below(BURST_MAX);
    }
}

static void on_answer(struct decision *decision)
{
    struct request *request = decision->context;
    request->is_answered = true;
}

static void send(struct store *store, struct request *request, const struct kind *kind)
{
    *request = (struct request){.kind = kind};
    for (size_t i = 0; i < kind->n_charges; i++) {
        request->charges[i] = (struct charge){
            .limit = &limits[kind->limits[i]],
            .key = span_of_text(kind->key),
            .cost = kind->costs[i],
        };
    }
    request->decision = (struct decision){
        .charges = request->charges,
        .n_charges = kind->n_charges,
        .context = request,
    };
    ck_assert_int_eq(store_decide(store, &request->decision, on_answer), STORE_PENDING);
}

static void run(struct redis_client *client, struct store *store, struct request *requests)
{
    size_t at = 0;
    for (size_t burst = 0; at < N_REQUESTS; burst++) {
        const size_t end = at + bursts[burst] < N_REQUESTS ? at + bursts[burst] : N_REQUESTS;
        for (size_t i = at; i < end; i++) {
            send(store, &requests[i], &kinds[trace[i]]);
        }
        for (; at < end; at++) {
            redis_client_await(client, &requests[at].is_answered);
        }
    }
}

static void open_client(struct redis_client *client, const char *prefix)
{
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .prefix = span_of_text(prefix),
        .limits = limits,
        .n_limits = N_LIMITS,
        .deadline_us = 60 * 1000 * 1000,
    };
    redis_client_open(client, &options);
    (void)redis_client_await_up(client, true);
}

static void ck_same(size_t i)
{
    const struct request *a = &alone[i];
    const struct request *g = &gathered[i];
    ck_assert_int_eq(a->decision.status, STATUS_OK);
    ck_assert_int_eq(g->decision.status, STATUS_OK);
    ck_assert_int_eq(g->decision.source, DECISION_REDIS);
    ck_assert_msg(a->decision.allowed == g->decision.allowed, "request %zu", i);
    for (size_t j = 0; j < a->kind->n_charges; j++) {
        const struct verdict *x = &a->charges[j].verdict;
        const struct verdict *y = &g->charges[j].verdict;
        ck_assert_msg(x->allowed == y->allowed && x->remaining == y->remaining &&
                          x->limit == y->limit && a->charges[j].charged == g->charges[j].charged,
                      "request %zu, charge %zu: %d %" PRIu64 " alone, %d %" PRIu64 " gathered", i,
                      j, x->allowed, x->remaining, y->allowed, y->remaining);
        ck_assert_uint_gt(g->charges[j].charged_at_us, 0);
    }
}

START_TEST(a_trace_gathered_is_the_trace_one_by_one)
{
    struct coalesce_meters meters = {0};
    struct redis_client client;
    struct store *coalesce;
    open_client(&client, "alone");
    run(&client, client.store, alone);
    redis_client_close(&client);

    open_client(&client, "gathered");
    ck_assert_int_eq(
        coalesce_store_new(client.loop, client.store, 60 * 1000 * 1000, &meters, &coalesce),
        STATUS_OK);
    client.store = coalesce;
    run(&client, coalesce, gathered);
    redis_client_close(&client);

    size_t n_allowed = 0;
    for (size_t i = 0; i < N_REQUESTS; i++) {
        ck_same(i);
        n_allowed += alone[i].decision.allowed;
    }
    ck_assert_uint_gt(n_allowed, N_REQUESTS / 10);
    ck_assert_uint_lt(n_allowed, N_REQUESTS * 9 / 10);
    ck_assert_uint_lt(counter_read(&meters.calls), N_REQUESTS * 2 / 3);
}
END_TEST

START_TEST(a_script_that_was_flushed_is_sent_again_and_charges_once)
{
    struct redis_client client;
    struct store *coalesce;
    struct request *requests = gathered;
    static const struct kind kind = {.n_charges = 1, .costs = {1}, .key = "{flushed}"};
    open_client(&client, "flushed");
    ck_assert_int_eq(
        coalesce_store_new(client.loop, client.store, 60 * 1000 * 1000, NULL, &coalesce),
        STATUS_OK);
    client.store = coalesce;
    send(coalesce, &requests[0], &kind);
    redis_client_await(&client, &requests[0].is_answered);
    redis_server_command(&server, "SCRIPT FLUSH");
    for (size_t i = 1; i <= 50; i++) {
        send(coalesce, &requests[i], &kind);
    }
    for (size_t i = 1; i <= 50; i++) {
        redis_client_await(&client, &requests[i].is_answered);
        ck_assert(requests[i].decision.allowed == (i < 40));
        ck_assert_uint_eq(requests[i].charges[0].verdict.remaining, i < 40 ? 39 - i : 0);
    }
    redis_client_close(&client);
}
END_TEST

static void start(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
    make_limits();
    random_state = 5;
    make_trace();
}

static void stop(void)
{
    redis_server_stop(&server);
}

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/coalesce_trace");
    TCase *tcase = tcase_create("trace");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, a_trace_gathered_is_the_trace_one_by_one);
    tcase_add_test(tcase, a_script_that_was_flushed_is_sent_again_and_charges_once);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
