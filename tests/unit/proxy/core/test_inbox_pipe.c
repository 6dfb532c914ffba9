/* A long body through a pipe. */

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "proxy/core/inbox.h"
#include "support/iterations.h"

enum {
    HEAD_BLOCK_BYTES = 128,
    BODY_BLOCK_BYTES = 512,
    SMALLER_BLOCK_BYTES = 16,
    LONG_BYTES = 8 * BODY_BLOCK_BYTES,
    FIRST_BYTES = BODY_BLOCK_BYTES, /* that are read before it is known how much comes */
};

static struct loop *loop;
static struct stream stream;
static int peer;
static struct pool head_pool;
static struct pool body_pool;
static struct pool small_pool;
static struct pipe_pool pipes;
static struct inbox inbox;
static char taken_bytes[LONG_BYTES];
static struct text taken; /* of the body, joined */

static void ignore(void *owner)
{
    (void)owner;
}

static const struct stream_handler HANDLER = {.on_readable = ignore, .on_drained = ignore};

static void set_up(void)
{
    int fds[2];
    loop = iterations_new_loop();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    peer = fds[1];
    ck_assert_int_eq(stream_open(&stream, loop, fds[0], &HANDLER, NULL), STATUS_OK);
    pool_init(&head_pool, HEAD_BLOCK_BYTES, 4);
    pool_init(&body_pool, BODY_BLOCK_BYTES, 4);
    pool_init(&small_pool, SMALLER_BLOCK_BYTES, 4);
    pipe_pool_init(&pipes, 0);
    inbox_init(&inbox, &stream, &head_pool, &body_pool, &small_pool);
    inbox.pipes = &pipes;
    taken = text_of(taken_bytes, sizeof(taken_bytes));
}

/* Pools assert that all has been given back. */
static void tear_down(void)
{
    inbox_close(&inbox);
    pipe_pool_close(&pipes);
    pool_close(&head_pool);
    pool_close(&body_pool);
    pool_close(&small_pool);
    stream_close(&stream);
    close(peer);
    loop_free(loop);
}

static void send_bytes(const char *bytes, size_t len)
{
    ck_assert_int_eq(write(peer, bytes, len), (ssize_t)len);
}

static void send_text(const char *text)
{
    send_bytes(text, strlen(text));
}

/* A body of @len is to come, for who takes pipes. */
static void begin_body_of(size_t n_pipes, size_t len)
{
    pipes.n_max = n_pipes;
    inbox.takes_pipe = true;
    send_text("a\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_LENGTH, len);
}

/* A body of LONG_BYTES is there, with more behind it. */
static void begin_long(size_t n_pipes)
{
    char body[LONG_BYTES];
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (char)('a' + i % 23);
    }
    begin_body_of(n_pipes, LONG_BYTES);
    send_bytes(body, sizeof(body));
    send_text("next");
}

/* Take what is in the pipe; gives how much it was. */
static size_t empty_pipe(void)
{
    char *end = taken.data + taken.len;
    const size_t n = inbox.pipe->n_bytes;
    ck_assert_uint_le(n, sizeof(taken_bytes) - taken.len);
    ck_assert_int_eq(read(inbox.pipe->read_fd, end, n), (ssize_t)n);
    taken.len += n;
    inbox.pipe->n_bytes = 0;
    return n;
}

static void assert_long_taken(void)
{
    ck_assert_uint_eq(taken.len, LONG_BYTES);
    for (size_t i = 0; i < LONG_BYTES; i++) {
        ck_assert_int_eq(taken_bytes[i], 'a' + (int)(i % 23));
    }
}

/* Take all of it, however it comes; gives how much of it came through pipes. */
static size_t take_long(void)
{
    size_t n_piped = 0;
    bool last = false;
    while (!last) {
        struct span piece;
        const enum inbox_result result = inbox_next(&inbox, &piece, &last);
        if (result == INBOX_PIPED) {
            ck_assert(!last);
            n_piped += empty_pipe();
        } else {
            ck_assert_int_eq(result, INBOX_PIECE);
            text_add(&taken, piece);
        }
    }
    return n_piped;
}

START_TEST(a_long_body_goes_through_a_pipe_but_for_its_beginning_and_its_end)
{
    begin_long(1);
    const size_t n_piped = take_long();
    ck_assert_uint_ge(n_piped, LONG_BYTES - FIRST_BYTES - BODY_BLOCK_BYTES);
    ck_assert_uint_lt(n_piped, LONG_BYTES - FIRST_BYTES);
    assert_long_taken();
    ck_assert(inbox_end_message(&inbox));
    ck_assert_uint_eq(pipes.n_pipes, 1);
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    ck_assert(span_equals(inbox_head_bytes(&inbox), SPAN("next")));
}
END_TEST

START_TEST(without_a_pipe_a_long_body_is_read)
{
    begin_long(0);
    ck_assert_uint_eq(take_long(), 0);
    assert_long_taken();
}
END_TEST

START_TEST(who_takes_no_pipe_gets_a_long_body_read)
{
    begin_long(1);
    inbox.takes_pipe = false;
    ck_assert_uint_eq(take_long(), 0);
    assert_long_taken();
}
END_TEST

START_TEST(a_long_body_of_which_little_comes_at_a_time_is_read)
{
    char block[BODY_BLOCK_BYTES] = "";
    struct span piece;
    bool last;
    begin_body_of(1, LONG_BYTES);
    for (int i = 0; i < 2; i++) {
        send_bytes(block, sizeof(block));
        ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
        send_text("some");
        ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIPED);
        ck_assert_uint_eq(empty_pipe(), 4);
        send_text("more");
        ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
        ck_assert(span_equals(piece, SPAN("more")));
    }
}
END_TEST

START_TEST(closing_with_bytes_in_the_pipe_gives_it_back)
{
    struct span piece;
    bool last;
    begin_long(1);
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIPED);
    ck_assert_uint_eq(body_pool.n_taken, 0);
    ck_assert_uint_gt(inbox.pipe->n_bytes, 0);
}
END_TEST

START_TEST(a_long_body_that_is_cut_short_is_told)
{
    struct span piece;
    bool last = false;
    begin_long(1);
    inbox.left = 2 * LONG_BYTES;
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    enum inbox_result result;
    while ((result = inbox_next(&inbox, &piece, &last)) != INBOX_CUT) {
        ck_assert(!last);
        if (result == INBOX_PIPED) {
            (void)empty_pipe();
        } else {
            ck_assert_int_eq(result, INBOX_PIECE);
        }
    }
    ck_assert_ptr_null(inbox.pipe);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/inbox_pipe");
    TCase *bodies = tcase_create("bodies");

    tcase_add_checked_fixture(bodies, set_up, tear_down);
    tcase_add_test(bodies, a_long_body_goes_through_a_pipe_but_for_its_beginning_and_its_end);
    tcase_add_test(bodies, without_a_pipe_a_long_body_is_read);
    tcase_add_test(bodies, who_takes_no_pipe_gets_a_long_body_read);
    tcase_add_test(bodies, a_long_body_of_which_little_comes_at_a_time_is_read);
    tcase_add_test(bodies, closing_with_bytes_in_the_pipe_gives_it_back);
    tcase_add_test(bodies, a_long_body_that_is_cut_short_is_told);
    suite_add_tcase(suite, bodies);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
