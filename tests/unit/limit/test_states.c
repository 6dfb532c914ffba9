/* What Redis remembers of a key: for how long, and what a changed policy makes of it. */

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"
#include "one_limit.h"

enum { RATE = 10, AFTERWARDS_MS = 1000 };

/* All algorithms, and those that have more than one way. */
static const struct limit_spec SPECS[] = {
    {.algorithm = &token_bucket_algorithm, .rate = RATE, .burst = RATE},
    {.algorithm = &leaky_bucket_algorithm, .rate = RATE, .burst = RATE},
    {.algorithm = &leaky_bucket_algorithm, .rate = RATE, .burst = RATE, .max_wait_us = 60 * S},
    {.algorithm = &gcra_algorithm, .rate = RATE, .burst = RATE},
    {.algorithm = &fixed_window_algorithm, .rate = RATE},
    {.algorithm = &fixed_window_algorithm, .rate = RATE, .from_first = true},
    {.algorithm = &sliding_window_algorithm, .rate = RATE, .buckets = 10},
    {.algorithm = &sliding_window_algorithm, .rate = RATE, .buckets = 4, .strict = true},
    {.algorithm = &sliding_log_algorithm, .rate = RATE},
    {.algorithm = &concurrency_algorithm, .rate = RATE},
};

static void use_spec(const struct limit_spec *spec, uint64_t period_us)
{
    struct limit_spec whole = *spec;
    whole.period_us = period_us;
    whole.lease_us = period_us;
    limit = (struct limit){.name = SPAN("limit")};
    ck_assert_ptr_null(limit_init(&limit, &whole));
}

static struct verdict take(uint32_t cost, uint64_t slot, uint64_t now_us)
{
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = cost, .slot = slot};
    script_client_send(&client, &charge, 1, now_us);
    (void)script_client_read(&client, &charge, 1);
    return charge.verdict;
}

static long long untouched_ms(const struct verdict *verdict)
{
    return (long long)((limit_us(&limit, verdict->reset_after) + 999) / 1000);
}

/* --- lifetimes --- */

static long long ms_since(uint64_t since_us)
{
    return (long long)((clock_monotonic_us() - since_us) / 1000) + 1;
}

/* The key outlives @untouched_ms by a second or two from @since_us on, give or take what went by
 * meanwhile. */
static void ck_lifetime(long long untouched_ms, uint64_t since_us)
{
    const long long left_ms = integer("PTTL {k}");
    const long long gone_ms = ms_since(since_us);
    ck_assert_msg(left_ms <= untouched_ms + 2 * AFTERWARDS_MS &&
                      left_ms >= untouched_ms + AFTERWARDS_MS - gone_ms,
                  "%s: %lld ms are left of %lld, %lld after the charge", limit.algorithm->name,
                  left_ms, untouched_ms, gone_ms);
}

START_TEST(a_key_lives_until_its_state_is_untouched_and_a_second_or_two)
{
    uint64_t now_us = START_US + 12345;
    uint64_t charged_us = 0;
    srand(1);
    use_spec(&SPECS[_i], MINUTE + 20);
    for (uint64_t i = 0; i < 100; i++) {
        const uint64_t asked_us = clock_monotonic_us();
        const struct verdict verdict = take(1 + (uint32_t)rand() % 4, i, now_us);
        if (verdict.allowed) {
            charged_us = asked_us;
            ck_lifetime(untouched_ms(&verdict), charged_us);
        } else {
            ck_assert_int_ge(integer("PTTL {k}") + ms_since(charged_us), untouched_ms(&verdict));
        }
        now_us += (uint64_t)rand() % (10 * S);
    }
}
END_TEST

static redisContext *watch_expiries(void)
{
    redisContext *watcher = redis_server_connect(&server);
    redis_server_command(&server, "CONFIG SET notify-keyspace-events Ex");
    redisReply *reply = redisCommand(watcher, "SUBSCRIBE __keyevent@0__:expired");
    ck_assert(reply != NULL && reply->type == REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    return watcher;
}

static void await_expiries(redisContext *watcher, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *message = NULL;
        ck_assert_int_eq(redisGetReply(watcher, &message), REDIS_OK);
        freeReplyObject(message);
    }
}

START_TEST(keys_are_gone_when_their_states_are_untouched_again)
{
    static struct limit limits[ARRAY_LEN(SPECS)];
    static char keys[ARRAY_LEN(SPECS)][16];
    struct charge charges[ARRAY_LEN(SPECS)];
    for (size_t i = 0; i < ARRAY_LEN(SPECS); i++) {
        use_spec(&SPECS[i], S / 5);
        limits[i] = limit;
        snprintf(keys[i], sizeof(keys[i]), "{k}:%zu", i);
        charges[i] = (struct charge){
            .limit = &limits[i], .key = span_of_text(keys[i]), .cost = 1, .slot = 1};
    }
    redisContext *watcher = watch_expiries();
    const uint64_t start_us = clock_monotonic_us();
    script_client_send(&client, charges, ARRAY_LEN(charges), 0);
    ck_assert(script_client_read(&client, charges, ARRAY_LEN(charges)));
    await_expiries(watcher, ARRAY_LEN(SPECS));
    ck_assert_int_eq(integer("DBSIZE"), 0);
    ck_assert_uint_ge(clock_monotonic_us() - start_us, AFTERWARDS_MS * 1000);
    redisFree(watcher);
}
END_TEST

START_TEST(a_slot_that_is_given_back_leaves_no_key)
{
    const struct limit_spec spec = {.algorithm = &concurrency_algorithm, .rate = RATE};
    use_spec(&spec, MINUTE);
    ck_assert(take(1, 7, START_US).allowed);
    const struct settlement release = {
        .limit = &limit, .key = SPAN("{k}"), .kind = SETTLE_RELEASE, .slot = 7};
    script_client_send_settlements(&client, &release, 1, START_US + 1);
    script_client_read_settled(&client);
    ck_assert_int_eq(integer("DBSIZE"), 0);
}
END_TEST

static size_t settle_slot(enum settlement_kind kind, uint64_t now_us)
{
    const struct settlement settlement = {
        .limit = &limit, .key = SPAN("{k}"), .kind = kind, .slot = 7};
    script_client_send_settlements(&client, &settlement, 1, now_us);
    return script_client_read_settled(&client);
}

/* Whether the request that had it goes on, the script does not know. */
START_TEST(a_slot_that_is_gone_is_not_renewed_but_reported)
{
    const struct limit_spec spec = {.algorithm = &concurrency_algorithm, .rate = RATE};
    use_spec(&spec, MINUTE);
    ck_assert(take(1, 7, START_US).allowed);
    ck_assert_uint_eq(settle_slot(SETTLE_RENEW, START_US + 1), 0);
    ck_assert_uint_eq(settle_slot(SETTLE_RELEASE, START_US + 2), 0);
    ck_assert_uint_eq(settle_slot(SETTLE_RENEW, START_US + 3), 1);
    ck_assert_int_eq(integer("DBSIZE"), 0);
    ck_assert_uint_eq(settle_slot(SETTLE_RETAKE, START_US + 4), 0);
    ck_assert_uint_eq(settle_slot(SETTLE_RETAKE, START_US + 4), 0);
    ck_assert_uint_eq(take(0, 1, START_US + 5).remaining, RATE - 1);
}
END_TEST

START_TEST(what_is_settled_has_a_lifetime_too)
{
    const struct limit_spec *spec = &SPECS[_i];
    const struct settlement settlement = {
        .limit = &limit, .key = SPAN("{k}"), .delta = 3, .charged_at_us = START_US};
    use_spec(spec, MINUTE);
    ck_assert(take(2, 1, START_US).allowed);
    const uint64_t since_us = clock_monotonic_us();
    script_client_send_settlements(&client, &settlement, 1, START_US);
    script_client_read_settled(&client);
    const struct verdict verdict = take(0, 1, START_US);
    ck_assert_uint_eq(verdict.remaining, RATE - 5);
    ck_lifetime(untouched_ms(&verdict), since_us - 100 * 1000);
}
END_TEST

/* As where an answer takes longer than the window: the key of its charge is gone. */
START_TEST(what_is_taken_later_needs_no_key_and_has_a_lifetime)
{
    const struct settlement settlement = {
        .limit = &limit, .key = SPAN("{k}"), .delta = 3, .charged_at_us = START_US};
    use_spec(&SPECS[_i], MINUTE);
    const uint64_t since_us = clock_monotonic_us();
    script_client_send_settlements(&client, &settlement, 1, START_US + 5 * MINUTE);
    script_client_read_settled(&client);
    const struct verdict verdict = take(0, 1, START_US + 5 * MINUTE);
    ck_assert_uint_eq(verdict.remaining, RATE - 3);
    ck_lifetime(untouched_ms(&verdict), since_us - 100 * 1000);
}
END_TEST

START_TEST(settlements_of_one_call_correct_each_its_own_state)
{
    static struct limit limits[ARRAY_LEN(SPECS)];
    static char keys[ARRAY_LEN(SPECS)][16];
    struct charge charges[ARRAY_LEN(SPECS)];
    struct settlement settlements[ARRAY_LEN(SPECS)];
    for (size_t i = 0; i < ARRAY_LEN(SPECS); i++) {
        /* Backwards: the slot's arguments, which others do not have, are not the last. */
        use_spec(&SPECS[ARRAY_LEN(SPECS) - 1 - i], MINUTE);
        limits[i] = limit;
        snprintf(keys[i], sizeof(keys[i]), "{k}:%zu", i);
        charges[i] = (struct charge){
            .limit = &limits[i], .key = span_of_text(keys[i]), .cost = 2, .slot = 1};
        settlements[i] =
            (struct settlement){.limit = &limits[i],
                                .key = charges[i].key,
                                .kind = limit.algorithm->has_slots ? SETTLE_RELEASE : SETTLE_COST,
                                .delta = (int64_t)(i % 4) - 1,
                                .slot = 1,
                                .charged_at_us = START_US};
    }
    script_client_send(&client, charges, ARRAY_LEN(charges), START_US);
    ck_assert(script_client_read(&client, charges, ARRAY_LEN(charges)));
    script_client_send_settlements(&client, settlements, ARRAY_LEN(settlements), START_US);
    script_client_read_settled(&client);
    for (size_t i = 0; i < ARRAY_LEN(charges); i++) {
        charges[i].cost = 0;
    }
    script_client_send(&client, charges, ARRAY_LEN(charges), START_US);
    ck_assert(script_client_read(&client, charges, ARRAY_LEN(charges)));
    for (size_t i = 0; i < ARRAY_LEN(charges); i++) {
        const int64_t taken = limits[i].algorithm->has_slots ? 0 : 2 + settlements[i].delta;
        ck_assert_int_eq((int64_t)charges[i].verdict.remaining, RATE - taken);
    }
}
END_TEST

START_TEST(a_denial_that_counts_tells_the_time_to_come_back_as_it_is_afterwards)
{
    use_spec(&SPECS[_i], MINUTE);
    limit.charge_denied = true;
    ck_assert(take(RATE - 1, 1, START_US).allowed);
    const struct verdict denied = take(2, 1, START_US);
    ck_assert(!denied.allowed);
    ck_assert_uint_eq(denied.remaining, 0);
    ck_assert_uint_eq(take(2, 1, START_US).retry_after, denied.retry_after);
}
END_TEST

/* --- what has left a log --- */

enum { N_LEFT = 1000, FEW = 8 };

/* A log of @n entries, all of which have left it a second later, and of one that has not. */
static void make_log(uint64_t n)
{
    const struct limit_spec spec = {.algorithm = &sliding_log_algorithm, .rate = N_LEFT + 2};
    use_spec(&spec, MINUTE);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert(take(1, 0, START_US + i).allowed);
    }
    ck_assert(take(2, 0, START_US + MINUTE / 2).allowed);
}

static const uint64_t LEFT_US = START_US + MINUTE + S;

/* A request that the limit would allow, decided as @aim says. */
static struct verdict ask_as(enum decision_aim aim)
{
    struct charge charge = {.limit = &limit, .key = SPAN("{k}"), .cost = 1};
    script_client_send_as(&client, aim, &charge, 1, LEFT_US);
    (void)script_client_read(&client, &charge, 1);
    return charge.verdict;
}

static void ck_one_entry_counts(const struct verdict *verdict)
{
    ck_assert_uint_eq(verdict->remaining, N_LEFT);
    ck_assert_uint_eq(verdict->next_after, MINUTE / 2 - S);
    ck_assert_uint_eq(verdict->reset_after, MINUTE / 2 - S);
}

START_TEST(what_has_left_a_log_is_read_by_one_request_that_is_not_charged)
{
    const enum decision_aim aims[] = {DECISION_DENY, DECISION_JUDGE};
    make_log(N_LEFT);
    ck_assert_int_eq(integer("EXPIRE {k} 1000"), 1);
    const uint64_t since_us = clock_monotonic_us();

    for (int i = 0; i < 3; i++) {
        const struct verdict verdict = ask_as(aims[_i]);
        ck_one_entry_counts(&verdict);
        ck_assert_int_eq(integer("LLEN {k}"), 2);
    }
    ck_assert_int_ge(integer("PTTL {k}"), 1000 * 1000 - ms_since(since_us));
    ck_assert_int_le(integer("PTTL {k}"), 1000 * 1000);
    ck_assert_uint_eq(take(N_LEFT, 0, LEFT_US).remaining, 0);
}
END_TEST

START_TEST(a_few_that_have_left_a_log_stay_until_the_next_charge)
{
    make_log(FEW);
    const struct verdict verdict = ask_as(DECISION_DENY);
    ck_one_entry_counts(&verdict);
    ck_assert_int_eq(integer("LLEN {k}"), FEW + 2);
    ck_assert(take(1, 0, LEFT_US).allowed);
    ck_assert_int_eq(integer("LLEN {k}"), 3);
}
END_TEST

START_TEST(a_denied_request_is_answered_where_nothing_can_be_written)
{
    make_log(N_LEFT);
    redis_server_command(&server, "REPLICAOF 127.0.0.1 1");
    const struct verdict verdict = ask_as(DECISION_DENY);
    ck_one_entry_counts(&verdict);
    ck_assert_int_eq(integer("LLEN {k}"), N_LEFT + 2);
}
END_TEST

/* How often Redis has run @command since the statistics were reset. */
static long long calls_of(const char *command)
{
    char name[32];
    snprintf(name, sizeof(name), "cmdstat_%s:calls=", command);
    redisReply *reply = redisCommand(client.connection, "INFO commandstats");
    ck_assert(reply != NULL && reply->str != NULL);
    const char *stat = strstr(reply->str, name);
    const long long calls = stat != NULL ? strtoll(stat + strlen(name), NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

START_TEST(a_denial_reads_few_entries_however_much_must_leave)
{
    const uint32_t costs[] = {N_LEFT, N_LEFT / 2, 200, 1};
    const struct limit_spec large = {.algorithm = &sliding_log_algorithm, .rate = N_LEFT};
    const struct limit_spec small = {.algorithm = &sliding_log_algorithm, .rate = 100};
    use_spec(&large, MINUTE);
    for (uint64_t i = 0; i < N_LEFT; i++) {
        ck_assert(take(1, 0, START_US + i).allowed);
    }
    redis_server_command(&server, "CONFIG RESETSTAT");

    for (size_t i = 0; i < ARRAY_LEN(costs); i++) {
        const struct verdict verdict = take(costs[i], 0, START_US + MINUTE / 2);
        ck_assert(!verdict.allowed);
        ck_assert_uint_eq(verdict.retry_after, MINUTE / 2 + costs[i] - 1);
    }
    use_spec(&small, MINUTE);
    const struct verdict verdict = take(1, 0, START_US + MINUTE / 2);
    ck_assert(!verdict.allowed);
    ck_assert_uint_eq(verdict.retry_after, MINUTE / 2 + N_LEFT - 100);
    ck_assert_int_le(calls_of("lrange") + calls_of("lindex"), 5 * 6);
}
END_TEST

/* Bursts a microsecond apart: the greatest cost, and how many of the entries stay. */
static const struct {
    uint32_t cost_max;
    uint64_t n_stay;
} BURSTS[] = {{1, N_LEFT / 3}, {1, 1}, {1, 0}, {3, 0}};

START_TEST(a_burst_that_has_left_a_log_is_not_read)
{
    const uint64_t n_stay = BURSTS[_i].n_stay;
    const struct limit_spec spec = {.algorithm = &sliding_log_algorithm, .rate = 3 * N_LEFT};
    use_spec(&spec, MINUTE);
    for (uint64_t i = 0; i < N_LEFT; i++) {
        ck_assert(take(1 + (uint32_t)(i % BURSTS[_i].cost_max), 0, START_US + i).allowed);
    }
    redis_server_command(&server, "CONFIG RESETSTAT");

    const struct verdict verdict = take(1, 0, START_US + MINUTE + N_LEFT - 1 - n_stay);
    ck_assert(verdict.allowed);
    ck_assert_uint_eq(verdict.remaining, 3 * N_LEFT - n_stay - 1);
    ck_assert_int_le(calls_of("lrange"), 2);
    ck_assert_int_le(calls_of("lindex"), 12);
    ck_assert_int_eq(integer("LLEN {k}"), (long long)n_stay + 2);
}
END_TEST

/* --- a policy that changes --- */

START_TEST(raising_a_limit_helps_at_once_and_lowering_it_counts_what_was_taken)
{
    struct limit_spec spec = SPECS[_i];
    use_spec(&spec, MINUTE);
    for (uint64_t slot = 0; slot < 8; slot++) {
        ck_assert(take(1, slot, START_US + 1).allowed);
    }
    ck_assert_uint_eq(take(0, 0, START_US + 1).remaining, 2);

    spec.rate = spec.algorithm->has_numbers_in_digest ? RATE : 2 * RATE;
    spec.burst = 2 * RATE;
    use_spec(&spec, MINUTE);
    ck_assert_uint_eq(take(0, 0, START_US + 1).remaining, 12);

    spec.rate = spec.algorithm->has_numbers_in_digest ? RATE : RATE / 2;
    spec.burst = RATE / 2;
    use_spec(&spec, MINUTE);
    ck_assert_uint_eq(take(0, 0, START_US + 1).remaining, 0);
    ck_assert(!take(1, 9, START_US + 1).allowed);
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
    Suite *suite = suite_create("limit/states");
    TCase *tcase = tcase_create("states in Redis");
    const int n = (int)ARRAY_LEN(SPECS);
    const int n_settled = n - 1; /* slots are not */
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_key_lives_until_its_state_is_untouched_and_a_second_or_two, 0, n);
    tcase_add_test(tcase, keys_are_gone_when_their_states_are_untouched_again);
    tcase_add_test(tcase, a_slot_that_is_given_back_leaves_no_key);
    tcase_add_test(tcase, a_slot_that_is_gone_is_not_renewed_but_reported);
    tcase_add_loop_test(tcase, what_is_settled_has_a_lifetime_too, 0, n_settled);
    tcase_add_loop_test(tcase, what_is_taken_later_needs_no_key_and_has_a_lifetime, 0, n_settled);
    tcase_add_test(tcase, settlements_of_one_call_correct_each_its_own_state);
    tcase_add_loop_test(tcase, a_denial_that_counts_tells_the_time_to_come_back_as_it_is_afterwards,
                        0, n_settled);
    tcase_add_loop_test(tcase, what_has_left_a_log_is_read_by_one_request_that_is_not_charged, 0,
                        2);
    tcase_add_test(tcase, a_few_that_have_left_a_log_stay_until_the_next_charge);
    tcase_add_test(tcase, a_denial_reads_few_entries_however_much_must_leave);
    tcase_add_loop_test(tcase, a_burst_that_has_left_a_log_is_not_read, 0, ARRAY_LEN(BURSTS));
    tcase_add_test(tcase, a_denied_request_is_answered_where_nothing_can_be_written);
    tcase_add_loop_test(tcase, raising_a_limit_helps_at_once_and_lowering_it_counts_what_was_taken,
                        0, n);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
