/* What several proxies admit together while the shared store is away, under clocks of the test's
 * own: never more than docs/redis.md says, for each algorithm, and as much where it divides. */

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "store/layers.h"
#include "store/memory_store.h"

enum {
    PROXIES = 3,
    MS = 1000,
    SECOND = 1000 * 1000,
    OUTAGE_S = 10,
    STEP_US = 10 * MS,
    STEPS = OUTAGE_S * SECOND / STEP_US,
    ASKS = 4, /* of each proxy in each step: more than the limit lets in */
    PERIOD_S = 2,
};

/* --- a shared store that is away --- */

static enum store_outcome away_decide(struct store *store, struct decision *decision)
{
    (void)store;
    decision->status = STATUS_UNREACHABLE;
    return STORE_ANSWERED;
}

static void away_free(struct store *store)
{
    (void)store;
}

static const struct store_ops AWAY_OPS = {.name = "away", .decide = away_decide, .free = away_free};

/* --- proxies --- */

struct proxy {
    struct store away;
    struct store *embedded;
    struct store *store;
};

static struct proxy proxies[PROXIES];
static struct limit limit;
static uint64_t now_us;
static unsigned admitted[STEPS]; /* units of all proxies, by step */

static uint64_t clock_us(void *context)
{
    (void)context;
    return now_us;
}

static uint32_t count_instances(void *context)
{
    (void)context;
    return PROXIES;
}

static void open_proxy(struct proxy *proxy)
{
    const struct memory_store_options memory = {.memory_bytes = 64 * 1024 * 1024,
                                                .now_us = clock_us};
    proxy->away.ops = &AWAY_OPS;
    ck_assert_int_eq(memory_store_new(&memory, &proxy->embedded), STATUS_OK);
    const struct fallback_store_options options = {
        .shared = &proxy->away,
        .embedded = proxy->embedded,
        .limits = &limit,
        .n_limits = 1,
        .count_instances = count_instances,
    };
    ck_assert_int_eq(fallback_store_new(&options, &proxy->store), STATUS_OK);
}

static void close_proxy(struct proxy *proxy)
{
    store_free(proxy->store);
    store_free(proxy->embedded);
}

static unsigned ask(struct proxy *proxy)
{
    static uint64_t slot = 1;
    struct charge charge = {.limit = &limit, .key = SPAN("{a}"), .cost = 1, .slot = slot++};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    ck_assert_int_eq(store_decide(proxy->store, &decision, NULL), STORE_ANSWERED);
    ck_assert_int_eq(decision.status, STATUS_OK);
    return decision.allowed;
}

/* An outage in which all proxies are asked without pause; returns what they admit. */
static unsigned run_outage(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i < PROXIES; i++) {
        open_proxy(&proxies[i]);
    }
    for (size_t step = 0; step < STEPS; step++) {
        now_us = (uint64_t)1700000000 * SECOND + step * STEP_US;
        admitted[step] = 0;
        for (size_t i = 0; i < PROXIES * ASKS; i++) {
            admitted[step] += ask(&proxies[i % PROXIES]);
        }
        sum += admitted[step];
    }
    for (size_t i = 0; i < PROXIES; i++) {
        close_proxy(&proxies[i]);
    }
    return sum;
}

/* The most in @n_steps that follow each other, starting @apart steps apart. */
static unsigned most_in(size_t n_steps, size_t apart)
{
    unsigned most = 0;
    for (size_t from = 0; from + n_steps <= STEPS; from += apart) {
        unsigned sum = 0;
        for (size_t i = 0; i < n_steps; i++) {
            sum += admitted[from + i];
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static void make_limit(const char *algorithm, uint32_t units)
{
    const struct limit_spec spec = {
        .algorithm = algorithm_find(span_of_text(algorithm)),
        .rate = units,
        .burst = units,
        .period_us = PERIOD_S * SECOND,
        .buckets = 10,
        .lease_us = (uint64_t)10 * OUTAGE_S * SECOND,
    };
    limit = (struct limit){.name = SPAN("limit"), .on_failure = ON_FAILURE_LOCAL};
    ck_assert_ptr_null(limit_init(&limit, &spec));
}

static unsigned share_of(unsigned units)
{
    return units > PROXIES ? units / PROXIES : 1;
}

/* Units that divide among the proxies, that do not, and that are fewer. */
static const unsigned UNITS[] = {30, 32, 2};
static const char *const BUCKETS[] = {"token_bucket", "leaky_bucket", "gcra"};

START_TEST(buckets_admit_their_bursts_and_the_rate_times_the_outage)
{
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        const unsigned bursts = PROXIES * share_of(UNITS[i]);
        const unsigned refilled = UNITS[i] * OUTAGE_S / PERIOD_S;
        make_limit(BUCKETS[_i], UNITS[i]);
        const unsigned sum = run_outage();
        ck_assert_uint_le(sum, bursts + refilled);
        ck_assert_uint_ge(sum, bursts + refilled - 2 * PROXIES); /* what is not whole yet */
    }
}
END_TEST

START_TEST(fixed_windows_admit_their_counts_in_each)
{
    const size_t window = PERIOD_S * SECOND / STEP_US;
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        make_limit("fixed_window", UNITS[i]);
        (void)run_outage();
        ck_assert_uint_eq(most_in(window, window), PROXIES * share_of(UNITS[i]));
    }
}
END_TEST

START_TEST(sliding_logs_admit_their_counts_in_any_period)
{
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        make_limit("sliding_log", UNITS[i]);
        (void)run_outage();
        ck_assert_uint_eq(most_in(PERIOD_S * SECOND / STEP_US, 1), PROXIES * share_of(UNITS[i]));
    }
}
END_TEST

START_TEST(sliding_windows_admit_their_counts_in_a_period_but_one_part)
{
    const size_t nine_tenths = (size_t)PERIOD_S * SECOND / STEP_US * 9 / 10;
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        make_limit("sliding_window", UNITS[i]);
        (void)run_outage();
        ck_assert_uint_le(most_in(nine_tenths, 1), PROXIES * share_of(UNITS[i]));
    }
}
END_TEST

START_TEST(slots_are_as_many_as_the_shares)
{
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        make_limit("concurrency", UNITS[i]);
        ck_assert_uint_eq(run_outage(), PROXIES * share_of(UNITS[i])); /* none is given back */
    }
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/fallback_bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, buckets_admit_their_bursts_and_the_rate_times_the_outage, 0,
                        (int)ARRAY_LEN(BUCKETS));
    tcase_add_test(tcase, fixed_windows_admit_their_counts_in_each);
    tcase_add_test(tcase, sliding_logs_admit_their_counts_in_any_period);
    tcase_add_test(tcase, sliding_windows_admit_their_counts_in_a_period_but_one_part);
    tcase_add_test(tcase, slots_are_as_many_as_the_shares);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
