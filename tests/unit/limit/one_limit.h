/* One limit in a real Redis, asked with the time injected: what the tests of mistakes share. */

#ifndef SLUICE_TESTS_UNIT_LIMIT_ONE_LIMIT_H
#define SLUICE_TESTS_UNIT_LIMIT_ONE_LIMIT_H

#include <check.h>
#include <hiredis/hiredis.h>

#include "base/compiler.h"
#include "limit/algorithms.h"
#include "support/redis_server.h"
#include "support/script_client.h"

#define S UINT64_C(1000000)
#define MINUTE (60 * S)

enum { ALGORITHMS_MAX = 16 };

/* A whole minute. */
static const uint64_t START_US = UINT64_C(1763667840000000);

static struct redis_server server;
static struct script_client client;
static struct limit limit; /* of the test */

/* All with a cost that is more than one unit, the buckets first. */
enum { N_BUCKETS = 3 };
static const struct algorithm *const COUNTING[] = {
    &token_bucket_algorithm, &leaky_bucket_algorithm,   &gcra_algorithm,
    &fixed_window_algorithm, &sliding_window_algorithm, &sliding_log_algorithm,
};

static inline void setup(void)
{
    static struct limit all[ALGORITHMS_MAX];
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        all[i].algorithm = algorithms[i];
    }
    server = (struct redis_server){0};
    redis_server_start(&server);
    script_client_open(&client, &server, all, n_algorithms);
}

static inline void teardown(void)
{
    script_client_close(&client);
    redis_server_stop(&server);
}

static inline void use(const struct algorithm *algorithm, uint32_t rate, uint32_t burst,
                       uint64_t period_us)
{
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = rate,
        .burst = burst,
        .period_us = period_us,
        .buckets = SLIDING_WINDOW_BUCKETS_DEFAULT,
    };
    limit = (struct limit){.name = SPAN("limit")};
    const char *fault = limit_init(&limit, &spec);
    ck_assert_msg(fault == NULL, "%s", fault);
}

static inline struct verdict ask(uint32_t cost, uint64_t at_us)
{
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = cost};
    script_client_send(&client, &charge, 1, at_us == 0 ? 0 : START_US + at_us);
    (void)script_client_read(&client, &charge, 1);
    return charge.verdict;
}

static inline bool passes(uint32_t cost, uint64_t at_us)
{
    return ask(cost, at_us).allowed;
}

static inline long long integer(const char *command)
{
    redisReply *reply = redisCommand(client.connection, command);
    ck_assert_msg(reply != NULL && reply->type == REDIS_REPLY_INTEGER, "%s", command);
    const long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

static inline void forget(void)
{
    ck_assert_int_ge(integer("DEL {k}"), 0);
}

#endif /* SLUICE_TESTS_UNIT_LIMIT_ONE_LIMIT_H */
