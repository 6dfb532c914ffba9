#include "proxy/core/sender.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/text.h"

static char wire[256];

/* All slices as the kernel would send them. */
static const char *joined(const struct iovec *slices, int n_slices)
{
    struct text text = text_of(wire, sizeof(wire) - 1);
    for (int i = 0; i < n_slices; i++) {
        text_add(&text, span_of(slices[i].iov_base, slices[i].iov_len));
    }
    ck_assert(!text.truncated);
    wire[text.len] = '\0';
    return wire;
}

static const struct {
    const char *piece;
    bool is_chunked;
    bool last;
    const char *wire;
    int n_slices;
} PIECES[] = {
    {"hello", false, false, "hello", 1},
    {"hello", false, true, "hello", 1},
    {"", false, false, "", 0},
    {"", false, true, "", 0},
    {"hello", true, false, "5\r\nhello\r\n", 3},
    {"hello", true, true, "5\r\nhello\r\n0\r\n\r\n", 3},
    {"0123456789abcdef", true, false, "10\r\n0123456789abcdef\r\n", 3},
    {"", true, true, "0\r\n\r\n", 1},
    {"", true, false, "", 0}, /* an empty chunk would end the body */
};

START_TEST(a_piece_is_framed_as_its_body_wants)
{
    struct iovec slices[4];
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    const struct span piece = span_of_text(PIECES[_i].piece);
    const int n = sender_frame(slices, 0, PIECES[_i].is_chunked ? chunk_head : NULL, &piece, 1,
                               PIECES[_i].last, SPAN(""));
    ck_assert_int_eq(n, PIECES[_i].n_slices);
    ck_assert_str_eq(joined(slices, n), PIECES[_i].wire);
}
END_TEST

START_TEST(trailers_stand_behind_the_last_chunk)
{
    struct iovec slices[8];
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    const struct span body = SPAN("body");
    int n = sender_frame(slices, 0, chunk_head, &body, 1, true, SPAN("A: b\r\n"));
    ck_assert_str_eq(joined(slices, n), "4\r\nbody\r\n0\r\nA: b\r\n\r\n");
    n = sender_frame(slices, 0, chunk_head, NULL, 0, true, SPAN("A: b\r\n"));
    ck_assert_str_eq(joined(slices, n), "0\r\nA: b\r\n\r\n");
    n = sender_frame(slices, 0, chunk_head, &body, 1, true, SPAN(""));
    ck_assert_str_eq(joined(slices, n), "4\r\nbody\r\n0\r\n\r\n");
}
END_TEST

START_TEST(a_piece_follows_what_is_there_and_is_not_copied)
{
    char head[] = "head ";
    struct iovec slices[8] = {{.iov_base = head, .iov_len = strlen(head)}};
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    const struct span piece = SPAN("body");
    const int n = sender_frame(slices, 1, chunk_head, &piece, 1, true, SPAN(""));
    ck_assert_str_eq(joined(slices, n), "head 4\r\nbody\r\n0\r\n\r\n");
    ck_assert_ptr_eq(slices[2].iov_base, piece.data);
    ck_assert_ptr_eq(slices[1].iov_base, chunk_head);
}
END_TEST

START_TEST(several_pieces_are_one_chunk_and_fit_into_one_write)
{
    const struct span pieces[SENDER_PIECES_MAX] = {SPAN("ab"), SPAN(""), SPAN("cde"), SPAN("f"),
                                                   SPAN("g")};
    struct iovec slices[STREAM_SLICES_MAX];
    char chunk_head[CHUNK_HEAD_BYTES_MAX];
    int n = sender_frame(slices, 1, chunk_head, pieces, SENDER_PIECES_MAX, true, SPAN(""));
    ck_assert_int_lt(n, STREAM_SLICES_MAX);
    ck_assert_str_eq(joined(slices + 1, n - 1), "7\r\nabcdefg\r\n0\r\n\r\n");
    n = sender_frame(slices, 1, NULL, pieces, SENDER_PIECES_MAX, true, SPAN(""));
    ck_assert_str_eq(joined(slices + 1, n - 1), "abcdefg");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/sender");
    TCase *all = tcase_create("framing");

    tcase_add_loop_test(all, a_piece_is_framed_as_its_body_wants, 0, ARRAY_LEN(PIECES));
    tcase_add_test(all, trailers_stand_behind_the_last_chunk);
    tcase_add_test(all, a_piece_follows_what_is_there_and_is_not_copied);
    tcase_add_test(all, several_pieces_are_one_chunk_and_fit_into_one_write);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
