/* From a stream into a pipe, and from the pipe into another stream. */

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "net/pipe.h"
#include "net/stream.h"
#include "support/iterations.h"

enum { SMALL_BUFFER = 4096 };

static struct loop *loop;
static struct pipe_pool pool;
static struct pipe *pipe_;
static struct stream source;
static struct stream sink;
static int writer; /* the source's other end */
static int reader; /* the sink's */
static unsigned n_drained;
static unsigned n_progress;

static void ignore(void *owner)
{
    (void)owner;
}

static void on_drained(void *owner)
{
    (void)owner;
    n_drained++;
}

static void on_progress(void *owner)
{
    (void)owner;
    n_progress++;
}

static const struct stream_handler HANDLER = {
    .on_readable = ignore, .on_progress = on_progress, .on_drained = on_drained};

static int open_pair(struct stream *stream)
{
    const int small = SMALL_BUFFER;
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(stream_open(stream, loop, fds[0], &HANDLER, stream), STATUS_OK);
    return fds[1];
}

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    loop = iterations_new_loop();
    n_drained = 0;
    n_progress = 0;
    writer = open_pair(&source);
    reader = open_pair(&sink);
    pipe_pool_init(&pool, 1);
    pipe_ = pipe_take(&pool);
    ck_assert_ptr_nonnull(pipe_);
}

static void tear_down(void)
{
    stream_close(&source);
    stream_close(&sink);
    close(writer);
    close(reader);
    pipe_give(&pool, pipe_);
    pipe_pool_close(&pool);
    loop_free(loop);
}

/* --- reading --- */

START_TEST(as_many_bytes_as_asked_for_pass_in_order_and_no_more)
{
    char buffer[16];
    ck_assert_int_eq(write(writer, "hello world", 11), 11);
    ck_assert_int_eq(stream_read_pipe(&source, pipe_, 8), STREAM_DONE);
    ck_assert_uint_eq(pipe_->n_bytes, 8);
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_DONE);
    ck_assert_uint_eq(pipe_->n_bytes, 0);
    ck_assert(!stream_is_blocked(&sink));
    ck_assert_int_eq(stream_read_pipe(&source, pipe_, 8), STREAM_DONE);
    ck_assert_uint_eq(pipe_->n_bytes, 3);
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_DONE);
    ck_assert_int_eq(read(reader, buffer, sizeof(buffer)), 11);
    ck_assert_mem_eq(buffer, "hello world", 11);
}
END_TEST

START_TEST(where_nothing_is_it_says_so_and_an_end_is_an_end)
{
    ck_assert_int_eq(stream_read_pipe(&source, pipe_, 8), STREAM_BLOCKED);
    ck_assert_uint_eq(pipe_->n_bytes, 0);
    ck_assert_int_eq(shutdown(writer, SHUT_WR), 0);
    ck_assert_int_eq(stream_read_pipe(&source, pipe_, 8), STREAM_EOF);
    ck_assert_uint_eq(pipe_->n_bytes, 0);
}
END_TEST

START_TEST(a_transport_that_cannot_says_so_and_nothing_is_lost)
{
    static struct transport copying;
    char buffer[8];
    size_t n_read;
    copying = transport_plain;
    copying.to_pipe = NULL;
    source.transport = &copying;
    ck_assert_int_eq(write(writer, "abc", 3), 3);
    ck_assert_int_eq(stream_read_pipe(&source, pipe_, 8), STREAM_BROKEN);
    ck_assert_int_eq(stream_read(&source, buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 3);
}
END_TEST

/* --- writing --- */

static char byte_at(size_t i)
{
    return (char)(i * 131 + (i >> 11));
}

/* As much as a pipe holds: more than the sink's buffers do. */
static void fill(void)
{
    static char message[PIPE_BYTES];
    for (size_t i = 0; i < sizeof(message); i++) {
        message[i] = byte_at(i);
    }
    ck_assert_int_eq(write(pipe_->write_fd, message, sizeof(message)), PIPE_BYTES);
    pipe_->n_bytes = PIPE_BYTES;
}

static void take(size_t *n_taken)
{
    char buffer[1000];
    ssize_t n;
    while ((n = read(reader, buffer, sizeof(buffer))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            ck_assert_int_eq(buffer[i], byte_at((*n_taken)++));
        }
    }
}

START_TEST(what_the_kernel_does_not_take_stays_in_the_pipe_and_follows)
{
    size_t n_taken = 0;
    fill();
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_BLOCKED);
    ck_assert(stream_is_blocked(&sink));
    ck_assert_uint_gt(pipe_->n_bytes, 0);
    ck_assert_uint_ge(stream_unread_bytes(&sink), pipe_->n_bytes);
    while (n_drained == 0) {
        take(&n_taken);
        iterations_once(loop);
    }
    ck_assert(!stream_is_blocked(&sink));
    ck_assert_uint_eq(pipe_->n_bytes, 0);
    take(&n_taken);
    ck_assert_uint_eq(n_taken, PIPE_BYTES);
    ck_assert_uint_gt(n_progress, 0);
    const struct iovec slice = {.iov_base = (char[]){'x'}, .iov_len = 1};
    ck_assert_int_eq(stream_write(&sink, &slice, 1), STREAM_DONE); /* slices follow as ever */
}
END_TEST

START_TEST(a_peer_that_goes_while_bytes_are_in_the_pipe_is_told_by_the_next_call)
{
    fill();
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_BLOCKED);
    close(reader);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert(!stream_is_blocked(&sink));
    ck_assert_uint_gt(pipe_->n_bytes, 0);
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_BROKEN);
    ck_assert(!stream_is_blocked(&sink));
    reader = -1;
}
END_TEST

START_TEST(a_stream_that_is_closed_forgets_the_pipe)
{
    fill();
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_BLOCKED);
    stream_close(&sink);
    ck_assert(!stream_is_blocked(&sink));
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 0);
}
END_TEST

static bool is_failing;

static ssize_t fail_once(struct stream *stream, int pipe_fd, size_t most)
{
    if (is_failing) {
        is_failing = false;
        errno = ENOMEM;
        return -1;
    }
    return transport_plain.from_pipe(stream, pipe_fd, most);
}

START_TEST(what_was_lost_in_a_flush_is_told_by_the_next_call)
{
    static struct transport failing;
    failing = transport_plain;
    failing.from_pipe = fail_once;
    sink.transport = &failing;
    fill();
    ck_assert_int_eq(stream_write_pipe(&sink, pipe_), STREAM_BLOCKED);
    is_failing = true;
    size_t n_taken = 0;
    take(&n_taken);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert_uint_gt(pipe_->n_bytes, 0); /* these are lost */
    const struct iovec slice = {.iov_base = (char[]){'x'}, .iov_len = 1};
    ck_assert_int_eq(stream_write(&sink, &slice, 1), STREAM_BROKEN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/stream_pipe");
    TCase *reading = tcase_create("reading");
    TCase *writing = tcase_create("writing");

    tcase_add_checked_fixture(reading, set_up, tear_down);
    tcase_add_test(reading, as_many_bytes_as_asked_for_pass_in_order_and_no_more);
    tcase_add_test(reading, where_nothing_is_it_says_so_and_an_end_is_an_end);
    tcase_add_test(reading, a_transport_that_cannot_says_so_and_nothing_is_lost);
    suite_add_tcase(suite, reading);
    tcase_add_checked_fixture(writing, set_up, tear_down);
    tcase_add_test(writing, what_the_kernel_does_not_take_stays_in_the_pipe_and_follows);
    tcase_add_test(writing, a_peer_that_goes_while_bytes_are_in_the_pipe_is_told_by_the_next_call);
    tcase_add_test(writing, a_stream_that_is_closed_forgets_the_pipe);
    tcase_add_test(writing, what_was_lost_in_a_flush_is_told_by_the_next_call);
    suite_add_tcase(suite, writing);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
