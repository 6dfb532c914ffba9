#include "base/name_directory.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/text.h"

enum { N_NAMES = 1000, N_THREADS = 4 };

static struct name_directory directory;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
}

static struct span name_of(unsigned number, char buffer[16])
{
    struct text text = text_of(buffer, 16);
    text_add_literal(&text, "n");
    text_add_u64(&text, number);
    return text_span(&text);
}

START_TEST(a_name_keeps_its_number)
{
    ck_assert_int_eq(name_directory_init(&directory, 3), STATUS_OK);
    ck_assert_uint_eq(name_directory_find(&directory, SPAN("a")), 0);
    ck_assert_uint_eq(name_directory_enter(&directory, SPAN("a")), 1);
    ck_assert_uint_eq(name_directory_enter(&directory, SPAN("b")), 2);
    ck_assert_uint_eq(name_directory_enter(&directory, SPAN("a")), 1);
    ck_assert_uint_eq(name_directory_find(&directory, SPAN("b")), 2);
    ck_assert_uint_eq(name_directory_count(&directory), 3);
    ck_assert(span_equals(name_directory_name(&directory, 2), SPAN("b")));
    ck_assert(span_equals(name_directory_name(&directory, 0), SPAN("")));
    name_directory_close(&directory);
}
END_TEST

START_TEST(names_beyond_its_room_share_number_0_and_the_others_stay)
{
    char buffer[16];
    ck_assert_int_eq(name_directory_init(&directory, N_NAMES), STATUS_OK);
    for (unsigned i = 1; i <= N_NAMES; i++) {
        ck_assert_uint_eq(name_directory_enter(&directory, name_of(i, buffer)), i);
    }
    ck_assert_uint_eq(name_directory_enter(&directory, SPAN("one more")), 0);
    ck_assert_uint_eq(name_directory_count(&directory), N_NAMES + 1);
    for (unsigned i = 1; i <= N_NAMES; i++) {
        ck_assert_uint_eq(name_directory_enter(&directory, name_of(i, buffer)), i);
    }
    name_directory_close(&directory);
}
END_TEST

static void *enter_all(void *context)
{
    char buffer[16];
    (void)context;
    for (unsigned i = 1; i <= N_NAMES; i++) {
        const uint32_t number = name_directory_enter(&directory, name_of(i, buffer));
        const struct span name = name_directory_name(&directory, number);
        ck_assert(span_equals(name, name_of(i, buffer)));
    }
    return NULL;
}

START_TEST(threads_that_enter_the_same_names_get_the_same_numbers)
{
    pthread_t threads[N_THREADS];
    ck_assert_int_eq(name_directory_init(&directory, N_NAMES), STATUS_OK);
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, enter_all, NULL), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(name_directory_count(&directory), N_NAMES + 1);
    name_directory_close(&directory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/name_directory");
    TCase *tests = tcase_create("name_directory");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_name_keeps_its_number);
    tcase_add_test(tests, names_beyond_its_room_share_number_0_and_the_others_stay);
    tcase_add_test(tests, threads_that_enter_the_same_names_get_the_same_numbers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
