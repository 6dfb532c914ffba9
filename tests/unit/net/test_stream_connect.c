/* Streams over TCP, from connecting on. */

#include "net/stream.h"

#include <check.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "support/iterations.h"

enum { PIECE_BYTES = 16 * 1024 };

static struct loop *loop;
static struct stream stream;
static unsigned n_readable;
static unsigned n_drained;

static void on_readable(void *owner)
{
    ck_assert_ptr_eq(owner, &stream);
    n_readable++;
    stream_want_read(&stream, false);
}

static void on_drained(void *owner)
{
    ck_assert_ptr_eq(owner, &stream);
    n_drained++;
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

static void set_up(void)
{
    loop = iterations_new_loop();
    n_readable = 0;
    n_drained = 0;
}

static void tear_down(void)
{
    stream_close(&stream);
    loop_free(loop);
}

static enum stream_result write_piece(const char *piece, size_t len)
{
    struct iovec slice = {.iov_base = (void *)(uintptr_t)piece, .iov_len = len};
    return stream_write(&stream, &slice, 1);
}

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof(*address);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)address, &bytes), 0);
    return fd;
}

static enum status connect_to(const struct sockaddr_in *address)
{
    return stream_connect(&stream, loop, (const struct sockaddr *)address, sizeof(*address),
                          &HANDLER, &stream);
}

START_TEST(an_accepted_connection_is_told_once_and_then_read)
{
    struct sockaddr_in address;
    const int listening = listen_on_loopback(&address);
    ck_assert_int_eq(connect_to(&address), STATUS_OK);
    const int accepted = accept(listening, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    ck_assert_int_eq(write(accepted, "x", 1), 1);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert_uint_eq(n_readable, 0);
    ck_assert_int_eq(stream_connect_status(&stream), STATUS_OK);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_uint_eq(n_drained, 1);
    ck_assert_int_eq(write_piece("x", 1), STREAM_DONE);
    close(accepted);
    close(listening);
}
END_TEST

START_TEST(a_connection_that_is_to_be_reset_ends_in_an_error_for_its_peer)
{
    char byte;
    struct sockaddr_in address;
    const int listening = listen_on_loopback(&address);
    ck_assert_int_eq(connect_to(&address), STATUS_OK);
    const int accepted = accept(listening, NULL, NULL);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert_int_eq(stream_connect_status(&stream), STATUS_OK);
    stream_reset_on_close(&stream);
    stream_close(&stream);
    ck_assert_int_lt(read(accepted, &byte, 1), 0);
    ck_assert_int_eq(errno, ECONNRESET);
    close(accepted);
    close(listening);
}
END_TEST

START_TEST(a_refused_connection_is_unreachable)
{
    struct sockaddr_in address;
    close(listen_on_loopback(&address));
    const enum status status = connect_to(&address);
    if (status == STATUS_OK) {
        iterations_until_count(loop, &n_drained, 1);
        ck_assert_int_eq(stream_connect_status(&stream), STATUS_UNREACHABLE);
    } else {
        ck_assert_int_eq(status, STATUS_UNREACHABLE);
        ck_assert_int_eq(stream.fd, -1);
    }
}
END_TEST

/* --- unix sockets --- */

static int queued; /* a connection that fills the queue of the listening one */

static int listen_with_full_queue(struct sockaddr_un *address)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t bytes = sizeof(*address);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)address, sizeof(sa_family_t)), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)address, &bytes), 0);
    queued = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(queued, (struct sockaddr *)address, bytes), 0);
    ck_assert_int_eq(
        stream_connect(&stream, loop, (const struct sockaddr *)address, bytes, &HANDLER, &stream),
        STATUS_OK);
    return fd;
}

START_TEST(a_full_queue_of_a_unix_socket_is_waited_for)
{
    struct sockaddr_un address;
    const int listening = listen_with_full_queue(&address);
    iterations_for(loop, 20000);
    ck_assert_uint_eq(n_drained, 0);
    close(accept(listening, NULL, NULL));
    iterations_until_count(loop, &n_drained, 1);
    ck_assert_int_eq(stream_connect_status(&stream), STATUS_OK);
    const int accepted = accept(listening, NULL, NULL);
    ck_assert_int_eq(write(accepted, "x", 1), 1);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_uint_eq(n_drained, 1);
    close(accepted);
    close(queued);
    close(listening);
}
END_TEST

START_TEST(who_no_longer_listens_is_unreachable_and_a_stream_that_waits_may_be_closed)
{
    struct sockaddr_un address;
    close(listen_with_full_queue(&address));
    iterations_until_count(loop, &n_drained, 1);
    ck_assert_int_eq(stream_connect_status(&stream), STATUS_UNREACHABLE);
    ck_assert_int_eq(errno, ECONNREFUSED);
    stream_close(&stream);
    close(queued);
    const int listening = listen_with_full_queue(&address);
    stream_close(&stream);
    iterations_for(loop, 20000);
    ck_assert_uint_eq(n_drained, 1);
    close(queued);
    close(listening);
}
END_TEST

START_TEST(closing_while_connecting_tells_nobody)
{
    struct sockaddr_in address;
    const int listening = listen_on_loopback(&address);
    ck_assert_int_eq(connect_to(&address), STATUS_OK);
    stream_close(&stream);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 0);
    close(listening);
}
END_TEST

START_TEST(little_is_kept_for_a_peer_that_does_not_read)
{
    static const char piece[PIECE_BYTES];
    struct sockaddr_in address;
    int unsent_bytes;
    const int listening = listen_on_loopback(&address);
    ck_assert_int_eq(connect_to(&address), STATUS_OK);
    const int accepted = accept(listening, NULL, NULL);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert_int_eq(stream_connect_status(&stream), STATUS_OK);
    while (write_piece(piece, sizeof(piece)) == STREAM_DONE) {
    }
    ck_assert_int_eq(ioctl(stream.fd, SIOCOUTQNSD, &unsent_bytes), 0);
    ck_assert_int_gt(unsent_bytes, 0);
    ck_assert_int_le(unsent_bytes, UNSENT_BYTES_MAX + PIECE_BYTES);
    close(accepted);
    close(listening);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/stream_connect");
    TCase *connecting = tcase_create("connecting");
    tcase_add_checked_fixture(connecting, set_up, tear_down);
    tcase_add_test(connecting, an_accepted_connection_is_told_once_and_then_read);
    tcase_add_test(connecting, a_connection_that_is_to_be_reset_ends_in_an_error_for_its_peer);
    tcase_add_test(connecting, a_refused_connection_is_unreachable);
    tcase_add_test(connecting, a_full_queue_of_a_unix_socket_is_waited_for);
    tcase_add_test(connecting,
                   who_no_longer_listens_is_unreachable_and_a_stream_that_waits_may_be_closed);
    tcase_add_test(connecting, closing_while_connecting_tells_nobody);
    tcase_add_test(connecting, little_is_kept_for_a_peer_that_does_not_read);
    suite_add_tcase(suite, connecting);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
