#include "admin/request.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static struct body_reader reader;

static bool begin(enum body_kind kind, uint64_t length, uint64_t bytes_max)
{
    const struct head head = {.body = kind, .content_length = length};
    return body_reader_begin(&reader, &head, bytes_max);
}

/* What is taken of @data: the content, in place. */
static enum parse_result take(char *data, struct span *content, size_t *consumed, unsigned *status)
{
    struct http_error error = {0};
    const enum parse_result result =
        body_reader_take(&reader, span_of(data, strlen(data)), content, consumed, &error);
    *status = result == PARSE_BAD ? error.status : 0;
    return result;
}

START_TEST(a_length_ends_the_body_and_what_follows_is_left)
{
    char first[] = "ab";
    char second[] = "cdGET / HTTP/1.1";
    struct span content;
    size_t consumed;
    unsigned status;
    ck_assert(begin(BODY_LENGTH, 4, 4));
    ck_assert_int_eq(take(first, &content, &consumed, &status), PARSE_PARTIAL);
    ck_assert(span_equals(content, SPAN("ab")));
    ck_assert_int_eq(take(second, &content, &consumed, &status), PARSE_DONE);
    ck_assert(span_equals(content, SPAN("cd")));
    ck_assert_uint_eq(consumed, 2);
}
END_TEST

START_TEST(no_body_has_ended_before_it_began)
{
    char next[] = "GET";
    struct span content;
    size_t consumed;
    unsigned status;
    ck_assert(begin(BODY_NONE, 0, 4));
    ck_assert_int_eq(take(next, &content, &consumed, &status), PARSE_DONE);
    ck_assert_uint_eq(content.len, 0);
    ck_assert_uint_eq(consumed, 0);
}
END_TEST

START_TEST(a_length_beyond_the_bound_is_known_at_once)
{
    ck_assert(begin(BODY_LENGTH, 5, 5));
    ck_assert(!begin(BODY_LENGTH, 6, 5));
    ck_assert(!begin(BODY_LENGTH, UINT64_MAX, 5));
}
END_TEST

START_TEST(chunks_are_bounded_when_they_come)
{
    char first[] = "3\r\nabc\r\n";
    char second[] = "2\r\nde\r\n";
    char last[] = "0\r\n\r\n";
    char third[] = "1\r\nf\r\n";
    struct span content;
    size_t consumed;
    unsigned status;
    ck_assert(begin(BODY_CHUNKED, 0, 5));
    ck_assert_int_eq(take(first, &content, &consumed, &status), PARSE_PARTIAL);
    ck_assert(span_equals(content, SPAN("abc")));
    ck_assert_int_eq(take(second, &content, &consumed, &status), PARSE_PARTIAL);
    ck_assert(span_equals(content, SPAN("de")));
    struct body_reader before = reader;
    ck_assert_int_eq(take(last, &content, &consumed, &status), PARSE_DONE);
    reader = before;
    ck_assert_int_eq(take(third, &content, &consumed, &status), PARSE_BAD);
    ck_assert_uint_eq(status, 413);
}
END_TEST

START_TEST(chunks_that_are_none_are_refused)
{
    char data[] = "x\r\n";
    struct span content;
    size_t consumed;
    unsigned status;
    ck_assert(begin(BODY_CHUNKED, 0, 5));
    ck_assert_int_eq(take(data, &content, &consumed, &status), PARSE_BAD);
    ck_assert_uint_eq(status, 400);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/body_reader");
    TCase *cases = tcase_create("body_reader");
    tcase_add_test(cases, a_length_ends_the_body_and_what_follows_is_left);
    tcase_add_test(cases, no_body_has_ended_before_it_began);
    tcase_add_test(cases, a_length_beyond_the_bound_is_known_at_once);
    tcase_add_test(cases, chunks_are_bounded_when_they_come);
    tcase_add_test(cases, chunks_that_are_none_are_refused);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
