#include "admin/request.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static unsigned n_answers;

static void on_answer(struct admin_request *request)
{
    (void)request;
    n_answers++;
}

static struct admin_request request_with(struct span body)
{
    n_answers = 0;
    return (struct admin_request){.body = body, .on_answer = on_answer};
}

/* What was answered, read back. */
static json_t *read_answer(struct admin_request *request, unsigned status, const char *type)
{
    ck_assert_uint_eq(n_answers, 1);
    ck_assert(request->is_answered);
    ck_assert_uint_eq(request->status, status);
    ck_assert(span_equals(request->content_type, span_of_text(type)));
    ck_assert_int_eq(request->content[request->content_bytes - 1], '\n');
    json_t *json = json_loadb(request->content, request->content_bytes, JSON_ALLOW_NUL, NULL);
    ck_assert_ptr_nonnull(json);
    free(request->content);
    return json;
}

START_TEST(any_bytes_are_a_json_string)
{
    static const struct {
        struct span bytes;
        struct span read;
    } STORIES[] = {
        {{"", 0}, {"", 0}},
        {{NULL, 0}, {"", 0}},
        {{"plain \"\\", 8}, {"plain \"\\", 8}},
        {{"a\0b", 3}, {"a\0b", 3}},
        {{"\x1b[31m\r\n", 7}, {"\x1b[31m\r\n", 7}},
        {{"\xc3\xa9", 2}, {"\xc3\xa9", 2}},
        {{"x\xff", 2}, {"x\xef\xbf\xbd", 4}},
        {{"\xc3", 1}, {"\xef\xbf\xbd", 3}},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        json_t *json = json_of_span(STORIES[i].bytes);
        ck_assert_ptr_nonnull(json);
        ck_assert_msg(span_equals(span_of(json_string_value(json), json_string_length(json)),
                                  STORIES[i].read),
                      "%zu", i);
        json_decref(json);
    }
}
END_TEST

START_TEST(an_empty_body_is_an_empty_object)
{
    static const struct span BODIES[] = {{"", 0}, {" \t", 2}, {"{}", 2}};
    for (size_t i = 0; i < ARRAY_LEN(BODIES); i++) {
        struct admin_request request = request_with(BODIES[i]);
        json_t *json = request_read_object(&request);
        ck_assert_uint_eq(json_object_size(json), 0);
        ck_assert_uint_eq(n_answers, 0);
        json_decref(json);
    }
}
END_TEST

START_TEST(a_body_that_is_no_object_is_refused_with_the_reason)
{
    static const char *const BODIES[] = {"[]",
                                         "1",
                                         "\"x\"",
                                         "{",
                                         "{}{}",
                                         "{\"a\":}",
                                         "{'a': 1}",
                                         "\xff\xfe",
                                         "null",
                                         "{\"a\": 1, \"a\": 2}",
                                         "{\"a\": 1e999}"};
    for (size_t i = 0; i < ARRAY_LEN(BODIES); i++) {
        struct admin_request request = request_with(span_of_text(BODIES[i]));
        ck_assert_msg(request_read_object(&request) == NULL, "%s", BODIES[i]);
        json_t *json = read_answer(&request, 400, "application/problem+json");
        ck_assert_uint_gt(strlen(json_string_value(json_object_get(json, "detail"))), 10);
        json_decref(json);
    }
}
END_TEST

START_TEST(a_body_as_deep_as_it_can_be_is_refused)
{
    static char deep[ADMIN_BODY_BYTES_MAX];
    memset(deep, '[', sizeof(deep));
    struct admin_request request = request_with(span_of(deep, sizeof(deep)));
    ck_assert_ptr_null(request_read_object(&request));
    json_decref(read_answer(&request, 400, "application/problem+json"));
}
END_TEST

START_TEST(a_problem_tells_its_status_and_why_and_the_audit_the_same)
{
    struct admin_request request = request_with(SPAN(""));
    answer_problem(&request, 404, "no %s", "such thing");
    ck_assert_str_eq(request.outcome, "no such thing");
    json_t *json = read_answer(&request, 404, "application/problem+json");
    ck_assert_str_eq(json_string_value(json_object_get(json, "title")), "Not Found");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "status")), 404);
    ck_assert_str_eq(json_string_value(json_object_get(json, "detail")), "no such thing");
    json_decref(json);
}
END_TEST

START_TEST(a_problem_of_which_nothing_is_said_has_no_detail)
{
    struct admin_request request = request_with(SPAN(""));
    answer_problem(&request, 401, NULL);
    json_t *json = read_answer(&request, 401, "application/problem+json");
    ck_assert_uint_eq(json_object_size(json), 3);
    json_decref(json);
}
END_TEST

START_TEST(a_problem_may_have_members_of_its_own)
{
    struct admin_request request = request_with(SPAN(""));
    answer_problem_with(&request, 422, json_pack("{si}", "generation", 3), "why");
    json_t *json = read_answer(&request, 422, "application/problem+json");
    ck_assert_int_eq(json_integer_value(json_object_get(json, "generation")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(json, "detail")), "why");
    json_decref(json);
}
END_TEST

START_TEST(json_that_there_was_no_memory_for_is_a_503)
{
    struct admin_request request = request_with(SPAN(""));
    answer_json(&request, 200, NULL);
    ck_assert_uint_eq(request.status, 503);
    ck_assert_uint_eq(request.content_bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/request");
    TCase *cases = tcase_create("request");
    tcase_add_test(cases, any_bytes_are_a_json_string);
    tcase_add_test(cases, an_empty_body_is_an_empty_object);
    tcase_add_test(cases, a_body_that_is_no_object_is_refused_with_the_reason);
    tcase_add_test(cases, a_body_as_deep_as_it_can_be_is_refused);
    tcase_add_test(cases, a_problem_tells_its_status_and_why_and_the_audit_the_same);
    tcase_add_test(cases, a_problem_of_which_nothing_is_said_has_no_detail);
    tcase_add_test(cases, a_problem_may_have_members_of_its_own);
    tcase_add_test(cases, json_that_there_was_no_memory_for_is_a_503);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
