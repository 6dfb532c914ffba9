#include "memory_stage.h"

#include <check.h>
#include <stdio.h>

#include "limit/algorithms.h"

struct store *store;
uint64_t now_us;

static uint64_t read_now(void *context)
{
    (void)context;
    return now_us;
}

void open_with(size_t memory_bytes, enum memory_full full)
{
    const struct memory_store_options options = {
        .memory_bytes = memory_bytes,
        .full = full,
        .now_us = read_now,
    };
    now_us = UINT64_C(1763667890123456);
    ck_assert_int_eq(memory_store_new(&options, &store), STATUS_OK);
}

struct limit bucket_of(uint32_t rate, uint32_t burst, uint64_t period_us)
{
    const struct limit_spec spec = {
        .algorithm = &token_bucket_algorithm, .rate = rate, .burst = burst, .period_us = period_us};
    struct limit limit = {.name = SPAN("bucket")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    return limit;
}

struct limit limit_of(const struct algorithm *algorithm, uint32_t rate, uint64_t period_us)
{
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = rate,
        .burst = rate,
        .period_us = period_us,
        .lease_us = period_us,
        .buckets = 10,
    };
    struct limit limit = {.name = span_of_text(algorithm->name)};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    return limit;
}

/* Its share if there is one proxy is a limit like it, with an identity of its own. */
struct limit named(const char *name, struct limit limit)
{
    struct limit share;
    limit.name = span_of_text(name);
    limit_share(&limit, 1, &share);
    return share;
}

/* One charge on the key "{number}". */
struct decision ask(const struct limit *limit, uint64_t number, uint32_t cost,
                    struct verdict *verdict)
{
    char key[32];
    const int len = snprintf(key, sizeof(key), "{%llu}", (unsigned long long)number);
    struct charge charge = {.limit = limit, .key = span_of(key, (size_t)len), .cost = cost};
    struct decision decision = {.charges = &charge, .n_charges = 1};
    /* An assertion of Check's costs more than the decision: this is asked a million times. */
    if (store_decide(store, &decision, NULL) != STORE_ANSWERED) {
        ck_abort_msg("the embedded store answers at once");
    }
    if (verdict != NULL) {
        *verdict = charge.verdict;
    }
    return decision;
}

bool is_admitted(const struct limit *limit, uint64_t number, uint32_t cost)
{
    const struct decision decision = ask(limit, number, cost, NULL);
    return decision.status == STATUS_OK && decision.allowed;
}

/* Whether each of the keys @first … @first + @n - 1 is admitted with a cost of 1. */
bool all_are_admitted(const struct limit *limit, uint64_t first, uint64_t n)
{
    bool all = true;
    for (uint64_t i = first; i < first + n; i++) {
        all = is_admitted(limit, i, 1) && all;
    }
    return all;
}

struct memory_store_counters count(void)
{
    struct memory_store_counters counters;
    memory_store_count(store, &counters);
    return counters;
}

/* Fill the table with states that deny, until new keys find no room. */
uint64_t fill_with_denials(const struct limit *limit)
{
    const uint64_t n_keys = count().n_keys_max * 3;
    for (uint64_t i = 0; i < n_keys; i++) {
        (void)ask(limit, i, 1, NULL);
    }
    return n_keys;
}
