#include "limit/script_source.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"

static const struct limit BUCKET = {
    .algorithm = &token_bucket_algorithm,
    .params = {.rate = 100, .burst = 20, .period = 60000, .ticks_per_s = 1000},
    .tick_us = 1000,
};

static const struct limit SHAPING = {
    .algorithm = &leaky_bucket_algorithm,
    .params = {.rate = 100, .burst = 20, .period = 60000, .ticks_per_s = 1000, .max_wait = 9},
    .tick_us = 1000,
};

/* --- script_source_new --- */

/* The program for the @n limits at @limits; freed by the caller. */
static char *program_of(const struct limit *limits, size_t n)
{
    char *source;
    size_t len;
    ck_assert_int_eq(script_source_new(limits, n, &source, &len), STATUS_OK);
    ck_assert_uint_eq(strlen(source), len);
    return source;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    return n;
}

START_TEST(a_program_has_the_algorithms_that_are_used_and_no_other)
{
    const struct limit limits[] = {BUCKET, BUCKET};
    char *source = program_of(limits, ARRAY_LEN(limits));
    ck_assert_uint_gt(count(source, "\nif number == 1 "), 0);
    ck_assert_uint_eq(count(source, "CLOCK the clocks"), 0); /* of a fixed window */
    ck_assert_uint_eq(count(source, "local function make_algorithm"), 0);
    ck_assert_uint_eq(count(source, "elseif number"), 0);
    free(source);
}
END_TEST

START_TEST(a_script_that_two_algorithms_have_is_there_once_for_both)
{
    const struct limit one[] = {BUCKET};
    const struct limit both[] = {BUCKET, SHAPING};
    char *source = program_of(one, ARRAY_LEN(one));
    char *other = program_of(both, ARRAY_LEN(both));
    ck_assert_str_eq(source, other);

    char head[64];
    snprintf(head, sizeof(head), "\nif number == 1 or number == %u then\n",
             algorithm_number(&leaky_bucket_algorithm));
    ck_assert_uint_gt(count(source, head), 0);
    ck_assert_uint_eq(count(source, head), count(source, "if number == "));
    free(other);
    free(source);
}
END_TEST

START_TEST(what_is_in_place_comes_before_what_is_of_functions)
{
    const struct limit limits[] = {BUCKET, {.algorithm = &sliding_log_algorithm}};
    char *source = program_of(limits, ARRAY_LEN(limits));
    char *alone = program_of(limits + 1, 1);
    const char *in_place = strstr(source, "state_bytes = 16\n");
    const char *of_functions =
        strstr(source, "made, judge, finish = number, make_algorithm(number)");
    ck_assert_ptr_nonnull(in_place);
    ck_assert_ptr_nonnull(of_functions);
    ck_assert(in_place < of_functions);
    ck_assert_uint_eq(count(source, "local function make_algorithm(number)"), 1);
    ck_assert_uint_eq(count(alone, "state_bytes = 16\n"), 0);
    ck_assert_uint_gt(count(alone, "\ndo\n"), 0);
    ck_assert_uint_eq(count(source, "\ndo\n"), 0);
    free(alone);
    free(source);
}
END_TEST

START_TEST(no_mark_of_a_place_is_left)
{
    size_t n;
    const struct algorithm *const *algorithms = algorithm_all(&n);
    for (size_t i = 0; i < n; i++) {
        const struct limit limits[] = {{.algorithm = algorithms[i]}};
        char *source = program_of(limits, ARRAY_LEN(limits));
        ck_assert_uint_eq(count(source, "\n--@ ") + count(source, "  --@ "), 0);
        free(source);
    }
}
END_TEST

START_TEST(a_program_is_plain_ascii)
{
    const struct limit limits[] = {BUCKET, {.algorithm = &fixed_window_algorithm}};
    char *source = program_of(limits, ARRAY_LEN(limits));
    for (size_t i = 0; source[i] != '\0'; i++) {
        ck_assert(source[i] == '\n' || (source[i] >= ' ' && source[i] <= '~'));
    }
    free(source);
}
END_TEST

/* --- script_source_args --- */

START_TEST(arguments_are_in_the_order_of_the_header)
{
    double args[SCRIPT_CHARGE_ARGS_MAX];
    static const double expected[] = {3, 1, 0, 1000, 100, 20, 60000, 0, 0};
    const struct script_charge charge = {.limit = &BUCKET, .cost = 3};
    ck_assert_uint_eq(script_source_args(&charge, args), ARRAY_LEN(expected));
    ck_assert_mem_eq(args, expected, sizeof(expected));
}
END_TEST

START_TEST(flags_tell_what_is_shadow_and_what_counts_denied_requests)
{
    double args[SCRIPT_CONSTANTS];
    struct limit limit = BUCKET;
    limit.shadow = true;
    ck_assert_uint_eq(script_source_constants(&limit, args), SCRIPT_CONSTANTS);
    ck_assert_double_eq(args[1], 1);
    limit.charge_denied = true;
    ck_assert_uint_eq(script_source_constants(&limit, args), SCRIPT_CONSTANTS);
    ck_assert_double_eq(args[1], 3);
}
END_TEST

/* --- script_source_read_verdict --- */

START_TEST(integers_become_a_verdict)
{
    static const long long ints[] = {-1, 9, 19, 7, 8};
    struct verdict verdict;
    ck_assert(script_source_read_verdict(&SHAPING, ints, &verdict));
    ck_assert(!verdict.allowed);
    ck_assert_uint_eq(verdict.limit, 20);
    ck_assert_uint_eq(verdict.remaining, 19);
    ck_assert(verdict.retry_after == RETRY_NEVER);
    ck_assert_uint_eq(verdict.next_after, 7);
    ck_assert_uint_eq(verdict.reset_after, 8);
    ck_assert_uint_eq(verdict.wait, 9);
}
END_TEST

static const struct {
    const char *says;
    const struct limit *limit;
    long long ints[SCRIPT_INTS_PER_CHARGE];
} NONSENSE[] = {
    {"retry_after is -2 at least", &BUCKET, {-3, 0, 0, 0, 0}},
    {"wait is not negative", &BUCKET, {0, -1, 0, 0, 0}},
    {"nobody waits where nothing shapes", &BUCKET, {0, 1, 0, 0, 0}},
    {"wait is within max_wait", &SHAPING, {0, 10, 0, 0, 0}},
    {"wait is no century", &SHAPING, {0, 9223372036854775807, 0, 0, 0}},
    {"remaining is not negative", &BUCKET, {0, 0, -1, 0, 0}},
    {"remaining is within the limit", &BUCKET, {0, 0, 21, 0, 0}},
    {"next_after is not negative", &BUCKET, {0, 0, 0, -1, 0}},
    {"reset_after is not negative", &BUCKET, {0, 0, 0, 0, -1}},
};

START_TEST(what_makes_no_sense_is_no_verdict)
{
    struct verdict verdict;
    ck_assert_msg(!script_source_read_verdict(NONSENSE[_i].limit, NONSENSE[_i].ints, &verdict),
                  "%s", NONSENSE[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/script_source");
    TCase *program = tcase_create("script_source_new");
    tcase_add_test(program, a_program_has_the_algorithms_that_are_used_and_no_other);
    tcase_add_test(program, a_script_that_two_algorithms_have_is_there_once_for_both);
    tcase_add_test(program, what_is_in_place_comes_before_what_is_of_functions);
    tcase_add_test(program, no_mark_of_a_place_is_left);
    tcase_add_test(program, a_program_is_plain_ascii);
    suite_add_tcase(suite, program);
    TCase *args = tcase_create("script_source_args");
    tcase_add_test(args, flags_tell_what_is_shadow_and_what_counts_denied_requests);
    tcase_add_test(args, arguments_are_in_the_order_of_the_header);
    suite_add_tcase(suite, args);
    TCase *verdict = tcase_create("script_source_read_verdict");
    tcase_add_test(verdict, integers_become_a_verdict);
    tcase_add_loop_test(verdict, what_makes_no_sense_is_no_verdict, 0, (int)ARRAY_LEN(NONSENSE));
    suite_add_tcase(suite, verdict);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
