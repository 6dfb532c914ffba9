/* How much a peer takes just now, where the kernel can tell: over TCP. */

#include <check.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/span.h"
#include "net/stream.h"
#include "support/failing_events.h"
#include "support/iterations.h"

enum {
    SMALL_BUFFER = 4096,
    ASKED_MAX = 1000, /* far more often than a socket has room */
};

static struct loop *loop;
static struct stream stream;
static int peer; /* the other end, which has little room */
static unsigned n_drained;
static unsigned n_progress;
static char block[IO_BLOCK_BYTES];

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

/* Connect @peer to a socket of its own; the other end. */
static int connect_peer(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    const int small = SMALL_BUFFER;
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &bytes), 0);
    peer = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(connect(peer, (struct sockaddr *)&address, bytes), 0);
    const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    close(listening);
    return fd;
}

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    loop = iterations_new_loop();
    n_drained = 0;
    n_progress = 0;
    ck_assert_int_eq(stream_open(&stream, loop, connect_peer(), &HANDLER, NULL), STATUS_OK);
}

static void tear_down(void)
{
    stream_close(&stream);
    if (peer >= 0) {
        close(peer);
    }
    loop_free(loop);
}

static enum stream_result write_bytes(size_t n)
{
    const struct iovec slice = {.iov_base = block, .iov_len = n};
    return stream_write(&stream, &slice, 1);
}

/* Write what there is room for, until there is none. Tells how much that was. */
static size_t fill(void)
{
    size_t written = 0;
    for (unsigned i = 0; i < ASKED_MAX; i++) {
        const size_t room = stream_await_room(&stream);
        if (room == 0) {
            return written;
        }
        const size_t piece = room < IO_BLOCK_BYTES ? SMALL_BLOCK_BYTES : IO_BLOCK_BYTES;
        for (size_t n = 0; n < room; n += piece) {
            ck_assert_int_eq(write_bytes(piece), STREAM_DONE);
        }
        written += room;
    }
    ck_abort_msg("there is always room");
}

START_TEST(who_has_taken_all_has_room_for_a_block)
{
    ck_assert_uint_ge(stream_await_room(&stream), IO_BLOCK_BYTES);
    ck_assert(!stream_is_blocked(&stream));
}
END_TEST

START_TEST(what_there_is_room_for_is_taken_and_then_there_is_none_and_nothing_is_kept)
{
    ck_assert_uint_gt(fill(), 0);
    ck_assert(stream_is_blocked(&stream));
    ck_assert_int_eq(stream.n_kept, 0);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 0);
}
END_TEST

START_TEST(it_is_told_once_when_there_is_room_again)
{
    char buffer[SMALL_BUFFER];
    size_t left = fill();
    while (n_drained == 0) {
        const ssize_t n = recv(peer, buffer, sizeof(buffer), MSG_DONTWAIT);
        left -= n > 0 ? (size_t)n : 0;
        iterations_once(loop);
    }
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_uint_gt(left, 0);
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 1);
    ck_assert_uint_eq(n_progress, 0);
    ck_assert_int_eq(write_bytes(SMALL_BLOCK_BYTES), STREAM_DONE);
}
END_TEST

START_TEST(a_peer_that_goes_while_room_is_awaited_is_told_by_the_next_write)
{
    (void)fill();
    close(peer);
    peer = -1;
    iterations_until_count(loop, &n_drained, 1);
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(write_bytes(1), STREAM_BROKEN);
}
END_TEST

START_TEST(a_stream_whose_room_cannot_be_waited_for_is_broken)
{
    failing_events_next(1);
    for (unsigned i = 0; i < ASKED_MAX && !stream_is_broken(&stream); i++) {
        ck_assert_uint_gt(stream_await_room(&stream), 0);
        if (!stream_is_broken(&stream)) {
            ck_assert_int_eq(write_bytes(SMALL_BLOCK_BYTES), STREAM_DONE);
        }
    }
    ck_assert(stream_is_broken(&stream));
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(write_bytes(SMALL_BLOCK_BYTES), STREAM_BROKEN);
}
END_TEST

START_TEST(a_stream_that_is_closed_awaits_nothing)
{
    (void)fill();
    stream_close(&stream);
    ck_assert(!stream_is_blocked(&stream));
    close(peer);
    peer = -1;
    iterations_for(loop, 1000);
    ck_assert_uint_eq(n_drained, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/stream_room");
    TCase *room = tcase_create("room");
    tcase_add_checked_fixture(room, set_up, tear_down);
    tcase_add_test(room, who_has_taken_all_has_room_for_a_block);
    tcase_add_test(room,
                   what_there_is_room_for_is_taken_and_then_there_is_none_and_nothing_is_kept);
    tcase_add_test(room, it_is_told_once_when_there_is_room_again);
    tcase_add_test(room, a_peer_that_goes_while_room_is_awaited_is_told_by_the_next_write);
    tcase_add_test(room, a_stream_whose_room_cannot_be_waited_for_is_broken);
    tcase_add_test(room, a_stream_that_is_closed_awaits_nothing);
    suite_add_tcase(suite, room);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
