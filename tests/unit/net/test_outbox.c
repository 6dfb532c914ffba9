#include "net/outbox.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/iterations.h"

enum {
    STREAMS = 3,
    RECEIVED_BYTES = 1024 * 1024, /* more than the buffers of a socket pair */
    SMALL_BUFFER = 4096,
};

struct end {
    struct stream stream;
    int peer; /* the other end */
    unsigned n_drained;
    struct end *closes; /* when it is drained; NULL: nobody */
    const char *posts;  /* the same, once; NULL: nothing */
};

static struct loop *loop;
static struct outbox outbox;
static struct end ends[STREAMS];
static char received[RECEIVED_BYTES + 1];

static enum stream_result post(struct end *end, const char *text)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
    return outbox_write(&outbox, &end->stream, &slice, 1);
}

static enum stream_result write_text(struct end *end, const char *text)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
    return stream_write(&end->stream, &slice, 1);
}

static void on_readable(void *owner)
{
    struct end *end = owner;
    stream_want_read(&end->stream, false);
}

static void on_drained(void *owner)
{
    struct end *end = owner;
    const char *text = end->posts;
    end->n_drained++;
    if (end->closes != NULL) {
        stream_close(&end->closes->stream);
    }
    end->posts = NULL;
    if (text != NULL) {
        ck_assert_int_eq(post(end, text), STREAM_BLOCKED);
    }
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

static void open_end(struct end *end)
{
    int fds[2];
    const int small = SMALL_BUFFER;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    *end = (struct end){.peer = fds[1]};
    ck_assert_int_eq(stream_open(&end->stream, loop, fds[0], &HANDLER, end), STATUS_OK);
}

static void close_end(struct end *end)
{
    stream_close(&end->stream);
    close(end->peer);
}

static void set_up(void)
{
    loop = iterations_new_loop();
    outbox_init(&outbox, loop);
    for (int i = 0; i < STREAMS; i++) {
        open_end(&ends[i]);
    }
}

static void tear_down(void)
{
    for (int i = 0; i < STREAMS; i++) {
        close_end(&ends[i]);
    }
    loop_free(loop);
}

/* What has come at the peer, as text. */
static const char *read_all(struct end *end)
{
    size_t n = 0;
    ssize_t got;
    while ((got = read(end->peer, received + n, RECEIVED_BYTES - n)) > 0) {
        n += (size_t)got;
    }
    received[n] = '\0';
    return received;
}

/* Write to the stream's socket behind its back until it takes no more. */
static void fill(struct end *end)
{
    char filler[SMALL_BUFFER / 4];
    memset(filler, '.', sizeof(filler));
    while (write(end->stream.fd, filler, sizeof(filler)) > 0) {
    }
    while (write(end->stream.fd, filler, 1) > 0) {
    }
    ck_assert_int_eq(errno, EAGAIN);
}

START_TEST(messages_of_a_turn_go_out_at_its_end_each_to_its_stream)
{
    const struct iovec two[] = {{(void *)(uintptr_t) "hello ", 6},
                                {(void *)(uintptr_t) "world", 5}};
    ck_assert_int_eq(outbox_write(&outbox, &ends[0].stream, two, 2), STREAM_BLOCKED);
    ck_assert_int_eq(post(&ends[1], "other"), STREAM_BLOCKED);
    ck_assert_str_eq(read_all(&ends[0]), "");
    ck_assert_str_eq(read_all(&ends[1]), "");
    ck_assert(stream_is_blocked(&ends[0].stream) && stream_is_unoffered(&ends[0].stream));
    ck_assert_uint_ge(stream_unread_bytes(&ends[0].stream), 11);

    iterations_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "hello world");
    ck_assert_str_eq(read_all(&ends[1]), "other");
    for (int i = 0; i < 2; i++) {
        ck_assert(!stream_is_blocked(&ends[i].stream) && !stream_is_unoffered(&ends[i].stream));
        ck_assert_uint_eq(ends[i].n_drained, 1);
    }
    ck_assert_int_eq(post(&ends[0], "again"), STREAM_BLOCKED);
    iterations_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "again");
    ck_assert_int_eq(write_text(&ends[0], "by itself"), STREAM_DONE);
    ck_assert_str_eq(read_all(&ends[0]), "by itself");
    iterations_once(loop);
    ck_assert_uint_eq(ends[0].n_drained, 2);
}
END_TEST

START_TEST(so_many_messages_are_written_at_once_and_told_at_the_end)
{
    struct end others[OUTBOX_MESSAGES_MAX];
    for (int i = 0; i < OUTBOX_MESSAGES_MAX; i++) {
        ck_assert_str_eq(i > 0 ? read_all(&others[0]) : "", "");
        open_end(&others[i]);
        ck_assert_int_eq(post(&others[i], "x"), STREAM_BLOCKED);
    }
    for (int i = 0; i < OUTBOX_MESSAGES_MAX; i++) {
        ck_assert_str_eq(read_all(&others[i]), "x");
        ck_assert_uint_eq(others[i].n_drained, 0);
        ck_assert(stream_is_blocked(&others[i].stream));
        ck_assert(!stream_is_unoffered(&others[i].stream));
    }
    ck_assert_int_eq(post(&ends[0], "y"), STREAM_BLOCKED);
    ck_assert_str_eq(read_all(&ends[0]), "");
    stream_close(&others[0].stream);

    iterations_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "y");
    for (int i = 0; i < OUTBOX_MESSAGES_MAX; i++) {
        ck_assert_uint_eq(others[i].n_drained, i > 0);
        close_end(&others[i]);
    }
}
END_TEST

START_TEST(closing_a_stream_takes_its_message_back)
{
    ck_assert_int_eq(post(&ends[0], "nothing"), STREAM_BLOCKED);
    ck_assert_int_eq(post(&ends[1], "other"), STREAM_BLOCKED);
    stream_close(&ends[0].stream);
    iterations_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "");
    ck_assert_uint_eq(ends[0].n_drained, 0);
    ck_assert_str_eq(read_all(&ends[1]), "other");
}
END_TEST

START_TEST(who_is_told_may_close_himself_and_others)
{
    ends[0].closes = &ends[1];
    ends[2].closes = &ends[2];
    for (int i = 0; i < STREAMS; i++) {
        ck_assert_int_eq(post(&ends[i], "last words"), STREAM_BLOCKED);
    }
    iterations_once(loop);
    for (int i = 0; i < STREAMS; i++) {
        ck_assert_str_eq(read_all(&ends[i]), "last words");
        ck_assert_uint_eq(ends[i].n_drained, i != 1);
    }
}
END_TEST

START_TEST(what_is_posted_by_who_is_told_goes_a_turn_later)
{
    ends[0].posts = "b";
    ck_assert_int_eq(post(&ends[0], "a"), STREAM_BLOCKED);
    iterations_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "a");
    iterations_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "b");
    ck_assert_uint_eq(ends[0].n_drained, 2);
}
END_TEST

START_TEST(what_the_kernel_does_not_take_stays_blocked_until_it_does)
{
    fill(&ends[0]);
    ck_assert_int_eq(post(&ends[0], "late"), STREAM_BLOCKED);
    iterations_once(loop);
    ck_assert_uint_eq(ends[0].n_drained, 0);
    ck_assert(stream_is_blocked(&ends[0].stream) && !stream_is_unoffered(&ends[0].stream));

    bool has_come = false;
    while (!has_come) {
        const char *text = read_all(&ends[0]);
        has_come = strcmp(text + strspn(text, "."), "late") == 0;
        iterations_once(loop);
    }
    ck_assert_uint_eq(ends[0].n_drained, 1);
    ck_assert(!stream_is_blocked(&ends[0].stream));
}
END_TEST

START_TEST(a_connection_that_broke_is_told_by_the_next_write)
{
    close(ends[0].peer);
    ends[0].peer = dup(ends[1].peer);
    ck_assert_int_eq(post(&ends[0], "a"), STREAM_BLOCKED);
    iterations_once(loop);
    ck_assert_uint_eq(ends[0].n_drained, 1);
    ck_assert(stream_is_broken(&ends[0].stream));
    ck_assert_int_eq(post(&ends[0], "b"), STREAM_BROKEN);
    ck_assert(!stream_is_blocked(&ends[0].stream));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/outbox");
    TCase *turn = tcase_create("turn");

    tcase_add_checked_fixture(turn, set_up, tear_down);
    tcase_add_test(turn, messages_of_a_turn_go_out_at_its_end_each_to_its_stream);
    tcase_add_test(turn, so_many_messages_are_written_at_once_and_told_at_the_end);
    tcase_add_test(turn, closing_a_stream_takes_its_message_back);
    tcase_add_test(turn, who_is_told_may_close_himself_and_others);
    tcase_add_test(turn, what_is_posted_by_who_is_told_goes_a_turn_later);
    tcase_add_test(turn, what_the_kernel_does_not_take_stays_blocked_until_it_does);
    tcase_add_test(turn, a_connection_that_broke_is_told_by_the_next_write);
    suite_add_tcase(suite, turn);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
