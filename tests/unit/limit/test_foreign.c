/* Keys that somebody else wrote to: whatever is there counts as something within bounds, never as
 * an error, and what is written after it is whole again. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "one_limit.h"

enum { RATE = 10, N_RANDOM = 500, DOUBLES_MAX = 3, BUCKETS = 10 };

/* What states are packed of, as they are not. */
static const double ODD[] = {
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    1e-300,
    1e300,
    -1e300,
    NAN,
    INFINITY,
    -INFINITY,
    4294967295.0,
    4294967296.0,
    1763667840000001.0,
    1763667840000001.5,
    1763667900000001.0,
    4503599627370496.0,
    9007199254740992.0,
    9007199254740994.0,
    18446744073709551616.0,
};

/* @n_doubles of them, little endian as the machine is, and then @n_bytes of anything. */
static size_t random_bytes(unsigned char *bytes, size_t n_doubles, size_t n_bytes)
{
    for (size_t i = 0; i < n_doubles; i++) {
        memcpy(bytes + i * sizeof(double), &ODD[(size_t)rand() % ARRAY_LEN(ODD)], sizeof(double));
    }
    for (size_t i = n_doubles * sizeof(double); i < n_doubles * sizeof(double) + n_bytes; i++) {
        bytes[i] = (unsigned char)(rand() % 4 == 0 ? rand() % 256 : rand() % 2 * 255);
    }
    return n_doubles * sizeof(double) + n_bytes;
}

static void use_algorithm(const struct algorithm *algorithm)
{
    const struct limit_spec spec = {
        .algorithm = algorithm,
        .rate = RATE,
        .burst = RATE,
        .period_us = MINUTE,
        .lease_us = MINUTE,
        .buckets = BUCKETS,
    };
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
}

static void command(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    redisReply *reply = redisvCommand(client.connection, format, words);
    va_end(words);
    ck_assert_msg(reply != NULL && reply->type != REDIS_REPLY_ERROR, "%s: %s", format,
                  reply == NULL ? "nothing" : reply->str);
    freeReplyObject(reply);
}

static struct verdict take(uint32_t cost, uint64_t slot)
{
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = cost, .slot = slot};
    script_client_send(&client, &charge, 1, START_US + 1);
    (void)script_client_read(&client, &charge, 1);
    return charge.verdict;
}

/* script_client_read() fails what makes no sense. */
static void ck_goes_on(int number)
{
    const struct settlement settlement = {
        .limit = &limit, .key = SPAN("{k}"), .delta = -1, .charged_at_us = START_US + 1};
    const struct verdict before = take(0, 1);
    const struct verdict verdict = take(1, 1);
    ck_assert_msg(before.remaining <= RATE, "%s: value %d", limit.algorithm->name, number);
    ck_assert_uint_le(verdict.reset_after, UINT64_C(1) << 53);
    if (verdict.allowed) {
        ck_assert_int_gt(integer("PTTL {k}"), 0);
        ck_assert_uint_lt(verdict.remaining, RATE);
    }
    if (!limit.algorithm->has_slots) {
        script_client_send_settlements(&client, &settlement, 1, START_US + 2);
        script_client_read_settled(&client);
    }
    (void)take(1, 2);
    command("DEL {k}");
}

static const struct algorithm *const OF_STRINGS[] = {
    &token_bucket_algorithm, &leaky_bucket_algorithm,   &gcra_algorithm,
    &fixed_window_algorithm, &sliding_window_algorithm,
};

START_TEST(a_string_of_somebody_else_is_within_bounds)
{
    unsigned char bytes[DOUBLES_MAX * sizeof(double) + (BUCKETS + 2) * sizeof(uint32_t)];
    srand(1);
    use_algorithm(OF_STRINGS[_i]);
    for (int i = 0; i < N_RANDOM; i++) {
        const size_t n_doubles = (size_t)rand() % (DOUBLES_MAX + 1);
        const size_t n_bytes =
            rand() % 2 == 0 ? 0 : (BUCKETS + (size_t)rand() % 3) * sizeof(uint32_t);
        command("SET {k} %b PX 60000", bytes, random_bytes(bytes, n_doubles, n_bytes));
        ck_goes_on(i);
    }
}
END_TEST

START_TEST(a_list_of_somebody_else_is_within_bounds)
{
    unsigned char bytes[DOUBLES_MAX * sizeof(double)];
    srand(1);
    use_algorithm(&sliding_log_algorithm);
    for (int i = 0; i < N_RANDOM; i++) {
        command("RPUSH {k} %b", bytes, random_bytes(bytes, 1, 0));
        for (int j = rand() % 20; j >= 0; j--) {
            const size_t n_doubles = rand() % 4 == 0 ? (size_t)rand() % 4 : 2;
            command("RPUSH {k} %b", bytes, random_bytes(bytes, n_doubles, 0));
        }
        command("PEXPIRE {k} 60000");
        ck_goes_on(i);
    }
}
END_TEST

START_TEST(a_sorted_set_of_somebody_else_is_within_bounds)
{
    static const char *const SCORES[] = {
        "-inf", "inf", "1.5", "0", "-7", "1e300", "1763667840000001.5", "1763667860000000"};
    srand(1);
    use_algorithm(&concurrency_algorithm);
    for (int i = 0; i < N_RANDOM; i++) {
        for (int j = rand() % 15; j >= 0; j--) {
            command("ZADD {k} %s %d", SCORES[(size_t)rand() % ARRAY_LEN(SCORES)], j + 10);
        }
        command("PEXPIRE {k} 60000");
        ck_goes_on(i);
    }
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
    Suite *suite = suite_create("limit/foreign");
    TCase *tcase = tcase_create("written by somebody else");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, a_string_of_somebody_else_is_within_bounds, 0,
                        (int)ARRAY_LEN(OF_STRINGS));
    tcase_add_test(tcase, a_list_of_somebody_else_is_within_bounds);
    tcase_add_test(tcase, a_sorted_set_of_somebody_else_is_within_bounds);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
