/* The clock that decides, in the program that decides in Redis: read once in a call, and what
 * becomes of states when it steps back. What the C answers is the same: see tests/differential. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "one_limit.h"
#include "support/judge.h"

/* 60 a minute, so that a second is worth a unit; at the end of a sub-window,
 * after the start of one. */
enum { UNITS = 60 };

#define AT (30 * S + S / 2)

static void use_units(size_t i)
{
    use(COUNTING[i], UNITS, UNITS, MINUTE);
}

/* All that a step back of @step_us at @at lets pass until the time before it has come again. */
static uint64_t count_across(uint64_t at, uint64_t step_us)
{
    uint64_t n = 0;
    ck_assert(passes(UNITS / 2, at));
    while (passes(1, at - step_us)) {
        n++;
    }
    return UNITS / 2 + n + ask(0, at).remaining;
}

/* In mid-window, and across the edge of windows. */
START_TEST(a_small_step_back_counts_as_no_time_passed)
{
    static const uint64_t TIMES[] = {AT, MINUTE + S / 4};
    static const uint64_t STEPS_US[] = {1, S / 2, S};
    for (size_t i = 0; i < ARRAY_LEN(COUNTING) * ARRAY_LEN(TIMES); i++) {
        const uint64_t at = TIMES[i % ARRAY_LEN(TIMES)];
        for (size_t j = 0; j < ARRAY_LEN(STEPS_US); j++) {
            use_units(i / ARRAY_LEN(TIMES));
            ck_assert_msg(count_across(at, STEPS_US[j]) == UNITS, "%s", limit.algorithm->name);
            forget();
        }
    }
}
END_TEST

START_TEST(what_is_denied_after_a_small_step_back_comes_back_when_it_would_have)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        ck_assert(passes(UNITS, AT));
        const uint64_t retry_after = ask(1, AT).retry_after;
        ck_assert(!passes(1, AT - S / 2));
        ck_assert(!passes(1, AT + retry_after - 1));
        ck_assert_msg(passes(1, AT + retry_after), "%s", COUNTING[i]->name);
        forget();
    }
}
END_TEST

START_TEST(what_is_said_after_a_small_step_back_counts_from_where_time_goes_on)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        ck_assert(passes(UNITS, AT));
        const uint64_t stepped = AT - S / 2;
        const struct verdict denied = ask(1, stepped);
        ck_assert(!denied.allowed);
        ck_assert_uint_ge(denied.reset_after, denied.retry_after);
        ck_assert_uint_eq(denied.next_after, denied.retry_after);
        ck_assert_msg(!passes(1, stepped + denied.retry_after - 1), "%s", COUNTING[i]->name);
        ck_assert_msg(passes(1, stepped + denied.retry_after), "%s", COUNTING[i]->name);
        forget();
    }
}
END_TEST

/* An hour back, and nobody but the denied asks there. */
START_TEST(a_large_step_back_neither_gives_nor_freezes)
{
    const uint64_t back = 3600 * S;
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        ck_assert(passes(UNITS, back + AT));
        ck_assert(!passes(1, AT));
        const struct verdict verdict = ask(1, AT);
        ck_assert_uint_eq(verdict.remaining, 0);
        ck_assert_uint_le(verdict.retry_after, MINUTE + 6 * S);
        ck_assert(!passes(1, AT + verdict.retry_after - 1));
        ck_assert_msg(passes(1, AT + verdict.retry_after), "%s", COUNTING[i]->name);
        forget();
    }
}
END_TEST

START_TEST(a_state_that_followed_a_clock_back_expires_by_the_new_time)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        ck_assert(passes(UNITS, 3600 * S + AT));
        ck_assert(!passes(1, AT));
        ck_assert_int_le(integer("PTTL {k}"), 67000);
        ck_assert_int_gt(integer("PTTL {k}"), 0);
        forget();
    }
}
END_TEST

static struct verdict ask_for_slot(uint64_t slot, uint64_t at_us)
{
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = 1, .slot = slot};
    script_client_send(&client, &charge, 1, START_US + at_us);
    (void)script_client_read(&client, &charge, 1);
    return charge.verdict;
}

START_TEST(slots_outlive_a_step_back_by_their_lease)
{
    static const uint64_t BACKS_US[] = {1, S, 2 * S, 3600 * S};
    const struct limit_spec spec = {
        .algorithm = &concurrency_algorithm, .rate = 1, .lease_us = MINUTE};
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    for (size_t i = 0; i < ARRAY_LEN(BACKS_US); i++) {
        const uint64_t now = 2 * 3600 * S - BACKS_US[i];
        const uint64_t held_us = MINUTE + (BACKS_US[i] <= S ? BACKS_US[i] : 0);
        ck_assert(ask_for_slot(1, 2 * 3600 * S).allowed);
        ck_assert(!ask_for_slot(2, now).allowed);
        ck_assert(!ask_for_slot(2, now + held_us - 1).allowed);
        ck_assert(ask_for_slot(2, now + held_us).allowed);
        forget();
    }
}
END_TEST

/* --- time zones --- */

/* Proxies whose zone databases say two times for one midnight, in turn. */
START_TEST(zone_data_that_differ_forget_no_count)
{
    static const uint64_t HOUR = 60 * MINUTE;
    const uint64_t midnights[2][LIMIT_EDGES] = {
        {START_US - 26 * HOUR, START_US - 2 * HOUR, START_US + 22 * HOUR, START_US + 46 * HOUR},
        {START_US - 25 * HOUR, START_US - HOUR, START_US + 23 * HOUR, START_US + 47 * HOUR},
    };
    use(&fixed_window_algorithm, 6, 0, 24 * HOUR);
    limit.params.is_calendar = true;
    struct judge_state state = {.exists = false};
    unsigned n_passed[2] = {0, 0};
    for (uint64_t i = 0; i < 20; i++) {
        const uint64_t *edges = midnights[i % 2];
        struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = 1, .edges = edges};
        struct judge_charge judged = {.limit = &limit, .state = &state, .cost = 1, .edges = edges};
        script_client_send(&client, &charge, 1, START_US + i);
        n_passed[0] += script_client_read(&client, &charge, 1);
        n_passed[1] += judge_decide(&judged, 1, START_US + i);
        ck_assert_uint_eq(charge.verdict.remaining, judged.verdict.remaining);
        ck_assert_uint_eq(charge.verdict.reset_after, judged.verdict.reset_after);
    }
    /* The window that began later forgets the one request before it, and no more. */
    ck_assert_uint_eq(n_passed[0], 7);
    ck_assert_uint_eq(n_passed[1], 7);
}
END_TEST

/* --- the clock of Redis --- */

static long long calls_of(const char *command)
{
    char line[64];
    redisReply *reply = redisCommand(client.connection, "INFO commandstats");
    snprintf(line, sizeof(line), "cmdstat_%s:calls=", command);
    const char *found = strstr(reply->str, line);
    const long long n = found == NULL ? 0 : strtoll(found + strlen(line), NULL, 10);
    freeReplyObject(reply);
    return n;
}

static uint64_t charge_at(uint64_t at_us)
{
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = 1};
    script_client_send(&client, &charge, 1, at_us);
    ck_assert(script_client_read(&client, &charge, 1));
    return charge.charged_at_us;
}

START_TEST(a_charge_by_a_clock_that_is_behind_is_refunded_whole)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        limit.params.settles = true;
        ck_assert_uint_eq(charge_at(START_US), START_US);
        const uint64_t charged_at_us = charge_at(START_US - 1);
        ck_assert_msg(charged_at_us == START_US, "%s", COUNTING[i]->name);
        const struct settlement refund = {
            .limit = &limit, .key = SPAN("{k}"), .delta = -1, .charged_at_us = charged_at_us};
        script_client_send_settlements(&client, &refund, 1, START_US);
        script_client_read_settled(&client);
        struct charge charge = {.limit = &limit, .key = SPAN("{k}")};
        script_client_send(&client, &charge, 1, START_US);
        ck_assert(script_client_read(&client, &charge, 1));
        ck_assert_uint_eq(charge.verdict.remaining, UNITS - 1);
        forget();
    }
}
END_TEST

START_TEST(the_clock_is_read_once_in_a_call_however_many_limits_there_are)
{
    static struct limit limits[ARRAY_LEN(COUNTING)];
    static const char *const KEYS[] = {"{k}1", "{k}2", "{k}3", "{k}4", "{k}5", "{k}6"};
    struct charge charges[ARRAY_LEN(COUNTING)] = {0};
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        limits[i] = limit;
        charges[i] = (struct charge){.limit = &limits[i], .key = span_of_text(KEYS[i]), .cost = 1};
    }
    const long long n_before = calls_of("time");
    const long long n_scripts_before = calls_of("evalsha");
    script_client_send(&client, charges, ARRAY_LEN(charges), 0);
    ck_assert(script_client_read(&client, charges, ARRAY_LEN(charges)));
    ck_assert_int_eq(calls_of("time") - n_before, 1);
    ck_assert_int_eq(calls_of("evalsha") - n_scripts_before, 1);
    for (size_t i = 0; i < ARRAY_LEN(charges); i++) {
        ck_assert_uint_eq(charges[i].charged_at_us, charges[0].charged_at_us);
    }
}
END_TEST

/* Sends one decision, or one settlement, at @now_us, and returns whether it fails by the clock. */
static bool fails_by_clock(bool settles, uint64_t now_us)
{
    void *any;
    if (settles) {
        const struct settlement refund = {
            .limit = &limit, .key = SPAN("{k}"), .delta = -1, .charged_at_us = START_US};
        script_client_send_settlements(&client, &refund, 1, now_us);
    } else {
        const struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = 1};
        script_client_send(&client, &charge, 1, now_us);
    }
    ck_assert_int_eq(redisGetReply(client.connection, &any), REDIS_OK);
    redisReply *reply = any;
    const bool fails =
        reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "CLOCK ", strlen("CLOCK ")) == 0;
    freeReplyObject(reply);
    return fails;
}

/* A state of then would be none that makes sense: each request would be the first. */
START_TEST(a_clock_that_is_past_the_latest_time_is_an_error_that_has_written_nothing)
{
    for (size_t i = 0; i < ARRAY_LEN(COUNTING); i++) {
        use_units(i);
        limit.params.settles = true;
        ck_assert(passes(UNITS, LIMIT_NOW_MAX - START_US));
        ck_assert_msg(!passes(1, LIMIT_NOW_MAX - START_US), "%s", COUNTING[i]->name);
        ck_assert(!fails_by_clock(true, LIMIT_NOW_MAX));
        forget();
        ck_assert_msg(fails_by_clock(false, LIMIT_NOW_MAX + 1), "%s", COUNTING[i]->name);
        ck_assert(fails_by_clock(true, LIMIT_NOW_MAX + 1));
        ck_assert_int_eq(integer("DBSIZE"), 0);
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
    Suite *suite = suite_create("limit/clock");
    TCase *tcase = tcase_create("the clock");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, a_small_step_back_counts_as_no_time_passed);
    tcase_add_test(tcase, what_is_denied_after_a_small_step_back_comes_back_when_it_would_have);
    tcase_add_test(tcase, what_is_said_after_a_small_step_back_counts_from_where_time_goes_on);
    tcase_add_test(tcase, a_large_step_back_neither_gives_nor_freezes);
    tcase_add_test(tcase, a_state_that_followed_a_clock_back_expires_by_the_new_time);
    tcase_add_test(tcase, slots_outlive_a_step_back_by_their_lease);
    tcase_add_test(tcase, zone_data_that_differ_forget_no_count);
    tcase_add_test(tcase, a_charge_by_a_clock_that_is_behind_is_refunded_whole);
    tcase_add_test(tcase, the_clock_is_read_once_in_a_call_however_many_limits_there_are);
    tcase_add_test(tcase,
                   a_clock_that_is_past_the_latest_time_is_an_error_that_has_written_nothing);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
