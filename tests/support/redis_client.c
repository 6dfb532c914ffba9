#include "support/redis_client.h"

#include <check.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "limit/algorithms.h"

static struct limit limit;

static void init_limit(void)
{
    const struct limit_spec spec = {.algorithm = &token_bucket_algorithm,
                                    .rate = 1000,
                                    .burst = 1000,
                                    .period_us = UINT64_C(604800000000)};
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
}

void redis_client_open(struct redis_client *client, const struct redis_store_options *options)
{
    struct redis_store_options full = *options;
    init_limit();
    if (full.limits == NULL) {
        full.limits = &limit;
        full.n_limits = 1;
    }
    if (full.prefix.len == 0) {
        full.prefix = SPAN("test");
    }
    if (full.deadline_us == 0) {
        full.deadline_us = 20 * 1000 * 1000; /* a machine that stands still is no fault */
    }
    ck_assert_int_eq(loop_new(&client->loop), STATUS_OK);
    ck_assert_int_eq(redis_store_new(client->loop, &full, &client->store), STATUS_OK);
}

void redis_client_close(struct redis_client *client)
{
    store_free(client->store);
    loop_free(client->loop);
}

void redis_client_iterate(struct redis_client *client)
{
    ck_assert_int_eq(loop_iteration(client->loop, true), STATUS_OK);
}

void redis_client_await(struct redis_client *client, const bool *done)
{
    while (!*done) {
        redis_client_iterate(client);
    }
}

uint64_t redis_client_await_up(struct redis_client *client, bool up)
{
    const uint64_t start_us = clock_monotonic_us();
    while (redis_store_is_up(client->store) != up) {
        redis_client_iterate(client);
    }
    return clock_monotonic_us() - start_us;
}

void redis_client_await_connects(struct redis_client *client, uint64_t n_connects)
{
    while (redis_store_count(client->store).n_connects < n_connects) {
        redis_client_iterate(client);
    }
}

static void on_answer(struct decision *decision)
{
    struct redis_question *question = decision->context;
    ck_assert(!question->answered);
    question->answered = true;
    question->took_us = clock_monotonic_us() - question->took_us;
}

static void ask(struct redis_client *client, struct redis_question *question, uint32_t cost,
                struct address address)
{
    *question = (struct redis_question){
        .charge = {.limit = &limit, .key = SPAN("{a}"), .cost = cost},
        .decision = {.client = address},
        .took_us = clock_monotonic_us(),
    };
    question->decision.charges = &question->charge;
    question->decision.n_charges = 1;
    question->decision.context = question;
    if (store_decide(client->store, &question->decision, on_answer) == STORE_ANSWERED) {
        question->at_once = true;
        on_answer(&question->decision);
    }
}

void redis_client_ask(struct redis_client *client, struct redis_question *question, uint32_t cost)
{
    ask(client, question, cost, (struct address){.family = ADDRESS_NONE});
}

void redis_client_ask_of(struct redis_client *client, struct redis_question *question,
                         const struct address *address)
{
    ask(client, question, 1, *address);
}

enum status redis_client_decide(struct redis_client *client, struct redis_question *question)
{
    redis_client_ask(client, question, 1);
    redis_client_await(client, &question->answered);
    return question->decision.status;
}
