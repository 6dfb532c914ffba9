#include "proxy/core/upstream_descriptors.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

enum { MAX = 3, THREADS = 4, ROUNDS = 20000 };

static struct upstream_descriptors descriptors;

static void set_up(void)
{
    upstream_descriptors_init(&descriptors, MAX, 100);
}

START_TEST(as_many_are_taken_as_there_may_be)
{
    ck_assert_uint_eq(upstream_descriptors_left(&descriptors), 3);
    for (unsigned i = 0; i < MAX; i++) {
        ck_assert(upstream_descriptors_take(&descriptors));
    }
    ck_assert(!upstream_descriptors_take(&descriptors));
    ck_assert_uint_eq(upstream_descriptors_left(&descriptors), 0);
    upstream_descriptors_give(&descriptors);
    ck_assert_uint_eq(upstream_descriptors_left(&descriptors), 1);
    ck_assert(upstream_descriptors_take(&descriptors));
    ck_assert(!upstream_descriptors_take(&descriptors));
}
END_TEST

START_TEST(connections_that_exist_count_beyond_the_maximum)
{
    for (unsigned i = 0; i < MAX + 1; i++) {
        upstream_descriptors_add(&descriptors);
    }
    ck_assert_uint_eq(upstream_descriptors_left(&descriptors), 0);
    upstream_descriptors_give(&descriptors);
    ck_assert(!upstream_descriptors_take(&descriptors));
    upstream_descriptors_give(&descriptors);
    ck_assert(upstream_descriptors_take(&descriptors));
}
END_TEST

static void *take_and_give(void *context)
{
    (void)context;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (upstream_descriptors_take(&descriptors)) {
            upstream_descriptors_give(&descriptors);
        }
    }
    return NULL;
}

START_TEST(several_threads_count_together)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_uint_eq(upstream_descriptors_left(&descriptors), MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upstream_descriptors");
    TCase *all = tcase_create("upstream_descriptors");
    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_test(all, as_many_are_taken_as_there_may_be);
    tcase_add_test(all, connections_that_exist_count_beyond_the_maximum);
    tcase_add_test(all, several_threads_count_together);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
