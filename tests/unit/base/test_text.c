#include "base/text.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static char buffer[256];

static struct text empty_text(void)
{
    return text_of(buffer, sizeof(buffer));
}

static void assert_text(const struct text *text, const char *expected)
{
    ck_assert_msg(span_equals(text_span(text), span_of_text(expected)), "'%.*s' is not '%s'",
                  SPAN_ARGS(text_span(text)), expected);
}

START_TEST(what_does_not_fit_is_left_out_as_a_whole)
{
    struct text text = text_of(buffer, 4);

    text_add_literal(&text, "abc");
    text_add_literal(&text, "de");
    ck_assert(text.truncated);
    assert_text(&text, "abc");
    text_add_char(&text, 'd');
    assert_text(&text, "abcd");
    text_add_char(&text, 'e');
    text_add(&text, span_of(NULL, 0));
    assert_text(&text, "abcd");
}
END_TEST

static void add_number(struct text *text)
{
    text_add_i64(text, -123);
}

static void add_digits(struct text *text)
{
    text_add_u64(text, 1234);
}

static void add_hex(struct text *text)
{
    text_add_hex(text, (const uint8_t *)"\x01\x02", 2);
}

static void add_format(struct text *text)
{
    text_add_format(text, "%d", 1234);
}

static void add_json(struct text *text)
{
    text_add_json(text, SPAN("ab"));
}

static void add_logfmt(struct text *text)
{
    text_add_logfmt(text, SPAN("\\="));
}

static void add_printable(struct text *text)
{
    text_add_printable(text, SPAN("\n"));
}

static void (*const WRITERS[])(struct text *text) = {
    add_number, add_digits, add_hex, add_format, add_json, add_printable,
};

START_TEST(each_writer_fits_in_exactly_its_bytes_and_not_in_one_less)
{
    struct text text = text_of(buffer, 4);

    WRITERS[_i](&text);
    ck_assert(!text.truncated);
    ck_assert_uint_eq(text.len, 4);
    text = text_of(buffer, 3);
    WRITERS[_i](&text);
    ck_assert(text.truncated);
    ck_assert_uint_eq(text.len, 0);
    text = text_of(buffer, 0);
    WRITERS[_i](&text);
    ck_assert(text.truncated);
    ck_assert_uint_eq(text.len, 0);
}
END_TEST

START_TEST(a_quoted_logfmt_value_fits_as_a_whole_or_not_at_all)
{
    struct text text = text_of(buffer, 5);

    add_logfmt(&text);
    assert_text(&text, "\"\\\\=\"");
    text = text_of(buffer, 4);
    add_logfmt(&text);
    ck_assert(text.truncated);
    ck_assert_uint_eq(text.len, 0);
}
END_TEST

START_TEST(numbers_are_plain_decimal)
{
    struct text text = empty_text();

    text_add_u64(&text, 0);
    text_add_char(&text, ' ');
    text_add_u64(&text, UINT64_MAX);
    text_add_char(&text, ' ');
    text_add_i64(&text, INT64_MIN);
    text_add_char(&text, ' ');
    text_add_i64(&text, INT64_MAX);
    text_add_char(&text, ' ');
    text_add_i64(&text, 0);
    assert_text(&text, "0 18446744073709551615 -9223372036854775808 9223372036854775807 0");
}
END_TEST

/* As printf writes it, into exactly its bytes and not into one less. */
static void assert_number(uint64_t value)
{
    char expected[32];
    const size_t n = (size_t)snprintf(expected, sizeof(expected), "%" PRIu64, value);
    struct text text = text_of(buffer, n);
    text_add_u64(&text, value);
    ck_assert(!text.truncated);
    assert_text(&text, expected);
    text = text_of(buffer, n - 1);
    text_add_u64(&text, value);
    ck_assert(text.truncated);
    ck_assert_uint_eq(text.len, 0);
    if (value <= INT64_MAX) {
        (void)snprintf(expected, sizeof(expected), "%" PRId64, -(int64_t)value);
        text = empty_text();
        text_add_i64(&text, -(int64_t)value);
        assert_text(&text, expected);
    }
}

START_TEST(numbers_of_each_length_are_as_printf_writes_them)
{
    for (uint64_t value = 0; value < 10000; value++) {
        assert_number(value);
    }
    for (uint64_t power = 10000; power <= UINT64_MAX / 10; power *= 10) {
        assert_number(power - 1);
        assert_number(power);
        assert_number(power + 1);
    }
    const uint64_t largest_power = UINT64_C(10000000000000000000);
    assert_number(largest_power - 1);
    assert_number(largest_power);
    assert_number(largest_power + 1);
    assert_number(UINT64_MAX);
}
END_TEST

START_TEST(hexadecimal_is_lower_case_with_two_digits_a_byte)
{
    struct text text = empty_text();

    text_add_hex(&text, (const uint8_t *)"\x00\x0f\xab\xff", 4);
    assert_text(&text, "000fabff");
    for (unsigned octet = 0; octet < 256; octet++) {
        const uint8_t byte = (uint8_t)octet;
        char expected[3];
        (void)snprintf(expected, sizeof(expected), "%02x", octet);
        text = empty_text();
        text_add_hex(&text, &byte, 1);
        assert_text(&text, expected);
    }
}
END_TEST

struct escape {
    const char *raw;
    size_t len;
    const char *escaped;
};

#define ESCAPE(raw, escaped)                                                                       \
    {                                                                                              \
        (raw), sizeof(raw) - 1, (escaped)                                                          \
    }

static const struct escape JSON[] = {
    ESCAPE("", "\"\""),
    ESCAPE("plain", "\"plain\""),
    ESCAPE("\"\\/", "\"\\\"\\\\/\""),
    ESCAPE("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""),
    ESCAPE("\x01\x1f\x00\x7f", "\"\\u0001\\u001f\\u0000\\u007f\""),
    ESCAPE("\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x8c", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x8c\""),
    ESCAPE("a\xffz", "\"a\xef\xbf\xbdz\""),
    ESCAPE("\xc3", "\"\xef\xbf\xbd\""),
    ESCAPE("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    ESCAPE("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\"\\u061c\\u200e\\u200f\""),
    ESCAPE("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf",
           "\"\xe2\x80\xa7\\u2028\\u202e\xe2\x80\xaf\""),
    ESCAPE("\xe2\x81\x9f\xe2\x81\xa0\xe2\x81\xaf\xe2\x81\xb0",
           "\"\xe2\x81\x9f\\u2060\\u206f\xe2\x81\xb0\""),
    ESCAPE("\xef\xbb\xbf\xc2\x85\xef\xbb\xbe", "\"\\ufeff\\u0085\xef\xbb\xbe\""),
};

START_TEST(json_strings_hold_any_byte_safely)
{
    struct text text = empty_text();

    text_add_json(&text, span_of(JSON[_i].raw, JSON[_i].len));
    assert_text(&text, JSON[_i].escaped);
}
END_TEST

static const struct escape LOGFMT[] = {
    ESCAPE("timeout", "timeout"),
    ESCAPE("127.0.0.1:80/x?y", "127.0.0.1:80/x?y"),
    ESCAPE("", "\"\""),
    ESCAPE("link lost", "\"link lost\""),
    ESCAPE("a=b", "\"a=b\""),
    ESCAPE("say \"hi\"\\", "\"say \\\"hi\\\"\\\\\""),
    ESCAPE("x\nlevel=error", "\"x\\x0alevel=error\""),
    ESCAPE("\x00\x1b\x7f", "\"\\x00\\x1b\\x7f\""),
    ESCAPE("\xff", "\"\\xff\""),
    ESCAPE("\xc3\xa4", "\"\xc3\xa4\""),
    ESCAPE("\xc2\x9b\x32J", "\"\\xc2\\x9b2J\""),
    ESCAPE("\xc2\xa0", "\"\xc2\xa0\""),
    ESCAPE("\xd8\x9c\xd8\x9d", "\"\\xd8\\x9c\xd8\x9d\""),
    ESCAPE("\xe2\x80\xae\xe2\x80\xaf", "\"\\xe2\\x80\\xae\xe2\x80\xaf\""),
    ESCAPE("\xe2\x81\xa6\xef\xbb\xbf", "\"\\xe2\\x81\\xa6\\xef\\xbb\\xbf\""),
};

START_TEST(logfmt_values_stay_one_value_on_one_line)
{
    struct text text = empty_text();

    text_add_logfmt(&text, span_of(LOGFMT[_i].raw, LOGFMT[_i].len));
    assert_text(&text, LOGFMT[_i].escaped);
    ck_assert_int_eq(text_is_plain_word(span_of(LOGFMT[_i].raw, LOGFMT[_i].len)),
                     LOGFMT[_i].escaped[0] != '"');
}
END_TEST

/* Each is no character, or is one byte too long or short: every byte of it is escaped. */
static const char *const NOT_UTF8[] = {
    "\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
    "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
    "\xff",         "\xc2",         "\xe1\x80",         "\xf1\x80\x80",     "\xfe\x80",
};

START_TEST(malformed_utf8_is_escaped_byte_by_byte)
{
    struct span raw = span_of_text(NOT_UTF8[_i]);
    struct text text = empty_text();

    text_add_printable(&text, raw);
    ck_assert_uint_eq(text.len, 4 * raw.len);
    ck_assert(span_starts_with(text_span(&text), SPAN("\\x")));
}
END_TEST

static const char *const UTF8[] = {
    "\xc2\xa0",     "\xdf\xbf",     "\xe0\xa0\x80",     "\xed\x9f\xbf",
    "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
};

START_TEST(the_edges_of_utf8_are_printable)
{
    struct text text = empty_text();

    text_add_printable(&text, span_of_text(UTF8[_i]));
    assert_text(&text, UTF8[_i]);
}
END_TEST

static const struct {
    uint64_t us;
    const char *written;
} TIMES[] = {
    {0, "0ms"},
    {1, "1ms"},
    {999 * 1000, "999ms"},
    {999 * 1000 + 1, "1s"},
    {12 * 1000 * 1000 + 345 * 1000, "12.4s"},
    {59 * 1000 * 1000 + 999 * 1000, "1m"},
    {59 * 1000 * 1000 + 900 * 1000, "59.9s"},
    {60 * 1000 * 1000, "1m"},
    {UINT64_C(3599) * 1000 * 1000 + 1, "1h"},
    {UINT64_C(3661) * 1000 * 1000, "1h02m"},
    {UINT64_C(86400) * 1000 * 1000, "1d"},
    {UINT64_C(90001) * 1000 * 1000, "1d02h"},
    {UINT64_MAX, "213503982d09h"},
};

START_TEST(a_time_is_told_in_two_units_and_never_too_short)
{
    struct text text = empty_text();

    text_add_time(&text, TIMES[_i].us);
    assert_text(&text, TIMES[_i].written);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/text");
    TCase *writers = tcase_create("writers");
    TCase *escapers = tcase_create("escapers");

    tcase_add_test(writers, what_does_not_fit_is_left_out_as_a_whole);
    tcase_add_loop_test(writers, each_writer_fits_in_exactly_its_bytes_and_not_in_one_less, 0,
                        ARRAY_LEN(WRITERS));
    tcase_add_test(writers, a_quoted_logfmt_value_fits_as_a_whole_or_not_at_all);
    tcase_add_test(writers, numbers_are_plain_decimal);
    tcase_add_test(writers, numbers_of_each_length_are_as_printf_writes_them);
    tcase_add_test(writers, hexadecimal_is_lower_case_with_two_digits_a_byte);
    tcase_add_loop_test(writers, a_time_is_told_in_two_units_and_never_too_short, 0,
                        ARRAY_LEN(TIMES));
    tcase_add_loop_test(escapers, json_strings_hold_any_byte_safely, 0, ARRAY_LEN(JSON));
    tcase_add_loop_test(escapers, logfmt_values_stay_one_value_on_one_line, 0, ARRAY_LEN(LOGFMT));
    tcase_add_loop_test(escapers, malformed_utf8_is_escaped_byte_by_byte, 0, ARRAY_LEN(NOT_UTF8));
    tcase_add_loop_test(escapers, the_edges_of_utf8_are_printable, 0, ARRAY_LEN(UTF8));
    suite_add_tcase(suite, writers);
    suite_add_tcase(suite, escapers);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
