#include "proxy/exchange/exchange_steps.h"

#include <check.h>
#include <stdlib.h>

#include "base/text.h"

enum { N_ALLOWED = 100 * 1000 };

static struct meters *meters;
static struct proxy_env env;
static struct exchange *exchange;
static struct limit limits[METER_TOPS_MAX + 1];

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(meters_new(0, &meters), STATUS_OK);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        char buffer[16];
        struct text name = text_of(buffer, sizeof(buffer));
        text_add_u64(&name, i);
        limits[i] =
            (struct limit){.meter = name_directory_enter(&meters->limits, text_span(&name))};
    }
    env = (struct proxy_env){.meters = meters_of_worker(meters, 0)};
    exchange = calloc(1, sizeof(*exchange));
    exchange->env = &env;
}

static void teardown(void)
{
    free(exchange);
    meters_free(meters);
}

/* The store has said @allowed of a request that meets @limit alone. */
static void decide(const struct limit *limit, struct span key, bool allowed)
{
    struct admission *admission = &exchange->admission;
    admission->charges[0] =
        (struct charge){.limit = limit, .key = key, .verdict = {.allowed = allowed}};
    admission->decision = (struct decision){
        .charges = admission->charges, .n_charges = 1, .allowed = allowed, .now_us = 5};
    counting_note_decision(exchange);
}

static uint64_t count(const struct limit *limit, enum meter_saying saying)
{
    const struct limit_meters *block = counter_table_peek(&env.meters->limits, limit->meter);
    return counter_read(&block->decisions[saying][DECISION_MEMORY]);
}

static const struct heavy_hitters *top_of(const struct limit *limit)
{
    const struct limit_meters *block = counter_table_peek(&env.meters->limits, limit->meter);
    return atomic_load(&block->top);
}

START_TEST(what_a_limit_said_is_counted_and_a_shadow_would_deny)
{
    decide(&limits[0], SPAN("{a}"), true);
    decide(&limits[0], SPAN("{a}"), false);
    decide(&limits[0], SPAN("{a}"), false);
    ck_assert_uint_eq(count(&limits[0], METER_LIMIT_ALLOWED), 1);
    ck_assert_uint_eq(count(&limits[0], METER_LIMIT_DENIED), 2);
    limits[1].shadow = true;
    decide(&limits[1], SPAN("{a}"), false);
    ck_assert_uint_eq(count(&limits[1], METER_LIMIT_WOULD_DENY), 1);
    ck_assert_uint_eq(count(&limits[1], METER_LIMIT_DENIED), 0);
    ck_assert_ptr_nonnull(top_of(&limits[1]));
}
END_TEST

START_TEST(a_limit_that_was_not_asked_said_nothing)
{
    struct admission *admission = &exchange->admission;
    decide(&limits[0], SPAN("{a}"), true);
    admission->charges[0].unreported = true;
    counting_note_decision(exchange);
    ck_assert_uint_eq(count(&limits[0], METER_LIMIT_ALLOWED), 1);
    admission->charges[0].unreported = false;
    admission->decision.status = STATUS_TIMEOUT;
    counting_note_decision(exchange);
    ck_assert_uint_eq(count(&limits[0], METER_LIMIT_ALLOWED), 1);
}
END_TEST

START_TEST(how_often_an_offender_is_allowed_is_estimated_within_its_error)
{
    struct heavy_line *lines;
    size_t n;
    const uint64_t error = 5 * 4 * 317; /* five times 4 * sqrt(N_ALLOWED): one run in two million */
    decide(&limits[0], SPAN("{a}"), false);
    for (unsigned i = 0; i < N_ALLOWED; i++) {
        decide(&limits[0], SPAN("{a}"), true);
        decide(&limits[0], SPAN("{never denied}"), true);
    }
    const struct heavy_hitters *top = top_of(&limits[0]);
    ck_assert_int_eq(heavy_hitters_read(&top, 1, 0, &lines, &n), STATUS_OK);
    ck_assert_uint_eq(n, 1);
    ck_assert(span_equals(span_of(lines[0].text, lines[0].text_len), SPAN("{a}")));
    ck_assert_uint_gt(lines[0].allowed, N_ALLOWED - error);
    ck_assert_uint_lt(lines[0].allowed, N_ALLOWED + error);
    ck_assert_uint_eq(lines[0].denied_min, 1);
    free(lines);
}
END_TEST

START_TEST(offenders_of_so_many_limits_are_known_and_no_more)
{
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        decide(&limits[i], SPAN("{a}"), false);
        decide(&limits[i], SPAN("{a}"), true);
        ck_assert_uint_eq(count(&limits[i], METER_LIMIT_DENIED), 1);
        ck_assert_int_eq(top_of(&limits[i]) != NULL, i < METER_TOPS_MAX);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/counting");
    TCase *tests = tcase_create("counting");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_a_limit_said_is_counted_and_a_shadow_would_deny);
    tcase_add_test(tests, a_limit_that_was_not_asked_said_nothing);
    tcase_add_test(tests, how_often_an_offender_is_allowed_is_estimated_within_its_error);
    tcase_add_test(tests, offenders_of_so_many_limits_are_known_and_no_more);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
