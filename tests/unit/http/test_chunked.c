#include "http/chunked.h"

#include <check.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/text.h"
#include "unit/http/span_assert.h"

enum { BODY_BYTES_MAX = 64 * 1024 };

/* What became of a body. */
struct outcome {
    enum parse_result result;
    size_t consumed; /* in all */
    unsigned status; /* with PARSE_BAD */
    char *content;
    size_t content_len;
};

/* Decode @piece in a block of its own size. */
static enum parse_result decode_piece(struct chunked_decoder *decoder, struct span piece,
                                      struct outcome *outcome)
{
    struct http_error error = {0};
    struct span content;
    size_t consumed;
    char *copy = malloc(piece.len > 0 ? piece.len : 1);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, piece.data, piece.len);
    const enum parse_result result =
        chunked_decode(decoder, copy, piece.len, &content, &consumed, &error);
    if (result == PARSE_BAD) {
        ck_assert_ptr_nonnull(error.reason);
        ck_assert_uint_eq(content.len, 0);
        outcome->status = error.status;
    } else {
        ck_assert(result == PARSE_DONE || consumed == piece.len);
        ck_assert_uint_le(outcome->content_len + content.len, BODY_BYTES_MAX);
        memcpy(outcome->content + outcome->content_len, content.data, content.len);
        outcome->content_len += content.len;
        outcome->consumed += consumed;
    }
    free(copy);
    return result;
}

/* Decode @body in pieces: the first of @first bytes, those after it of @step. */
static struct outcome decode(struct span body, size_t first, size_t step)
{
    struct outcome outcome = {.result = PARSE_PARTIAL, .content = malloc(BODY_BYTES_MAX)};
    struct chunked_decoder decoder;
    size_t at = 0;
    size_t len = first < body.len ? first : body.len;

    ck_assert_ptr_nonnull(outcome.content);
    chunked_decoder_init(&decoder);
    while (outcome.result == PARSE_PARTIAL) {
        outcome.result = decode_piece(&decoder, span_of(body.data + at, len), &outcome);
        at += len;
        if (at == body.len) {
            break;
        }
        len = step < body.len - at ? step : body.len - at;
    }
    return outcome;
}

static void check_same(struct outcome *got, const struct outcome *whole)
{
    ck_assert_int_eq(got->result, whole->result);
    if (whole->result == PARSE_BAD) {
        ck_assert_uint_eq(got->status, whole->status);
    } else {
        ck_assert_uint_eq(got->consumed, whole->consumed);
        ck_assert(span_equals(span_of(got->content, got->content_len),
                              span_of(whole->content, whole->content_len)));
    }
    free(got->content);
}

/* Decode @body whole, at every split and byte by byte: all say the same. The content is the
 * caller's to free. */
static struct outcome decode_every_way(struct span body)
{
    struct outcome whole = decode(body, body.len, body.len);
    struct outcome bytes = decode(body, 1, 1);

    check_same(&bytes, &whole);
    for (size_t split = 0; split <= body.len && body.len < 2000; split++) {
        struct outcome two = decode(body, split, body.len);
        check_same(&two, &whole);
    }
    return whole;
}

static void expect_content(struct span body, const char *content, size_t n_behind)
{
    struct outcome outcome = decode_every_way(body);

    ck_assert_int_eq(outcome.result, PARSE_DONE);
    ck_assert_uint_eq(outcome.consumed, body.len - n_behind);
    ck_assert_span_eq(span_of(outcome.content, outcome.content_len), content);
    free(outcome.content);
}

static unsigned status_of(struct span body)
{
    struct outcome outcome = decode_every_way(body);

    ck_assert_msg(outcome.result == PARSE_BAD, "%.*s", SPAN_ARGS(body));
    free(outcome.content);
    return outcome.status;
}

START_TEST(chunks_are_put_together)
{
    expect_content(SPAN("0\r\n\r\n"), "", 0);
    expect_content(SPAN("5\r\nhello\r\n0\r\n\r\n"), "hello", 0);
    expect_content(SPAN("5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n000\r\n\r\n"), "hello world", 0);
    expect_content(SPAN("A\r\n0123456789\r\n00b\r\n0123456789a\r\n0\r\n\r\n"),
                   "01234567890123456789a", 0);
    expect_content(SPAN("4\r\n\r\n\r\n\r\n0\r\n\r\n"), "\r\n\r\n", 0);
}
END_TEST

START_TEST(what_is_behind_the_end_is_not_consumed)
{
    expect_content(SPAN("1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), "a", 16);
    expect_content(SPAN("0\r\n\r\n0\r\n\r\n"), "", 5);
}
END_TEST

START_TEST(content_is_one_run_within_the_data)
{
    char data[] = "1;x\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n4\r\ngh";
    struct chunked_decoder decoder;
    struct http_error error;
    struct span content;
    size_t consumed;

    chunked_decoder_init(&decoder);
    ck_assert_int_eq(chunked_decode(&decoder, data, sizeof(data) - 1, &content, &consumed, &error),
                     PARSE_PARTIAL);
    ck_assert_span_eq(content, "abcdefgh");
    ck_assert_ptr_eq(content.data, data + 5);
    ck_assert_uint_eq(decoder.chunk_left, 2);
}
END_TEST

START_TEST(rule_29_a_chunk_size_does_not_wrap)
{
    ck_assert_uint_eq(status_of(SPAN("8000000000000000\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("FFFFFFFFFFFFFFFF\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("10000000000000000\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("10000000000000005\r\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("00000000000000005\r\nhello\r\n")), 400);
    expect_content(SPAN("0000000000000005\r\nhello\r\n0\r\n\r\n"), "hello", 0);

    struct outcome outcome = decode_every_way(SPAN("7FFFFFFFFFFFFFFF\r\nab"));
    ck_assert_int_eq(outcome.result, PARSE_PARTIAL);
    ck_assert_uint_eq(outcome.content_len, 2);
    free(outcome.content);
}
END_TEST

static const char *const BAD_SIZES[] = {
    "\r\n\r\n",        "g\r\n",           "0x5\r\nhello\r\n", "+5\r\nhello\r\n", "-1\r\n",
    " 5\r\nhello\r\n", "5 \r\nhello\r\n", "5\nhello\r\n",     "5\rhello",        "5\t\r\nhello",
    "5 5\r\n",         ";a\r\n",          "5,\r\n",           "5.0\r\n",         "\xd9\xa5\r\n",
};

START_TEST(a_chunk_size_is_hexadecimal_digits_alone)
{
    ck_assert_uint_eq(status_of(span_of_text(BAD_SIZES[_i])), 400);
}
END_TEST

START_TEST(rule_30_extensions_are_dropped)
{
    expect_content(SPAN("5;a\r\nhello\r\n0;b=c\r\n\r\n"), "hello", 0);
    expect_content(SPAN("5 \t; a = \"b;\\\" c\" ; d\r\nhello\r\n0\r\n\r\n"), "hello", 0);
    expect_content(SPAN("1;a=\xff\r\nb\r\n0\r\n\r\n"), "b", 0);
}
END_TEST

START_TEST(rule_30_malformed_extensions_are_refused)
{
    ck_assert_uint_eq(status_of(SPAN("5;\r\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5;a\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5;a\rb\r\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5;a\0\r\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5;=b\r\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5;;a\r\nhello\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5;a=\"\r\n\"\r\nhello\r\n")), 400);
}
END_TEST

/* One chunk of one byte whose line has @line_bytes. */
static void add_long_line(struct text *text, size_t line_bytes)
{
    text_add_literal(text, "1;");
    for (size_t i = 4; i < line_bytes; i++) {
        text_add_char(text, 'x');
    }
    text_add_literal(text, "\r\na\r\n");
}

START_TEST(rule_30_a_chunk_line_is_bounded)
{
    char buffer[1024];
    struct text text = text_of(buffer, sizeof(buffer));

    add_long_line(&text, CHUNK_LINE_BYTES_MAX);
    text_add(&text, CHUNKED_END);
    expect_content(text_span(&text), "a", 0);
    text.len = 0;
    add_long_line(&text, CHUNK_LINE_BYTES_MAX + 1);
    text_add(&text, CHUNKED_END);
    ck_assert_uint_eq(status_of(text_span(&text)), 400);
}
END_TEST

START_TEST(rule_30_the_extensions_of_a_body_are_bounded_together)
{
    char buffer[16 * 1024];
    struct text text = text_of(buffer, sizeof(buffer));
    const size_t n_lines = CHUNK_EXT_BYTES_MAX / 100;

    for (size_t i = 0; i < n_lines; i++) {
        add_long_line(&text, 100);
    }
    text_add(&text, CHUNKED_END);
    struct outcome outcome = decode_every_way(text_span(&text));
    ck_assert_int_eq(outcome.result, PARSE_DONE);
    ck_assert_uint_eq(outcome.content_len, n_lines);
    free(outcome.content);
    text.len -= CHUNKED_END.len;
    for (size_t i = 0; i < 4; i++) {
        add_long_line(&text, 100);
    }
    text_add(&text, CHUNKED_END);
    ck_assert_uint_eq(status_of(text_span(&text)), 400);
}
END_TEST

START_TEST(rule_31_chunk_data_ends_in_crlf_where_its_size_says)
{
    ck_assert_uint_eq(status_of(SPAN("5\r\nhello0\r\n\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5\r\nhello!\r\n0\r\n\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5\r\nhello\n0\r\n\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5\r\nhello\r0\r\n\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5\r\nhell\r\n0\r\n\r\n")), 400);
    ck_assert_uint_eq(status_of(SPAN("5\r\nhello\r\n\r\n0\r\n\r\n")), 400);
}
END_TEST

START_TEST(rule_32_trailers_are_dropped)
{
    expect_content(SPAN("1\r\na\r\n0\r\nContent-Length: 5\r\nX: \xff\t y\r\nHost:\r\n\r\nnext"),
                   "a", 4);
}
END_TEST

START_TEST(rule_32_trailers_are_kept_as_they_come_where_they_are_wanted)
{
    static const char BODY[] = "1\r\na\r\n0\r\nA: b\r\nC:d\r\n\r\nnext";
    static const char SECTION[] = "A: b\r\nC:d\r\n\r\n";
    char kept[TRAILER_BYTES_MAX];
    struct chunked_decoder decoder;
    chunked_decoder_init(&decoder);
    decoder.trailers = kept;
    enum parse_result result = PARSE_PARTIAL;
    for (size_t i = 0; result == PARSE_PARTIAL; i++) { /* byte by byte */
        char byte = BODY[i];
        struct span content;
        size_t consumed;
        struct http_error error;
        result = chunked_decode(&decoder, &byte, 1, &content, &consumed, &error);
    }
    ck_assert_int_eq(result, PARSE_DONE);
    ck_assert_uint_eq(decoder.trailer_bytes, strlen(SECTION));
    ck_assert_int_eq(memcmp(kept, SECTION, strlen(SECTION)), 0);
}
END_TEST

static const char *const BAD_TRAILERS[] = {
    "0\r\n\n",
    "0\r\n\r\r\n",
    "0\r\nA: b\n\r\n",
    "0\r\nA: b\rC: d\r\n\r\n",
    "0\r\n A: b\r\n",
    "0\r\nA: b\r\n c\r\n\r\n",
    "0\r\nA : b\r\n\r\n",
    "0\r\n: b\r\n\r\n",
    "0\r\nA\r\n\r\n",
    "0\r\nA: \x01\r\n\r\n",
    "0\r\nA: \x7f\r\n\r\n",
    "0\r\n\xe4: b\r\n\r\n",
    "0\r\n(A): b\r\n\r\n",
};

START_TEST(rule_32_malformed_trailers_are_refused)
{
    ck_assert_uint_eq(status_of(span_of_text(BAD_TRAILERS[_i])), 400);
}
END_TEST

START_TEST(rule_32_trailers_are_bounded)
{
    static char buffer[TRAILER_BYTES_MAX + 64];
    struct text text = text_of(buffer, sizeof(buffer));

    text_add_literal(&text, "0\r\nA:");
    for (size_t i = 0; i < TRAILER_BYTES_MAX - 6; i++) {
        text_add_char(&text, 'b');
    }
    text_add_literal(&text, "\r\n\r\n");
    expect_content(text_span(&text), "", 0);
    text.len -= 4;
    text_add_literal(&text, "b\r\n\r\n");
    ck_assert_uint_eq(status_of(text_span(&text)), 431);
}
END_TEST

START_TEST(rule_33_a_body_cut_short_is_never_done)
{
    const struct span body = SPAN("5;a\r\nhello\r\n0\r\nA: b\r\n\r\n");

    for (size_t len = 0; len < body.len; len++) {
        struct outcome outcome = decode(span_of(body.data, len), len, 1);
        ck_assert_int_eq(outcome.result, PARSE_PARTIAL);
        free(outcome.content);
    }
}
END_TEST

START_TEST(a_body_that_is_over_stays_as_it_ended)
{
    struct chunked_decoder decoder;
    struct outcome outcome = {.content = (char[8]){0}};

    chunked_decoder_init(&decoder);
    ck_assert_int_eq(decode_piece(&decoder, SPAN("0\r\n\r\n"), &outcome), PARSE_DONE);
    ck_assert_int_eq(decode_piece(&decoder, SPAN("1\r\na\r\n"), &outcome), PARSE_DONE);
    ck_assert_uint_eq(outcome.consumed, 5);
    chunked_decoder_init(&decoder);
    ck_assert_int_eq(decode_piece(&decoder, SPAN("x"), &outcome), PARSE_BAD);
    ck_assert_int_eq(decode_piece(&decoder, SPAN("0\r\n\r\n"), &outcome), PARSE_BAD);
}
END_TEST

START_TEST(a_chunk_line_is_written_as_it_is_read)
{
    static const struct {
        uint64_t bytes;
        const char *line;
    } rows[] = {
        {1, "1\r\n"},
        {15, "f\r\n"},
        {16, "10\r\n"},
        {65536, "10000\r\n"},
        {UINT64_MAX, "ffffffffffffffff\r\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char buffer[CHUNK_HEAD_BYTES_MAX];
        const size_t len = chunked_write_head(buffer, rows[i].bytes);
        ck_assert_span_eq(span_of(buffer, len), rows[i].line);
    }
}
END_TEST

static Suite *chunked_suite(void)
{
    Suite *suite = suite_create("http/chunked");

    TCase *chunks = tcase_create("chunks");
    tcase_add_test(chunks, chunks_are_put_together);
    tcase_add_test(chunks, what_is_behind_the_end_is_not_consumed);
    tcase_add_test(chunks, content_is_one_run_within_the_data);
    tcase_add_test(chunks, rule_29_a_chunk_size_does_not_wrap);
    tcase_add_loop_test(chunks, a_chunk_size_is_hexadecimal_digits_alone, 0,
                        (int)ARRAY_LEN(BAD_SIZES));
    tcase_add_test(chunks, rule_31_chunk_data_ends_in_crlf_where_its_size_says);
    tcase_add_test(chunks, rule_33_a_body_cut_short_is_never_done);
    tcase_add_test(chunks, a_body_that_is_over_stays_as_it_ended);
    tcase_add_test(chunks, a_chunk_line_is_written_as_it_is_read);
    suite_add_tcase(suite, chunks);

    TCase *rest = tcase_create("extensions and trailers");
    tcase_add_test(rest, rule_30_extensions_are_dropped);
    tcase_add_test(rest, rule_30_malformed_extensions_are_refused);
    tcase_add_test(rest, rule_30_a_chunk_line_is_bounded);
    tcase_add_test(rest, rule_30_the_extensions_of_a_body_are_bounded_together);
    tcase_add_test(rest, rule_32_trailers_are_dropped);
    tcase_add_test(rest, rule_32_trailers_are_kept_as_they_come_where_they_are_wanted);
    tcase_add_loop_test(rest, rule_32_malformed_trailers_are_refused, 0,
                        (int)ARRAY_LEN(BAD_TRAILERS));
    tcase_add_test(rest, rule_32_trailers_are_bounded);
    suite_add_tcase(suite, rest);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(chunked_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
