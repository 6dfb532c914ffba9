#include "http/head_parts.h"

#include <check.h>
#include <stdlib.h>

#include "base/text.h"
#include "unit/http/head_runner.h"

#define GET(fields) "GET / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"

START_TEST(rule_11_a_few_empty_lines_before_a_request_are_skipped)
{
    enum parse_result result;
    size_t consumed;
    const struct span four = SPAN("\r\n\r\n\r\n\r\n" GET(""));
    const struct head *head = runner_parse(RUNNER_REQUEST, four, &result, &consumed);

    ck_assert_int_eq(result, PARSE_DONE);
    ck_assert_uint_eq(consumed, four.len);
    ck_assert_span_eq(head->method, "GET");
    ck_assert_uint_eq(BAD_REQUEST("\r\n\r\n\r\n\r\n\r\n" GET("")), 400);
    ck_assert_uint_eq(BAD_REQUEST("\n" GET("")), 400);
    ck_assert_uint_eq(BAD_REQUEST("\r" GET("")), 400);
}
END_TEST

START_TEST(rule_12_white_space_before_the_first_field_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n"), 400);
}
END_TEST

START_TEST(rule_13_a_bare_cr_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST("GET /\ra HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\rHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A: b\rC: d\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A: b\r\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A\r: b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n"), 400);
}
END_TEST

START_TEST(rule_14_a_bare_lf_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A: b\nContent-Length: 5\r\n")), 400);
}
END_TEST

START_TEST(rule_15_a_space_before_the_colon_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(GET("A : b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A\t: b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("Content-Length : 5\r\n")), 400);
}
END_TEST

START_TEST(rule_16_a_name_that_is_no_token_is_refused)
{
    static const char others[] = "\"(),/:;<=>?@[\\]{}\x80\xff\x01\x7f ";

    for (size_t i = 0; i < sizeof(others); i++) {
        char message[] = GET("ab: c\r\n");
        *strstr(message, "ab:") = others[i];
        ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(message, sizeof(message) - 1)), 400);
        char later[] = GET("ab: c\r\n");
        strstr(later, "ab:")[1] = others[i];
        if (others[i] != ':') {
            ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(later, sizeof(later) - 1)), 400);
        }
    }
    ck_assert_uint_eq(BAD_REQUEST(GET(": b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("no colon\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("nocolon\r\n")), 400);
}
END_TEST

START_TEST(rule_16_every_token_is_a_name)
{
    ck_assert_span_eq(GOOD_REQUEST(GET("!#$%&'*+-.^_`|~09azAZ: b\r\n"))->fields[1].name,
                      "!#$%&'*+-.^_`|~09azAZ");
}
END_TEST

/* At every place within a word of eight, since octets are looked at by the word. */
START_TEST(rule_17_controls_in_a_value_are_refused_wherever_they_stand)
{
    for (unsigned octet = 0; octet < 256; octet++) {
        for (size_t place = 0; place < 20; place++) {
            char message[] = GET("A: 12345678901234567890\r\n");
            char *value = strstr(message, "12345");
            const bool is_good = octet == '\t' || (octet >= 0x20 && octet != 0x7f);
            value[place] = (char)octet;
            struct field fields[2];
            struct head_parser parser = {
                .fields = fields, .n_fields_max = 2, .head_bytes_max = sizeof(message)};
            struct head head;
            size_t consumed;
            ck_assert_int_eq(head_parse_request(&parser, span_of(message, sizeof(message) - 1),
                                                &head, &consumed),
                             is_good ? PARSE_DONE : PARSE_BAD);
        }
    }
}
END_TEST

START_TEST(rule_18_a_folded_line_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(GET("A: b\r\n c\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A: b\r\n\tc\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A:\r\n b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("Transfer-Encoding:\r\n chunked\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("A: b\r\n \r\n")), 400);
}
END_TEST

#define TEXT(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct span BAD_LINES[] = {
    TEXT("A\r\nB: \r\r\n\r\n"), TEXT("A\r\nB: \0c\r\n\r\n"),     TEXT("A\r\nB: \x7f\r\n\r\n"),
    TEXT("A\r\nB: c\n\r\n"),    TEXT("A\r\n: c\r\n\r\n"),        TEXT("A\r\n B: c\r\n\r\n"),
    TEXT("A\x01\r\n\r\n"),      TEXT("A\r\nB: c\r\n d\r\n\r\n"),
};

START_TEST(rules_13_to_18_are_held_by_the_scan_alone)
{
    const struct span data = BAD_LINES[_i];
    struct head_parser parser = {.head_bytes_max = 64};
    struct head_lines lines;
    struct http_error error;

    ck_assert_int_eq(head_scan(&parser, data, 0, 64, &lines, &error), PARSE_BAD);
    ck_assert_uint_eq(error.status, 400);
}
END_TEST

START_TEST(a_head_is_cut_into_its_start_line_and_its_field_lines)
{
    const struct span data = SPAN("\r\nA\r\nB: c\r\nD:\r\n\r\nbody\r\n");
    struct field fields[1];
    struct head_parser parser = {.fields = fields, .n_fields_max = 1, .head_bytes_max = 64};
    struct head_lines lines;
    struct http_error error;

    ck_assert_int_eq(head_scan(&parser, data, 2, 64, &lines, &error), PARSE_DONE);
    ck_assert_span_eq(lines.start_line, "A");
    ck_assert_uint_eq(parser.n_lines, 2);
    ck_assert_span_eq(fields[0].value, "B: c");
    ck_assert_uint_eq(lines.end, 17);
}
END_TEST

/* A request whose target has @target_bytes and whose one field has @value_bytes. */
static struct span make_request(char *buffer, size_t target_bytes, size_t value_bytes)
{
    struct text text = text_of(buffer, 64 * 1024);

    text_add_literal(&text, "GET /");
    for (size_t i = 1; i < target_bytes; i++) {
        text_add_char(&text, 'a');
    }
    text_add_literal(&text, " HTTP/1.0\r\nA: ");
    for (size_t i = 0; i < value_bytes; i++) {
        text_add_char(&text, 'a');
    }
    text_add_literal(&text, "\r\n\r\n");
    return text_span(&text);
}

/* Parse @data at once and in pieces of @step; both say the same. */
static enum parse_result parse_in_steps(struct span data, size_t head_bytes_max, size_t step,
                                        unsigned *status)
{
    struct field fields[4];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = 4, .head_bytes_max = head_bytes_max};
    struct head head;
    size_t consumed;
    enum parse_result result = PARSE_PARTIAL;

    for (size_t len = step; result == PARSE_PARTIAL && len < data.len + step; len += step) {
        const size_t given = len < data.len ? len : data.len;
        result = head_parse_request(&parser, span_of(data.data, given), &head, &consumed);
    }
    *status = head.error.status;
    return result;
}

static const struct {
    const char *says;
    size_t target_bytes;
    size_t value_bytes;
    size_t head_bytes_max;
    unsigned status; /* 0: good */
} SIZES[] = {
    {"a target as long as may be", TARGET_BYTES_MAX, 10, 65536, 0},
    {"a target longer than may be", TARGET_BYTES_MAX + 1, 10, 65536, 414},
    {"a target longer than any line", TARGET_BYTES_MAX * 2, 10, 65536, 414},
    {"a target that fills the head", 600, 10, 500, 414},
    {"a field that fills the head", 10, 600, 500, 431},
    {"a head as long as may be", 10, 10, 10 + 10 + 22, 0},
    {"a head one byte too long", 10, 11, 10 + 10 + 22, 431},
};

START_TEST(rule_19_sizes_are_bounded_however_the_bytes_come)
{
    static const size_t steps[] = {1, 7, 1000, 65536};
    static char buffer[64 * 1024];
    const struct span data = make_request(buffer, SIZES[_i].target_bytes, SIZES[_i].value_bytes);

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        unsigned status;
        const enum parse_result result =
            parse_in_steps(data, SIZES[_i].head_bytes_max, steps[i], &status);
        ck_assert_msg(status == SIZES[_i].status, "%s: %u", SIZES[_i].says, status);
        ck_assert_int_eq(result, status == 0 ? PARSE_DONE : PARSE_BAD);
    }
}
END_TEST

START_TEST(rule_08_a_line_without_end_is_refused_for_what_is_long)
{
    static char line[64 * 1024];
    unsigned status;

    memset(line, 'A', sizeof(line));
    ck_assert_int_eq(parse_in_steps(span_of(line, sizeof(line)), 65536, 1, &status), PARSE_BAD);
    ck_assert_uint_eq(status, 501);
    line[3] = ' ';
    ck_assert_int_eq(parse_in_steps(span_of(line, sizeof(line)), 65536, 1, &status), PARSE_BAD);
    ck_assert_uint_eq(status, 414);
    line[2] = '\x80';
    ck_assert_int_eq(parse_in_steps(span_of(line, sizeof(line)), 65536, 1, &status), PARSE_BAD);
    ck_assert_uint_eq(status, 400);
}
END_TEST

START_TEST(a_slow_client_has_each_byte_looked_at_once)
{
    struct field fields[4];
    struct head_parser parser = {.fields = fields, .n_fields_max = 4, .head_bytes_max = 1024};
    const struct span data = SPAN("\r\nGET / HTTP/1.1\r\nHost: a\r\nA: b");
    struct head head;
    size_t consumed;

    for (size_t len = 3; len <= data.len; len++) {
        ck_assert_int_eq(head_parse_request(&parser, span_of(data.data, len), &head, &consumed),
                         PARSE_PARTIAL);
        const bool is_cr_last = data.data[len - 1] == '\r'; /* looked at again with its LF */
        ck_assert_uint_eq(parser.scanned, is_cr_last ? len - 1 : len);
    }
    ck_assert_uint_eq(parser.line_start, data.len - 4);
}
END_TEST

START_TEST(requests_behind_one_another_are_parsed_with_one_parser)
{
    struct field fields[4];
    struct head_parser parser = {.fields = fields, .n_fields_max = 4, .head_bytes_max = 1024};
    struct span data = SPAN("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
                            "\r\nGET /2 HTTP/1.1\r\nHost: b\r\nC: d\r\n\r\nGET /3");
    struct head head;
    size_t consumed;

    ck_assert_int_eq(head_parse_request(&parser, data, &head, &consumed), PARSE_DONE);
    ck_assert_span_eq(head.target.path, "/1");
    data = span_of(data.data + consumed, data.len - consumed);
    ck_assert_int_eq(head_parse_request(&parser, data, &head, &consumed), PARSE_DONE);
    ck_assert_span_eq(head.target.path, "/2");
    ck_assert_uint_eq(head.n_fields, 2);
    data = span_of(data.data + consumed, data.len - consumed);
    ck_assert_int_eq(head_parse_request(&parser, data, &head, &consumed), PARSE_PARTIAL);
}
END_TEST

static Suite *head_scan_suite(void)
{
    Suite *suite = suite_create("http/head_scan");

    TCase *lines = tcase_create("lines");
    tcase_add_test(lines, rule_11_a_few_empty_lines_before_a_request_are_skipped);
    tcase_add_test(lines, rule_12_white_space_before_the_first_field_is_refused);
    tcase_add_test(lines, rule_13_a_bare_cr_is_refused);
    tcase_add_test(lines, rule_14_a_bare_lf_is_refused);
    tcase_add_test(lines, rule_15_a_space_before_the_colon_is_refused);
    tcase_add_test(lines, rule_16_a_name_that_is_no_token_is_refused);
    tcase_add_test(lines, rule_16_every_token_is_a_name);
    tcase_add_test(lines, rule_17_controls_in_a_value_are_refused_wherever_they_stand);
    tcase_add_test(lines, rule_18_a_folded_line_is_refused);
    tcase_add_loop_test(lines, rules_13_to_18_are_held_by_the_scan_alone, 0,
                        (int)ARRAY_LEN(BAD_LINES));
    tcase_add_test(lines, a_head_is_cut_into_its_start_line_and_its_field_lines);
    suite_add_tcase(suite, lines);

    TCase *sizes = tcase_create("sizes");
    tcase_add_loop_test(sizes, rule_19_sizes_are_bounded_however_the_bytes_come, 0,
                        (int)ARRAY_LEN(SIZES));
    tcase_add_test(sizes, rule_08_a_line_without_end_is_refused_for_what_is_long);
    tcase_add_test(sizes, a_slow_client_has_each_byte_looked_at_once);
    tcase_add_test(sizes, requests_behind_one_another_are_parsed_with_one_parser);
    suite_add_tcase(suite, sizes);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(head_scan_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
