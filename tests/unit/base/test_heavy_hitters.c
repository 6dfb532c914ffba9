#include "base/heavy_hitters.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
    N_HEAVY = 10,
    N_SKETCHES = 3,
    N_MANY = 10 * 1000 * 1000,
    N_SOME = 300 * 1000,
};

static struct heavy_hitters *sketches[N_SKETCHES];
static struct heavy_line *lines;
static size_t n_lines;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    for (size_t i = 0; i < N_SKETCHES; i++) {
        sketches[i] = calloc(1, sizeof(*sketches[i]));
        ck_assert_ptr_nonnull(sketches[i]);
    }
    lines = NULL;
}

static void teardown(void)
{
    for (size_t i = 0; i < N_SKETCHES; i++) {
        free(sketches[i]);
    }
    free(lines);
}

/* SplitMix64: what a keyed hash looks like, at a fraction of the time. */
static struct hash128 hash_of(uint64_t number)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (struct hash128){.low = x ^ (x >> 31), .high = number};
}

static struct span name_of(uint64_t number, char buffer[24])
{
    struct text text = text_of(buffer, 24);
    text_add_literal(&text, "k");
    text_add_u64(&text, number);
    return text_span(&text);
}

static void deny(struct heavy_hitters *sketch, uint64_t number, uint64_t now_us)
{
    char buffer[24];
    heavy_hitters_deny(sketch, hash_of(number), name_of(number, buffer), now_us);
}

static void look_at(size_t n_sketches, uint64_t since_us)
{
    const struct heavy_hitters *all[N_SKETCHES];
    for (size_t i = 0; i < n_sketches; i++) {
        all[i] = sketches[i];
    }
    free(lines);
    ck_assert_int_eq(heavy_hitters_read(all, n_sketches, since_us, &lines, &n_lines), STATUS_OK);
}

static const struct heavy_line *line_of(uint64_t number)
{
    for (size_t i = 0; i < n_lines; i++) {
        if (lines[i].hash.high == number) {
            char buffer[24];
            ck_assert(
                span_equals(span_of(lines[i].text, lines[i].text_len), name_of(number, buffer)));
            return &lines[i];
        }
    }
    return NULL;
}

/* The key @number was denied @truth times among @n denials. */
static void check_bounds(uint64_t number, uint64_t truth, uint64_t n)
{
    const struct heavy_line *line = line_of(number);
    ck_assert_ptr_nonnull(line);
    ck_assert_uint_le(line->denied_min, truth);
    ck_assert_uint_ge(line->denied_max, truth);
    ck_assert_uint_le(line->denied_max - line->denied_min, n / HEAVY_KEYS);
}

START_TEST(few_keys_are_counted_exactly_and_the_most_denied_is_first)
{
    for (uint64_t number = 1; number <= HEAVY_KEYS; number++) {
        for (uint64_t i = 0; i < number; i++) {
            deny(sketches[0], number, 1000 + i);
        }
    }
    look_at(1, 0);
    ck_assert_uint_eq(n_lines, HEAVY_KEYS);
    for (size_t i = 0; i < n_lines; i++) {
        ck_assert_uint_eq(lines[i].hash.high, HEAVY_KEYS - i);
        ck_assert_uint_eq(lines[i].denied_min, HEAVY_KEYS - i);
        ck_assert_uint_eq(lines[i].denied_max, HEAVY_KEYS - i);
        ck_assert_uint_eq(lines[i].seen_us, 1000 + HEAVY_KEYS - i - 1);
    }
}
END_TEST

START_TEST(an_empty_sketch_says_nothing)
{
    look_at(N_SKETCHES, 0);
    ck_assert_uint_eq(n_lines, 0);
}
END_TEST

START_TEST(ten_heavy_keys_are_found_among_ten_million_others)
{
    const uint64_t each = N_MANY / 100;
    const uint64_t n = N_MANY + N_HEAVY * each;
    for (uint64_t i = 0; i < N_MANY; i++) {
        deny(sketches[0], 1000 + i, i);
        if (i % (N_MANY / each) == 0) {
            for (uint64_t heavy = 0; heavy < N_HEAVY; heavy++) {
                deny(sketches[0], heavy, i);
            }
        }
    }
    look_at(1, 0);
    for (uint64_t heavy = 0; heavy < N_HEAVY; heavy++) {
        check_bounds(heavy, each, n);
        ck_assert_uint_lt(lines[heavy].hash.high, N_HEAVY); /* they are the first ten */
    }
}
END_TEST

START_TEST(heavy_keys_are_there_wherever_in_the_stream_they_came)
{
    const uint64_t each = N_SOME / 50;
    const uint64_t n = N_SOME + 2 * each;
    for (uint64_t i = 0; i < each; i++) {
        deny(sketches[0], 1, 1);
    }
    for (uint64_t i = 0; i < N_SOME; i++) {
        deny(sketches[0], 1000 + i, 2);
    }
    for (uint64_t i = 0; i < each; i++) {
        deny(sketches[0], 2, 3);
    }
    look_at(1, 0);
    check_bounds(1, each, n);
    check_bounds(2, each, n);
}
END_TEST

START_TEST(bounds_hold_for_every_key_of_a_stream_that_goes_round_and_round)
{
    enum { N_KEYS = HEAVY_KEYS + 1, N_ROUNDS = 1000 };
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        for (uint64_t number = 0; number < N_KEYS; number++) {
            deny(sketches[0], number, round);
        }
    }
    look_at(1, 0);
    ck_assert_uint_eq(n_lines, HEAVY_KEYS);
    for (size_t i = 0; i < n_lines; i++) {
        check_bounds(lines[i].hash.high, N_ROUNDS, (uint64_t)N_ROUNDS * N_KEYS);
    }
}
END_TEST

START_TEST(sketches_of_several_threads_are_one_with_the_bound_of_all)
{
    const uint64_t each = N_SOME / 50;
    const uint64_t n = N_SOME + 2 * each;
    for (uint64_t i = 0; i < N_SOME; i++) {
        deny(sketches[i % N_SKETCHES], 1000 + i, 1);
    }
    for (uint64_t i = 0; i < each; i++) {
        deny(sketches[0], 1, 2); /* of one connection, so on one thread */
        deny(sketches[i % N_SKETCHES], 2, 2);
    }
    look_at(N_SKETCHES, 0);
    check_bounds(1, each, n);
    check_bounds(2, each, n);
}
END_TEST

START_TEST(allowed_ones_count_while_the_key_is_there)
{
    heavy_hitters_allow(sketches[0], hash_of(1), 16);
    look_at(1, 0);
    ck_assert_uint_eq(n_lines, 0);
    deny(sketches[0], 1, 5);
    heavy_hitters_allow(sketches[0], hash_of(1), 16);
    heavy_hitters_allow(sketches[0], hash_of(1), 16);
    look_at(1, 0);
    ck_assert_uint_eq(lines[0].allowed, 32);
    ck_assert_uint_eq(lines[0].seen_us, 5);
}
END_TEST

START_TEST(who_was_denied_before_the_time_that_is_asked_for_is_not_told)
{
    deny(sketches[0], 1, 10);
    deny(sketches[0], 2, 20);
    look_at(1, 20);
    ck_assert_uint_eq(n_lines, 1);
    ck_assert_uint_eq(lines[0].hash.high, 2);
}
END_TEST

START_TEST(keys_that_were_silent_for_long_make_room_and_leave_no_trace)
{
    for (uint64_t number = 0; number < 2 * HEAVY_KEYS; number++) {
        for (uint64_t i = 0; i < 100; i++) {
            deny(sketches[0], number, 1000);
        }
    }
    const uint64_t later_us = 1000 + HEAVY_SILENCE_US + 1;
    for (uint64_t number = 1000; number < 1000 + HEAVY_KEYS; number++) {
        deny(sketches[0], number, later_us);
    }
    look_at(1, 0);
    ck_assert_uint_eq(n_lines, HEAVY_KEYS);
    for (uint64_t number = 1000; number < 1000 + HEAVY_KEYS; number++) {
        const struct heavy_line *line = line_of(number);
        ck_assert_ptr_nonnull(line);
        ck_assert_uint_eq(line->denied_min, 1);
        ck_assert_uint_eq(line->denied_max, 1);
    }
}
END_TEST

START_TEST(a_long_key_is_cut_and_says_so)
{
    char key[HEAVY_TEXT_BYTES + 1];
    memset(key, 'x', sizeof(key));
    heavy_hitters_deny(sketches[0], hash_of(1), span_of(key, HEAVY_TEXT_BYTES), 1);
    heavy_hitters_deny(sketches[0], hash_of(2), span_of(key, HEAVY_TEXT_BYTES + 1), 2);
    heavy_hitters_deny(sketches[0], hash_of(3), span_of(key, 0), 3);
    look_at(1, 0);
    ck_assert_uint_eq(lines[0].text_len, 0);
    ck_assert(lines[1].is_cut);
    ck_assert_uint_eq(lines[1].text_len, HEAVY_TEXT_BYTES);
    ck_assert(!lines[2].is_cut);
    ck_assert_mem_eq(lines[2].text, key, HEAVY_TEXT_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/heavy_hitters");
    TCase *tests = tcase_create("heavy_hitters");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, few_keys_are_counted_exactly_and_the_most_denied_is_first);
    tcase_add_test(tests, an_empty_sketch_says_nothing);
    tcase_add_test(tests, ten_heavy_keys_are_found_among_ten_million_others);
    tcase_add_test(tests, heavy_keys_are_there_wherever_in_the_stream_they_came);
    tcase_add_test(tests, bounds_hold_for_every_key_of_a_stream_that_goes_round_and_round);
    tcase_add_test(tests, sketches_of_several_threads_are_one_with_the_bound_of_all);
    tcase_add_test(tests, allowed_ones_count_while_the_key_is_there);
    tcase_add_test(tests, who_was_denied_before_the_time_that_is_asked_for_is_not_told);
    tcase_add_test(tests, keys_that_were_silent_for_long_make_room_and_leave_no_trace);
    tcase_add_test(tests, a_long_key_is_cut_and_says_so);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
