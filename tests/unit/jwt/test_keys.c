#include "jwt/keys.h"

#include <check.h>
#include <stdlib.h>

#include "base/text.h"

#define URL SPAN("https://id.example.com/jwks")
#define SECRET SPAN("0123456789abcdef0123456789abcdef")
#define OTHER SPAN("fedcba9876543210fedcba9876543210")

enum { US_PER_S = 1000 * 1000 };

static struct jwt_keys *keys;

static void setup(void)
{
    keys = jwt_keys_of_url(URL, SPAN(""));
}

static void teardown(void)
{
    jwt_keys_release(keys);
}

/* Whether the keys are due at @now_s; if not, the wait is written to *wait_s. */
static bool is_due(uint64_t now_s, uint64_t *wait_s)
{
    uint64_t wait_us;
    struct jwt_keys *due = jwt_keys_next_due(now_s * US_PER_S, &wait_us);
    *wait_s = wait_us / US_PER_S;
    jwt_keys_release(due);
    return due != NULL;
}

static bool fetched(struct span secret, uint64_t max_age_s, uint64_t now_s)
{
    struct jwt_key_set *set = secret.len > 0 ? jwt_key_set_of_secret(secret) : NULL;
    return jwt_keys_fetched(keys, set, max_age_s, now_s * US_PER_S);
}

static bool has_keys(void)
{
    uint64_t generation;
    struct jwt_key_set *set = jwt_keys_acquire(keys, &generation);
    jwt_key_set_release(set);
    return set != NULL;
}

START_TEST(keys_are_due_at_first_and_then_by_their_age)
{
    static const uint64_t AGES[][2] = {{0, 600}, {1, 60},        {60, 60},
                                       {61, 61}, {86400, 86400}, {UINT64_MAX, 86400}};
    uint64_t wait_s;
    ck_assert(is_due(1000, &wait_s));
    for (size_t i = 0; i < ARRAY_LEN(AGES); i++) {
        (void)fetched(SECRET, AGES[i][0], 1000);
        ck_assert(!is_due(1000, &wait_s));
        ck_assert_uint_eq(wait_s, AGES[i][1]);
        ck_assert(is_due(1000 + AGES[i][1], &wait_s));
    }
}
END_TEST

START_TEST(a_failure_is_tried_again_and_keys_hold_a_day)
{
    uint64_t wait_s;
    ck_assert(!has_keys());
    ck_assert(!jwt_keys_is_failing(keys));
    ck_assert(!fetched(SPAN(""), 0, 0));
    ck_assert(jwt_keys_is_failing(keys));
    ck_assert(!has_keys());
    ck_assert(!is_due(9, &wait_s));
    ck_assert_uint_eq(wait_s, 1);
    ck_assert(is_due(10, &wait_s));
    ck_assert(fetched(SECRET, 60, 10));
    ck_assert(!jwt_keys_is_failing(keys));
    ck_assert(!fetched(SPAN(""), 0, 10 + JWT_KEYS_HOLD_S - 1));
    ck_assert(has_keys());
    const uint64_t generation = jwt_keys_generation(keys);
    ck_assert(fetched(SPAN(""), 0, 10 + JWT_KEYS_HOLD_S));
    ck_assert(!has_keys());
    ck_assert_uint_ne(jwt_keys_generation(keys), generation);
}
END_TEST

START_TEST(a_set_without_keys_replaces_one_with_keys)
{
    char bytes[128];
    struct text problem = text_of(bytes, sizeof(bytes));
    uint64_t generation;
    ck_assert(fetched(SECRET, 60, 0));
    struct jwt_key_set *empty = jwt_key_set_read(SPAN("{\"keys\":[]}"), &problem);
    ck_assert_ptr_nonnull(empty);
    ck_assert(jwt_keys_fetched(keys, empty, 60, 60 * (uint64_t)US_PER_S));
    ck_assert(!jwt_keys_is_failing(keys));
    struct jwt_key_set *set = jwt_keys_acquire(keys, &generation);
    ck_assert_uint_eq(jwt_key_set_count(set), 0);
    jwt_key_set_release(set);
}
END_TEST

START_TEST(an_unknown_key_fetches_at_most_once_in_ten_seconds)
{
    uint64_t wait_s;
    (void)fetched(SECRET, 3600, 100);
    jwt_keys_miss(keys);
    jwt_keys_miss(keys);
    ck_assert(!is_due(109, &wait_s));
    ck_assert_uint_eq(wait_s, 1);
    ck_assert(is_due(110, &wait_s));
    (void)fetched(SECRET, 3600, 110);
    ck_assert(!is_due(1000, &wait_s));
    jwt_keys_miss(keys);
    ck_assert(is_due(1000, &wait_s));
}
END_TEST

START_TEST(the_generation_changes_with_the_keys_alone)
{
    ck_assert(fetched(SECRET, 0, 0));
    const uint64_t generation = jwt_keys_generation(keys);
    ck_assert(!fetched(SECRET, 0, 1));
    ck_assert_uint_eq(jwt_keys_generation(keys), generation);
    ck_assert(fetched(OTHER, 0, 2));
    ck_assert_uint_ne(jwt_keys_generation(keys), generation);
}
END_TEST

START_TEST(keys_of_a_url_are_shared)
{
    struct jwt_keys *same = jwt_keys_of_url(URL, SPAN(""));
    struct jwt_keys *other_ca = jwt_keys_of_url(URL, SPAN("/ca.pem"));
    struct jwt_keys *other_url = jwt_keys_of_url(SPAN("https://id.example.com/"), SPAN(""));
    ck_assert_ptr_eq(same, keys);
    ck_assert_ptr_ne(other_ca, keys);
    ck_assert_ptr_ne(other_url, keys);
    ck_assert_str_eq(jwt_keys_url(keys).data, "https://id.example.com/jwks");
    ck_assert_str_eq(jwt_keys_ca(other_ca).data, "/ca.pem");
    jwt_keys_release(same);
    jwt_keys_release(other_ca);
    jwt_keys_release(other_url);
}
END_TEST

START_TEST(keys_that_nobody_names_are_not_fetched)
{
    uint64_t wait_us;
    jwt_keys_release(keys);
    ck_assert_ptr_null(jwt_keys_next_due(0, &wait_us));
    ck_assert_uint_eq(wait_us, UINT64_MAX);
    keys = NULL;
}
END_TEST

START_TEST(keys_in_flight_are_not_due_and_hold_no_others_back)
{
    uint64_t wait_us;
    struct jwt_keys *other = jwt_keys_of_url(SPAN("https://id.example.com/other"), SPAN(""));
    struct jwt_keys *first = jwt_keys_next_due(0, &wait_us);
    struct jwt_keys *second = jwt_keys_next_due(0, &wait_us);
    ck_assert(first == other || first == keys);
    ck_assert_ptr_eq(second, first == keys ? other : keys);
    ck_assert_ptr_null(jwt_keys_next_due(3600 * (uint64_t)US_PER_S, &wait_us));
    ck_assert_uint_eq(wait_us, UINT64_MAX);
    (void)jwt_keys_fetched(other, NULL, 0, 0);
    ck_assert_ptr_null(jwt_keys_next_due(0, &wait_us));
    ck_assert_uint_eq(wait_us, JWT_RETRY_S * (uint64_t)US_PER_S);
    jwt_keys_release(first);
    jwt_keys_release(second);
    jwt_keys_release(other);
}
END_TEST

START_TEST(fixed_keys_are_never_due)
{
    uint64_t wait_s;
    jwt_keys_release(keys);
    keys = jwt_keys_fixed(jwt_key_set_of_secret(SECRET));
    ck_assert(has_keys());
    jwt_keys_miss(keys);
    ck_assert(!is_due(1000, &wait_s));
}
END_TEST

START_TEST(a_wait_ends_when_it_is_woken)
{
    jwt_keys_wake();
    jwt_keys_wait(UINT64_MAX);
    jwt_keys_wait(1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jwt/keys");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, keys_are_due_at_first_and_then_by_their_age);
    tcase_add_test(tcase, a_failure_is_tried_again_and_keys_hold_a_day);
    tcase_add_test(tcase, a_set_without_keys_replaces_one_with_keys);
    tcase_add_test(tcase, an_unknown_key_fetches_at_most_once_in_ten_seconds);
    tcase_add_test(tcase, the_generation_changes_with_the_keys_alone);
    tcase_add_test(tcase, keys_of_a_url_are_shared);
    tcase_add_test(tcase, keys_that_nobody_names_are_not_fetched);
    tcase_add_test(tcase, keys_in_flight_are_not_due_and_hold_no_others_back);
    tcase_add_test(tcase, fixed_keys_are_never_due);
    tcase_add_test(tcase, a_wait_ends_when_it_is_woken);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
