#include "admin/child.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static unsigned n_answers;

static void on_answer(struct admin_request *request)
{
    (void)request;
    n_answers++;
}

/* A child that exited with @code and printed @errors. */
static struct child_outcome exited(int code, const char *errors)
{
    return (struct child_outcome){.code = code, .errors = span_of_text(errors)};
}

/* The answer to @outcome, which is no success: its detail, and its messages behind it. */
static const char *read_answer(const struct child_outcome *outcome, unsigned status)
{
    static char text[2048];
    struct admin_request request = {.on_answer = on_answer};
    struct text written = text_of(text, sizeof(text) - 1);
    n_answers = 0;
    ck_assert(!child_succeeded(&request, outcome));
    ck_assert_uint_eq(n_answers, 1);
    ck_assert_uint_eq(request.status, status);
    json_t *json = json_loadb(request.content, request.content_bytes, 0, NULL);
    const json_t *messages = json_object_get(json, "messages");
    text_add(&written, span_of_text(json_string_value(json_object_get(json, "detail"))));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        text_add_char(&written, '|');
        text_add(&written, span_of_text(json_string_value(json_array_get(messages, i))));
    }
    text[written.len] = 0;
    json_decref(json);
    free(request.content);
    return text;
}

START_TEST(what_was_printed_is_the_answer)
{
    struct admin_request request = {.on_answer = on_answer};
    struct child_outcome outcome = exited(0, "warning");
    outcome.output = strdup("{}\n");
    outcome.output_bytes = 3;
    n_answers = 0;
    child_answer(&request, &outcome);
    ck_assert_uint_eq(n_answers, 1);
    ck_assert_uint_eq(request.status, 200);
    ck_assert_ptr_null(outcome.output); /* taken over */
    ck_assert(span_equals(span_of(request.content, request.content_bytes), SPAN("{}\n")));
    free(request.content);
}
END_TEST

START_TEST(a_request_that_is_refused_is_an_answer_too)
{
    struct admin_request request = {.on_answer = on_answer};
    struct child_outcome outcome = exited(3, "");
    outcome.output_bytes = 3;
    ck_assert(child_succeeded(&request, &outcome));
}
END_TEST

START_TEST(the_words_of_the_program_are_without_its_name_and_places)
{
    static const struct {
        const char *errors;
        const char *answer;
    } STORIES[] = {
        {"sluice replay: the logs are empty\n", "the logs are empty|the logs are empty"},
        {"/proc/self/fd/4:1:68: error: rate \"x\": must be\n/proc/self/fd/4:1:90: error: burst\n",
         "rate \"x\": must be|rate \"x\": must be|burst"},
        {"sluice explain: --x: no such option\nusage: sluice explain\nsee sluice explain --help\n",
         "--x: no such option|--x: no such option"},
        {"some: thing", "some: thing|some: thing"},
        {"", "the request cannot be done"},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        const struct child_outcome outcome = exited(1, STORIES[i].errors);
        ck_assert_str_eq(read_answer(&outcome, 400), STORIES[i].answer);
    }
}
END_TEST

START_TEST(words_that_are_not_printable_are_escaped_and_long_ones_cut)
{
    char errors[CHILD_ERRORS_BYTES_MAX];
    const struct child_outcome odd = exited(1, "a\x1b[31m\xff");
    ck_assert_ptr_null(strchr(read_answer(&odd, 400), '\x1b'));
    memset(errors, 'x', sizeof(errors));
    const struct child_outcome longest = {.code = 1, .errors = span_of(errors, sizeof(errors))};
    struct admin_request request = {.on_answer = on_answer};
    ck_assert(!child_succeeded(&request, &longest));
    ck_assert_uint_eq(request.status, 400);
    ck_assert_uint_gt(strlen(request.outcome), 400);
    ck_assert_uint_lt(request.content_bytes, 3000);
    free(request.content);
}
END_TEST

START_TEST(a_success_that_printed_nothing_is_none)
{
    const struct child_outcome outcome = exited(0, "");
    ck_assert_str_eq(read_answer(&outcome, 400), "the request cannot be done");
}
END_TEST

START_TEST(a_bound_that_was_reached_is_a_422)
{
    const struct child_outcome memory = exited(1, "sluice replay: out of memory\n");
    const struct child_outcome killed = {.end = CHILD_KILLED, .code = SIGSEGV};
    const struct child_outcome cpu = {.end = CHILD_KILLED, .code = SIGXCPU};
    const struct child_outcome late = {.end = CHILD_LATE};
    const struct child_outcome longest = {.end = CHILD_TOO_LONG};
    ck_assert_ptr_nonnull(strstr(read_answer(&memory, 422), "out of memory"));
    ck_assert_ptr_nonnull(strstr(read_answer(&killed, 422), "signal 11"));
    ck_assert_ptr_nonnull(strstr(read_answer(&cpu, 422), "processor time"));
    ck_assert_ptr_nonnull(strstr(read_answer(&late, 422), "longer than a request may"));
    ck_assert_ptr_nonnull(strstr(read_answer(&longest, 422), "answer is longer"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/child_answer");
    TCase *cases = tcase_create("child_answer");
    tcase_add_test(cases, what_was_printed_is_the_answer);
    tcase_add_test(cases, a_request_that_is_refused_is_an_answer_too);
    tcase_add_test(cases, the_words_of_the_program_are_without_its_name_and_places);
    tcase_add_test(cases, words_that_are_not_printable_are_escaped_and_long_ones_cut);
    tcase_add_test(cases, a_success_that_printed_nothing_is_none);
    tcase_add_test(cases, a_bound_that_was_reached_is_a_422);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
