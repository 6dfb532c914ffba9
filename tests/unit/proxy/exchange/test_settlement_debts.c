/* Costs that responses report, charged and given back in any order: a bucket is never emptier than
 * if the requests that were given back had never come. */

#include "proxy/settlement.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"

enum { IN_FLIGHT = 6, EVENTS_MAX = 4000, ROUNDS = 60, STEPS = 60, TRIALS = 40 };

#define S UINT64_C(1000000)

static const struct {
    const struct algorithm *algorithm;
    uint32_t rate;
    uint64_t period_us;
    uint32_t max; /* that a response reports */
} LIMITS[] = {
    {&token_bucket_algorithm, 50000, 86400 * S, 50000},
    {&token_bucket_algorithm, 100, 60 * S, 500},
    {&leaky_bucket_algorithm, 1000000, 3600 * S, 90000},
    {&gcra_algorithm, 100, 3600 * S, 500},
    {&gcra_algorithm, 10, S, 10},
};

static struct limit limit;
static struct limit_rule rule;
static uint64_t state[LIMIT_STATE_BYTES_MAX / sizeof(uint64_t)];
static uint64_t now_us;

/* What one of the requests took, when. */
static struct event {
    uint64_t at; /* ticks */
    uint64_t units;
    size_t request;
} events[EVENTS_MAX];
static size_t n_events, n_requests;
static bool is_counted[EVENTS_MAX]; /* by request */

static struct request {
    struct admission admission;
    struct outcome outcome;
    size_t number;
    bool is_in_flight, has_head;
} requests[IN_FLIGHT];

static void settle(struct store *store, const struct settlement *settlements, size_t n)
{
    (void)store;
    ck_assert_uint_eq(n, 1);
    limit.algorithm->settle(state, &limit.params, limit_ticks(&limit, settlements[0].charged_at_us),
                            limit_ticks(&limit, now_us), settlements[0].delta);
}

static const struct store_ops OPS = {.name = "one state", .settle = settle};
static struct store store = {.ops = &OPS};

static uint64_t below(uint64_t n)
{
    return (uint64_t)rand() % n;
}

static void note(const struct request *request, uint64_t units)
{
    ck_assert_uint_lt(n_events, EVENTS_MAX);
    events[n_events++] = (struct event){limit_ticks(&limit, now_us), units, request->number};
}

static void set_up(size_t i)
{
    const struct limit_spec spec = {.algorithm = LIMITS[i].algorithm,
                                    .rate = LIMITS[i].rate,
                                    .burst = LIMITS[i].rate,
                                    .period_us = LIMITS[i].period_us};
    struct limit coarse;
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    limit.params.settles = true;
    limit.owed = UINT64_C(10000) * LIMITS[i].max;
    while (!limit_owes_all(&limit) && limit_coarsen(&limit, 1000, &coarse)) {
        limit = coarse;
    }
    rule = (struct limit_rule){.limits = &limit, .n_limits = 1};
    rule.charge_on.is_said = true;
    answer_set_add(&rule.charge_on, 200, 299);
    if (rand() % 2 == 0) {
        rule.refund_on = (struct answer_set){.is_said = true, .client_left = true};
    }
    memset(state, 0, sizeof(state));
    now_us = UINT64_C(1700000000) * S;
    n_events = n_requests = 0;
    memset(requests, 0, sizeof(requests));
}

static uint32_t random_cost(size_t i)
{
    return (uint32_t)(1 + below(rand() % 2 == 0 ? LIMITS[i].max : 1 + LIMITS[i].max / 50));
}

static void begin(struct request *request, size_t i)
{
    const uint32_t cost = (uint32_t)(1 + below(1 + LIMITS[i].max / 50));
    const struct limit_call call = limit_call_at(&limit, now_us, cost);
    struct verdict verdict;
    algorithm_judge(limit.algorithm, state, &limit.params, &call, &verdict);
    if (!verdict.allowed) {
        return;
    }
    limit.algorithm->charge(state, &limit.params, &call);
    *request = (struct request){.is_in_flight = true, .number = n_requests++};
    struct admission *admission = &request->admission;
    admission->decision = (struct decision){.n_charges = 1, .source = DECISION_LOCAL};
    admission->decision.charges = admission->charges;
    admission->rules[0] = &rule;
    admission->charges[0] = (struct charge){
        .limit = &limit, .key = SPAN("k"), .cost = cost, .charged = true, .charged_at_us = now_us};
    is_counted[request->number] = true; /* until it ends */
    note(request, cost);
}

static void take_head(struct request *request, size_t i)
{
    request->has_head = true;
    request->outcome = (struct outcome){
        .status = rand() % 3 > 0 ? 200 : 400,
        .is_cost_reported = true,
        .reported_cost = random_cost(i),
        .reported_after_us = now_us - request->admission.charges[0].charged_at_us,
    };
    settlement_raise(&request->admission, &request->outcome, &store);
    const uint32_t cost = request->admission.charges[0].cost;
    if (request->admission.raised != 0) {
        note(request, request->outcome.reported_cost - cost);
    }
}

static void finish(struct request *request)
{
    static const enum answer_end ENDS[] = {ANSWER_WHOLE, ANSWER_WHOLE, ANSWER_CLIENT_LEFT,
                                           ANSWER_SERVER_FAILED};
    request->outcome.end = request->has_head ? ENDS[below(4)] : ANSWER_SERVER_FAILED;
    request->is_in_flight = false;
    const uint32_t cost = request->admission.charges[0].cost;
    const uint32_t reported = request->outcome.reported_cost;
    const bool has_left = request->outcome.end == ANSWER_CLIENT_LEFT;
    is_counted[request->number] =
        has_left ? !rule.refund_on.is_said : request->outcome.status == 200;
    for (size_t i = 0; i < n_events; i++) {
        if (events[i].request == request->number && reported < cost) {
            events[i].units = reported;
        }
    }
    if (is_counted[request->number] && request->admission.raised == 0 && reported > cost) {
        note(request, reported - cost);
    }
    settlement_make(&request->admission, &request->outcome, &store);
}

/* Ticks until the bucket is whole again, had the requests that were given back never come. gcra
 * owes a full bucket at most. */
static uint64_t owed_at(uint64_t now)
{
    const struct limit_params *params = &limit.params;
    const bool is_gcra = limit.algorithm == &gcra_algorithm;
    const uint64_t full = params->burst * params->period;
    uint64_t parts = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < n_events; i++) {
        const uint64_t back = (events[i].at - last) * params->rate;
        if (is_counted[events[i].request]) {
            parts = (parts > back ? parts - back : 0) + events[i].units * params->period;
            parts = is_gcra && parts > full ? full : parts;
            last = events[i].at;
        }
    }
    const uint64_t back = (now - last) * params->rate;
    return parts > back ? (parts - back + params->rate - 1) / params->rate : 0;
}

static void step(size_t i)
{
    struct request *request = &requests[below(IN_FLIGHT)];
    if (!request->is_in_flight) {
        begin(request, i);
    } else if (!request->has_head && rand() % 8 > 0) {
        take_head(request, i);
    } else {
        finish(request);
    }
    if (rand() % 2 == 0) {
        now_us += below(rand() % 8 == 0 ? LIMITS[i].period_us / 2 : LIMITS[i].period_us / 1000);
    }
}

START_TEST(what_is_given_back_frees_no_charges_of_others)
{
    for (unsigned trial = 0; trial < TRIALS; trial++) {
        srand(trial);
        set_up((size_t)_i);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < STEPS && n_events < EVENTS_MAX - 100; i++) {
                step((size_t)_i);
            }
            for (size_t i = 0; i < IN_FLIGHT; i++) {
                if (requests[i].is_in_flight) {
                    finish(&requests[i]);
                }
            }
            const struct limit_call call = limit_call_at(&limit, now_us, 0);
            struct verdict verdict;
            limit.algorithm->report(state, &limit.params, &call, &verdict);
            ck_assert_msg(verdict.reset_after >= owed_at(call.now),
                          "trial %u, round %d: %" PRIu64 " ticks, not %" PRIu64, trial, round,
                          verdict.reset_after, owed_at(call.now));
        }
    }
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("settlement_debts");
    TCase *debts = tcase_create("debts");
    tcase_add_loop_test(debts, what_is_given_back_frees_no_charges_of_others, 0,
                        (int)ARRAY_LEN(LIMITS));
    suite_add_tcase(suite, debts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
