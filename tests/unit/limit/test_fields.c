#include "limit/fields.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "limit/algorithms.h"

static const struct limit LIMIT = {
    .name = {"per-client", 10},
    .algorithm = &token_bucket_algorithm,
    .params = {.rate = 100, .burst = 20, .period = 60000, .ticks_per_s = 1000},
    .tick_us = 1000,
    .period_us = 60000000,
};

#define ck_assert_text(text, expected)                                                             \
    ck_assert_msg(span_equals(text_span(&(text)), SPAN(expected)), "got %.*s",                     \
                  SPAN_ARGS(text_span(&(text))))

/* --- fields_write_policy --- */

START_TEST(a_policy_is_the_rate_as_it_is_written)
{
    char buffer[64];
    struct text text = text_of(buffer, sizeof(buffer));
    fields_write_policy(&text, &LIMIT);
    ck_assert_text(text, "\"per-client\";q=100;w=60");
}
END_TEST

START_TEST(a_window_that_is_not_whole_seconds_is_left_out)
{
    static const struct {
        uint64_t period_us;
        const char *text;
    } ROWS[] = {
        {1, "\"per-client\";q=100"},           {999999, "\"per-client\";q=100"},
        {1000000, "\"per-client\";q=100;w=1"}, {1000001, "\"per-client\";q=100"},
        {1500000, "\"per-client\";q=100"},     {2000000, "\"per-client\";q=100;w=2"},
    };
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
        struct limit limit = LIMIT;
        char buffer[64];
        struct text text = text_of(buffer, sizeof(buffer));
        limit.period_us = ROWS[i].period_us;
        fields_write_policy(&text, &limit);
        ck_assert_msg(span_equals(text_span(&text), span_of_text(ROWS[i].text)), "%.*s",
                      SPAN_ARGS(text_span(&text)));
    }
}
END_TEST

START_TEST(slots_have_a_unit_of_their_own_and_no_window)
{
    struct limit limit = LIMIT;
    char buffer[64];
    struct text text = text_of(buffer, sizeof(buffer));
    limit.algorithm = &concurrency_algorithm;
    fields_write_policy(&text, &limit);
    ck_assert_text(text, "\"per-client\";q=100;qu=\"concurrent-requests\"");
}
END_TEST

/* --- fields_write_state --- */

START_TEST(a_state_is_what_is_left_and_the_seconds_until_one_more)
{
    char buffer[64];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct verdict verdict = {.remaining = 17, .next_after = 1001};
    fields_write_state(&text, FIELDS_DRAFT_11, &LIMIT, &verdict, 1);
    ck_assert_text(text, "\"per-client\";r=17;t=2");
}
END_TEST

START_TEST(an_untouched_state_has_no_time)
{
    char buffer[64];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct verdict verdict = {.remaining = 20, .next_after = 0};
    fields_write_state(&text, FIELDS_DRAFT_11, &LIMIT, &verdict, 1);
    ck_assert_text(text, "\"per-client\";r=20");
}
END_TEST

START_TEST(the_coming_draft_has_other_names_and_tells_the_cost)
{
    char buffer[64];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct verdict verdict = {.remaining = 17, .next_after = 1001};
    fields_write_state(&text, FIELDS_DRAFT_NEXT, &LIMIT, &verdict, 5);
    ck_assert_text(text, "\"per-client\";a=17;w=2;c=5");
}
END_TEST

START_TEST(the_state_of_slots_has_no_time)
{
    char buffer[64];
    struct limit slots = LIMIT;
    struct text text = text_of(buffer, sizeof(buffer));
    const struct verdict verdict = {.remaining = 17, .next_after = 1001};
    slots.algorithm = &concurrency_algorithm;
    fields_write_state(&text, FIELDS_DRAFT_11, &slots, &verdict, 1);
    ck_assert_text(text, "\"per-client\";r=17");
}
END_TEST

/* --- the fields of one limit alone --- */

START_TEST(the_older_fields_tell_when_the_limit_is_untouched)
{
    const struct verdict verdict = {.limit = 20, .remaining = 17, .reset_after = 2001};
    const struct fields_legacy legacy = fields_legacy_of(&LIMIT, &verdict);
    ck_assert_uint_eq(legacy.limit, 20);
    ck_assert_uint_eq(legacy.remaining, 17);
    ck_assert_uint_eq(legacy.reset_s, 3);
}
END_TEST

static const struct {
    const char *says;
    struct fields_legacy a;
    struct fields_legacy b;
    bool is_nearer;
} NEARER[] = {
    {"a smaller part is nearer", {100, 10, 1}, {10, 2, 9}, true},
    {"a greater part is not, whatever its number", {10, 2, 9}, {100, 10, 1}, false},
    {"nothing left for longer is nearer", {10, 0, 9}, {100, 0, 1}, true},
    {"the same is not nearer", {10, 5, 9}, {10, 5, 9}, false},
    {"the greatest numbers do not wrap",
     {UINT32_MAX, UINT32_MAX - 1, 1},
     {UINT32_MAX, UINT32_MAX, 1},
     true},
};

START_TEST(the_limit_nearest_to_its_end_has_the_smallest_part_left)
{
    ck_assert_msg(fields_is_nearer(&NEARER[_i].a, &NEARER[_i].b) == NEARER[_i].is_nearer, "%s",
                  NEARER[_i].says);
}
END_TEST

/* --- fields_retry_after_s --- */

static const struct {
    uint64_t retry_after;
    uint64_t reset_after;
    uint64_t seconds;
} WAITS[] = {
    {1, 60000, 1},      {1000, 60000, 1},   {1001, 60000, 2},
    {60000, 60000, 60}, {90000, 60000, 61}, {0, 0, 1},
};

START_TEST(retry_after_is_rounded_up_at_least_one_and_within_the_reset)
{
    const struct verdict verdict = {
        .retry_after = WAITS[_i].retry_after,
        .reset_after = WAITS[_i].reset_after,
    };
    uint64_t seconds = 0;
    ck_assert(fields_retry_after_s(&LIMIT, &verdict, &seconds));
    ck_assert_uint_eq(seconds, WAITS[_i].seconds);
}
END_TEST

static const uint64_t NO_WAITS[] = {RETRY_NEVER, RETRY_UNKNOWN};

START_TEST(never_and_unknown_are_no_retry_after)
{
    const struct verdict verdict = {.retry_after = NO_WAITS[_i], .reset_after = 1};
    uint64_t seconds = 7;
    ck_assert(!fields_retry_after_s(&LIMIT, &verdict, &seconds));
    ck_assert_uint_eq(seconds, 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/fields");
    TCase *policy = tcase_create("fields_write_policy");
    tcase_add_test(policy, a_policy_is_the_rate_as_it_is_written);
    tcase_add_test(policy, a_window_that_is_not_whole_seconds_is_left_out);
    tcase_add_test(policy, slots_have_a_unit_of_their_own_and_no_window);
    suite_add_tcase(suite, policy);
    TCase *state = tcase_create("fields_write_state");
    tcase_add_test(state, the_coming_draft_has_other_names_and_tells_the_cost);
    tcase_add_test(state, the_state_of_slots_has_no_time);
    tcase_add_test(state, a_state_is_what_is_left_and_the_seconds_until_one_more);
    tcase_add_test(state, an_untouched_state_has_no_time);
    suite_add_tcase(suite, state);
    TCase *legacy = tcase_create("the fields of one limit alone");
    tcase_add_test(legacy, the_older_fields_tell_when_the_limit_is_untouched);
    tcase_add_loop_test(legacy, the_limit_nearest_to_its_end_has_the_smallest_part_left, 0,
                        (int)ARRAY_LEN(NEARER));
    suite_add_tcase(suite, legacy);
    TCase *retry_after = tcase_create("fields_retry_after_s");
    tcase_add_loop_test(retry_after, retry_after_is_rounded_up_at_least_one_and_within_the_reset, 0,
                        (int)ARRAY_LEN(WAITS));
    tcase_add_loop_test(retry_after, never_and_unknown_are_no_retry_after, 0,
                        (int)ARRAY_LEN(NO_WAITS));
    suite_add_tcase(suite, retry_after);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
