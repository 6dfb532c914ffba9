#include "net/pipe.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"

static struct pipe_pool pool;

static void set_up(void)
{
    pipe_pool_init(&pool, 2);
}

static void tear_down(void)
{
    pipe_pool_close(&pool); /* asserts that all have been given back */
}

static void assert_empty(const struct pipe *pipe)
{
    char byte;
    ck_assert_msg(pipe != NULL, "no pipe: see fs.pipe-user-pages-soft and other users of pipes");
    ck_assert_uint_eq(pipe->n_bytes, 0);
    ck_assert_int_eq(read(pipe->read_fd, &byte, 1), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

START_TEST(there_are_as_many_as_there_may_be_and_those_given_back_are_taken_again)
{
    struct pipe *one = pipe_take(&pool);
    struct pipe *other = pipe_take(&pool);
    assert_empty(one);
    assert_empty(other);
    ck_assert_ptr_null(pipe_take(&pool));
    pipe_give(&pool, one);
    ck_assert_ptr_eq(pipe_take(&pool), one);
    assert_empty(one);
    pipe_give(&pool, other);
    pipe_give(&pool, one);
    pipe_give(&pool, NULL);
    ck_assert_uint_eq(pool.n_pipes, 2);
}
END_TEST

START_TEST(a_pipe_holds_what_it_is_said_to)
{
    struct pipe *pipe = pipe_take(&pool);
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_ge(fcntl(pipe->read_fd, F_GETPIPE_SZ), PIPE_BYTES);
    pipe_give(&pool, pipe);
}
END_TEST

START_TEST(what_is_left_in_one_is_nobodys)
{
    struct pipe *pipe = pipe_take(&pool);
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_eq(write(pipe->write_fd, "secret", 6), 6);
    pipe->n_bytes = 6;
    pipe_give(&pool, pipe);
    ck_assert_uint_eq(pool.n_pipes, 0);
    pipe = pipe_take(&pool);
    assert_empty(pipe);
    pipe_give(&pool, pipe);
}
END_TEST

START_TEST(without_descriptors_there_is_none_and_later_there_is)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_ptr_null(pipe_take(&pool));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < PIPE_SKIPS; i++) {
        ck_assert_ptr_null(pipe_take(&pool)); /* the system is not asked */
    }
    struct pipe *pipe = pipe_take(&pool);
    assert_empty(pipe);
    pipe_give(&pool, pipe);
}
END_TEST

START_TEST(of_many_that_are_given_back_few_are_kept)
{
    struct pipe *taken[PIPES_FREE_MAX + 2];
    pool.n_max = PIPES_FREE_MAX + 2;
    for (int i = 0; i < PIPES_FREE_MAX + 2; i++) {
        taken[i] = pipe_take(&pool);
        assert_empty(taken[i]);
    }
    for (int i = 0; i < PIPES_FREE_MAX + 2; i++) {
        pipe_give(&pool, taken[i]);
    }
    ck_assert_uint_eq(pool.n_pipes, PIPES_FREE_MAX);
    struct pipe *pipe = pipe_take(&pool);
    ck_assert_ptr_eq(pipe, taken[PIPES_FREE_MAX - 1]);
    pipe_give(&pool, pipe);
}
END_TEST

START_TEST(a_pool_of_none_gives_none)
{
    struct pipe_pool empty;
    pipe_pool_init(&empty, 0);
    ck_assert_ptr_null(pipe_take(&empty));
    pipe_pool_close(&empty);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/pipe");
    TCase *pipes = tcase_create("pipes");

    tcase_add_checked_fixture(pipes, set_up, tear_down);
    tcase_add_test(pipes, there_are_as_many_as_there_may_be_and_those_given_back_are_taken_again);
    tcase_add_test(pipes, a_pipe_holds_what_it_is_said_to);
    tcase_add_test(pipes, what_is_left_in_one_is_nobodys);
    tcase_add_test(pipes, without_descriptors_there_is_none_and_later_there_is);
    tcase_add_test(pipes, of_many_that_are_given_back_few_are_kept);
    tcase_add_test(pipes, a_pool_of_none_gives_none);
    suite_add_tcase(suite, pipes);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
