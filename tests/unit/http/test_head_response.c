#include "http/head.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/head_runner.h"

#define OK(fields) "HTTP/1.1 200 OK\r\n" fields "\r\n"

START_TEST(a_response_is_split_into_its_parts)
{
    const struct head *head = GOOD_RESPONSE(
        "HTTP/1.1 404 Not \xc3\xa4 Found\r\nContent-Length: 3\r\nSet-Cookie: a\r\n\r\n");
    ck_assert_uint_eq(head->status, 404);
    ck_assert_span_eq(head->reason, "Not \xc3\xa4 Found");
    ck_assert_int_eq(head->body, BODY_LENGTH);
    ck_assert_uint_eq(head->content_length, 3);
    ck_assert(head->keep_alive);
}
END_TEST

START_TEST(a_reason_may_be_empty_or_missing)
{
    ck_assert_span_eq(GOOD_RESPONSE("HTTP/1.1 200 \r\n\r\n")->reason, "");
    ck_assert_span_eq(GOOD_RESPONSE("HTTP/1.1 200\r\n\r\n")->reason, "");
    ck_assert_uint_eq(GOOD_RESPONSE("HTTP/1.0 599 x\r\n\r\n")->status, 599);
}
END_TEST

static const char *const BAD_FRAMING[] = {
    OK("Content-Length: x\r\n"),
    OK("Content-Length: -1\r\n"),
    OK("Content-Length:\r\n"),
    OK("Content-Length: 5, 5\r\n"),
    OK("Content-Length: 5\r\nContent-Length: 5\r\n"),
    OK("Content-Length: 18446744073709551617\r\n"),
    OK("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
    OK("Transfer-Encoding: gzip\r\n"),
    OK("Transfer-Encoding: gzip, chunked\r\n"),
    OK("Transfer-Encoding: chunked, chunked\r\n"),
    OK("Transfer-Encoding:\r\n"),
    OK("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
};

START_TEST(rule_36_invalid_framing_is_bad)
{
    ck_assert_uint_eq(runner_bad(RUNNER_RESPONSE, span_of_text(BAD_FRAMING[_i])), 502);
    ck_assert_uint_eq(runner_bad(RUNNER_ANSWER_TO_HEAD, span_of_text(BAD_FRAMING[_i])), 502);
}
END_TEST

START_TEST(rule_37_a_folded_line_is_bad)
{
    ck_assert_uint_eq(BAD_RESPONSE(OK("A: b\r\n c\r\n")), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK(" A: b\r\n")), 502);
}
END_TEST

START_TEST(lines_are_held_to_the_discipline_of_requests)
{
    ck_assert_uint_eq(BAD_RESPONSE("HTTP/1.1 200 OK\n\r\n"), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK("A: b\n")), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK("A: b\rC: d\r\n")), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK("A : b\r\n")), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK(": b\r\n")), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK("A: \0\r\n")), 502);
    ck_assert_uint_eq(BAD_RESPONSE("\r\n" OK("")), 502);
    ck_assert_uint_eq(BAD_RESPONSE(OK("1:\r\n2:\r\n3:\r\n4:\r\n5:\r\n6:\r\n7:\r\n8:\r\n9:\r\n")),
                      431);
}
END_TEST

START_TEST(what_a_client_may_have_sent_is_told_from_what_is_no_http)
{
    static const struct {
        const char *message;
        bool is_in_value;
    } ROWS[] = {
        {OK("A: \x01\r\n"), true},
        {OK("A: b\x7f\r\n"), true},
        {OK("A: b\rc\r\n"), true},
        {OK("A: b\nc\r\n"), true},
        {"HTTP/1.1 404 No \x02\r\n\r\n", true},
        {OK("A\x01: b\r\n"), false},
        {OK("\x01: b\r\n"), false},
        {OK("A: b\r\n c\r\n"), false},
        {OK("A b\r\n"), false},
        {"HTTP/1.1 200 OK\n\r\n", false},
        {"SSH-2.0-\x01\r\n", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        enum parse_result result;
        size_t consumed;
        const struct head *head =
            runner_parse(RUNNER_RESPONSE, span_of_text(ROWS[i].message), &result, &consumed);
        ck_assert_int_eq(result, PARSE_BAD);
        ck_assert_msg(head->error.is_in_value == ROWS[i].is_in_value, "%zu", i);
    }
}
END_TEST

static const struct {
    enum runner_kind kind;
    const char *start_line;
} BODYLESS[] = {
    {RUNNER_ANSWER_TO_HEAD, "HTTP/1.1 200 OK"},
    {RUNNER_RESPONSE, "HTTP/1.1 204 No Content"},
    {RUNNER_RESPONSE, "HTTP/1.1 304 Not Modified"},
    {RUNNER_RESPONSE, "HTTP/1.1 100 Continue"},
    {RUNNER_RESPONSE, "HTTP/1.1 103 Early Hints"},
    {RUNNER_RESPONSE, "HTTP/1.1 101 Switching Protocols"},
};

START_TEST(rule_38_no_body_whatever_the_fields_say)
{
    static const char *const fields[] = {"", "Content-Length: 5\r\n",
                                         "Transfer-Encoding: chunked\r\n"};

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        char message[128];
        snprintf(message, sizeof(message), "%s\r\n%s\r\n", BODYLESS[_i].start_line, fields[i]);
        const struct head *head = runner_good(BODYLESS[_i].kind, message);
        ck_assert_int_eq(head->body, BODY_NONE);
        ck_assert(head->keep_alive);
    }
}
END_TEST

START_TEST(rule_38_what_a_bodyless_answer_announces_is_kept)
{
    const struct head *head = runner_good(RUNNER_ANSWER_TO_HEAD, OK("Content-Length: 5\r\n"));
    ck_assert(head->has_content_length);
    ck_assert_uint_eq(head->content_length, 5);
    ck_assert(!head_find(head, FIELD_CONTENT_LENGTH)->hop_by_hop);
}
END_TEST

START_TEST(rule_39_framing_is_not_sent_on_with_1xx_and_204)
{
    static const char *const messages[] = {
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
        ck_assert(runner_good(RUNNER_RESPONSE, messages[i])->fields[0].hop_by_hop);
    }
}
END_TEST

START_TEST(rule_41_a_body_without_framing_lasts_until_the_close)
{
    const struct head *head = GOOD_RESPONSE(OK("Connection: keep-alive\r\n"));
    ck_assert_int_eq(head->body, BODY_UNTIL_CLOSE);
    ck_assert(!head->keep_alive);
    ck_assert_int_eq(GOOD_RESPONSE(OK("Content-Length: 0\r\n"))->body, BODY_NONE);
    ck_assert_int_eq(GOOD_RESPONSE(OK("Transfer-Encoding: chunked\r\n"))->body, BODY_CHUNKED);
}
END_TEST

static const char *const BAD_STATUS_LINES[] = {
    "HTTP/1.1 99 x",    "HTTP/1.1 600 x", "HTTP/1.1 20 x",   "HTTP/1.1 2000 x",  "HTTP/1.1 20x x",
    "HTTP/1.1 +20 x",   "HTTP/1.1  200",  "HTTP/1.1 200\tx", "HTTP/1.1 200OK",   "HTTP/1.1",
    "HTTP/1.1 ",        "HTTP/1.1200 OK", "HTTP/2.0 200 x",  "HTTP/1 200 OK",    "http/1.1 200 OK",
    "ICY 200 OK",       "HTTP/1.1 000 x", "HTTP/1.1 -99 x",  "HTTP/1.1\t200 OK", "200 OK",
    " HTTP/1.1 200 OK", "HTTP/1.1 2 0 x",
};

START_TEST(rule_43_a_status_other_than_three_digits_is_bad)
{
    char message[128];
    const int len = snprintf(message, sizeof(message), "%s\r\n\r\n", BAD_STATUS_LINES[_i]);
    ck_assert_uint_eq(runner_bad(RUNNER_RESPONSE, span_of(message, (size_t)len)), 502);
}
END_TEST

START_TEST(rule_43_a_second_status_line_is_bad)
{
    ck_assert_uint_eq(BAD_RESPONSE("HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\n\r\n"), 502);
}
END_TEST

START_TEST(rule_57_and_58_hold_for_responses)
{
    ck_assert(!GOOD_RESPONSE(OK("Content-Length: 0\r\nConnection: a, Close\r\n"))->keep_alive);
    ck_assert(!GOOD_RESPONSE("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")->keep_alive);
    ck_assert(GOOD_RESPONSE("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n"
                            "Connection: keep-alive\r\n\r\n")
                  ->keep_alive);
}
END_TEST

START_TEST(a_101_tells_its_upgrade)
{
    ck_assert(GOOD_RESPONSE("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                            "Upgrade: websocket\r\n\r\n")
                  ->has_upgrade);
}
END_TEST

static Suite *head_response_suite(void)
{
    Suite *suite = suite_create("http/head_response");

    TCase *parts = tcase_create("status line and fields");
    tcase_add_test(parts, a_response_is_split_into_its_parts);
    tcase_add_test(parts, a_reason_may_be_empty_or_missing);
    tcase_add_test(parts, rule_37_a_folded_line_is_bad);
    tcase_add_test(parts, lines_are_held_to_the_discipline_of_requests);
    tcase_add_test(parts, what_a_client_may_have_sent_is_told_from_what_is_no_http);
    tcase_add_loop_test(parts, rule_43_a_status_other_than_three_digits_is_bad, 0,
                        (int)ARRAY_LEN(BAD_STATUS_LINES));
    tcase_add_test(parts, rule_43_a_second_status_line_is_bad);
    suite_add_tcase(suite, parts);

    TCase *framing = tcase_create("framing");
    tcase_add_loop_test(framing, rule_36_invalid_framing_is_bad, 0, (int)ARRAY_LEN(BAD_FRAMING));
    tcase_add_loop_test(framing, rule_38_no_body_whatever_the_fields_say, 0,
                        (int)ARRAY_LEN(BODYLESS));
    tcase_add_test(framing, rule_38_what_a_bodyless_answer_announces_is_kept);
    tcase_add_test(framing, rule_39_framing_is_not_sent_on_with_1xx_and_204);
    tcase_add_test(framing, rule_41_a_body_without_framing_lasts_until_the_close);
    tcase_add_test(framing, rule_57_and_58_hold_for_responses);
    tcase_add_test(framing, a_101_tells_its_upgrade);
    suite_add_tcase(suite, framing);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(head_response_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
