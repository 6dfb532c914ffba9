#include "http/head_builder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/span_assert.h"

START_TEST(a_status_line_has_the_registered_phrase_or_none)
{
    char buffer[128];
    struct text text = text_of(buffer, sizeof(buffer));

    message_write_status_line(&text, 429);
    message_write_status_line(&text, 299);
    ck_assert_span_eq(text_span(&text), "HTTP/1.1 429 Too Many Requests\r\nHTTP/1.1 299 \r\n");
    ck_assert_span_eq(message_reason(200), "OK");
    ck_assert_span_eq(message_reason(999), "");
}
END_TEST

START_TEST(the_status_line_of_every_status_says_its_number_and_its_phrase)
{
    for (uint16_t status = 100; status <= 599; status++) {
        char buffer[128];
        char expected[128];
        struct text text = text_of(buffer, sizeof(buffer));
        const struct span phrase = message_reason(status);
        const int len = snprintf(expected, sizeof(expected), "HTTP/1.1 %u %.*s\r\n",
                                 (unsigned)status, SPAN_ARGS(phrase));
        message_write_status_line(&text, status);
        ck_assert(!text.truncated);
        ck_assert_uint_eq(text.len, (size_t)len);
        ck_assert_mem_eq(buffer, expected, text.len);
    }
}
END_TEST

START_TEST(fields_are_written_a_line_each)
{
    char buffer[128];
    struct text text = text_of(buffer, sizeof(buffer));

    message_write_field(&text, SPAN("Via"), SPAN("1.1 sluice"));
    message_write_field(&text, SPAN("X-Empty"), SPAN(""));
    message_write_field_u64(&text, SPAN("Content-Length"), UINT64_MAX);
    ck_assert_span_eq(text_span(&text),
                      "Via: 1.1 sluice\r\nX-Empty: \r\nContent-Length: 18446744073709551615\r\n");
    ck_assert(!text.truncated);
}
END_TEST

START_TEST(what_does_not_fit_is_remembered)
{
    char buffer[8];
    struct text text = text_of(buffer, sizeof(buffer));

    message_write_field(&text, SPAN("Via"), SPAN("1.1 sluice"));
    ck_assert(text.truncated);
}
END_TEST

static const char HEAD[] = "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nX-Dropped: 2\r\nX-Tab:\t3\r\n"
                           "X-Wide:  4\r\nX-Blank: 5 \r\nX-Empty: \r\nX-None:\r\nX-Last: 6\r\n\r\n";

/* Write the fields of HEAD but for X-Dropped, with one of our own before the last of them. */
static void write_run(struct text *text)
{
    struct field fields[16];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = ARRAY_LEN(fields), .head_bytes_max = sizeof(HEAD)};
    struct head head;
    size_t consumed;
    const struct field own = {.name = SPAN("X-Own"), .value = SPAN("7")};
    struct line_run run = line_run_begin(text);

    ck_assert_int_eq(head_parse_request(&parser, span_of(HEAD, sizeof(HEAD) - 1), &head, &consumed),
                     PARSE_DONE);
    for (size_t i = 0; i < head.n_fields; i++) {
        if (i == head.n_fields - 1) {
            line_run_add(&run, &own);
        }
        if (!span_equals(fields[i].name, SPAN("X-Dropped"))) {
            line_run_add(&run, &fields[i]);
        }
    }
    line_run_end(&run);
}

START_TEST(received_lines_are_copied_and_others_are_written_anew)
{
    char buffer[256];
    struct text text = text_of(buffer, sizeof(buffer));

    write_run(&text);
    ck_assert_span_eq(text_span(&text),
                      "Host: a\r\nX-One: 1\r\nX-Tab: 3\r\nX-Wide: 4\r\nX-Blank: 5\r\n"
                      "X-Empty: \r\nX-None: \r\nX-Own: 7\r\nX-Last: 6\r\n");
    ck_assert(!text.truncated);
}
END_TEST

START_TEST(lines_that_do_not_fit_are_remembered)
{
    char buffer[64];
    for (size_t capacity = 0; capacity < sizeof(buffer); capacity++) {
        struct text text = text_of(buffer, capacity);
        write_run(&text);
        ck_assert(text.truncated);
    }
}
END_TEST

static const struct {
    uint64_t wall_s;
    const char *date;
} DATES[] = {
    {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
    {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
    {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
    {1763667890, "Thu, 20 Nov 2025 19:44:50 GMT"},
    {UINT64_C(253402300799), "Fri, 31 Dec 9999 23:59:59 GMT"},
    {UINT64_MAX / 1000000, "Fri, 31 Dec 9999 23:59:59 GMT"},
};

START_TEST(a_date_is_an_imf_fixdate)
{
    char buffer[MESSAGE_DATE_BYTES];

    message_write_date(buffer, DATES[_i].wall_s * 1000000);
    ck_assert_span_eq(span_of(buffer, sizeof(buffer)), DATES[_i].date);
}
END_TEST

static Suite *message_suite(void)
{
    Suite *suite = suite_create("http/message");

    TCase *write = tcase_create("write");
    tcase_add_test(write, a_status_line_has_the_registered_phrase_or_none);
    tcase_add_test(write, the_status_line_of_every_status_says_its_number_and_its_phrase);
    tcase_add_test(write, fields_are_written_a_line_each);
    tcase_add_test(write, what_does_not_fit_is_remembered);
    tcase_add_test(write, received_lines_are_copied_and_others_are_written_anew);
    tcase_add_test(write, lines_that_do_not_fit_are_remembered);
    tcase_add_loop_test(write, a_date_is_an_imf_fixdate, 0, (int)ARRAY_LEN(DATES));
    suite_add_tcase(suite, write);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(message_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
