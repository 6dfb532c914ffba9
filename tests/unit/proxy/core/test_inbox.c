#include "proxy/core/inbox.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "support/iterations.h"

enum {
    HEAD_BLOCK_BYTES = 128,
    BODY_BLOCK_BYTES = 512,
    TAKEN_MAX = 4096,
    SMALL_BLOCK_BYTES_HERE = 16,
};

static struct loop *loop;
static struct stream stream;
static int peer;
static struct pool head_pool;
static struct pool body_pool;
static struct pool small_pool;
static struct inbox inbox;
static char taken_bytes[TAKEN_MAX];
static struct text taken; /* of bodies, joined */

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
    pool_init(&small_pool, SMALL_BLOCK_BYTES_HERE, 4);
    inbox_init(&inbox, &stream, &head_pool, &body_pool, &small_pool);
    taken = text_of(taken_bytes, sizeof(taken_bytes));
}

/* pool_close() asserts that all blocks have been given back. */
static void tear_down(void)
{
    inbox_close(&inbox);
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

static void assert_head_bytes(const char *expected)
{
    const struct span bytes = inbox_head_bytes(&inbox);
    ck_assert_msg(span_equals(bytes, span_of_text(expected)), "'%.*s' is not '%s'",
                  SPAN_ARGS(bytes), expected);
}

static void assert_taken(const char *expected)
{
    ck_assert_msg(span_equals(text_span(&taken), span_of_text(expected)), "'%.*s' is not '%s'",
                  SPAN_ARGS(text_span(&taken)), expected);
}

/* Take pieces until there is something else; *last of the latest piece. */
static enum inbox_result take_all(bool *last)
{
    for (;;) {
        struct span piece;
        bool is_last;
        const enum inbox_result result = inbox_next(&inbox, &piece, &is_last);
        if (result != INBOX_PIECE) {
            return result;
        }
        ck_assert_uint_gt(piece.len, 0);
        text_add(&taken, piece);
        *last = is_last;
    }
}

/* A head is all up to and with the first empty line. */
static size_t head_len(struct span bytes)
{
    for (size_t i = 0; i + 4 <= bytes.len; i++) {
        if (memcmp(bytes.data + i, "\r\n\r\n", 4) == 0) {
            return i + 4;
        }
    }
    return 0;
}

/* --- heads --- */

START_TEST(a_head_gathers_in_one_block_read_after_read)
{
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_BLOCKED);
    assert_head_bytes("");
    send_text("GET / HT");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    assert_head_bytes("GET / HT");
    send_text("TP/1.1\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    assert_head_bytes("GET / HTTP/1.1\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_BLOCKED);
    assert_head_bytes("GET / HTTP/1.1\r\n\r\n");
}
END_TEST

START_TEST(heads_of_one_exchange_follow_each_other_through_one_block)
{
    send_text("HTTP/1.1 102 P\r\n\r\nHTTP/1.1 2");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, head_len(inbox_head_bytes(&inbox)), BODY_NONE, 0);
    inbox_end_head(&inbox);
    assert_head_bytes("HTTP/1.1 2");
    ck_assert_uint_eq(inbox.head_start, 0); /* the whole block is there for the next */
    send_text("00 OK\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    assert_head_bytes("HTTP/1.1 200 OK\r\n\r\n");
}
END_TEST

START_TEST(without_bytes_there_is_no_block)
{
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_BLOCKED);
    ck_assert_uint_eq(head_pool.n_taken, 0);
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_EOF);
    ck_assert_uint_eq(head_pool.n_taken, 0);
    ck_assert(!inbox_has_bytes(&inbox));
}
END_TEST

START_TEST(a_head_that_fills_its_block_is_told_and_reads_no_more)
{
    char bytes[HEAD_BLOCK_BYTES + 1];
    memset(bytes, 'x', sizeof(bytes));
    send_bytes(bytes, sizeof(bytes));
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    ck_assert_uint_eq(inbox_head_bytes(&inbox).len, HEAD_BLOCK_BYTES);
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_BROKEN);
    ck_assert_uint_eq(inbox_head_bytes(&inbox).len, HEAD_BLOCK_BYTES);
}
END_TEST

START_TEST(a_message_without_a_body_has_ended_with_its_head)
{
    bool last = false;
    send_text("a\r\n\r\nb");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_NONE, 0);
    ck_assert_int_eq(take_all(&last), INBOX_END);
    ck_assert(inbox_end_message(&inbox));
    assert_head_bytes("b");
}
END_TEST

/* --- bodies --- */

static const struct message {
    const char *head;
    enum body_kind kind;
    uint64_t content_length;
    const char *body; /* on the wire */
    const char *content;
} MESSAGES[] = {
    {"a\r\n\r\n", BODY_NONE, 0, "", ""},
    {"a\r\n\r\n", BODY_LENGTH, 1, "x", "x"},
    {"a\r\n\r\n", BODY_LENGTH, 11, "hello world", "hello world"},
    {"a\r\n\r\n", BODY_CHUNKED, 0, "0\r\n\r\n", ""},
    {"a\r\n\r\n", BODY_CHUNKED, 0, "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nt: v\r\n\r\n",
     "hello world"},
};

static void begin(const struct message *message)
{
    const size_t len = head_len(inbox_head_bytes(&inbox));
    ck_assert_uint_eq(len, strlen(message->head));
    inbox_begin_body(&inbox, len, message->kind, message->content_length);
}

/* The whole wire: this message and the start of the next. */
static size_t write_wire(const struct message *message, char *wire, size_t capacity)
{
    struct text text = text_of(wire, capacity);
    text_add(&text, span_of_text(message->head));
    text_add(&text, span_of_text(message->body));
    text_add_literal(&text, "next");
    ck_assert(!text.truncated);
    return text.len;
}

START_TEST(a_body_that_comes_with_its_head_is_given_out_whole_and_the_rest_kept)
{
    char wire[256];
    const struct message *message = &MESSAGES[_i];
    bool last = false;
    send_bytes(wire, write_wire(message, wire, sizeof(wire)));
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    begin(message);
    ck_assert_int_eq(take_all(&last), INBOX_END);
    assert_taken(message->content);
    ck_assert(last == (message->content[0] != '\0'));
    ck_assert(inbox_end_message(&inbox));
    assert_head_bytes("next");
    ck_assert_uint_eq(body_pool.n_taken, 0);
}
END_TEST

START_TEST(a_body_that_comes_byte_by_byte_is_the_same)
{
    char wire[256];
    const struct message *message = &MESSAGES[_i];
    const size_t len = write_wire(message, wire, sizeof(wire));
    const size_t message_len = len - strlen("next");
    bool last = false;
    size_t sent = 0;
    while (head_len(inbox_head_bytes(&inbox)) == 0) {
        send_bytes(wire + sent++, 1);
        ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    }
    begin(message);
    while (sent < message_len) {
        ck_assert_int_eq(take_all(&last), INBOX_BLOCKED);
        ck_assert_uint_eq(body_pool.n_taken, inbox.body_block == NULL ? 0 : 1);
        send_bytes(wire + sent++, 1);
    }
    ck_assert_int_eq(take_all(&last), INBOX_END);
    assert_taken(message->content);
    ck_assert(inbox_end_message(&inbox));
    assert_head_bytes("");
    ck_assert_uint_eq(head_pool.n_taken, 0);
    ck_assert_uint_eq(body_pool.n_taken, 0);
    send_bytes(wire + message_len, len - message_len);
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    assert_head_bytes("next");
}
END_TEST

START_TEST(what_is_read_beyond_a_chunked_body_is_the_start_of_the_next_head)
{
    bool last = false;
    send_text("a\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_CHUNKED, 0);
    send_text("5\r\nhello\r\n0\r\n\r\nGET /next");
    ck_assert_int_eq(take_all(&last), INBOX_END);
    assert_taken("hello");
    ck_assert(last);
    ck_assert(inbox_has_bytes(&inbox));
    ck_assert(inbox_end_message(&inbox));
    assert_head_bytes("GET /next");
    ck_assert_uint_eq(body_pool.n_taken, 0);
}
END_TEST

/* A chunked read takes no more than a head's block can hold, whatever comes. */
START_TEST(as_much_as_a_head_block_may_be_read_beyond_a_chunked_body)
{
    char flood[2 * HEAD_BLOCK_BYTES];
    bool last = false;
    size_t n_next = 0;
    memset(flood, 'n', sizeof(flood));
    send_text("a\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_CHUNKED, 0);
    send_text("0\r\n\r\n");
    send_bytes(flood, sizeof(flood));
    ck_assert_int_eq(take_all(&last), INBOX_END);
    ck_assert(inbox_end_message(&inbox));
    n_next = inbox_head_bytes(&inbox).len;
    ck_assert_uint_eq(n_next, HEAD_BLOCK_BYTES - strlen("0\r\n\r\n"));
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    ck_assert_uint_eq(inbox_head_bytes(&inbox).len, HEAD_BLOCK_BYTES);
}
END_TEST

START_TEST(bytes_beyond_the_body_that_cannot_be_kept_are_reported)
{
    bool last = false;
    send_text("a\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_CHUNKED, 0);
    inbox_release_head(&inbox);
    send_text("5\r\nhello\r\n0\r\n\r\nGET /next");
    ck_assert_int_eq(take_all(&last), INBOX_END);
    inbox_release_head(&inbox);
    pool_close(&head_pool);
    pool_init(&head_pool, strlen("GET /nex"), 0);
    ck_assert(!inbox_end_message(&inbox));
    ck_assert(!inbox_has_bytes(&inbox));
    ck_assert_uint_eq(head_pool.n_taken, 0);
    ck_assert_uint_eq(body_pool.n_taken, 0);
}
END_TEST

START_TEST(a_body_of_known_length_is_never_read_beyond)
{
    char left[8];
    bool last = false;
    size_t n_read;
    send_text("a\r\n\r\nhel");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_LENGTH, 5);
    send_text("loNEXT");
    ck_assert_int_eq(take_all(&last), INBOX_END);
    assert_taken("hello");
    ck_assert(last);
    ck_assert_int_eq(stream_read(&stream, left, sizeof(left), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 4);
}
END_TEST

START_TEST(one_byte_behind_a_body_of_known_length_is_seen_if_it_is_looked_for)
{
    bool last = false;
    inbox.looks_beyond = true;
    send_text("a\r\n\r\nhel");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_LENGTH, 5);
    send_text("loSTRAY");
    ck_assert_int_eq(take_all(&last), INBOX_END);
    assert_taken("hello");
    ck_assert(last);
    ck_assert(inbox_has_bytes(&inbox));
}
END_TEST

START_TEST(a_body_until_close_ends_with_the_connection)
{
    bool last = true;
    send_text("a\r\n\r\nsome");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_UNTIL_CLOSE, 0);
    ck_assert_int_eq(take_all(&last), INBOX_BLOCKED);
    ck_assert(!last);
    send_text(" more");
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    ck_assert_int_eq(take_all(&last), INBOX_END);
    assert_taken("some more");
    ck_assert(!last);
}
END_TEST

/* --- what goes wrong --- */

static const struct message CUT[] = {
    {"a\r\n\r\n", BODY_LENGTH, 5, "hell", "hell"},
    {"a\r\n\r\n", BODY_CHUNKED, 0, "", ""},
    {"a\r\n\r\n", BODY_CHUNKED, 0, "5\r\nhel", "hel"},
    {"a\r\n\r\n", BODY_CHUNKED, 0, "5\r\nhello\r\n", "hello"},
    {"a\r\n\r\n", BODY_CHUNKED, 0, "0\r\n", ""},
};

START_TEST(a_connection_that_ends_before_the_body_is_told)
{
    bool last = false;
    send_text(CUT[_i].head);
    send_text(CUT[_i].body);
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    begin(&CUT[_i]);
    ck_assert_int_eq(take_all(&last), INBOX_CUT);
    assert_taken(CUT[_i].content);
    ck_assert(!last);
}
END_TEST

START_TEST(a_chunk_that_breaks_the_rules_is_told)
{
    bool last = false;
    send_text("a\r\n\r\nzz\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_CHUNKED, 0);
    ck_assert_int_eq(take_all(&last), INBOX_BAD);
    ck_assert_uint_eq(inbox.error.status, 400);
    ck_assert_ptr_nonnull(inbox.error.reason);
}
END_TEST

START_TEST(closing_in_mid_message_gives_all_blocks_back)
{
    struct span piece;
    bool last;
    send_text("a\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_LENGTH, 100);
    send_text("some");
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
    ck_assert_uint_eq(head_pool.n_taken, 1);
    ck_assert_uint_eq(body_pool.n_taken, 1);
    inbox_close(&inbox);
    ck_assert_uint_eq(head_pool.n_taken, 0);
    ck_assert_uint_eq(body_pool.n_taken, 0);
}
END_TEST

START_TEST(for_who_does_not_keep_up_little_is_read_at_a_time)
{
    struct span piece;
    bool last;
    send_text("a\r\n\r\n");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    ck_assert(!inbox_wants_large_block(&inbox)); /* no body yet */
    inbox_begin_body(&inbox, 5, BODY_LENGTH, 100);
    ck_assert(inbox_wants_large_block(&inbox));
    send_text("abcdefghijklmnopqrst");
    inbox.is_small = true;
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
    ck_assert_uint_eq(piece.len, SMALL_BLOCK_BYTES_HERE);
    ck_assert_uint_eq(small_pool.n_taken, 1);
    ck_assert_uint_eq(body_pool.n_taken, 0);
    inbox.is_small = false;
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
    ck_assert_uint_eq(piece.len, 20 - SMALL_BLOCK_BYTES_HERE);
    ck_assert_uint_eq(small_pool.n_taken, 0);
    ck_assert_uint_eq(body_pool.n_taken, 1);
    ck_assert(inbox_wants_large_block(&inbox));
    send_text("0123");
    inbox.left = SMALL_BLOCK_BYTES_HERE;
    ck_assert(!inbox_wants_large_block(&inbox)); /* a small one is enough for the rest */
}
END_TEST

START_TEST(a_head_that_nobody_needs_gives_its_block_back_in_mid_body)
{
    struct span piece;
    bool last;
    send_text("a\r\n\r\nbody");
    ck_assert_int_eq(inbox_read_head(&inbox), STREAM_DONE);
    inbox_begin_body(&inbox, 5, BODY_LENGTH, 100);
    inbox_release_head(&inbox);
    ck_assert_uint_eq(head_pool.n_taken, 1); /* the start of the body is in it */
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
    inbox_release_head(&inbox);
    ck_assert_uint_eq(head_pool.n_taken, 0);
    send_text("more");
    ck_assert_int_eq(inbox_next(&inbox, &piece, &last), INBOX_PIECE);
    ck_assert(span_equals(piece, SPAN("more")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/inbox");
    TCase *heads = tcase_create("heads");
    TCase *bodies = tcase_create("bodies");
    TCase *wrong = tcase_create("wrong");

    tcase_add_checked_fixture(heads, set_up, tear_down);
    tcase_add_test(heads, a_head_gathers_in_one_block_read_after_read);
    tcase_add_test(heads, heads_of_one_exchange_follow_each_other_through_one_block);
    tcase_add_test(heads, without_bytes_there_is_no_block);
    tcase_add_test(heads, a_head_that_fills_its_block_is_told_and_reads_no_more);
    tcase_add_test(heads, a_message_without_a_body_has_ended_with_its_head);
    suite_add_tcase(suite, heads);
    tcase_add_checked_fixture(bodies, set_up, tear_down);
    tcase_add_loop_test(bodies,
                        a_body_that_comes_with_its_head_is_given_out_whole_and_the_rest_kept, 0,
                        ARRAY_LEN(MESSAGES));
    tcase_add_loop_test(bodies, a_body_that_comes_byte_by_byte_is_the_same, 0, ARRAY_LEN(MESSAGES));
    tcase_add_test(bodies, for_who_does_not_keep_up_little_is_read_at_a_time);
    tcase_add_test(bodies, a_head_that_nobody_needs_gives_its_block_back_in_mid_body);
    tcase_add_test(bodies, what_is_read_beyond_a_chunked_body_is_the_start_of_the_next_head);
    tcase_add_test(bodies, as_much_as_a_head_block_may_be_read_beyond_a_chunked_body);
    tcase_add_test(bodies, bytes_beyond_the_body_that_cannot_be_kept_are_reported);
    tcase_add_test(bodies, a_body_of_known_length_is_never_read_beyond);
    tcase_add_test(bodies, one_byte_behind_a_body_of_known_length_is_seen_if_it_is_looked_for);
    tcase_add_test(bodies, a_body_until_close_ends_with_the_connection);
    suite_add_tcase(suite, bodies);
    tcase_add_checked_fixture(wrong, set_up, tear_down);
    tcase_add_loop_test(wrong, a_connection_that_ends_before_the_body_is_told, 0, ARRAY_LEN(CUT));
    tcase_add_test(wrong, a_chunk_that_breaks_the_rules_is_told);
    tcase_add_test(wrong, closing_in_mid_message_gives_all_blocks_back);
    suite_add_tcase(suite, wrong);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
