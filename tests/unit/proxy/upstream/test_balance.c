#include "proxy/upstream/balance.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/text.h"

enum { SERVERS_MAX = 12, KEYS = 20000 };

static const struct hash_key KEY = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static struct balance_candidate candidates[SERVERS_MAX];
static int64_t credits[SERVERS_MAX];

/* Servers number 0 to @n - 1, of the weights in @weights, or of 1 each where it is NULL. */
static void list_servers(size_t n, const uint32_t *weights)
{
    for (size_t i = 0; i < n; i++) {
        const char name = (char)('a' + i);
        credits[i] = balance_first_credit(i, n, 0);
        candidates[i] = (struct balance_candidate){
            .index = (uint32_t)i,
            .weight = (weights != NULL ? weights[i] : 1) * BALANCE_WEIGHT_UNIT,
            .seed = balance_seed(&KEY, span_of(&name, 1)),
            .credit = &credits[i],
        };
    }
}

/* --- turns --- */

/* The next @n servers in turn, as letters. */
static const char *iterations(size_t n_servers, size_t n)
{
    static char letters[64];
    ck_assert_uint_lt(n, sizeof(letters));
    for (size_t i = 0; i < n; i++) {
        letters[i] = (char)('a' + balance_by_turn(candidates, n_servers));
    }
    letters[n] = '\0';
    return letters;
}

START_TEST(equal_servers_take_iterations)
{
    list_servers(3, NULL);
    ck_assert_str_eq(iterations(3, 9), "abcabcabc");
}
END_TEST

START_TEST(turns_begin_where_they_are_told_to)
{
    list_servers(3, NULL);
    for (size_t i = 0; i < 3; i++) {
        credits[i] = balance_first_credit(i, 3, 1);
    }
    ck_assert_str_eq(iterations(3, 6), "bcabca");
}
END_TEST

START_TEST(weights_are_shares_spread_evenly)
{
    static const uint32_t WEIGHTS[] = {5, 1, 1};
    list_servers(3, WEIGHTS);
    ck_assert_str_eq(iterations(3, 14), "aabacaaaabacaa");
}
END_TEST

START_TEST(the_greatest_weights_do_not_overflow_in_many_turns)
{
    static const uint32_t WEIGHTS[] = {1000, 1000, 1};
    size_t counts[3] = {0};
    list_servers(3, WEIGHTS);
    for (size_t i = 0; i < 2001 * 10; i++) {
        counts[balance_by_turn(candidates, 3)]++;
    }
    ck_assert_uint_eq(counts[0], 10000);
    ck_assert_uint_eq(counts[1], 10000);
    ck_assert_uint_eq(counts[2], 10);
}
END_TEST

START_TEST(a_server_that_was_away_does_not_get_all_that_it_missed)
{
    list_servers(3, NULL);
    (void)iterations(3, 1);
    for (unsigned i = 0; i < 10; i++) {
        (void)iterations(2, 60); /* c is not among them */
    }
    ck_assert_ptr_nonnull(strstr(iterations(3, 6), "c"));
    const char *after = iterations(3, 60);
    size_t n = 0;
    for (const char *letter = after; *letter != '\0'; letter++) {
        n += *letter == 'c';
    }
    ck_assert_uint_eq(n, 20);
}
END_TEST

/* --- load --- */

START_TEST(the_server_with_the_fewest_requests_is_next)
{
    list_servers(3, NULL);
    candidates[0].n_requests = 4;
    candidates[1].n_requests = 2;
    candidates[2].n_requests = 3;
    for (size_t start = 0; start < 6; start++) {
        ck_assert_uint_eq(balance_by_load(candidates, 3, start), 1);
    }
}
END_TEST

START_TEST(equals_come_in_turn)
{
    size_t counts[4] = {0};
    list_servers(4, NULL);
    candidates[2].n_requests = 1;
    for (size_t start = 0; start < 400; start++) {
        counts[balance_by_load(candidates, 4, start)]++;
    }
    ck_assert_uint_eq(counts[2], 0);
    for (size_t i = 0; i < 4; i++) {
        ck_assert(i == 2 || counts[i] >= 100);
    }
}
END_TEST

START_TEST(a_weight_is_a_share_of_the_requests_under_way)
{
    static const uint32_t WEIGHTS[] = {3, 1};
    list_servers(2, WEIGHTS);
    for (size_t i = 0; i < 400; i++) {
        candidates[balance_by_load(candidates, 2, i)].n_requests++;
    }
    ck_assert_uint_eq(candidates[0].n_requests, 300);
    ck_assert_uint_eq(candidates[1].n_requests, 100);
}
END_TEST

START_TEST(the_most_requests_there_can_be_do_not_overflow)
{
    list_servers(2, NULL);
    candidates[0].n_requests = UINT32_MAX;
    candidates[1].n_requests = UINT32_MAX - 1;
    candidates[0].weight = BALANCE_WEIGHT_UNIT * 1000;
    candidates[1].weight = BALANCE_WEIGHT_UNIT * 1000;
    ck_assert_uint_eq(balance_by_load(candidates, 2, 0), 1);
}
END_TEST

/* --- hashing --- */

static struct hash128 key_number(unsigned number)
{
    char buffer[16];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_u64(&text, number);
    return hash_table(&KEY, text_span(&text));
}

static void count_keys(size_t n_servers, size_t *counts)
{
    memset(counts, 0, n_servers * sizeof(counts[0]));
    for (unsigned key = 0; key < KEYS; key++) {
        counts[balance_by_hash(candidates, n_servers, key_number(key))]++;
    }
}

/* @count is @share of all keys, but for chance: five standard deviations. */
static void assert_share(size_t count, double share)
{
    const double expected = share * (double)KEYS;
    const double off = (double)count - expected;
    ck_assert_msg(off * off <= 25 * expected * (1 - share), "%zu keys, not %.0f", count, expected);
}

START_TEST(keys_are_spread_evenly)
{
    size_t counts[10];
    list_servers(10, NULL);
    count_keys(10, counts);
    for (size_t i = 0; i < 10; i++) {
        assert_share(counts[i], 0.1);
    }
}
END_TEST

START_TEST(keys_are_spread_by_weight)
{
    static const uint32_t WEIGHTS[] = {1, 2, 3, 4, 1000};
    size_t counts[5];
    list_servers(5, WEIGHTS);
    count_keys(4, counts);
    for (size_t i = 0; i < 4; i++) {
        assert_share(counts[i], WEIGHTS[i] / 10.0);
    }
    count_keys(5, counts);
    for (size_t i = 0; i < 5; i++) {
        assert_share(counts[i], WEIGHTS[i] / 1010.0);
    }
}
END_TEST

START_TEST(a_server_that_goes_moves_its_own_keys_alone_and_to_all_others)
{
    size_t gained[10] = {0};
    size_t n_lost = 0;
    list_servers(10, NULL);
    for (unsigned key = 0; key < KEYS; key++) {
        const struct hash128 hash = key_number(key);
        const size_t before = balance_by_hash(candidates, 10, hash);
        const size_t after = balance_by_hash(candidates, 9, hash); /* the last one is gone */
        ck_assert(before == after || before == 9);
        n_lost += before == 9;
        gained[after] += before == 9;
    }
    for (size_t i = 0; i < 9; i++) {
        ck_assert_uint_gt(gained[i], n_lost / 9 / 2);
    }
}
END_TEST

START_TEST(a_weight_that_grows_moves_keys_to_that_server_alone)
{
    list_servers(5, NULL);
    size_t n_moved = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        const struct hash128 hash = key_number(key);
        candidates[2].weight = BALANCE_WEIGHT_UNIT / 100;
        size_t before = balance_by_hash(candidates, 5, hash);
        for (uint32_t percent = 10; percent <= 100; percent += 10) {
            candidates[2].weight = BALANCE_WEIGHT_UNIT / 100 * percent;
            const size_t after = balance_by_hash(candidates, 5, hash);
            ck_assert(after == before || after == 2);
            n_moved += after != before;
            before = after;
        }
    }
    ck_assert_uint_gt(n_moved, KEYS / 10);
}
END_TEST

START_TEST(the_order_of_the_list_does_not_matter)
{
    struct balance_candidate turned[5];
    list_servers(5, NULL);
    for (size_t i = 0; i < 5; i++) {
        turned[i] = candidates[4 - i];
    }
    for (unsigned key = 0; key < 1000; key++) {
        const struct hash128 hash = key_number(key);
        ck_assert_uint_eq(candidates[balance_by_hash(candidates, 5, hash)].index,
                          turned[balance_by_hash(turned, 5, hash)].index);
    }
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("proxy/balance");
    TCase *by_turn = tcase_create("by_turn");
    TCase *by_load = tcase_create("by_load");
    TCase *by_hash = tcase_create("by_hash");

    tcase_add_test(by_turn, equal_servers_take_iterations);
    tcase_add_test(by_turn, turns_begin_where_they_are_told_to);
    tcase_add_test(by_turn, weights_are_shares_spread_evenly);
    tcase_add_test(by_turn, the_greatest_weights_do_not_overflow_in_many_turns);
    tcase_add_test(by_turn, a_server_that_was_away_does_not_get_all_that_it_missed);
    suite_add_tcase(suite, by_turn);
    tcase_add_test(by_load, the_server_with_the_fewest_requests_is_next);
    tcase_add_test(by_load, equals_come_in_turn);
    tcase_add_test(by_load, a_weight_is_a_share_of_the_requests_under_way);
    tcase_add_test(by_load, the_most_requests_there_can_be_do_not_overflow);
    suite_add_tcase(suite, by_load);
    tcase_add_test(by_hash, keys_are_spread_evenly);
    tcase_add_test(by_hash, keys_are_spread_by_weight);
    tcase_add_test(by_hash, a_server_that_goes_moves_its_own_keys_alone_and_to_all_others);
    tcase_add_test(by_hash, a_weight_that_grows_moves_keys_to_that_server_alone);
    tcase_add_test(by_hash, the_order_of_the_list_does_not_matter);
    suite_add_tcase(suite, by_hash);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
