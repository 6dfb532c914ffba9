/* What the encoder writes is read by libnghttp2's decoder: the same lines, whatever was sent before
 * and however the table is resized. */

#include "http2/hpack_encoder.h"

#include <check.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES_MAX = 64 * 1024, LINES_MAX = 16 };

struct line {
    struct span name, value;
};

static struct hpack_encoder encoder;
static nghttp2_hd_inflater *decoder;
static char block[BLOCK_BYTES_MAX];

static void set_up(void)
{
    hpack_encoder_init(&encoder, true);
    ck_assert_int_eq(nghttp2_hd_inflate_new(&decoder), 0);
}

static void tear_down(void)
{
    hpack_encoder_free(&encoder);
    nghttp2_hd_inflate_del(decoder);
}

static bool is_lower_of(const uint8_t *name, struct span sent)
{
    for (size_t i = 0; i < sent.len; i++) {
        if ((char)name[i] != ascii_lower(sent.data[i])) {
            return false;
        }
    }
    return true;
}

/* Encode and decode. Returns the length of the block; *@n_never: lines that must not be indexed. */
static size_t pass(const struct line *lines, size_t n, size_t *n_never)
{
    char *end = hpack_encode_begin(&encoder, block);
    for (size_t i = 0; i < n; i++) {
        char *begin = end;
        end = hpack_encode_line(&encoder, end, lines[i].name, lines[i].value);
        ck_assert_uint_le((size_t)(end - begin),
                          lines[i].name.len + lines[i].value.len + HPACK_LINE_BYTES);
    }
    const size_t len = (size_t)(end - block);
    const uint8_t *in = (const uint8_t *)block;
    size_t n_read = 0;
    *n_never = 0;
    for (int flags = 0; (flags & NGHTTP2_HD_INFLATE_FINAL) == 0;) {
        nghttp2_nv line;
        flags = 0;
        const ssize_t used =
            nghttp2_hd_inflate_hd2(decoder, &line, &flags, in, (size_t)((uint8_t *)end - in), 1);
        ck_assert_msg(used >= 0, "%s", nghttp2_strerror((int)used));
        in += used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            ck_assert_uint_lt(n_read, n);
            const struct line *sent = &lines[n_read++];
            ck_assert_uint_eq(line.namelen, sent->name.len);
            ck_assert(is_lower_of(line.name, sent->name));
            ck_assert_uint_eq(line.valuelen, sent->value.len);
            ck_assert(memcmp(line.value, sent->value.data, sent->value.len) == 0);
            *n_never += (line.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0;
        }
    }
    nghttp2_hd_inflate_end_headers(decoder);
    ck_assert_uint_eq(n_read, n);
    return len;
}

#define LINE(name, value)                                                                          \
    {                                                                                              \
        SPAN(name), SPAN(value)                                                                    \
    }

START_TEST(a_line_that_comes_again_is_a_byte)
{
    const struct line lines[] = {
        LINE(":status", "200"),
        LINE("Server", "nginx/1.22.1"),
        LINE("X-Some-Name-Of-Nobody", "the same"),
    };
    size_t n_never;
    const size_t first = pass(lines, ARRAY_LEN(lines), &n_never);
    ck_assert_uint_le(pass(lines, ARRAY_LEN(lines), &n_never), first); /* now they are indexed */
    ck_assert_uint_eq(pass(lines, ARRAY_LEN(lines), &n_never), ARRAY_LEN(lines));
}
END_TEST

START_TEST(values_that_change_leave_the_table_alone)
{
    size_t n_never;
    for (unsigned i = 0; i < 1000; i++) {
        char digits[16];
        const int n = snprintf(digits, sizeof(digits), "%u", i);
        const struct line lines[] = {LINE("date", "Sat"), {SPAN("x"), span_of(digits, (size_t)n)}};
        (void)pass(lines, ARRAY_LEN(lines), &n_never);
    }
    ck_assert_uint_eq(encoder.n_inserted, 1);
}
END_TEST

START_TEST(secrets_are_never_indexed)
{
    static char token[2000];
    memset(token, 't', sizeof(token));
    const struct line lines[] = {
        LINE("Authorization", "Bearer x"),
        LINE("cookie", "a=b"),
        LINE("Set-Cookie", "a=b"),
        LINE("proxy-authorization", "x"),
        {SPAN("authorization"), span_of(token, sizeof(token))},
    };
    size_t n_never;
    for (unsigned i = 0; i < 3; i++) {
        (void)pass(lines, ARRAY_LEN(lines), &n_never);
        ck_assert_uint_eq(n_never, ARRAY_LEN(lines));
    }
    ck_assert_uint_eq(encoder.n_inserted, 0);
}
END_TEST

START_TEST(without_a_table_each_block_stands_for_itself)
{
    const struct line lines[] = {LINE(":method", "GET"), LINE("x-api-key", "one"),
                                 LINE("user-agent", "curl/8")};
    size_t n_never;
    hpack_encoder_init(&encoder, false);
    const size_t first = pass(lines, ARRAY_LEN(lines), &n_never);
    for (int i = 0; i < 3; i++) {
        nghttp2_hd_inflate_del(decoder); /* one that has read no other block */
        ck_assert_int_eq(nghttp2_hd_inflate_new(&decoder), 0);
        ck_assert_uint_eq(pass(lines, ARRAY_LEN(lines), &n_never), first);
    }
    hpack_encoder_resize(&encoder, 0);
    nghttp2_hd_inflate_change_table_size(decoder, 0); /* which the next block is to answer */
    ck_assert_uint_eq(pass(lines, ARRAY_LEN(lines), &n_never), first + 1);
    ck_assert_uint_eq(encoder.n, 0);
}
END_TEST

START_TEST(long_lines_and_empty_ones)
{
    static char letters[20000];
    memset(letters, 'A', sizeof(letters));
    const struct line lines[] = {
        {span_of(letters, 300), SPAN("")},
        {SPAN("x"), span_of(letters, sizeof(letters))},
        {SPAN("y"), span_of(letters, 255)},
        {span_of(letters, 64), span_of(letters, 192)},
        LINE("z", ""),
        LINE(":path", ""),
    };
    size_t n_never;
    for (unsigned i = 0; i < 4; i++) {
        (void)pass(lines, ARRAY_LEN(lines), &n_never);
    }
}
END_TEST

/* Lines of few names and values, so that many come again, with tables of all sizes. */
START_TEST(any_lines_in_any_table)
{
    static const char *const NAMES[] = {":status", ":method", "date",      "Content-Type", "etag",
                                        "cookie",  "VIA",     "x-request", "link",         "q"};
    uint32_t seed = 1;
    char text[200];
    for (unsigned i = 0; i < 20000; i++) {
        struct line lines[LINES_MAX];
        size_t n_never;
        size_t n = 0;
        size_t used = 0;
        seed = seed * 1664525 + 1013904223;
        for (uint32_t bits = seed >> 8; n < 1 + (seed >> 28) / 2; bits = bits * 69069 + 1) {
            const char *name = NAMES[(bits >> 4) % ARRAY_LEN(NAMES)];
            const int len = snprintf(text + used, 16, "%u", (bits >> 9) % 40);
            lines[n++] = (struct line){span_of_text(name), span_of(text + used, (size_t)len)};
            used += (size_t)len;
        }
        if (i % 500 == 0) {
            /* Only what the decoder was told to take: it grants the table. */
            const uint32_t bytes = i % 1000 == 0 ? (seed >> 12) % 6000 : 4096;
            ck_assert_int_eq(nghttp2_hd_inflate_change_table_size(decoder, bytes), 0);
            hpack_encoder_resize(&encoder, bytes);
        }
        (void)pass(lines, n, &n_never);
        ck_assert_uint_le(encoder.size, encoder.capacity);
    }
}
END_TEST

START_TEST(a_table_that_shrinks_and_grows_between_blocks)
{
    const struct line lines[] = {LINE("a", "b"), LINE("c", "d")};
    size_t n_never;
    for (unsigned i = 0; i < 3; i++) {
        (void)pass(lines, ARRAY_LEN(lines), &n_never);
    }
    ck_assert_int_eq(nghttp2_hd_inflate_change_table_size(decoder, 0), 0);
    ck_assert_int_eq(nghttp2_hd_inflate_change_table_size(decoder, 100), 0);
    hpack_encoder_resize(&encoder, 0);
    ck_assert_uint_eq(hpack_encoder_memory(&encoder), 0);
    hpack_encoder_resize(&encoder, 100);
    for (unsigned i = 0; i < 3; i++) {
        (void)pass(lines, ARRAY_LEN(lines), &n_never);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http2/hpack_encoder");
    TCase *tcase = tcase_create("hpack_encoder");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_line_that_comes_again_is_a_byte);
    tcase_add_test(tcase, values_that_change_leave_the_table_alone);
    tcase_add_test(tcase, secrets_are_never_indexed);
    tcase_add_test(tcase, without_a_table_each_block_stands_for_itself);
    tcase_add_test(tcase, long_lines_and_empty_ones);
    tcase_add_test(tcase, any_lines_in_any_table);
    tcase_add_test(tcase, a_table_that_shrinks_and_grows_between_blocks);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
