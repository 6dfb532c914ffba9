#include "http/head.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/http/head_runner.h"

/* A good HTTP/1.1 request with @fields, each line with its CR LF. */
#define GET(fields) "GET / HTTP/1.1\r\nHost: a\r\n" fields "\r\n"

START_TEST(a_request_is_split_into_its_parts)
{
    const struct head *head =
        GOOD_REQUEST("POST /a/b?c=d HTTP/1.1\r\nHost: api.example.com:8080\r\n"
                     "X-Empty:\r\nX-Wide: \t two words \t\r\n\r\n");
    ck_assert_span_eq(head->method, "POST");
    ck_assert_span_eq(head->target.path, "/a/b");
    ck_assert_span_eq(head->target.query, "c=d");
    ck_assert_span_eq(head->host, "api.example.com:8080");
    ck_assert_int_eq(head->minor, 1);
    ck_assert(head->keep_alive);
    ck_assert(!head->is_idempotent);
    ck_assert_uint_eq(head->n_fields, 3);
    ck_assert_int_eq(head->fields[0].id, FIELD_HOST);
    ck_assert_span_eq(head->fields[1].name, "X-Empty");
    ck_assert_span_eq(head->fields[1].value, "");
    ck_assert_span_eq(head->fields[2].value, "two words");
}
END_TEST

START_TEST(fields_are_found_by_id_and_by_name_in_any_case)
{
    const struct head *head = GOOD_REQUEST(GET("X-Key: 1\r\nCookie: a=b\r\nx-key: 2\r\n"));
    ck_assert_span_eq(head_find(head, FIELD_COOKIE)->value, "a=b");
    ck_assert_span_eq(head_find_name(head, SPAN("X-KEY"))->value, "1");
    ck_assert_ptr_null(head_find(head, FIELD_VIA));
    ck_assert_ptr_null(head_find_name(head, SPAN("X-Ke")));
}
END_TEST

START_TEST(rule_01_a_missing_host_is_refused_in_1_1_alone)
{
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.1\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET http://a/ HTTP/1.1\r\n\r\n"), 400);
    ck_assert_span_eq(GOOD_REQUEST("GET / HTTP/1.0\r\n\r\n")->host, "");
    ck_assert_span_eq(GOOD_REQUEST("GET / HTTP/1.1\r\nHost:\r\n\r\n")->host, "");
}
END_TEST

START_TEST(rule_02_a_second_host_is_refused_even_the_same)
{
    ck_assert_uint_eq(BAD_REQUEST(GET("Host: a\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST(GET("hOST: b\r\n")), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
}
END_TEST

static const char *const BAD_HOSTS[] = {
    "user@a",    "a/b",       "a b",         "a,b",      "a, b",   "a:b",         "a:1:2",
    "a:65536",   "[::1",      "::1",         "[::g]",    "[]",     "a..b",        ".a",
    ".",         ":80",       "a?b",         "a#b",      "a%2eb",  "http://a",    "\"a\"",
    "a;b",       "a\\b",      "a:-1",        "a: 80",    "[::1]a", "<a>",         "[v1.a]",
    "a|b",       "[1.2.3.4]", "[::%25eth0]", "\xc3\xa4", "[",      "[::1]:80:90", "[::1]::80",
    "[::1]]:80", "a]:80",     "a..",         "a::",      ":",      "[::1].",      "[]:80",
};

START_TEST(rule_03_an_invalid_host_is_refused)
{
    char message[256];
    const int len =
        snprintf(message, sizeof(message), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", BAD_HOSTS[_i]);
    ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(message, (size_t)len)), 400);
}
END_TEST

START_TEST(rule_04_an_absolute_target_replaces_host)
{
    const struct head *head =
        GOOD_REQUEST("GET http://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(head->target.form, TARGET_ABSOLUTE);
    ck_assert_span_eq(head->host, "b.example:81");
    ck_assert_span_eq(head->target.path, "/x");
    ck_assert_uint_eq(BAD_REQUEST("GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET http://u@b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET ftp://b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}
END_TEST

START_TEST(rule_05_connect_is_never_served)
{
    ck_assert_uint_eq(BAD_REQUEST("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 501);
    ck_assert_uint_eq(BAD_REQUEST("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n"), 501);
    ck_assert_uint_eq(BAD_REQUEST("GET a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 400);
}
END_TEST

START_TEST(rule_06_the_asterisk_is_for_options_alone)
{
    ck_assert_int_eq(GOOD_REQUEST("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")->target.form,
                     TARGET_ASTERISK);
    ck_assert_uint_eq(BAD_REQUEST("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}
END_TEST

START_TEST(rule_07_octets_no_target_may_hold_are_refused)
{
    for (unsigned octet = 0; octet < 256; octet++) {
        char message[] = "GET /a_b HTTP/1.1\r\nHost: a\r\n\r\n";
        const bool is_good = octet > 0x20 && octet < 0x7f && octet != '#';
        message[6] = (char)octet;
        const struct span span = span_of(message, sizeof(message) - 1);
        if (is_good) {
            runner_good(RUNNER_REQUEST, message);
        } else {
            ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span), 400);
        }
    }
}
END_TEST

START_TEST(rule_09_any_token_is_a_method_and_case_counts)
{
    ck_assert_span_eq(GOOD_REQUEST("get / HTTP/1.1\r\nHost: a\r\n\r\n")->method, "get");
    ck_assert(!GOOD_REQUEST("get / HTTP/1.1\r\nHost: a\r\n\r\n")->is_idempotent);
    ck_assert(GOOD_REQUEST(GET(""))->is_idempotent);
    ck_assert_span_eq(GOOD_REQUEST("M-SEARCH!#$ / HTTP/1.1\r\nHost: a\r\n\r\n")->method,
                      "M-SEARCH!#$");
    ck_assert_span_eq(GOOD_REQUEST("PRI / HTTP/1.1\r\nHost: a\r\n\r\n")->method, "PRI");
    ck_assert_span_eq(
        GOOD_REQUEST("ABCDEFGHABCDEFGHABCDEFGHABCDEFGH / HTTP/1.1\r\nHost: a\r\n\r\n")->method,
        "ABCDEFGHABCDEFGHABCDEFGHABCDEFGH");
    ck_assert_uint_eq(
        BAD_REQUEST("ABCDEFGHABCDEFGHABCDEFGHABCDEFGHI / HTTP/1.1\r\nHost: a\r\n\r\n"), 501);
    ck_assert_uint_eq(BAD_REQUEST("G(T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("G\xc3T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
}
END_TEST

static const struct {
    const char *version;
    unsigned status; /* 0: good */
    unsigned minor;
} VERSIONS[] = {
    {"HTTP/1.1", 0, 1},    {"HTTP/1.0", 0, 0},    {"HTTP/1.2", 0, 1},     {"HTTP/1.9", 0, 1},
    {"HTTP/2.0", 505, 0},  {"HTTP/0.9", 505, 0},  {"HTTP/9.1", 505, 0},   {"http/1.1", 400, 0},
    {"HTTP/1.10", 400, 0}, {"HTTP/1.", 400, 0},   {"HTTP/1", 400, 0},     {"HTTP/01.1", 400, 0},
    {"HTTP/1.1a", 400, 0}, {"HTTP 1.1", 400, 0},  {"HTTPS/1.1", 400, 0},  {"HTTP/1,1", 400, 0},
    {" HTTP/1.1", 400, 0}, {"HTTP/1.1 ", 400, 0}, {"", 400, 0},           {"HTTP/x.1", 400, 0},
    {"ICY/1.1", 400, 0},   {"HTTP/1.x", 400, 0},  {"\tHTTP/1.1", 400, 0},
};

START_TEST(rule_10_versions_are_reported_apart)
{
    char message[128];
    const int len =
        snprintf(message, sizeof(message), "GET / %s\r\nHost: a\r\n\r\n", VERSIONS[_i].version);
    if (VERSIONS[_i].status == 0) {
        ck_assert_uint_eq(runner_good(RUNNER_REQUEST, message)->minor, VERSIONS[_i].minor);
    } else {
        ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(message, (size_t)len)),
                          VERSIONS[_i].status);
    }
}
END_TEST

START_TEST(a_request_line_without_three_parts_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST("GET /\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET  HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    ck_assert_uint_eq(BAD_REQUEST("\x16\x03\x01\x02"), 400);
}
END_TEST

START_TEST(rule_19_too_many_fields_are_refused)
{
    const char *const seven = "A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\n";
    char message[256];

    snprintf(message, sizeof(message), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", seven);
    ck_assert_uint_eq(runner_good(RUNNER_REQUEST, message)->n_fields, RUNNER_FIELDS_MAX);
    snprintf(message, sizeof(message), "GET / HTTP/1.1\r\nHost: a\r\n%sA: 8\r\n\r\n", seven);
    ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of_text(message)), 431);
}
END_TEST

static const char *const UNDERSCORED[] = {
    "Content_Length",  "transfer_encoding", "Transfer_encodinG",
    "X_Forwarded_For", "X_Forwarded-For",   "X-Forwarded_Proto",
    "x_real_ip",       "X_Request_ID",      "Proxy_Connection",
};

START_TEST(rule_20_underscore_variants_of_known_fields_are_refused)
{
    char message[128];
    const int len = snprintf(message, sizeof(message), GET("%s: 1\r\n"), UNDERSCORED[_i]);
    ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(message, (size_t)len)), 400);
}
END_TEST

START_TEST(rule_20_other_underscores_pass)
{
    ck_assert_uint_eq(GOOD_REQUEST(GET("my_field: 1\r\n"))->n_fields, 2);
    ck_assert_uint_eq(GOOD_REQUEST(GET("ContentLength_: 1\r\n"))->n_fields, 2);
}
END_TEST

static const struct {
    const char *request;
    bool has;
    uint64_t number;
} MAX_FORWARDS[] = {
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", true, 0},
    {"OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\n\r\n", true, 10},
    {"TRACE / HTTP/1.1\r\nHost: a\r\nmax-forwards: 007\r\n\r\n", true, 7},
    {"TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 9223372036854775807\r\n\r\n", true, INT64_MAX},
    {"TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 99999999999999999999999\r\n\r\n", true,
     INT64_MAX},
    {"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", false, 0},
    {"GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", false, 0},
    {"GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: x\r\nMax-Forwards: 1\r\n\r\n", false, 0},
    {"options / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n", false, 0},
};

START_TEST(rule_51_max_forwards_counts_for_trace_and_options)
{
    const struct head *head = GOOD_REQUEST(MAX_FORWARDS[_i].request);
    ck_assert_int_eq(head->has_max_forwards, MAX_FORWARDS[_i].has);
    ck_assert_uint_eq(head->max_forwards, MAX_FORWARDS[_i].number);
    if (MAX_FORWARDS[_i].has) {
        ck_assert(head_find(head, FIELD_MAX_FORWARDS)->hop_by_hop);
    }
}
END_TEST

static const char *const BAD_MAX_FORWARDS[] = {"", "-1", "+1", "1.0", "0x1", "1 2", "1, 2", "x"};

START_TEST(rule_51_max_forwards_is_one_number)
{
    char message[128];
    const int len =
        snprintf(message, sizeof(message),
                 "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: %s\r\n\r\n", BAD_MAX_FORWARDS[_i]);
    ck_assert_uint_eq(runner_bad(RUNNER_REQUEST, span_of(message, (size_t)len)), 400);
    ck_assert_uint_eq(BAD_REQUEST("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 1\r\n"
                                  "Max-Forwards: 1\r\n\r\n"),
                      400);
}
END_TEST

START_TEST(rule_61_an_expected_100_is_told)
{
    ck_assert(GOOD_REQUEST(GET("Content-Length: 1\r\nExpect: 100-Continue\r\n"))->expect_continue);
    ck_assert(GOOD_REQUEST(GET("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"))
                  ->expect_continue);
    ck_assert(!GOOD_REQUEST(GET("Content-Length: 1\r\n"))->expect_continue);
    ck_assert(!GOOD_REQUEST(GET("Expect: 100-continue\r\n"))->expect_continue);
}
END_TEST

START_TEST(rule_62_expect_in_1_0_is_ignored_and_stays_here)
{
    const struct head *head = GOOD_REQUEST("POST / HTTP/1.0\r\nContent-Length: 1\r\n"
                                           "Expect: 100-continue, magic\r\n\r\n");
    ck_assert(!head->expect_continue);
    ck_assert(head_find(head, FIELD_EXPECT)->hop_by_hop);
}
END_TEST

START_TEST(rule_64_an_unknown_expectation_is_refused)
{
    ck_assert_uint_eq(BAD_REQUEST(GET("Expect: magic\r\n")), 417);
    ck_assert_uint_eq(BAD_REQUEST(GET("Expect: 100-continue, magic\r\n")), 417);
    ck_assert_uint_eq(BAD_REQUEST(GET("Expect: 100-continue\r\nExpect: 100\r\n")), 417);
    ck_assert_uint_eq(BAD_REQUEST(GET("Expect: 100-continue;a=b\r\n")), 417);
}
END_TEST

static Suite *head_request_suite(void)
{
    Suite *suite = suite_create("http/head_request");

    TCase *parts = tcase_create("parts");
    tcase_add_test(parts, a_request_is_split_into_its_parts);
    tcase_add_test(parts, fields_are_found_by_id_and_by_name_in_any_case);
    suite_add_tcase(suite, parts);

    TCase *line = tcase_create("request line and Host");
    tcase_add_test(line, rule_01_a_missing_host_is_refused_in_1_1_alone);
    tcase_add_test(line, rule_02_a_second_host_is_refused_even_the_same);
    tcase_add_loop_test(line, rule_03_an_invalid_host_is_refused, 0, (int)ARRAY_LEN(BAD_HOSTS));
    tcase_add_test(line, rule_04_an_absolute_target_replaces_host);
    tcase_add_test(line, rule_05_connect_is_never_served);
    tcase_add_test(line, rule_06_the_asterisk_is_for_options_alone);
    tcase_add_test(line, rule_07_octets_no_target_may_hold_are_refused);
    tcase_add_test(line, rule_09_any_token_is_a_method_and_case_counts);
    tcase_add_loop_test(line, rule_10_versions_are_reported_apart, 0, (int)ARRAY_LEN(VERSIONS));
    tcase_add_test(line, a_request_line_without_three_parts_is_refused);
    suite_add_tcase(suite, line);

    TCase *fields = tcase_create("fields");
    tcase_add_test(fields, rule_19_too_many_fields_are_refused);
    tcase_add_loop_test(fields, rule_20_underscore_variants_of_known_fields_are_refused, 0,
                        (int)ARRAY_LEN(UNDERSCORED));
    tcase_add_test(fields, rule_20_other_underscores_pass);
    tcase_add_loop_test(fields, rule_51_max_forwards_counts_for_trace_and_options, 0,
                        (int)ARRAY_LEN(MAX_FORWARDS));
    tcase_add_loop_test(fields, rule_51_max_forwards_is_one_number, 0,
                        (int)ARRAY_LEN(BAD_MAX_FORWARDS));
    tcase_add_test(fields, rule_61_an_expected_100_is_told);
    tcase_add_test(fields, rule_62_expect_in_1_0_is_ignored_and_stays_here);
    tcase_add_test(fields, rule_64_an_unknown_expectation_is_refused);
    suite_add_tcase(suite, fields);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(head_request_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
