/* A request with a body that a server of HTTP/2 has not begun with goes to another one, whole. */

#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "one_exchange.h"
#include "proxy/core/body_buffer.h"
#include "support/iterations.h"

enum {
    PREFACE = 24,
    FRAME_HEAD = 9,
    PEER_BYTES = 256 * 1024,
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    GOAWAY = 7,
    WINDOW_UPDATE = 8,
    END_STREAM = 1,
    END_HEADERS = 4,
    CANCEL = 8,
    REFUSED = 7,
    MAX_BUFFERED_BLOCKS = 64,
    WINDOW = 16384,
    PATIENCE_US = 10000000,
};

static const char YAML[] = "listen: 127.0.0.1:1\n"
                           "log: off\n"
                           "max: {buffered: 512KiB}\n"
                           "upstreams:\n"
                           "  api:\n"
                           "    servers: ['h2c://127.0.0.1:PORT']\n"
                           "    buffer: {size: 16KiB, wait: 1ms, min_upload: off}\n"
                           "  off: {servers: ['h2c://127.0.0.1:PORT'], buffer: off}\n"
                           "limits: {one: {key: client.ip, rate: 100/s}}\n"
                           "routes:\n"
                           "- {match: {path: /off}, limits: [one], upstream: off}\n"
                           "- {limits: [one], upstream: api}\n";

/* The server's side of a connection. */
struct peer {
    int fd;
    uint8_t bytes[PEER_BYTES]; /* that were read and are no whole frame */
    size_t n_bytes;
    bool is_greeted;
    char body[PEER_BYTES];
    size_t n_body;
    unsigned n_heads;
    unsigned n_resets;
    bool is_ended; /* the request */
};

static struct peer first;
static struct peer second;
static char long_body[48 * 1024 + 1];

static void set_up(void)
{
    one_exchange_open(YAML);
    first.fd = second.fd = -1;
    for (size_t i = 0; i < sizeof(long_body) - 1; i++) {
        long_body[i] = (char)('a' + i % 23);
    }
}

static void tear_down(void)
{
    one_exchange_close();
    close(first.fd);
    close(second.fd);
}

static uint64_t buffered_bytes(void)
{
    return counter_read(&stage.worker.env.meters->buffered_bytes);
}

/* --- the server --- */

static void peer_send(struct peer *peer, unsigned type, unsigned flags, unsigned stream,
                      const void *payload, size_t len)
{
    uint8_t frame[64] = {0, 0, (uint8_t)len,   (uint8_t)type, (uint8_t)flags, 0,
                         0, 0, (uint8_t)stream};
    ck_assert_uint_le(len, sizeof(frame) - FRAME_HEAD);
    memcpy(frame + FRAME_HEAD, payload, len);
    ck_assert_int_eq(write(peer->fd, frame, FRAME_HEAD + len), (ssize_t)(FRAME_HEAD + len));
}

static void peer_open(struct peer *peer)
{
    memset(peer, 0, sizeof(*peer));
    peer->fd = server_accept(&stage);
    peer_send(peer, SETTINGS, 0, 0, "", 0);
}

static void take_frame(struct peer *peer, const uint8_t *frame, size_t len)
{
    const unsigned type = frame[3];
    if (type == DATA) {
        memcpy(peer->body + peer->n_body, frame + FRAME_HEAD, len);
        peer->n_body += len;
    }
    peer->n_heads += type == HEADERS;
    peer->n_resets += type == RST_STREAM;
    peer->is_ended = peer->is_ended || (type <= HEADERS && (frame[4] & END_STREAM) != 0);
}

static void drop(struct peer *peer, size_t n)
{
    memmove(peer->bytes, peer->bytes + n, peer->n_bytes - n);
    peer->n_bytes -= n;
}

static void take_frames(struct peer *peer)
{
    if (!peer->is_greeted && peer->n_bytes >= PREFACE) {
        peer->is_greeted = true;
        drop(peer, PREFACE);
    }
    while (peer->is_greeted && peer->n_bytes >= FRAME_HEAD) {
        const uint8_t *at = peer->bytes;
        const size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        if (peer->n_bytes < FRAME_HEAD + len) {
            break;
        }
        take_frame(peer, at, len);
        drop(peer, FRAME_HEAD + len);
    }
}

/* One turn. */
static void peer_turn(struct peer *peer)
{
    const ssize_t n = read(peer->fd, peer->bytes + peer->n_bytes, PEER_BYTES - peer->n_bytes);
    ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
    peer->n_bytes += n > 0 ? (size_t)n : 0;
    take_frames(peer);
    iterations_once(stage.worker.env.loop);
}

/* Until @n bytes of the body have come, and the head. */
static void await_body(struct peer *peer, size_t n)
{
    const uint64_t end_us = clock_monotonic_us() + PATIENCE_US;
    while (peer->n_heads == 0 || peer->n_body < n) {
        ck_assert_msg(clock_monotonic_us() < end_us, "%zu bytes of %zu came", peer->n_body, n);
        peer_turn(peer);
    }
}

/* The whole body is @expected. */
static void assert_body(struct peer *peer, const char *expected, size_t n)
{
    await_body(peer, n);
    for (unsigned i = 0; i < 100 && !peer->is_ended; i++) {
        peer_turn(peer);
    }
    ck_assert_uint_eq(peer->n_body, n);
    ck_assert_int_eq(memcmp(peer->body, expected, n), 0);
    ck_assert(peer->is_ended);
    ck_assert_uint_eq(peer->n_heads, 1);
}

/* No stream above @last was begun. */
static void go_away(struct peer *peer, unsigned last)
{
    const uint8_t payload[8] = {0, 0, 0, (uint8_t)last};
    peer_send(peer, GOAWAY, 0, 0, payload, sizeof(payload));
}

static void reset(struct peer *peer, unsigned code)
{
    const uint8_t payload[4] = {0, 0, 0, (uint8_t)code};
    peer_send(peer, RST_STREAM, 0, 1, payload, sizeof(payload));
}

static void open_window(struct peer *peer)
{
    const uint8_t payload[4] = {0, 0, 0, 1};
    peer_send(peer, WINDOW_UPDATE, 0, 1, payload, sizeof(payload));
}

static void answer(struct peer *peer)
{
    peer_send(peer, HEADERS, END_HEADERS | END_STREAM, 1, "\x88", 1); /* :status: 200 */
}

static void take_turns(void)
{
    for (unsigned i = 0; i < 20; i++) {
        iterations_once(stage.worker.env.loop);
    }
}

/* --- the client --- */

static void send_head(const char *path)
{
    char head[128];
    struct text text = text_of(head, sizeof(head) - 1);
    text_add_format(&text, "POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                    path);
    head[text.len] = '\0';
    client.body_comes_late = true;
    fake_client_send_head(&client, head);
    peer_open(&first);
    await_body(&first, 0);
}

static void send_piece(const char *body, bool is_last)
{
    fake_client_send_body(&client, body, is_last);
}

/* The second server answers: the request was decided once, and nothing is kept any more. */
static void assert_answered(void)
{
    answer(&second);
    await_end();
    assert_answer_starts("200 OK");
    ck_assert_uint_eq(stage.store.n_decisions, 1);
    ck_assert_uint_eq(buffered_bytes(), 0);
}

/* The request is not sent again. */
static void assert_lost(void)
{
    await_end();
    assert_answer_starts("502 ");
    server_assert_left_alone(&stage);
    ck_assert_uint_eq(buffered_bytes(), 0);
}

START_TEST(a_body_in_one_piece_is_sent_again_without_a_copy)
{
    send_head(_i == 0 ? "/" : "/off");
    send_piece("abcdef", true);
    assert_body(&first, "abcdef", 6);
    ck_assert_uint_eq(buffered_bytes(), 0);
    go_away(&first, 0);
    peer_open(&second);
    assert_body(&second, "abcdef", 6);
    assert_answered();
}
END_TEST

START_TEST(a_body_in_pieces_is_sent_again_and_what_follows_behind_it)
{
    send_head("/");
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    ck_assert_uint_eq(buffered_bytes(), SMALL_BLOCK_BYTES);
    send_piece("def", false);
    await_body(&first, 6);
    if (_i == 0) {
        go_away(&first, 0);
    } else {
        reset(&first, REFUSED);
    }
    peer_open(&second);
    await_body(&second, 6);
    take_turns();
    send_piece("ghi", true);
    assert_body(&second, "abcdefghi", 9);
    ck_assert_uint_eq(client.exchange->request_bytes, 9);
    assert_answered();
}
END_TEST

START_TEST(the_last_piece_is_sent_again_behind_the_others)
{
    send_head("/");
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    send_piece("def", true);
    assert_body(&first, "abcdef", 6);
    go_away(&first, 0);
    peer_open(&second);
    assert_body(&second, "abcdef", 6);
    assert_answered();
}
END_TEST

START_TEST(an_empty_body_is_sent_again)
{
    send_head("/");
    send_piece("", true);
    assert_body(&first, "", 0);
    go_away(&first, 0);
    peer_open(&second);
    assert_body(&second, "", 0);
    assert_answered();
}
END_TEST

/* What the server does before it refuses the stream. */
static void open_window_first(void)
{
    open_window(&first);
    while (buffered_bytes() > 0) {
        iterations_once(stage.worker.env.loop); /* at once */
    }
    go_away(&first, 0);
}

static void send_interim_first(void)
{
    peer_send(&first, HEADERS, END_HEADERS, 1,
              "\x08\x03"
              "103",
              5);
    while (buffered_bytes() > 0) {
        iterations_once(stage.worker.env.loop);
    }
    go_away(&first, 0);
}

static void cancel(void)
{
    reset(&first, CANCEL);
}

static void go_away_behind_it(void)
{
    go_away(&first, 1);
    take_turns();
    ck_assert(!client.is_over);
    close(first.fd);
    first.fd = -1;
}

static void just_close(void)
{
    close(first.fd);
    first.fd = -1;
}

static void (*const SIGNS[])(void) = {open_window_first, send_interim_first, cancel,
                                      go_away_behind_it, just_close};

START_TEST(what_the_server_may_have_begun_with_is_not_sent_again)
{
    send_head("/");
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    if (_i % 2 == 0) {
        send_piece("def", true);
        await_body(&first, 6);
    }
    SIGNS[_i / 2]();
    if (_i / 2 == 1) {
        await_end();
        ck_assert(answer_has("103 "));
        server_assert_left_alone(&stage);
        ck_assert_uint_eq(buffered_bytes(), 0);
    } else {
        assert_lost();
    }
}
END_TEST

START_TEST(a_window_that_opens_before_the_body_is_a_sign)
{
    send_head("/");
    open_window(&first);
    take_turns();
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    ck_assert_uint_eq(buffered_bytes(), 0);
    go_away(&first, 0);
    assert_lost();
}
END_TEST

START_TEST(a_piece_beyond_the_size_is_kept_until_the_server_has_taken_it)
{
    send_head("/");
    send_piece(long_body, false); /* 48 KiB, of which 16 are copied */
    await_body(&first, sizeof(long_body) - 1);
    take_turns();
    ck_assert_uint_eq(buffered_bytes(), 0);
    send_piece("end", true);
    await_body(&first, sizeof(long_body) + 2);
    go_away(&first, 0);
    assert_lost();
}
END_TEST

START_TEST(a_piece_beyond_the_size_that_waits_for_the_window_is_sent_again)
{
    static const uint8_t SMALL_WINDOW[6] = {0, 4, 0, 0, 0x40, 0}; /* 16 KiB */
    client.body_comes_late = true;
    fake_client_send_head(&client,
                          "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    peer_open(&first);
    peer_send(&first, SETTINGS, 0, 0, SMALL_WINDOW, sizeof(SMALL_WINDOW));
    await_body(&first, 0);
    take_turns();
    send_piece(long_body, false);
    await_body(&first, WINDOW);
    ck_assert_uint_eq(first.n_body, WINDOW);
    ck_assert_uint_eq(buffered_bytes(), WINDOW);
    go_away(&first, 0);
    peer_open(&second);
    await_body(&second, sizeof(long_body) - 1);
    take_turns();
    ck_assert_uint_eq(buffered_bytes(), 0);
    send_piece("", true);
    assert_body(&second, long_body, sizeof(long_body) - 1);
    assert_answered();
}
END_TEST

START_TEST(without_a_buffer_no_pieces_are_kept)
{
    send_head("/off");
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    ck_assert_uint_eq(buffered_bytes(), 0);
    go_away(&first, 0);
    assert_lost();
}
END_TEST

START_TEST(where_half_of_all_blocks_are_taken_a_body_passes_and_is_not_kept)
{
    atomic_fetch_add(&stage.shared.body_budget.n_blocks, MAX_BUFFERED_BLOCKS / 2);
    send_head("/");
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    ck_assert_uint_eq(buffered_bytes(), 0);
    send_piece("def", true);
    assert_body(&first, "abcdef", 6);
    go_away(&first, 0);
    assert_lost();
    atomic_fetch_sub(&stage.shared.body_budget.n_blocks, MAX_BUFFERED_BLOCKS / 2);
}
END_TEST

START_TEST(a_client_that_leaves_meanwhile_leaves_nothing_behind)
{
    send_head("/");
    send_piece("abc", false);
    await_body(&first, 3);
    take_turns();
    if (_i > 0) {
        go_away(&first, 0);
        peer_open(&second);
        if (_i > 1) {
            await_body(&second, 3);
        }
    }
    ck_assert_uint_gt(buffered_bytes(), 0);
    exchange_on_client_gone(client.exchange);
    ck_assert_uint_eq(buffered_bytes(), 0);
    struct peer *last = _i > 0 ? &second : &first;
    while (_i != 1 && last->n_resets == 0) {
        peer_turn(last);
    }
}
END_TEST

START_TEST(a_request_that_every_server_refuses_is_given_up)
{
    send_head("/");
    send_piece("abc", false);
    await_body(&first, 3);
    for (unsigned n = 1; !client.is_over; n++) {
        ck_assert_uint_lt(n, 6);
        reset(&first, REFUSED);
        take_turns();
        if (!client.is_over) {
            close(first.fd);
            peer_open(&first);
            await_body(&first, 3);
            ck_assert_int_eq(memcmp(first.body, "abc", 3), 0);
        }
    }
    assert_lost();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange_repeat");
    TCase *tests = tcase_create("exchange_repeat");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_body_in_one_piece_is_sent_again_without_a_copy, 0, 2);
    tcase_add_loop_test(tests, a_body_in_pieces_is_sent_again_and_what_follows_behind_it, 0, 2);
    tcase_add_test(tests, the_last_piece_is_sent_again_behind_the_others);
    tcase_add_test(tests, an_empty_body_is_sent_again);
    tcase_add_loop_test(tests, what_the_server_may_have_begun_with_is_not_sent_again, 0,
                        2 * (int)ARRAY_LEN(SIGNS));
    tcase_add_test(tests, a_window_that_opens_before_the_body_is_a_sign);
    tcase_add_test(tests, a_piece_beyond_the_size_is_kept_until_the_server_has_taken_it);
    tcase_add_test(tests, a_piece_beyond_the_size_that_waits_for_the_window_is_sent_again);
    tcase_add_test(tests, without_a_buffer_no_pieces_are_kept);
    tcase_add_test(tests, where_half_of_all_blocks_are_taken_a_body_passes_and_is_not_kept);
    tcase_add_loop_test(tests, a_client_that_leaves_meanwhile_leaves_nothing_behind, 0, 3);
    tcase_add_test(tests, a_request_that_every_server_refuses_is_given_up);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
