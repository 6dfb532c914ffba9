#include "proxy/core/via.h"

#include <check.h>
#include <stdlib.h>

enum { FIELDS_MAX = 8, HEAD_BYTES_MAX = 1024 };

static struct via via;

static void set_up(void)
{
    via_init(&via, (const uint8_t[VIA_ID_BYTES]){0x01, 0x23, 0x45, 0x67, 0x89, 0xab});
}

START_TEST(a_line_says_what_was_received_and_who_received_it)
{
    char buffer[2 * VIA_LINE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    via_write(&via, 0, &text);
    via_write(&via, 1, &text);
    ck_assert(span_equals(text_span(&text), SPAN("Via: 1.0 sluice-0123456789ab\r\n"
                                                 "Via: 1.1 sluice-0123456789ab\r\n")));
    ck_assert(span_equals(via_name(&via), SPAN("sluice-0123456789ab")));
}
END_TEST

static const struct {
    const char *fields;
    bool has_passed;
} HEADS[] = {
    {"", false},
    {"Via: 1.1 sluice-0123456789ab\r\n", true},
    {"Via: 1.0 sluice-0123456789ab\r\n", true},
    {"via: 1.1 SLUICE-0123456789AB\r\n", true},
    {"Via: HTTP/1.1 \t sluice-0123456789ab\r\n", true},
    {"Via: 1.1\tsluice-0123456789ab (a comment, with a comma)\r\n", true},
    {"Via: 1.1 fred, 1.1 sluice-0123456789ab, 1.0 joe\r\n", true},
    {"Via: 1.1 fred\r\nX-A: 1\r\nVia: 1.1 sluice-0123456789ab\r\n", true},
    {"Via: 1.1 \"fred, 1.1 sluice-0123456789ab\r\n", true},
    {"Via: 1.1 fred (\", 1.1 sluice-0123456789ab\r\n", true},
    {"Via: 1.1 sluice-0123456789ac\r\n", false},
    {"Via: 1.1 sluice-0123456789abc\r\n", false},
    {"Via: 1.1 sluice\r\n", false},
    {"Via: 1.1 fred (sluice-0123456789ab)\r\n", false},
    {"Via: sluice-0123456789ab\r\n", false},
    {"Via: sluice-0123456789ab fred\r\n", false},
    {"Via:\r\nVia: ,\r\nVia: 1.1\r\n", false},
    {"X-Via: 1.1 sluice-0123456789ab\r\n", false},
};

START_TEST(rule_50_a_request_that_has_passed_is_known_by_our_name)
{
    char message[HEAD_BYTES_MAX];
    struct text text = text_of(message, sizeof(message));
    struct field fields[FIELDS_MAX];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = HEAD_BYTES_MAX};
    struct head head;
    size_t consumed;

    text_add_format(&text, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", HEADS[_i].fields);
    ck_assert_int_eq(head_parse_request(&parser, text_span(&text), &head, &consumed), PARSE_DONE);
    ck_assert_msg(via_has_passed(via_name(&via), &head) == HEADS[_i].has_passed, "%s",
                  HEADS[_i].fields);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/via");
    TCase *all = tcase_create("via");

    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_test(all, a_line_says_what_was_received_and_who_received_it);
    tcase_add_loop_test(all, rule_50_a_request_that_has_passed_is_known_by_our_name, 0,
                        ARRAY_LEN(HEADS));
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
