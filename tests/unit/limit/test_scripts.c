/* The vectors of every algorithm, through the Lua in a real Redis; and what only Redis can show. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "limit/script_source.h"
#include "support/redis_server.h"
#include "support/script_client.h"
#include "support/vectors.h"

static struct redis_server server;
static struct script_client client;
enum { ALGORITHMS_MAX = 16 };

static struct limit limits[2];
static struct limit *const bucket = &limits[0];
static struct limit *const window = &limits[1];

static void setup(void)
{
    const struct limit_spec bucket_spec = {
        .algorithm = &token_bucket_algorithm, .rate = 10, .burst = 5, .period_us = 60000000};
    const struct limit_spec window_spec = {
        .algorithm = &fixed_window_algorithm, .rate = 3, .burst = 0, .period_us = 3600000000};
    bucket->name = SPAN("bucket");
    window->name = SPAN("window");
    ck_assert_ptr_null(limit_init(bucket, &bucket_spec));
    ck_assert_ptr_null(limit_init(window, &window_spec));

    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    static struct limit all[ALGORITHMS_MAX];
    ck_assert_uint_le(n_algorithms, ALGORITHMS_MAX);
    for (size_t i = 0; i < n_algorithms; i++) {
        all[i].algorithm = algorithms[i];
    }

    server = (struct redis_server){0};
    redis_server_start(&server);
    script_client_open(&client, &server, all, n_algorithms);
}

static void teardown(void)
{
    script_client_close(&client);
    redis_server_stop(&server);
}

static bool decide(struct charge *charges, size_t n_charges, uint64_t now_us)
{
    script_client_send(&client, charges, n_charges, now_us);
    return script_client_read(&client, charges, n_charges);
}

static long long ask(const char *command)
{
    redisReply *reply = redisCommand(client.connection, command);
    ck_assert_msg(reply != NULL && reply->type == REDIS_REPLY_INTEGER, "%s", command);
    const long long integer = reply->integer;
    freeReplyObject(reply);
    return integer;
}

struct key_text {
    char text[64];
};

static struct span key_of(struct key_text *key, const struct limit *limit, unsigned story)
{
    snprintf(key->text, sizeof(key->text), "{%s}:%u", limit->algorithm->name, story);
    return span_of_text(key->text);
}

static void decide_vector(void *context, struct charge *charge, unsigned story, uint64_t now_us)
{
    struct key_text key;
    (void)context;
    charge->key = key_of(&key, charge->limit, story);
    ck_assert(decide(charge, 1, now_us) == charge->verdict.allowed);
}

static void settle_vector(void *context, const struct settlement *settlement, unsigned story,
                          uint64_t now_us)
{
    struct key_text key;
    struct settlement keyed = *settlement;
    (void)context;
    keyed.key = key_of(&key, settlement->limit, story);
    script_client_send_settlements(&client, &keyed, 1, now_us);
    script_client_read_settled(&client);
}

START_TEST(each_algorithm_answers_in_redis_as_its_vectors_say)
{
    const struct vectors_player player = {.decide = decide_vector, .settle = settle_vector};
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        ck_assert_uint_ge(vectors_play(algorithms[i], &player), 12);
    }
}
END_TEST

/* Another program instead of that of all. */
static void use_program_of(const struct algorithm *const *algorithms, size_t n)
{
    struct limit used[2];
    ck_assert_uint_le(n, ARRAY_LEN(used));
    for (size_t i = 0; i < n; i++) {
        used[i] = (struct limit){.algorithm = algorithms[i]};
    }
    script_client_close(&client);
    script_client_open(&client, &server, used, n);
    freeReplyObject(redisCommand(client.connection, "FLUSHALL"));
}

/* Those in place alone, functions alone, and each beside each. */
START_TEST(an_algorithm_answers_the_same_whatever_else_the_program_has)
{
    const struct vectors_player player = {.decide = decide_vector, .settle = settle_vector};
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        for (size_t j = i; j < n_algorithms; j++) {
            const struct algorithm *const both[] = {algorithms[i], algorithms[j]};
            use_program_of(both, i == j ? 1 : 2);
            ck_assert_uint_ge(vectors_play(algorithms[i], &player), 12);
            ck_assert(i == j || vectors_play(algorithms[j], &player) >= 12);
        }
    }
}
END_TEST

/* 4 is one in place, 5 one of functions; with a charge before it, whose algorithm is there. */
START_TEST(to_decide_by_an_algorithm_that_is_not_there_is_an_error_and_charges_nothing)
{
    const struct algorithm *const algorithms[] = {&token_bucket_algorithm, &sliding_log_algorithm};
    for (size_t n = 1; n <= ARRAY_LEN(algorithms); n++) {
        use_program_of(algorithms, n);
        for (int number = 4; number <= 5; number++) {
            redisReply *reply =
                redisCommand(client.connection,
                             "EVALSHA %s 2 {a} {a}:b 0 1763667890123456 3 1 0 1 10 5 "
                             "60000000 0 0 3 %d 0 1 10 5 60000000 0 0",
                             client.sha, number);
            ck_assert_int_eq(reply->type, REDIS_REPLY_ERROR);
            ck_assert_ptr_null(strstr(reply->str, "NOSCRIPT"));
            ck_assert_int_eq(ask("DBSIZE"), 0);
            freeReplyObject(reply);
        }
    }
}
END_TEST

START_TEST(a_program_of_no_algorithm_answers)
{
    use_program_of(NULL, 0);
    redisReply *reply =
        redisCommand(client.connection, "EVALSHA %s 0 1 1763667890123456", client.sha);
    ck_assert_int_eq(reply->type, REDIS_REPLY_ARRAY);
    ck_assert_int_eq(reply->element[0]->integer, 1763667890123456);
    freeReplyObject(reply);
}
END_TEST

START_TEST(what_one_limit_denies_is_charged_to_none)
{
    const uint64_t now_us = UINT64_C(1763667890000000);
    struct charge charges[] = {
        {.limit = bucket, .key = SPAN("{a}:bucket"), .cost = 1},
        {.limit = window, .key = SPAN("{a}:window"), .cost = 3},
    };
    ck_assert(decide(charges, 2, now_us));
    ck_assert(!decide(charges, 2, now_us));
    ck_assert(charges[0].verdict.allowed);
    ck_assert_uint_eq(charges[0].verdict.remaining, 4);
    ck_assert(!charges[1].verdict.allowed);
}
END_TEST

START_TEST(a_cost_of_nothing_leaves_no_key)
{
    struct charge charges[] = {
        {.limit = bucket, .key = SPAN("{a}:bucket"), .cost = 0},
        {.limit = window, .key = SPAN("{a}:window"), .cost = 1},
    };
    ck_assert(decide(charges, 2, UINT64_C(1763667890000000)));
    ck_assert_int_eq(ask("EXISTS {a}:bucket"), 0);
    ck_assert_int_eq(ask("EXISTS {a}:window"), 1);
}
END_TEST

START_TEST(every_key_outlives_its_state_by_a_second_or_two)
{
    struct charge charges[] = {
        {.limit = bucket, .key = SPAN("{a}:bucket"), .cost = 5},
        {.limit = window, .key = SPAN("{a}:window"), .cost = 1},
    };
    /* A full bucket is untouched after 30 s; the window ends in 10 s. */
    ck_assert(decide(charges, 2, UINT64_C(1763668790000000)));
    const long long bucket_ms = ask("PTTL {a}:bucket");
    const long long window_ms = ask("PTTL {a}:window");
    ck_assert(bucket_ms > 25000 && bucket_ms <= 32000);
    ck_assert(window_ms > 5000 && window_ms <= 12000);
}
END_TEST

START_TEST(a_state_is_two_doubles)
{
    static const double expected[] = {300000000, 1763667890123456};
    struct charge charge = {.limit = bucket, .key = SPAN("{a}"), .cost = 5};
    char packed[2 * SCRIPT_NUMBER_BYTES];
    ck_assert(decide(&charge, 1, UINT64_C(1763667890123456)));
    redisReply *reply = redisCommand(client.connection, "GET {a}");
    script_source_pack(expected, 2, packed);
    ck_assert_uint_eq(reply->len, sizeof(packed));
    ck_assert_mem_eq(reply->str, packed, sizeof(packed));
    freeReplyObject(reply);
}
END_TEST

START_TEST(arguments_may_be_text_too)
{
    redisReply *reply =
        redisCommand(client.connection,
                     "EVALSHA %s 1 {a} 0 1763667890123456 3 1 0 1 10 5 60000000 0 0", client.sha);
    ck_assert_int_eq(reply->type, REDIS_REPLY_ARRAY);
    ck_assert_uint_eq(reply->elements, SCRIPT_HEAD_INTS + SCRIPT_INTS_PER_CHARGE);
    ck_assert_int_eq(reply->element[0]->integer, 1763667890123456);
    ck_assert_int_eq(reply->element[3]->integer, 2);
    freeReplyObject(reply);
}
END_TEST

START_TEST(what_somebody_else_wrote_counts_as_untouched)
{
    struct charge charge = {.limit = bucket, .key = SPAN("{a}"), .cost = 1};
    redisReply *reply = redisCommand(client.connection, "SET {a} nonsense");
    freeReplyObject(reply);
    ck_assert(decide(&charge, 1, UINT64_C(1763667890123456)));
    ck_assert_uint_eq(charge.verdict.remaining, 4);

    static const double wild[][2] = {{1e300, 1e300}, {-1, 5}, {NAN, NAN}, {5, -1e300}, {0.5, 0.5}};
    for (size_t i = 0; i < ARRAY_LEN(wild); i++) {
        char packed[2 * SCRIPT_NUMBER_BYTES];
        script_source_pack(wild[i], 2, packed);
        reply = redisCommand(client.connection, "SET {a} %b", packed, sizeof(packed));
        freeReplyObject(reply);
        ck_assert(decide(&charge, 1, UINT64_C(1763667890123456)));
        ck_assert_uint_eq(charge.verdict.remaining, 4);
    }
}
END_TEST

START_TEST(a_time_of_nothing_is_the_time_of_redis)
{
    struct charge charge = {.limit = window, .key = SPAN("{a}"), .cost = 1};
    ck_assert(decide(&charge, 1, 0));
    ck_assert(charge.verdict.reset_after <= window->params.period);

    redisReply *time_reply = redisCommand(client.connection, "TIME");
    redisReply *state = redisCommand(client.connection, "GET {a}");
    const unsigned long long now_us = strtoull(time_reply->element[0]->str, NULL, 10) * 1000000;
    double start;
    memcpy(&start, state->str + SCRIPT_NUMBER_BYTES, sizeof(start));
    const unsigned long long start_us = (unsigned long long)start;
    ck_assert_uint_eq(start_us % window->params.period, 0);
    ck_assert(start_us <= now_us && now_us - start_us <= window->params.period);
    freeReplyObject(time_reply);
    freeReplyObject(state);
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("limit/scripts");
    TCase *redis = tcase_create("in Redis");
    tcase_add_checked_fixture(redis, setup, teardown);
    tcase_set_timeout(redis, 10);
    tcase_add_test(redis, each_algorithm_answers_in_redis_as_its_vectors_say);
    tcase_add_test(redis, an_algorithm_answers_the_same_whatever_else_the_program_has);
    tcase_add_test(redis,
                   to_decide_by_an_algorithm_that_is_not_there_is_an_error_and_charges_nothing);
    tcase_add_test(redis, a_program_of_no_algorithm_answers);
    tcase_add_test(redis, what_one_limit_denies_is_charged_to_none);
    tcase_add_test(redis, a_cost_of_nothing_leaves_no_key);
    tcase_add_test(redis, every_key_outlives_its_state_by_a_second_or_two);
    tcase_add_test(redis, a_state_is_two_doubles);
    tcase_add_test(redis, arguments_may_be_text_too);
    tcase_add_test(redis, what_somebody_else_wrote_counts_as_untouched);
    tcase_add_test(redis, a_time_of_nothing_is_the_time_of_redis);
    suite_add_tcase(suite, redis);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
