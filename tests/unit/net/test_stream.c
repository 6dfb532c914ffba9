#include "net/stream.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/failing_events.h"
#include "support/iterations.h"

enum {
    BIG_BYTES = 1024 * 1024, /* more than the buffers of a socket pair */
    SMALL_BUFFER = 4096,
};

static struct loop *loop;
static struct stream stream;
static int peer; /* the other end */
static unsigned n_readable;
static unsigned n_drained;
static unsigned n_progress;
static unsigned n_ended;

static void on_readable(void *owner)
{
    ck_assert_ptr_eq(owner, &stream);
    n_readable++;
}

static void on_drained(void *owner)
{
    ck_assert_ptr_eq(owner, &stream);
    n_drained++;
}

static void on_progress(void *owner)
{
    ck_assert_ptr_eq(owner, &stream);
    n_progress++;
}

static void on_ended(void *owner)
{
    ck_assert_ptr_eq(owner, &stream);
    n_ended++;
    stream_watch_end(&stream, false);
    stream_want_read(&stream, false);
}

static const struct stream_handler HANDLER = {.on_readable = on_readable,
                                              .on_ended = on_ended,
                                              .on_progress = on_progress,
                                              .on_drained = on_drained};

static void open_pair(void)
{
    int fds[2];
    const int small = SMALL_BUFFER;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    peer = fds[1];
    ck_assert_int_eq(stream_open(&stream, loop, fds[0], &HANDLER, &stream), STATUS_OK);
}

static void set_up(void)
{
    loop = iterations_new_loop();
    n_readable = 0;
    n_drained = 0;
    n_progress = 0;
    n_ended = 0;
    open_pair();
}

static void tear_down(void)
{
    stream_close(&stream);
    stream_close(&stream);
    close(peer);
    loop_free(loop);
}

static struct iovec slice(const char *data, size_t len)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
}

static enum stream_result write_text(const char *text)
{
    const struct iovec slices = slice(text, strlen(text));
    return stream_write(&stream, &slices, 1);
}

/* --- reading --- */

START_TEST(what_the_peer_writes_is_read_once_in_order)
{
    char buffer[8];
    size_t n_read = 99;
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_BLOCKED);
    ck_assert_uint_eq(n_read, 0);
    ck_assert_int_eq(write(peer, "hello world", 11), 11);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 8);
    ck_assert_mem_eq(buffer, "hello wo", 8);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 3);
    ck_assert_mem_eq(buffer, "rld", 3);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_BLOCKED);
}
END_TEST

START_TEST(what_is_not_read_is_told_again_while_reading_is_wanted)
{
    ck_assert_int_eq(write(peer, "x", 1), 1);
    iterations_until_count(loop, &n_readable, 3);
    stream_want_read(&stream, false);
    const unsigned n_before = n_readable;
    iterations_for(loop, 2000);
    ck_assert_uint_eq(n_readable, n_before);
    stream_want_read(&stream, true);
    stream_want_read(&stream, true);
    iterations_until_count(loop, &n_readable, n_before + 1);
}
END_TEST

START_TEST(peeking_says_what_reading_would_and_takes_nothing)
{
    char buffer[4];
    size_t n_read;
    ck_assert_int_eq(stream_peek(&stream), STREAM_BLOCKED);
    ck_assert_int_eq(write(peer, "x", 1), 1);
    ck_assert_int_eq(stream_peek(&stream), STREAM_DONE);
    ck_assert_int_eq(stream_peek(&stream), STREAM_DONE);
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    ck_assert_int_eq(stream_peek(&stream), STREAM_DONE);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_int_eq(stream_peek(&stream), STREAM_EOF);
}
END_TEST

START_TEST(the_end_is_told_again_and_again_and_writing_still_works)
{
    char buffer[4];
    size_t n_read = 99;
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_EOF);
    ck_assert_uint_eq(n_read, 0);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_EOF);
    ck_assert_int_eq(write_text("bye"), STREAM_DONE);
    ck_assert_int_eq(read(peer, buffer, sizeof(buffer)), 3);
}
END_TEST

/* --- writing --- */

START_TEST(an_end_is_told_behind_bytes_that_nobody_reads_and_they_are_not)
{
    ck_assert_int_eq(send(peer, "abc", 3, 0), 3);
    stream_watch_end(&stream, true);
    iterations_for(loop, 1000);
    ck_assert_int_eq(send(peer, "def", 3, 0), 3);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_readable + n_ended, 0);
    shutdown(peer, SHUT_WR);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_ended, 1);
}
END_TEST

START_TEST(reading_goes_on_when_the_end_is_watched_no_more)
{
    stream_watch_end(&stream, true);
    ck_assert_int_eq(send(peer, "abc", 3, 0), 3);
    iterations_for(loop, 1000);
    stream_watch_end(&stream, false);
    iterations_for(loop, 1000);
    ck_assert_uint_gt(n_readable, 0);
    ck_assert_int_eq(write_text("x"), STREAM_DONE);
    ck_assert_uint_eq(n_ended, 0);
}
END_TEST

START_TEST(slices_are_written_in_order_empty_ones_too)
{
    char buffer[32];
    const struct iovec slices[STREAM_SLICES_MAX] = {slice("a", 1),  slice("", 0), slice("bc", 2),
                                                    slice("d", 1),  slice("", 0), slice("e", 1),
                                                    slice("fg", 2), slice("", 0)};
    ck_assert_int_eq(stream_write(&stream, slices, STREAM_SLICES_MAX), STREAM_DONE);
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(read(peer, buffer, sizeof(buffer)), 7);
    ck_assert_mem_eq(buffer, "abcdefg", 7);
    const struct iovec empty = slice("", 0);
    ck_assert_int_eq(stream_write(&stream, &empty, 1), STREAM_DONE);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 0);
}
END_TEST

/* A long message in a pattern that no shift of a few bytes repeats. */
static char *new_message(void)
{
    char *message = malloc(BIG_BYTES);
    ck_assert_ptr_nonnull(message);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        message[i] = (char)(i * 131 + (i >> 11));
    }
    return message;
}

/* Take what has come of @message, *n_taken bytes of which have been seen before. */
static void take_from_peer(const char *message, size_t *n_taken)
{
    char buffer[8192];
    ssize_t n;
    while ((n = read(peer, buffer, sizeof(buffer))) > 0) {
        ck_assert_uint_le(*n_taken + (size_t)n, BIG_BYTES);
        ck_assert_mem_eq(buffer, message + *n_taken, (size_t)n);
        *n_taken += (size_t)n;
    }
}

START_TEST(what_the_kernel_does_not_take_is_kept_and_drained_in_order)
{
    char *message = new_message();
    size_t n_taken = 0;
    /* Cut where short writes end in the first, in a middle and in the last slice. */
    const struct iovec slices[] = {slice(message, 1), slice(message + 1, 99999),
                                   slice(message + 100000, 7),
                                   slice(message + 100007, BIG_BYTES - 100007)};
    ck_assert_int_eq(stream_write(&stream, slices, 4), STREAM_BLOCKED);
    ck_assert(stream_is_blocked(&stream));
    ck_assert_uint_eq(n_drained, 0);
    while (n_drained == 0) {
        take_from_peer(message, &n_taken);
        iterations_once(loop);
    }
    ck_assert(!stream_is_blocked(&stream));
    take_from_peer(message, &n_taken);
    ck_assert_uint_eq(n_taken, BIG_BYTES);
    ck_assert_uint_gt(n_progress, 0); /* it was told that the peer takes some */
    ck_assert_int_eq(write_text("x"), STREAM_DONE);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 1);
    free(message);
}
END_TEST

START_TEST(a_peer_that_goes_while_bytes_are_kept_is_told_by_the_next_call)
{
    char *message = new_message();
    char buffer[4];
    size_t n_read;
    const struct iovec whole = slice(message, BIG_BYTES);
    ck_assert_int_eq(stream_write(&stream, &whole, 1), STREAM_BLOCKED);
    close(peer);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(write_text("x"), STREAM_BROKEN);
    const enum stream_result result = stream_read(&stream, buffer, sizeof(buffer), &n_read);
    ck_assert(result == STREAM_EOF || result == STREAM_BROKEN);
    peer = -1;
    free(message);
}
END_TEST

START_TEST(who_gives_up_writing_loses_what_is_kept_and_still_reads)
{
    char *message = new_message();
    char buffer[8];
    size_t n_read;
    const struct iovec slices = slice(message, BIG_BYTES);
    ck_assert_int_eq(stream_write(&stream, &slices, 1), STREAM_BLOCKED);
    stream_give_up_writing(&stream);
    free(message);
    ck_assert(stream_is_broken(&stream) && !stream_is_blocked(&stream));
    ck_assert_int_eq(write_text("more"), STREAM_BROKEN);
    size_t n = 0;
    for (ssize_t taken = 1; taken > 0; n += (size_t)taken) {
        char bytes[65536];
        taken = recv(peer, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (taken < 0) {
            break;
        }
        iterations_once(loop);
    }
    ck_assert_uint_lt(n, BIG_BYTES);
    ck_assert_uint_eq(n_drained, 0);
    ck_assert_int_eq(write(peer, "x", 1), 1);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_DONE);
}
END_TEST

START_TEST(writing_to_a_peer_that_has_gone_breaks_and_raises_no_signal)
{
    close(peer);
    ck_assert_int_eq(write_text("x"), STREAM_BROKEN);
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(write_text("x"), STREAM_BROKEN);
    peer = -1;
}
END_TEST

START_TEST(the_peer_reads_an_end_after_what_was_written)
{
    char buffer[8];
    ck_assert_int_eq(write_text("last"), STREAM_DONE);
    stream_shutdown(&stream);
    ck_assert_int_eq(read(peer, buffer, sizeof(buffer)), 4);
    ck_assert_int_eq(read(peer, buffer, sizeof(buffer)), 0);
    ck_assert_int_eq(write(peer, "x", 1), 1);
    iterations_until_count(loop, &n_readable, 1);
}
END_TEST

/* --- owners --- */

static void close_and_open_again(void *owner)
{
    (void)owner;
    n_readable++;
    stream_close(&stream);
    close(peer);
    open_pair();
    ck_assert_int_eq(write(peer, "y", 1), 1);
}

static const struct stream_handler REOPENING = {.on_readable = close_and_open_again,
                                                .on_drained = on_drained};

/* The kernel gives the same number again, and the loop tells it of changes only once a turn. */
START_TEST(a_descriptor_that_is_closed_and_opened_within_one_turn_is_watched)
{
    const int fd = stream.fd;
    stream.handler = &REOPENING;
    ck_assert_int_eq(write(peer, "x", 1), 1);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream.fd, fd);
    iterations_until_count(loop, &n_readable, 2);
}
END_TEST

/* --- libevent has no memory --- */

static enum stream_result read_byte(void)
{
    char byte;
    size_t n_read;
    return stream_read(&stream, &byte, 1, &n_read);
}

START_TEST(a_socket_that_cannot_be_watched_is_not_opened)
{
    int fds[2];
    struct stream other;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    failing_events_next(1);
    ck_assert_int_eq(stream_open(&other, loop, fds[0], &HANDLER, &stream), STATUS_NO_MEMORY);
    ck_assert_int_eq(other.fd, -1);
    close(fds[1]);
}
END_TEST

START_TEST(a_stream_that_cannot_be_watched_any_more_is_broken_for_its_reader)
{
    stream_want_read(&stream, false);
    failing_events_next(1);
    stream_want_read(&stream, true);
    ck_assert_uint_eq(n_readable, 0); /* not from within the call */
    iterations_once(loop);
    ck_assert_uint_eq(n_readable, 1);
    ck_assert_int_eq(stream_peek(&stream), STREAM_BROKEN);
    ck_assert_int_eq(read_byte(), STREAM_BROKEN);
}
END_TEST

START_TEST(a_write_that_cannot_be_waited_for_breaks_the_stream)
{
    char *big = calloc(1, BIG_BYTES);
    const struct iovec slices = slice(big, BIG_BYTES);
    failing_events_next(1);
    ck_assert_int_eq(stream_write(&stream, &slices, 1), STREAM_BROKEN);
    ck_assert(stream_is_broken(&stream));
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(write_text("more"), STREAM_BROKEN);
    free(big);
}
END_TEST

START_TEST(an_offer_that_cannot_be_waited_for_drains_and_breaks_the_stream)
{
    char *big = calloc(1, BIG_BYTES);
    const struct iovec slices = slice(big, BIG_BYTES);
    ck_assert_int_eq(stream_keep(&stream, &slices, 1), STREAM_BLOCKED);
    stream_offer(&stream);
    failing_events_next(1);
    stream_end_offer(&stream);
    ck_assert_uint_eq(n_drained, 1);
    ck_assert_uint_eq(n_progress, 0);
    ck_assert_int_eq(write_text("more"), STREAM_BROKEN);
    free(big);
}
END_TEST

START_TEST(an_end_that_cannot_be_watched_leaves_the_reading_on)
{
    failing_events_next(1);
    stream_watch_end(&stream, true);
    ck_assert_int_eq(write(peer, "x", 1), 1);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(read_byte(), STREAM_DONE);
}
END_TEST

START_TEST(a_closed_stream_calls_nobody)
{
    ck_assert_int_eq(write(peer, "x", 1), 1);
    stream_close(&stream);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_readable, 0);
    ck_assert_int_eq(stream.fd, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/stream");
    TCase *reading = tcase_create("reading");
    TCase *writing = tcase_create("writing");
    TCase *owners = tcase_create("owners");

    tcase_add_checked_fixture(reading, set_up, tear_down);
    tcase_add_test(reading, what_the_peer_writes_is_read_once_in_order);
    tcase_add_test(reading, what_is_not_read_is_told_again_while_reading_is_wanted);
    tcase_add_test(reading, peeking_says_what_reading_would_and_takes_nothing);
    tcase_add_test(reading, the_end_is_told_again_and_again_and_writing_still_works);
    tcase_add_test(reading, an_end_is_told_behind_bytes_that_nobody_reads_and_they_are_not);
    tcase_add_test(reading, reading_goes_on_when_the_end_is_watched_no_more);
    suite_add_tcase(suite, reading);
    tcase_add_checked_fixture(writing, set_up, tear_down);
    tcase_add_test(writing, slices_are_written_in_order_empty_ones_too);
    tcase_add_test(writing, what_the_kernel_does_not_take_is_kept_and_drained_in_order);
    tcase_add_test(writing, a_peer_that_goes_while_bytes_are_kept_is_told_by_the_next_call);
    tcase_add_test(writing, who_gives_up_writing_loses_what_is_kept_and_still_reads);
    tcase_add_test(writing, writing_to_a_peer_that_has_gone_breaks_and_raises_no_signal);
    tcase_add_test(writing, the_peer_reads_an_end_after_what_was_written);
    suite_add_tcase(suite, writing);
    tcase_add_checked_fixture(owners, set_up, tear_down);
    tcase_add_test(owners, a_descriptor_that_is_closed_and_opened_within_one_turn_is_watched);
    tcase_add_test(owners, a_socket_that_cannot_be_watched_is_not_opened);
    tcase_add_test(owners, a_stream_that_cannot_be_watched_any_more_is_broken_for_its_reader);
    tcase_add_test(owners, a_write_that_cannot_be_waited_for_breaks_the_stream);
    tcase_add_test(owners, an_offer_that_cannot_be_waited_for_drains_and_breaks_the_stream);
    tcase_add_test(owners, an_end_that_cannot_be_watched_leaves_the_reading_on);
    tcase_add_test(owners, a_closed_stream_calls_nobody);
    suite_add_tcase(suite, owners);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
