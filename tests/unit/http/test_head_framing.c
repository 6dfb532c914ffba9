#include "http/head_parts.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/head_runner.h"

#define POST(fields) "POST / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define POST_1_0(fields) "POST / HTTP/1.0\r\n" fields "\r\n"
#define TE(value) POST("Transfer-Encoding:" value "\r\n")
#define CL(value) POST("Content-Length:" value "\r\n")

START_TEST(a_body_is_chunked_or_of_a_length)
{
    const struct head *head = GOOD_REQUEST(TE(" chunked"));
    ck_assert_int_eq(head->body, BODY_CHUNKED);
    ck_assert(!head->has_content_length);
    ck_assert_int_eq(GOOD_REQUEST(TE("\tCHUNKed \t"))->body, BODY_CHUNKED);
    head = GOOD_REQUEST(CL("5"));
    ck_assert_int_eq(head->body, BODY_LENGTH);
    ck_assert_uint_eq(head->content_length, 5);
    head = GOOD_REQUEST(CL(" 0"));
    ck_assert_int_eq(head->body, BODY_NONE);
    ck_assert(head->has_content_length);
}
END_TEST

START_TEST(rule_21_transfer_encoding_beside_content_length_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")),
                      400);
    ck_assert_uint_eq(BAD_REQUEST(POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")),
                      400);
    ck_assert_uint_eq(
        BAD_REQUEST(POST("Content-Length: 0\r\nTransfer-Encoding: gzip, chunked\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(POST("Transfer-Encoding:\r\nContent-Length: 5\r\n")), 400);
}
END_TEST

START_TEST(rule_22_a_final_coding_other_than_chunked_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(TE(" gzip")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" identity")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chunked, gzip")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chunked, identity")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" xchunked")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chunkedx")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" \"chunked\"")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" 'chunked'")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chun ked")), 400);
}
END_TEST

START_TEST(rule_23_a_coding_before_chunked_is_not_implemented)
{
    ck_assert_uint_eq(BAD_REQUEST(TE(" gzip, chunked")), 501);
    ck_assert_uint_eq(BAD_REQUEST(TE(" identity,chunked")), 501);
    ck_assert_uint_eq(BAD_REQUEST(TE(" deflate , gzip , Chunked")), 501);
}
END_TEST

START_TEST(rule_24_transfer_encoding_in_1_0_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(POST_1_0("Transfer-Encoding: chunked\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(POST_1_0("Transfer-Encoding: gzip, chunked\r\n")), 400);
    ck_assert_uint_eq(
        BAD_REQUEST(POST_1_0("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n")), 400);
}
END_TEST

START_TEST(rule_25_repeated_empty_or_adorned_transfer_encoding_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(TE("")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" , chunked")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chunked,")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" gzip,, chunked")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chunked, chunked")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" chunked;q=1")), 400);
    ck_assert_uint_eq(BAD_REQUEST(TE(" gzip;q=1, chunked")), 400);
    ck_assert_uint_eq(
        BAD_REQUEST(POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")), 400);
    ck_assert_uint_eq(
        BAD_REQUEST(POST("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(POST("Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n")),
                      400);
}
END_TEST

static const char *const BAD_LENGTHS[] = {
    "",
    "+5",
    "-5",
    "0x5",
    "5a",
    "a",
    "5 5",
    "5.0",
    "5,",
    ",5",
    "5, 6",
    "5;5",
    "\"5\"",
    "1e3",
    "٥",
    "5\x0b",
    "5\t",
    "5 \t ",
    ("\xa0"
     "5"),
    "--5",
    "5-",
    "0 5",
    "₅",
};

START_TEST(rule_26_a_content_length_that_is_no_number_is_refused)
{
    char message[128];
    const int len = snprintf(message, sizeof(message), CL(" %s"), BAD_LENGTHS[_i]);
    ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(message, (size_t)len)), 400);
}
END_TEST

START_TEST(rule_27_differing_content_lengths_are_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(POST("Content-Length: 5\r\nContent-Length: 6\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(POST("Content-Length: 6\r\nA: b\r\ncontent-length: 5\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 5, 6")), 400);
}
END_TEST

START_TEST(rule_27_identical_content_lengths_are_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(POST("Content-Length: 5\r\nContent-Length: 5\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 5, 5")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 5,5")), 400);
}
END_TEST

START_TEST(rule_28_a_great_content_length_does_not_wrap)
{
    ck_assert_uint_eq(GOOD_REQUEST(CL(" 9223372036854775807"))->content_length, INT64_MAX);
    ck_assert_uint_eq(GOOD_REQUEST(CL(" 00000000000000000000000000005"))->content_length, 5);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 9223372036854775808")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 18446744073709551615")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 18446744073709551616")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 18446744073709551621")), 400);
    ck_assert_uint_eq(BAD_REQUEST(CL(" 99999999999999999999999999999999999999")), 400);
}
END_TEST

static const char *const METHODS[] = {"GET", "HEAD", "DELETE", "POST", "OPTIONS", "TRACE", "BREW"};

START_TEST(rule_34_framing_is_the_same_for_every_method)
{
    char message[128];

    snprintf(message, sizeof(message), "%s / HTTP/1.1\r\nHost: a\r\n\r\n", METHODS[_i]);
    ck_assert_int_eq(runner_good(RUNNER_REQUEST, message)->body, BODY_NONE);
    snprintf(message, sizeof(message), "%s / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
             METHODS[_i]);
    ck_assert_int_eq(runner_good(RUNNER_REQUEST, message)->body, BODY_LENGTH);
    snprintf(message, sizeof(message),
             "%s / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", METHODS[_i]);
    ck_assert_int_eq(runner_good(RUNNER_REQUEST, message)->body, BODY_CHUNKED);
}
END_TEST

#define CL_FIELD(text)                                                                             \
    {                                                                                              \
        .id = FIELD_CONTENT_LENGTH, .value = { text, sizeof(text) - 1 }                            \
    }
#define TE_FIELD(text)                                                                             \
    {                                                                                              \
        .id = FIELD_TRANSFER_ENCODING, .value = { text, sizeof(text) - 1 }                         \
    }

static const struct {
    struct field fields[2];
    unsigned minor;
    unsigned status; /* 0: good */
} FRAMINGS[] = {
    {{CL_FIELD("5")}, 1, 0},
    {{TE_FIELD("chunked")}, 1, 0},
    {{TE_FIELD("chunked")}, 0, 400},
    {{CL_FIELD("")}, 1, 400},
    {{CL_FIELD("5, 5")}, 1, 400},
    {{CL_FIELD("5"), CL_FIELD("5")}, 1, 400},
    {{CL_FIELD("5"), TE_FIELD("chunked")}, 1, 400},
    {{TE_FIELD("chunked"), CL_FIELD("5")}, 1, 400},
    {{TE_FIELD("chunked"), TE_FIELD("chunked")}, 1, 400},
    {{TE_FIELD("chunked, chunked")}, 1, 400},
    {{TE_FIELD("chunked, gzip, chunked")}, 1, 400},
    {{TE_FIELD("gzip, chunked")}, 1, 501},
};

START_TEST(rules_21_to_27_are_held_by_the_fields_alone)
{
    struct field fields[2] = {FRAMINGS[_i].fields[0], FRAMINGS[_i].fields[1]};
    struct head head = {
        .minor = (uint8_t)FRAMINGS[_i].minor, .fields = fields, .n_fields = ARRAY_LEN(fields)};
    struct head_index index;

    head_index_fill(&index, &head);
    ck_assert_int_eq(head_read_framing(&head, &index), FRAMINGS[_i].status == 0);
    ck_assert_uint_eq(head.error.status, FRAMINGS[_i].status);
}
END_TEST

static Suite *head_framing_suite(void)
{
    Suite *suite = suite_create("http/head_framing");

    TCase *coding = tcase_create("Transfer-Encoding");
    tcase_add_test(coding, a_body_is_chunked_or_of_a_length);
    tcase_add_test(coding, rule_21_transfer_encoding_beside_content_length_is_refused);
    tcase_add_test(coding, rule_22_a_final_coding_other_than_chunked_is_refused);
    tcase_add_test(coding, rule_23_a_coding_before_chunked_is_not_implemented);
    tcase_add_test(coding, rule_24_transfer_encoding_in_1_0_is_refused);
    tcase_add_test(coding, rule_25_repeated_empty_or_adorned_transfer_encoding_is_refused);
    suite_add_tcase(suite, coding);

    TCase *length = tcase_create("Content-Length");
    tcase_add_loop_test(length, rule_26_a_content_length_that_is_no_number_is_refused, 0,
                        (int)ARRAY_LEN(BAD_LENGTHS));
    tcase_add_test(length, rule_27_differing_content_lengths_are_refused);
    tcase_add_test(length, rule_27_identical_content_lengths_are_refused);
    tcase_add_test(length, rule_28_a_great_content_length_does_not_wrap);
    tcase_add_loop_test(length, rule_34_framing_is_the_same_for_every_method, 0,
                        (int)ARRAY_LEN(METHODS));
    tcase_add_loop_test(length, rules_21_to_27_are_held_by_the_fields_alone, 0,
                        (int)ARRAY_LEN(FRAMINGS));
    suite_add_tcase(suite, length);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(head_framing_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
