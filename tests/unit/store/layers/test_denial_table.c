#include "store/layers/denial_table.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "limit/algorithms.h"

enum { KEY_BYTES = 24, NOW_US = 1000, END_US = 2000 };

static const struct verdict DENIED = {.remaining = 1, .retry_after = 30, .next_after = 20};
static const struct verdict ALLOWED = {.allowed = true, .remaining = 5};

static struct limit limit;
static struct denial_table table;

static void setup(void)
{
    limit = (struct limit){.name = SPAN("limit"), .algorithm = &token_bucket_algorithm};
}

static void open_table(size_t bytes)
{
    ck_assert_int_eq(denial_table_init(&table, bytes), STATUS_OK);
}

static struct charge charge_of(const char *key, const struct verdict *verdict)
{
    return (struct charge){
        .limit = &limit, .key = span_of_text(key), .cost = 4, .verdict = *verdict};
}

static void put(const char *key, const struct verdict *verdict, uint64_t ends_us, uint64_t now_us)
{
    const struct charge charge = charge_of(key, verdict);
    denial_table_put(&table, &charge, ends_us, now_us);
}

static bool is_known(const char *key, uint64_t now_us)
{
    struct charge charge = charge_of(key, &DENIED);
    return denial_table_find(&table, &charge, now_us) != NULL;
}

START_TEST(what_is_put_is_found_until_its_end)
{
    open_table(4096);
    put("{a}", &DENIED, END_US, NOW_US);
    struct charge charge = charge_of("{a}", &DENIED);
    const struct denial_line *line = denial_table_find(&table, &charge, END_US - 1);
    ck_assert_ptr_nonnull(line);
    ck_assert_uint_eq(line->retry_after, 30);
    ck_assert_uint_eq(line->next_after, 20);
    ck_assert_uint_eq(line->remaining, 1);
    ck_assert_uint_eq(line->answered_us, NOW_US);
    ck_assert(!is_known("{a}", END_US));
    ck_assert(!is_known("{b}", NOW_US));
    denial_table_close(&table);
}
END_TEST

START_TEST(a_full_set_gives_up_what_is_over_then_what_allowed_then_the_soonest)
{
    open_table(1); /* one set */
    ck_assert_uint_eq(table.n_lines, DENIAL_WAYS);
    put("{later}", &DENIED, END_US + 2, NOW_US);
    put("{over}", &DENIED, NOW_US + 1, NOW_US);
    put("{allowed}", &ALLOWED, END_US + 3, NOW_US);
    put("{soon}", &DENIED, END_US + 1, NOW_US);

    put("{x}", &DENIED, END_US + 9, NOW_US + 1);
    ck_assert_uint_eq(table.n_evictions, 0);
    ck_assert(is_known("{x}", NOW_US + 1));
    put("{y}", &DENIED, END_US + 9, NOW_US + 1);
    ck_assert_uint_eq(table.n_evictions, 1);
    ck_assert(!is_known("{allowed}", NOW_US + 1));
    ck_assert(is_known("{soon}", NOW_US + 1));
    put("{z}", &DENIED, END_US + 9, NOW_US + 1);
    ck_assert(!is_known("{soon}", NOW_US + 1));
    ck_assert(is_known("{later}", NOW_US + 1));
    ck_assert_uint_eq(table.n_evictions, 2);
    denial_table_close(&table);
}
END_TEST

START_TEST(a_key_has_one_line_which_the_latest_denial_takes)
{
    open_table(1);
    put("{a}", &DENIED, END_US, NOW_US);
    put("{a}", &DENIED, END_US + 5, NOW_US);
    ck_assert(is_known("{a}", END_US + 4));
    put("{a}", &ALLOWED, END_US + 9, NOW_US);
    ck_assert(!is_known("{a}", END_US + 5)); /* the denial that held was kept */
    ck_assert_uint_eq(table.n_evictions, 0);
    denial_table_close(&table);
}
END_TEST

START_TEST(a_key_is_known_in_its_limit_alone)
{
    struct limit other = limit;
    struct charge charge = charge_of("{a}", &DENIED);
    open_table(4096);
    put("{a}", &DENIED, END_US, NOW_US);
    charge.limit = &other;
    ck_assert_ptr_null(denial_table_find(&table, &charge, NOW_US));
    denial_table_put(&table, &charge, END_US, NOW_US);
    ck_assert_ptr_nonnull(denial_table_find(&table, &charge, NOW_US));
    ck_assert(is_known("{a}", NOW_US));
    denial_table_close(&table);
}
END_TEST

START_TEST(clearing_forgets_all)
{
    open_table(4096);
    put("{a}", &DENIED, END_US, NOW_US);
    denial_table_clear(&table);
    ck_assert(!is_known("{a}", NOW_US));
    denial_table_close(&table);
}
END_TEST

/* How many of @n keys are known after all were put. */
static size_t flood(size_t n)
{
    char key[KEY_BYTES];
    size_t n_known = 0;
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "{%zu}", i);
        put(key, &DENIED, END_US, NOW_US);
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "{%zu}", i);
        n_known += is_known(key, NOW_US);
    }
    return n_known;
}

START_TEST(few_keys_are_all_known_and_many_fill_it_and_no_more)
{
    enum { BYTES = 1024 * 1024, N_LINES = BYTES / 64 };
    open_table(BYTES);
    ck_assert_uint_eq(table.n_lines, N_LINES);
    ck_assert_uint_ge(flood(N_LINES / 8), N_LINES / 8 * 99 / 100);
    denial_table_clear(&table);
    const size_t n_known = flood(2 * N_LINES);
    ck_assert_uint_le(n_known, N_LINES);
    ck_assert_uint_ge(n_known, N_LINES * 9 / 10);
    ck_assert_uint_ge(table.n_evictions, N_LINES);
    denial_table_close(&table);
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/denial_table");
    TCase *tcase = tcase_create("denial_table");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, what_is_put_is_found_until_its_end);
    tcase_add_test(tcase, a_full_set_gives_up_what_is_over_then_what_allowed_then_the_soonest);
    tcase_add_test(tcase, a_key_has_one_line_which_the_latest_denial_takes);
    tcase_add_test(tcase, a_key_is_known_in_its_limit_alone);
    tcase_add_test(tcase, clearing_forgets_all);
    tcase_add_test(tcase, few_keys_are_all_known_and_many_fill_it_and_no_more);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
