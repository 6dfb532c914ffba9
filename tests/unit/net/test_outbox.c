#include "net/outbox.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/span.h"
#include "base/text.h"
#include "support/turns.h"

enum {
    STREAMS = 2,
    RECEIVED_BYTES = 1024 * 1024, /* more than the buffers of a socket pair */
    SMALL_BUFFER = 4096,
};

struct end {
    struct stream stream;
    int peer; /* the other end */
    unsigned n_drained;
    unsigned n_ended;
};

static struct loop *loop;
static struct outbox outbox;
static struct end ends[STREAMS];
static char received[RECEIVED_BYTES + 1];

static void on_readable(void *owner)
{
    struct end *end = owner;
    stream_want_read(&end->stream, false);
}

static void on_drained(void *owner)
{
    struct end *end = owner;
    end->n_drained++;
}

static void on_ended(void *owner)
{
    struct end *end = owner;
    end->n_ended++;
}

static const struct stream_handler HANDLER = {
    .on_readable = on_readable,
    .on_ended = on_ended,
    .on_drained = on_drained,
};

static void open_end(struct end *end)
{
    int fds[2];
    const int small = SMALL_BUFFER;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    *end = (struct end){.peer = fds[1]};
    ck_assert_int_eq(stream_open(&end->stream, loop, fds[0], &HANDLER, end), STATUS_OK);
}

static void set_up(void)
{
    loop = turns_new_loop();
    ck_assert_int_eq(outbox_init(&outbox, loop), STATUS_OK);
    for (int i = 0; i < STREAMS; i++) {
        open_end(&ends[i]);
    }
}

static void tear_down(void)
{
    for (int i = 0; i < STREAMS; i++) {
        stream_close(&ends[i].stream);
        close(ends[i].peer);
    }
    outbox_close(&outbox);
    outbox_close(&outbox);
    loop_free(loop);
}

static struct iovec slice(const char *data, size_t len)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
}

static enum stream_result post(struct end *end, const char *text)
{
    const struct iovec slices = slice(text, strlen(text));
    return outbox_write(&outbox, &end->stream, &slices, 1);
}

static enum stream_result write_text(struct end *end, const char *text)
{
    const struct iovec slices = slice(text, strlen(text));
    return stream_write(&end->stream, &slices, 1);
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

/* One that the kernel does not take. */
static void make_late(struct end *end, const char *text)
{
    fill(end);
    ck_assert_int_eq(post(end, text), STREAM_DONE);
    turns_once(loop);
    ck_assert(stream_is_behind(&end->stream));
    ck_assert(!stream_is_blocked(&end->stream));
}

/* Read what comes until @end has nothing late. */
static const char *read_while_late(struct end *end)
{
    static char all[RECEIVED_BYTES];
    struct text text = text_of(all, sizeof(all));
    while (stream_is_behind(&end->stream) || stream_is_blocked(&end->stream)) {
        text_add(&text, span_of_text(read_all(end)));
        turns_once(loop);
    }
    text_add(&text, span_of_text(read_all(end)));
    text_add_char(&text, '\0');
    ck_assert(!text.truncated);
    return all;
}

static const char *behind_filler(const char *text)
{
    return text + strspn(text, ".");
}

/* --- a turn's messages --- */

START_TEST(messages_of_a_turn_go_out_at_its_end_each_to_its_stream)
{
    const struct iovec two[] = {slice("hello ", 6), slice("world", 5)};
    ck_assert_int_eq(outbox_write(&outbox, &ends[0].stream, two, 2), STREAM_DONE);
    ck_assert_int_eq(post(&ends[1], "other"), STREAM_DONE);
    ck_assert_str_eq(read_all(&ends[0]), "");
    ck_assert_str_eq(read_all(&ends[1]), "");
    ck_assert(stream_is_behind(&ends[0].stream));

    turns_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "hello world");
    ck_assert_str_eq(read_all(&ends[1]), "other");
    ck_assert(!stream_is_behind(&ends[0].stream));
    ck_assert_uint_eq(ends[0].n_drained, 0);

    ck_assert_int_eq(post(&ends[0], "again"), STREAM_DONE);
    turns_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "again");
}
END_TEST

START_TEST(several_messages_of_one_stream_come_in_order)
{
    ck_assert_int_eq(post(&ends[0], "a"), STREAM_DONE);
    ck_assert_int_eq(post(&ends[0], "b"), STREAM_DONE);
    ck_assert_int_eq(write_text(&ends[0], "c"), STREAM_DONE);
    ck_assert_int_eq(post(&ends[0], "d"), STREAM_DONE);
    ck_assert_str_eq(read_all(&ends[0]), "abc");
    turns_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "d");
}
END_TEST

START_TEST(an_outbox_that_is_full_is_written_at_once)
{
    struct end others[OUTBOX_MESSAGES_MAX];
    for (int i = 0; i < OUTBOX_MESSAGES_MAX; i++) {
        open_end(&others[i]);
        ck_assert_int_eq(post(&others[i], "x"), STREAM_DONE);
    }
    ck_assert_str_eq(read_all(&others[0]), "");
    ck_assert_int_eq(post(&ends[0], "y"), STREAM_DONE);
    for (int i = 0; i < OUTBOX_MESSAGES_MAX; i++) {
        ck_assert_str_eq(read_all(&others[i]), "x");
        stream_close(&others[i].stream);
        close(others[i].peer);
    }
    turns_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "y");
}
END_TEST

START_TEST(as_many_bytes_as_an_outbox_has_fit_and_one_more_makes_room)
{
    static char message[OUTBOX_MESSAGE_BYTES_MAX + 1];
    struct end others[OUTBOX_BYTES / OUTBOX_MESSAGE_BYTES_MAX];
    const int n_others = OUTBOX_BYTES / OUTBOX_MESSAGE_BYTES_MAX;
    memset(message, 'm', OUTBOX_MESSAGE_BYTES_MAX);
    for (int i = 0; i < n_others; i++) {
        open_end(&others[i]);
        ck_assert_int_eq(post(&others[i], message), STREAM_DONE);
        ck_assert_str_eq(read_all(&others[0]), "");
    }
    ck_assert_int_eq(post(&ends[0], "y"), STREAM_DONE);
    for (int i = 0; i < n_others; i++) {
        ck_assert_str_eq(read_all(&others[i]), message);
        stream_close(&others[i].stream);
        close(others[i].peer);
    }
}
END_TEST

START_TEST(a_message_that_is_long_is_written_by_its_stream)
{
    static char message[OUTBOX_MESSAGE_BYTES_MAX + 2];
    memset(message, 'm', OUTBOX_MESSAGE_BYTES_MAX + 1);
    ck_assert_int_eq(post(&ends[0], "a"), STREAM_DONE);
    ck_assert_int_eq(post(&ends[0], message), STREAM_DONE);
    ck_assert_str_eq(read_all(&ends[0]) + 1, message);
}
END_TEST

START_TEST(closing_a_stream_writes_what_it_has_there)
{
    ck_assert_int_eq(post(&ends[1], "other"), STREAM_DONE);
    ck_assert_int_eq(post(&ends[0], "last words"), STREAM_DONE);
    stream_close(&ends[0].stream);
    ck_assert_str_eq(read_all(&ends[0]), "last words");
    turns_once(loop);
    ck_assert_str_eq(read_all(&ends[1]), "other");
}
END_TEST

START_TEST(closing_the_outbox_writes_what_is_there)
{
    ck_assert_int_eq(post(&ends[0], "last words"), STREAM_DONE);
    outbox_close(&outbox);
    ck_assert_str_eq(read_all(&ends[0]), "last words");
}
END_TEST

START_TEST(a_connection_that_broke_is_told_by_the_next_write)
{
    close(ends[0].peer);
    ck_assert_int_eq(post(&ends[0], "a"), STREAM_DONE);
    turns_once(loop);
    ck_assert(stream_is_broken(&ends[0].stream));
    ck_assert_int_eq(post(&ends[0], "b"), STREAM_BROKEN);
    ends[0].peer = dup(ends[1].peer);
}
END_TEST

/* --- what the kernel does not take --- */

START_TEST(what_is_late_goes_by_itself_and_nobody_is_told)
{
    make_late(&ends[0], "late");
    ck_assert_uint_ge(stream_unread_bytes(&ends[0].stream), 4);
    ck_assert_str_eq(behind_filler(read_while_late(&ends[0])), "late");
    ck_assert_uint_eq(ends[0].n_drained, 0);

    ck_assert_int_eq(post(&ends[0], "next"), STREAM_DONE);
    turns_once(loop);
    ck_assert_str_eq(read_all(&ends[0]), "next");
}
END_TEST

START_TEST(what_is_written_meanwhile_is_blocked_behind_what_is_late)
{
    make_late(&ends[0], "late ");
    ck_assert_int_eq(post(&ends[0], "next"), STREAM_BLOCKED);
    ck_assert(stream_is_blocked(&ends[0].stream));
    ck_assert_str_eq(behind_filler(read_while_late(&ends[0])), "late next");
    ck_assert_uint_eq(ends[0].n_drained, 1);
}
END_TEST

START_TEST(a_message_may_be_taken_in_part)
{
    static char message[OUTBOX_MESSAGE_BYTES_MAX + 1];
    static char expected[OUTBOX_MESSAGE_BYTES_MAX + 1];
    for (int i = 0; i < OUTBOX_MESSAGE_BYTES_MAX; i++) {
        message[i] = (char)('a' + i % 26);
    }
    memcpy(expected, message, sizeof(message));
    make_late(&ends[0], message);
    ck_assert_str_eq(behind_filler(read_while_late(&ends[0])), expected);
}
END_TEST

START_TEST(the_end_of_our_side_comes_behind_what_is_late)
{
    make_late(&ends[0], "late");
    stream_shutdown(&ends[0].stream);
    ck_assert_str_eq(behind_filler(read_while_late(&ends[0])), "late");
    ck_assert_int_eq(read(ends[0].peer, received, 1), 0);
}
END_TEST

START_TEST(an_end_asked_for_at_once_comes_behind_what_the_outbox_has)
{
    ck_assert_int_eq(post(&ends[0], "all"), STREAM_DONE);
    stream_shutdown(&ends[0].stream);
    ck_assert_str_eq(read_all(&ends[0]), "all");
    ck_assert_int_eq(read(ends[0].peer, received, 1), 0);
}
END_TEST

START_TEST(a_peer_that_goes_while_something_is_late_breaks_the_stream)
{
    make_late(&ends[0], "late");
    close(ends[0].peer);
    while (!stream_is_broken(&ends[0].stream)) {
        turns_once(loop);
    }
    ck_assert(!stream_is_behind(&ends[0].stream));
    ck_assert_uint_eq(ends[0].n_drained, 0);
    ck_assert_int_eq(write_text(&ends[0], "b"), STREAM_BROKEN);
    ends[0].peer = dup(ends[1].peer);
}
END_TEST

START_TEST(the_peers_end_is_not_watched_while_something_is_late)
{
    make_late(&ends[0], "late");
    stream_watch_end(&ends[0].stream, true);
    ck_assert_str_eq(behind_filler(read_while_late(&ends[0])), "late");
    stream_watch_end(&ends[0].stream, false);

    stream_watch_end(&ends[0].stream, true);
    ck_assert_int_eq(shutdown(ends[0].peer, SHUT_WR), 0);
    turns_until_count(loop, &ends[0].n_ended, 1);
    stream_watch_end(&ends[0].stream, false);
}
END_TEST

START_TEST(a_stream_that_is_closed_while_something_is_late_lets_go_of_it)
{
    make_late(&ends[0], "late");
    stream_close(&ends[0].stream);
    ck_assert_str_eq(behind_filler(read_all(&ends[0])), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/outbox");
    TCase *turn = tcase_create("turn");
    TCase *late = tcase_create("late");

    tcase_add_checked_fixture(turn, set_up, tear_down);
    tcase_add_test(turn, messages_of_a_turn_go_out_at_its_end_each_to_its_stream);
    tcase_add_test(turn, several_messages_of_one_stream_come_in_order);
    tcase_add_test(turn, an_outbox_that_is_full_is_written_at_once);
    tcase_add_test(turn, as_many_bytes_as_an_outbox_has_fit_and_one_more_makes_room);
    tcase_add_test(turn, a_message_that_is_long_is_written_by_its_stream);
    tcase_add_test(turn, closing_a_stream_writes_what_it_has_there);
    tcase_add_test(turn, closing_the_outbox_writes_what_is_there);
    tcase_add_test(turn, a_connection_that_broke_is_told_by_the_next_write);
    suite_add_tcase(suite, turn);
    tcase_add_checked_fixture(late, set_up, tear_down);
    tcase_add_test(late, what_is_late_goes_by_itself_and_nobody_is_told);
    tcase_add_test(late, what_is_written_meanwhile_is_blocked_behind_what_is_late);
    tcase_add_test(late, a_message_may_be_taken_in_part);
    tcase_add_test(late, the_end_of_our_side_comes_behind_what_is_late);
    tcase_add_test(late, an_end_asked_for_at_once_comes_behind_what_the_outbox_has);
    tcase_add_test(late, a_peer_that_goes_while_something_is_late_breaks_the_stream);
    tcase_add_test(late, the_peers_end_is_not_watched_while_something_is_late);
    tcase_add_test(late, a_stream_that_is_closed_while_something_is_late_lets_go_of_it);
    suite_add_tcase(suite, late);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
