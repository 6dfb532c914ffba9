#include "store/redis/redis_command.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "limit/algorithms.h"
#include "limit/script_source.h"
#include "support/death.h"

static const char SHA[] = "0123456789abcdef0123456789abcdef01234567";

static struct limit limits[2];
static struct redis_command command;
static const struct redis_store_options OPTIONS = {
    .prefix = {"sluice", 6},
    .limits = limits,
    .n_limits = ARRAY_LEN(limits),
};

static void setup(void)
{
    const struct limit_spec bucket = {
        .algorithm = &token_bucket_algorithm, .rate = 100, .burst = 20, .period_us = 60000000};
    const struct limit_spec slow = {.algorithm = &token_bucket_algorithm,
                                    .rate = 5,
                                    .burst = 6,
                                    .period_us = UINT64_C(604800000000)};
    limits[0].name = SPAN("per-client");
    limits[1].name = SPAN("login");
    ck_assert_ptr_null(limit_init(&limits[0], &bucket));
    ck_assert_ptr_null(limit_init(&limits[1], &slow));
    limits[1].index = 1;
    memcpy(limits[0].digest, "aaaaaaaa", LIMIT_DIGEST_BYTES);
    memcpy(limits[1].digest, "bbbbbbbb", LIMIT_DIGEST_BYTES);
    ck_assert_int_eq(redis_command_init(&command, &OPTIONS), STATUS_OK);
    memcpy(command.sha, SHA, REDIS_SHA_BYTES);
}

static void teardown(void)
{
    redis_command_close(&command);
}

/* Compare @wire with @before, @args packed, and the end of the line. */
static void ck_wire(struct span wire, struct span before, const double *args, size_t n_args)
{
    char expected[2048];
    struct text text = text_of(expected, sizeof(expected));
    char packed[64 * SCRIPT_NUMBER_BYTES];
    script_source_pack(args, n_args, packed);
    text_add(&text, before);
    text_add_format(&text, "$%zu\r\n", n_args * SCRIPT_NUMBER_BYTES);
    text_add(&text, span_of(packed, n_args * SCRIPT_NUMBER_BYTES));
    text_add_literal(&text, "\r\n");
    ck_assert_uint_eq(wire.len, text.len);
    ck_assert_mem_eq(wire.data, expected, text.len);
}

#define ck_assert_span(span, expected)                                                             \
    ck_assert_msg(span_equals((span), SPAN(expected)), "got %.*s", SPAN_ARGS(span))

START_TEST(one_charge_is_one_key_and_its_arguments)
{
    struct charge charge = {.limit = &limits[0], .key = SPAN("{a}"), .cost = 3};
    const struct decision decision = {.charges = &charge, .n_charges = 1};
    const struct span wire = redis_command_evalsha(&command, &decision);
    static const double args[] = {SCRIPT_DECIDES, 0, 3, 1, 0, 1, 100, 20, 60000000, 0, 0};
    ck_wire(wire,
            SPAN("*5\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"
                 "$1\r\n1\r\n$30\r\nsluice:{a}:per-client:aaaaaaaa\r\n"),
            args, ARRAY_LEN(args));
}
END_TEST

START_TEST(redis_cell_is_asked_with_the_burst_less_one_of_a_key_of_its_own)
{
    const struct charge charge = {.limit = &limits[0], .key = SPAN("{a}"), .cost = 3};
    ck_assert_span(redis_command_throttle(&command, &charge),
                   "*6\r\n$11\r\nCL.THROTTLE\r\n$35\r\nsluice:{a}:per-client:aaaaaaaa:cell\r\n"
                   "$2\r\n19\r\n$3\r\n100\r\n$2\r\n60\r\n$1\r\n3\r\n");
}
END_TEST

START_TEST(two_charges_are_two_keys_and_then_their_arguments)
{
    struct charge charges[] = {
        {.limit = &limits[0], .key = SPAN("{a}"), .cost = 1},
        {.limit = &limits[1], .key = SPAN("{a}\r\n"), .cost = UINT32_MAX},
    };
    const struct decision decision = {.charges = charges, .n_charges = 2};
    const struct span wire = redis_command_evalsha(&command, &decision);
    static const double args[] = {SCRIPT_DECIDES, 0, 1, 1, 0, 1, 100,          20, 60000000, 0, 0,
                                  UINT32_MAX,     1, 0, 1, 5, 6, 604800000000, 0,  0};
    ck_wire(wire,
            SPAN("*6\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"
                 "$1\r\n2\r\n$30\r\nsluice:{a}:per-client:aaaaaaaa\r\n"
                 "$27\r\nsluice:{a}\r\n:login:bbbbbbbb\r\n"),
            args, ARRAY_LEN(args));
}
END_TEST

START_TEST(the_greatest_decision_fits_with_the_script)
{
    static char key[KEY_TEXT_BYTES_MAX];
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    memset(key, 'k', sizeof(key));
    for (size_t i = 0; i < ARRAY_LEN(charges); i++) {
        charges[i] = (struct charge){
            .limit = &limits[1], .key = span_of(key, sizeof(key)), .cost = UINT32_MAX};
    }
    const struct decision decision = {.charges = charges, .n_charges = ARRAY_LEN(charges)};
    const struct span wire = redis_command_eval(&command, &decision);
    ck_assert_uint_gt(wire.len, command.source.len + sizeof(key) * ARRAY_LEN(charges));
    ck_assert(span_starts_with(wire, SPAN("*20\r\n$4\r\nEVAL\r\n$")));
}
END_TEST

START_TEST(settlements_are_one_call_whose_tail_goes_with_the_script_or_its_name)
{
    const struct settlement settlements[] = {
        {.limit = &limits[0], .key = SPAN("{a}"), .delta = -3, .charged_at_us = 1763667890123456},
        {.limit = &limits[1], .key = SPAN("{b}"), .kind = SETTLE_RENEW},
    };
    uint32_t delta_at[2];
    const struct redis_tail tail = redis_command_settle(&command, settlements, 2, delta_at);
    double delta;
    script_source_unpack(tail.wire.data + delta_at[0], 1, &delta);
    ck_assert_double_eq(delta, -3);
    script_source_unpack(tail.wire.data + delta_at[1], 1, &delta);
    ck_assert_double_eq(delta, 0);
    static const double args[] = {
        SCRIPT_SETTLES,
        0,
        SETTLE_COST,
        -3,
        1763667890123456,
        0,
        1,
        0,
        1,
        100,
        20,
        60000000,
        0,
        0,
        SETTLE_RENEW,
        0,
        0,
        0,
        1,
        0,
        1,
        5,
        6,
        604800000000,
        0,
        0,
    };
    ck_wire(tail.wire,
            SPAN("$1\r\n2\r\n$30\r\nsluice:{a}:per-client:aaaaaaaa\r\n"
                 "$25\r\nsluice:{b}:login:bbbbbbbb\r\n"),
            args, ARRAY_LEN(args));
    char kept[1024];
    memcpy(kept, tail.wire.data, tail.wire.len);
    const struct redis_tail copy = {.wire = span_of(kept, tail.wire.len), .n = tail.n};

    ck_wire(redis_command_with_tail(&command, copy, false),
            SPAN("*6\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"
                 "$1\r\n2\r\n$30\r\nsluice:{a}:per-client:aaaaaaaa\r\n"
                 "$25\r\nsluice:{b}:login:bbbbbbbb\r\n"),
            args, ARRAY_LEN(args));
    const struct span wire = redis_command_with_tail(&command, copy, true);
    ck_assert(span_starts_with(wire, SPAN("*6\r\n$4\r\nEVAL\r\n$")));
    ck_assert(wire.len > tail.n &&
              memcmp(wire.data + wire.len - copy.wire.len, kept, copy.wire.len) == 0);
}
END_TEST

/* FIPS 180-4 and RFC 3174, and lengths around the end of a block. */
static const struct {
    const char *bytes;
    size_t repeated;
    const char *sha;
} SCRIPTS[] = {
    {"", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
    {"abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
    {"0123456701234567012345670123456701234567012345670123456701234567", 10,
     "dea356a2cddd90c7a7ecedc5ebb563934f460452"},
    {"a", 55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
    {"a", 56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
    {"a", 63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"},
    {"a", 64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
    {"a", 20000, "7e7308ef97590bcb05f9543bee280fb91976e90c"},
};

START_TEST(a_script_is_named_by_its_sha1)
{
    static char bytes[20000];
    char sha[REDIS_SHA_BYTES];
    struct text text = text_of(bytes, sizeof(bytes));
    for (size_t i = 0; i < SCRIPTS[_i].repeated; i++) {
        text_add(&text, span_of_text(SCRIPTS[_i].bytes));
    }
    redis_command_name_script(text_span(&text), sha);
    ck_assert_mem_eq(sha, SCRIPTS[_i].sha, REDIS_SHA_BYTES);
}
END_TEST

START_TEST(words_of_any_bytes_become_a_command)
{
    const struct span words[] = {SPAN("AUTH"), SPAN("limiter"), SPAN("p\0\r\n")};
    struct redis_wire wire = {0};
    ck_assert_int_eq(redis_wire_add(&wire, words, ARRAY_LEN(words)), STATUS_OK);
    ck_assert_span(redis_wire_span(&wire),
                   "*3\r\n$4\r\nAUTH\r\n$7\r\nlimiter\r\n$4\r\np\0\r\n\r\n");
    ck_assert_int_eq(redis_wire_add(&wire, &SPAN("PING"), 1), STATUS_OK);
    ck_assert_span(redis_wire_span(&wire), "*3\r\n$4\r\nAUTH\r\n$7\r\nlimiter\r\n$4\r\np\0\r\n\r\n"
                                           "*1\r\n$4\r\nPING\r\n");
    redis_wire_free(&wire);
}
END_TEST

static void forget_others(void)
{
    redis_command_remove_limits(&command, &limits[1]);
}

START_TEST(limits_that_were_never_learnt_end_the_process)
{
    death_expect(forget_others, "sluice: panic: a Redis store does not have these limits\n");
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/redis_command");
    TCase *tcase = tcase_create("commands");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, one_charge_is_one_key_and_its_arguments);
    tcase_add_test(tcase, redis_cell_is_asked_with_the_burst_less_one_of_a_key_of_its_own);
    tcase_add_test(tcase, two_charges_are_two_keys_and_then_their_arguments);
    tcase_add_test(tcase, the_greatest_decision_fits_with_the_script);
    tcase_add_test(tcase, settlements_are_one_call_whose_tail_goes_with_the_script_or_its_name);
    tcase_add_loop_test(tcase, a_script_is_named_by_its_sha1, 0, (int)ARRAY_LEN(SCRIPTS));
    tcase_add_test(tcase, words_of_any_bytes_become_a_command);
    tcase_add_test(tcase, limits_that_were_never_learnt_end_the_process);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
