/* Decisions on a slot and a bucket in a Redis of the test's own, and their settlements. */

#ifndef TESTS_UNIT_STORE_REDIS_SETTLEMENT_STAGE_H
#define TESTS_UNIT_STORE_REDIS_SETTLEMENT_STAGE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/algorithms.h"
#include "store/redis/redis_settlement_queue.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

enum { BUCKET, SLOTS, N_LIMITS };
enum { DEADLINE_US = 2000 * 1000 }; /* longer than a machine stands still */

static const uint64_t WEEK_US = UINT64_C(604800000000);

static struct redis_server server;
static struct redis_client client;
static struct limit limits[N_LIMITS];
static uint64_t last_slot;

static inline void fill_limit(uint32_t index, const struct algorithm *algorithm, uint32_t rate)
{
    const struct limit_spec spec = {.algorithm = algorithm,
                                    .rate = rate,
                                    .burst = rate,
                                    .period_us = WEEK_US,
                                    .lease_us = WEEK_US};
    limits[index] = (struct limit){.name = span_of_text(algorithm->name), .index = index};
    ck_assert_ptr_null(limit_init(&limits[index], &spec));
}

/* A link to the server of the test. */
static inline void open_client(struct redis_client *opened)
{
    const struct redis_store_options options = {
        .unix_path = span_of_text(server.socket_path),
        .limits = limits,
        .n_limits = N_LIMITS,
        .deadline_us = DEADLINE_US,
    };
    redis_client_open(opened, &options);
    (void)redis_client_await_up(opened, true);
}

static inline void start(void)
{
    fill_limit(BUCKET, &token_bucket_algorithm, 1000);
    fill_limit(SLOTS, &concurrency_algorithm, 1);
    server = (struct redis_server){0};
    redis_server_start(&server);
    open_client(&client);
}

static inline void stop(void)
{
    redis_client_close(&client);
    redis_server_stop(&server);
}

/* One decision on a slot and on the bucket. */
struct question {
    struct charge charges[2];
    struct decision decision;
    bool answered;
};

static inline void on_answer(struct decision *decision)
{
    *(bool *)decision->context = true;
}

static inline void ask(struct question *question)
{
    *question = (struct question){
        .charges = {{.limit = &limits[BUCKET], .key = SPAN("{a}"), .cost = 10},
                    {.limit = &limits[SLOTS], .key = SPAN("{a}"), .cost = 1, .slot = ++last_slot}},
    };
    question->decision.charges = question->charges;
    question->decision.n_charges = 2;
    question->decision.context = &question->answered;
    if (store_decide(client.store, &question->decision, on_answer) == STORE_ANSWERED) {
        question->answered = true;
    }
}

static inline bool is_admitted(struct question *question)
{
    ask(question);
    redis_client_await(&client, &question->answered);
    ck_assert_int_eq(question->decision.status, STATUS_OK);
    return question->decision.allowed;
}

/* Refund 4 of the units, and give the slot back. */
static inline void settle(const struct question *question)
{
    struct settlement settlements[2];
    for (size_t i = 0; i < 2; i++) {
        settlements[i] = (struct settlement){
            .limit = question->charges[i].limit,
            .key = question->charges[i].key,
            .kind = i == 0 ? SETTLE_COST : SETTLE_RELEASE,
            .delta = i == 0 ? -4 : 0,
            .charged_at_us = question->charges[i].charged_at_us,
            .slot = question->charges[i].slot,
            .source = DECISION_REDIS,
        };
    }
    store_settle(client.store, settlements, 2);
}

static inline struct redis_store_counters count(void)
{
    return redis_store_count(client.store);
}

static inline uint64_t count_losses(void)
{
    return store_count_losses(client.store, DECISION_REDIS);
}

/* Corrects the charge of @question by @delta, as if it had been made @later_us later, for @of. */
static inline void correct_of(const struct question *question, int64_t delta, uint64_t later_us,
                              const struct address *of)
{
    const struct settlement settlement = {
        .client = of,
        .limit = question->charges[0].limit,
        .key = question->charges[0].key,
        .kind = SETTLE_COST,
        .delta = delta,
        .charged_at_us = question->charges[0].charged_at_us + later_us,
        .source = DECISION_REDIS,
    };
    store_settle(client.store, &settlement, 1);
}

static inline void correct(const struct question *question, int64_t delta, uint64_t later_us)
{
    correct_of(question, delta, later_us, NULL);
}

static inline void settle_slot(const struct question *question, enum settlement_kind kind,
                               const struct address *of)
{
    const struct settlement settlement = {
        .client = of,
        .limit = question->charges[1].limit,
        .key = question->charges[1].key,
        .kind = kind,
        .slot = question->charges[1].slot,
        .source = DECISION_REDIS,
    };
    store_settle(client.store, &settlement, 1);
}

static inline void release_of(const struct question *question, const struct address *of)
{
    settle_slot(question, SETTLE_RELEASE, of);
}

static inline void release(const struct question *question)
{
    release_of(question, NULL);
}

static inline void await_settled(void)
{
    while (!store_is_settled(client.store)) {
        redis_client_iterate(&client);
    }
}

/* Takes the slot, and fills the link with settlements while Redis is paused. */
static inline void fill_link(struct question *question)
{
    ck_assert(is_admitted(question));
    redis_server_pause(&server);
    for (uint64_t i = 0; i < REDIS_SETTLEMENTS_FREE; i++) {
        correct(question, 1, 1000 + i);
    }
    ck_assert_uint_eq(count().n_settlements, REDIS_SETTLEMENTS_FREE);
}

static inline struct address address_at(const char *text)
{
    struct address address;
    ck_assert(address_parse(span_of_text(text), &address));
    return address;
}

#endif /* TESTS_UNIT_STORE_REDIS_SETTLEMENT_STAGE_H */
