/* Offences: what bans a key, what is forgotten, and the guards for those who are innocent. */

#include "store/offences.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/text.h"

enum { SECOND_US = 1000 * 1000, MANY = 1000 };

static const struct ban_terms TERMS = {.after = 4,
                                       .factor = 4,
                                       .period_us = 60 * SECOND_US,
                                       .for_ms = 60 * 1000,
                                       .max_ms = 3600 * 1000,
                                       .forget_ms = 86400 * 1000};
static const uint8_t HASH[HASH_IDENTITY_BYTES] = {1};
static const uint8_t OTHER_HASH[HASH_IDENTITY_BYTES] = {2};
static const struct span LIMIT = {"login", 5};
static const struct span KEY = {"{client.ip:9=192.0.2.1}", 23};

static struct offences *offences;

static void start(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(offences_new(&offences), STATUS_OK);
}

static void stop(void)
{
    offences_free(offences);
}

/* Of @network, a /24. */
static struct address address_in(unsigned network)
{
    const uint8_t bytes[4] = {10, (uint8_t)(network >> 8), (uint8_t)network, 7};
    return address_of_bytes(ADDRESS_IPV4, bytes);
}

static enum offence_result note_from(unsigned network, struct span key, uint64_t now_us)
{
    const struct address client = address_in(network);
    const struct offence_key who = {LIMIT, key, &client};
    return offences_note(offences, &TERMS, &who, MANY, now_us);
}

static enum offence_result note(struct offences *table, const struct ban_terms *terms,
                                struct span limit, struct span key, uint32_t bans_per_minute,
                                uint64_t now_us)
{
    const struct address client = address_in(0);
    const struct offence_key who = {limit, key, &client};
    return offences_note(table, terms, &who, bans_per_minute, now_us);
}

static enum offence_result offend(struct span key, uint64_t now_us)
{
    return note(offences, &TERMS, LIMIT, key, MANY, now_us);
}

/* The key of client @i; valid until the next call. */
static struct span client(unsigned i)
{
    static char bytes[64];
    struct text text = text_of(bytes, sizeof(bytes));
    text_add_format(&text, "{client:5=%05u}", i);
    return text_span(&text);
}

/* Client @i, from @network, has got a good answer. */
static void note_served(struct span limit, unsigned i, unsigned network, uint64_t now_us)
{
    const struct address address = address_in(network);
    const struct offence_key who = {limit, client(i), &address};
    offences_note_served(offences, &who, now_us);
}

/* --- counting --- */

START_TEST(a_repeatable_table_forgets_the_same_keys_each_time)
{
    struct offences *tables[2];
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        ck_assert_int_eq(offences_new(&tables[i]), STATUS_OK);
        offences_make_repeatable(tables[i]);
        for (unsigned j = 0; j < 4 * 2 * OFFENCE_KEYS; j++) {
            ck_assert_int_eq(note(tables[i], &TERMS, LIMIT, client(j / 2), MANY, j),
                             OFFENCE_COUNTED);
        }
    }
    size_t n_forgotten = 0;
    for (unsigned j = 3 * OFFENCE_KEYS; j < 4 * OFFENCE_KEYS; j++) {
        enum offence_result results[2];
        for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
            results[i] = note(tables[i], &TERMS, LIMIT, client(j), MANY, SECOND_US);
            results[i] = note(tables[i], &TERMS, LIMIT, client(j), MANY, SECOND_US);
        }
        ck_assert_int_eq(results[0], results[1]);
        n_forgotten += results[0] == OFFENCE_COUNTED;
    }
    ck_assert_uint_gt(n_forgotten, 0); /* else it says nothing */
    offences_free(tables[0]);
    offences_free(tables[1]);
}
END_TEST

START_TEST(the_last_offence_within_a_period_bans)
{
    const uint64_t from_us[] = {0, UINT32_MAX - UINT64_C(2), UINT64_C(1) << 32,
                                UINT64_MAX - 10 * SECOND_US};
    for (size_t i = 0; i < ARRAY_LEN(from_us); i++) {
        const struct span key = client((unsigned)i);
        ck_assert_int_eq(offend(key, from_us[i]), OFFENCE_COUNTED);
        ck_assert_int_eq(offend(key, from_us[i]), OFFENCE_COUNTED);
        ck_assert_int_eq(offend(key, from_us[i] + SECOND_US), OFFENCE_COUNTED);
        ck_assert_int_eq(offend(key, from_us[i] + 2 * SECOND_US), OFFENCE_BANS);
        ck_assert_int_eq(offend(key, from_us[i] + 2 * SECOND_US), OFFENCE_COUNTED);
    }
}
END_TEST

START_TEST(a_period_begins_with_the_first_offence_and_then_anew)
{
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(offend(KEY, i), OFFENCE_COUNTED);
    }
    for (unsigned i = 0; i < 3; i++) { /* just after the period: none of the former count */
        ck_assert_int_eq(offend(KEY, TERMS.period_us + i), OFFENCE_COUNTED);
    }
    ck_assert_int_eq(offend(KEY, 2 * TERMS.period_us - 1), OFFENCE_BANS);
}
END_TEST

START_TEST(a_clock_that_steps_back_neither_bans_nor_forgets)
{
    ck_assert_int_eq(offend(KEY, UINT64_C(1) << 40), OFFENCE_COUNTED);
    ck_assert_int_eq(offend(KEY, 5), OFFENCE_COUNTED);
    ck_assert_int_eq(offend(KEY, 0), OFFENCE_COUNTED);
    ck_assert_int_eq(offend(KEY, UINT64_C(1) << 40), OFFENCE_BANS);
}
END_TEST

START_TEST(limits_and_keys_are_counted_apart)
{
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(offend(KEY, 0), OFFENCE_COUNTED);
        ck_assert_int_eq(offend(client(1), 0), OFFENCE_COUNTED);
        ck_assert_int_eq(note(offences, &TERMS, SPAN("other"), KEY, MANY, 0), OFFENCE_COUNTED);
    }
    ck_assert_int_eq(offend(KEY, 0), OFFENCE_BANS);
}
END_TEST

START_TEST(the_table_is_bounded)
{
    const struct ban_terms hasty = {.after = 2, .factor = 1, .period_us = SECOND_US};
    unsigned n_bans = 0;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 3 * OFFENCE_KEYS; i++) {
            n_bans += note(offences, &hasty, LIMIT, client(i), UINT32_MAX, i % 2) == OFFENCE_BANS;
        }
    }
    ck_assert_uint_lt(n_bans, OFFENCE_KEYS);
    ck_assert_int_eq(offend(KEY, 2 * OFFENCE_MINUTE_US), OFFENCE_COUNTED);
    ck_assert_int_eq(offend(KEY, 2 * OFFENCE_MINUTE_US), OFFENCE_COUNTED);
    ck_assert_int_eq(offend(KEY, 2 * OFFENCE_MINUTE_US), OFFENCE_COUNTED);
    ck_assert_int_eq(offend(KEY, 2 * OFFENCE_MINUTE_US), OFFENCE_BANS);
}
END_TEST

START_TEST(keys_that_are_only_served_give_way_to_offenders)
{
    for (unsigned i = 0; i < TERMS.after - 1; i++) {
        ck_assert_int_eq(offend(KEY, i), OFFENCE_COUNTED);
        for (unsigned j = 0; j < 4 * OFFENCE_KEYS; j++) {
            note_served(SPAN("other"), j, j, i);
        }
    }
    ck_assert_int_eq(offend(KEY, TERMS.after), OFFENCE_BANS);
}
END_TEST

START_TEST(keys_with_fewer_offences_give_way)
{
    for (unsigned i = 0; i < TERMS.after - 1; i++) {
        ck_assert_int_eq(offend(KEY, 0), OFFENCE_COUNTED);
    }
    for (unsigned i = 0; i < 4 * OFFENCE_KEYS; i++) {
        ck_assert_int_eq(offend(client(i), 1), OFFENCE_COUNTED);
    }
    ck_assert_int_eq(offend(KEY, 2), OFFENCE_BANS);
}
END_TEST

/* --- strikes --- */

static uint32_t strike(const struct ban_terms *terms, uint64_t now_us, uint64_t *length_ms)
{
    return offences_strike(offences, terms, LIMIT, KEY, HASH, now_us, length_ms);
}

START_TEST(strikes_grow_until_they_are_forgotten)
{
    const uint64_t minute_us = 60 * SECOND_US;
    const uint64_t memory_us = TERMS.forget_ms * 1000;
    uint64_t length_ms;
    ck_assert_uint_eq(strike(&TERMS, 0, &length_ms), 1);
    ck_assert_uint_eq(length_ms, 60 * 1000);
    ck_assert_uint_eq(strike(&TERMS, minute_us + memory_us - 1, &length_ms), 2);
    ck_assert_uint_eq(length_ms, 240 * 1000);
    const uint64_t end_us = minute_us + memory_us - 1 + 4 * minute_us;
    ck_assert_uint_eq(strike(&TERMS, end_us + memory_us, &length_ms), 1);
    ck_assert_uint_eq(length_ms, 60 * 1000);
}
END_TEST

START_TEST(strikes_of_a_key_that_is_lifted_are_forgotten)
{
    uint64_t length_ms;
    ck_assert_uint_eq(strike(&TERMS, 0, &length_ms), 1);
    offences_forget(offences, LIMIT, OTHER_HASH);
    offences_forget(offences, SPAN("other"), HASH);
    ck_assert_uint_eq(strike(&TERMS, 1, &length_ms), 2);
    offences_forget(offences, LIMIT, HASH);
    ck_assert_uint_eq(strike(&TERMS, 2, &length_ms), 1);
}
END_TEST

START_TEST(strikes_with_the_largest_numbers_do_not_overflow)
{
    const struct ban_terms terms = {.after = 1,
                                    .factor = UINT32_MAX,
                                    .period_us = UINT64_MAX,
                                    .for_ms = UINT64_MAX,
                                    .max_ms = UINT64_MAX,
                                    .forget_ms = UINT64_MAX};
    uint64_t length_ms;
    ck_assert_uint_eq(strike(&terms, UINT64_MAX - 1, &length_ms), 1);
    ck_assert_uint_eq(strike(&terms, UINT64_MAX - 1, &length_ms), 1); /* time has ended, too */
    ck_assert_uint_eq(length_ms, UINT64_MAX);
    ck_assert_uint_eq(strike(&terms, 0, &length_ms), 2);
}
END_TEST

/* --- guards --- */

START_TEST(bans_of_a_minute_are_bounded)
{
    const struct ban_terms hasty = {.after = 1, .factor = 1, .period_us = SECOND_US};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(note(offences, &hasty, LIMIT, client(i), 3, 0), OFFENCE_BANS);
    }
    ck_assert_int_eq(note(offences, &hasty, LIMIT, client(4), 3, OFFENCE_MINUTE_US - 1),
                     OFFENCE_TOO_MANY);
    ck_assert_int_eq(note(offences, &hasty, LIMIT, client(4), 3, OFFENCE_MINUTE_US), OFFENCE_BANS);
}
END_TEST

START_TEST(each_limit_has_its_own_bans_of_a_minute)
{
    const struct ban_terms hasty = {.after = 1, .factor = 1, .period_us = SECOND_US};
    char name[16];
    for (unsigned i = 0; i < 300; i++) {
        struct text limit = text_of(name, sizeof(name));
        text_add_u64(&limit, i);
        ck_assert_int_eq(note(offences, &hasty, text_span(&limit), KEY, 1, 0), OFFENCE_BANS);
        ck_assert_int_eq(note(offences, &hasty, text_span(&limit), KEY, 1, 1), OFFENCE_TOO_MANY);
    }
    ck_assert_int_eq(note(offences, &hasty, SPAN("0"), KEY, 1, 2), OFFENCE_TOO_MANY);
    ck_assert_int_eq(note(offences, &hasty, SPAN("0"), KEY, 1, OFFENCE_MINUTE_US), OFFENCE_BANS);
}
END_TEST

static void serve(unsigned n, uint64_t now_us)
{
    for (unsigned i = 0; i < n; i++) {
        note_served(LIMIT, i, i, now_us);
    }
}

/* @n clients offend in turn. Returns how many bans were due and not refused. */
static unsigned offend_in_turn(unsigned n, uint64_t now_us)
{
    unsigned n_bans = 0;
    for (unsigned i = 0; i < n * TERMS.after; i++) {
        n_bans += note_from(i % n, client(i % n), now_us) == OFFENCE_BANS;
    }
    return n_bans;
}

START_TEST(a_limit_that_is_wrong_bans_nobody)
{
    serve(100, 0);
    ck_assert_uint_eq(offend_in_turn(100, SECOND_US), 0);
    for (unsigned i = 0; i < TERMS.after - 1; i++) { /* not one who was never served either */
        ck_assert_int_eq(offend(KEY, 2 * SECOND_US), OFFENCE_COUNTED);
    }
    ck_assert_int_eq(offend(KEY, 2 * SECOND_US), OFFENCE_LIMIT_IS_WRONG);
}
END_TEST

START_TEST(a_fifth_of_those_served_may_be_banned)
{
    serve(100, 0);
    ck_assert_uint_eq(offend_in_turn(20, SECOND_US), 20);
    ck_assert_uint_eq(offend_in_turn(21, SECOND_US), 0);
}
END_TEST

START_TEST(many_keys_of_one_network_are_not_a_fifth_of_the_clients)
{
    unsigned n_bans = 0;
    serve(100, 0);
    for (unsigned i = 200; i < 400; i++) { /* two thirds of the keys, from one network */
        note_served(LIMIT, i, 5, 0);
    }
    for (unsigned i = 200; i < 400; i++) {
        for (unsigned j = 0; j < TERMS.after; j++) {
            n_bans += note_from(5, client(i), 1) == OFFENCE_BANS;
        }
    }
    ck_assert_uint_eq(n_bans, 200);
}
END_TEST

START_TEST(keys_without_an_address_are_judged_by_their_number)
{
    const struct address elsewhere = address_in(9);
    struct offence_key who = {.limit = LIMIT};
    for (unsigned i = 0; i < 100; i++) { /* an office, by its users */
        who.key = client(i);
        offences_note_served(offences, &who, 0);
    }
    who.client = &elsewhere;
    for (unsigned i = 100; i < 110; i++) {
        who.key = client(i);
        offences_note_served(offences, &who, 0);
    }
    who.client = NULL;
    for (unsigned i = 0; i < 30 * TERMS.after; i++) {
        who.key = client(i % 30);
        ck_assert_int_ne(offences_note(offences, &TERMS, &who, MANY, 1), OFFENCE_BANS);
    }
}
END_TEST

START_TEST(keys_of_one_network_are_judged_by_their_number_where_there_is_no_other)
{
    for (unsigned i = 0; i < 100; i++) {
        note_served(LIMIT, i, 0, 0);
    }
    for (unsigned i = 0; i < 21 * TERMS.after; i++) {
        const enum offence_result result = note_from(0, client(i % 21), 1);
        ck_assert_int_ne(result, OFFENCE_BANS);
    }
}
END_TEST

START_TEST(fewer_than_a_hundred_say_nothing)
{
    serve(99, 0);
    ck_assert_uint_eq(offend_in_turn(99, SECOND_US), 99);
}
END_TEST

START_TEST(those_who_were_served_long_ago_do_not_count)
{
    serve(100, 0);
    ck_assert_uint_eq(offend_in_turn(100, OFFENCE_MEMORY_US), 100);
}
END_TEST

START_TEST(those_whom_another_limit_serves_do_not_count)
{
    for (unsigned i = 0; i < 100; i++) {
        note_served(SPAN("other"), i, i, 0);
    }
    ck_assert_uint_eq(offend_in_turn(100, SECOND_US), 100);
}
END_TEST

START_TEST(many_who_are_not_served_are_banned)
{
    serve(100, 0);
    for (unsigned i = 200; i < 400; i++) {
        for (unsigned j = 1; j < TERMS.after; j++) {
            ck_assert_int_eq(offend(client(i), 1), OFFENCE_COUNTED);
        }
        ck_assert_int_eq(offend(client(i), 1), OFFENCE_BANS);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/offences");
    TCase *tcase = tcase_create("offences");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, the_last_offence_within_a_period_bans);
    tcase_add_test(tcase, a_period_begins_with_the_first_offence_and_then_anew);
    tcase_add_test(tcase, a_clock_that_steps_back_neither_bans_nor_forgets);
    tcase_add_test(tcase, limits_and_keys_are_counted_apart);
    tcase_add_test(tcase, the_table_is_bounded);
    tcase_add_test(tcase, keys_that_are_only_served_give_way_to_offenders);
    tcase_add_test(tcase, keys_with_fewer_offences_give_way);
    tcase_add_test(tcase, a_repeatable_table_forgets_the_same_keys_each_time);
    tcase_add_test(tcase, strikes_grow_until_they_are_forgotten);
    tcase_add_test(tcase, strikes_of_a_key_that_is_lifted_are_forgotten);
    tcase_add_test(tcase, strikes_with_the_largest_numbers_do_not_overflow);
    tcase_add_test(tcase, bans_of_a_minute_are_bounded);
    tcase_add_test(tcase, each_limit_has_its_own_bans_of_a_minute);
    tcase_add_test(tcase, a_limit_that_is_wrong_bans_nobody);
    tcase_add_test(tcase, a_fifth_of_those_served_may_be_banned);
    tcase_add_test(tcase, many_keys_of_one_network_are_not_a_fifth_of_the_clients);
    tcase_add_test(tcase, keys_without_an_address_are_judged_by_their_number);
    tcase_add_test(tcase, keys_of_one_network_are_judged_by_their_number_where_there_is_no_other);
    tcase_add_test(tcase, fewer_than_a_hundred_say_nothing);
    tcase_add_test(tcase, those_who_were_served_long_ago_do_not_count);
    tcase_add_test(tcase, those_whom_another_limit_serves_do_not_count);
    tcase_add_test(tcase, many_who_are_not_served_are_banned);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
