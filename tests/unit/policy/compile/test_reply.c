/* What routes that answer by themselves say, redirects among them. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "policy_support.h"

#define HEAD "listen: 127.0.0.1:0\nroutes:\n  - "

static const struct reply_spec *reply_of(const char *route, struct policy **policy)
{
    char yaml[512];
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s\n", route);
    *policy = policy_from_text(yaml);
    return (*policy)->routes[0].respond;
}

static const struct {
    const char *route;
    unsigned status;
    bool to_https;
    const char *location;
} REDIRECTS[] = {
    {"{respond: {redirect: /new}}", 308, false, "/new"},
    {"{respond: {redirect: {to: '/new?a=b', status: 301}}}", 301, false, "/new?a=b"},
    {"{respond: {redirect: 'https://b.example/x'}}", 308, false, "https://b.example/x"},
    {"{match: {host: a.example}, respond: {redirect: https}}", 308, true, ""},
    {"{match: {host: a.example}, respond: {redirect: {to: https, status: 307}}}", 307, true, ""},
};

START_TEST(a_redirect_leads_there)
{
    struct policy *policy;
    const struct reply_spec *reply = reply_of(REDIRECTS[_i].route, &policy);
    ck_assert_uint_eq(reply->status, REDIRECTS[_i].status);
    ck_assert(reply->to_https == REDIRECTS[_i].to_https);
    ck_assert(span_equals(reply->location, span_of_text(REDIRECTS[_i].location)));
    ck_assert(reply->body.len > 0);
    policy_free(policy);
}
END_TEST

START_TEST(a_redirect_may_have_a_body_and_fields)
{
    struct policy *policy;
    const struct reply_spec *reply = reply_of(
        "{respond: {redirect: /new, body: moved, set: {Cache-Control: no-store}}}", &policy);
    ck_assert(span_equals(reply->body, SPAN("moved")));
    ck_assert_uint_eq(reply->n_set, 1);
    policy_free(policy);
}
END_TEST

static const struct {
    const char *route;
    const char *error;
} WRONG[] = {
    {"{respond: {redirect: https}}", "redirect: https needs match.host beside it"},
    {"{respond: {redirect: {to: /a, status: 304}}}", "must be 301, 302, 303, 307 or 308"},
    {"{respond: {redirect: {to: /a, status: 306}}}", "must be 301, 302, 303, 307 or 308"},
    {"{respond: {redirect: {to: /a, status: 200}}}", "status"},
    {"{respond: {redirect: {status: 301}}}", "\"to\" is missing"},
    {"{respond: {redirect: /a, status: 301}}", "the status of a redirect is written in it"},
    {"{respond: {redirect: /a, set: {location: /b}}}", "field \"Location\" cannot be set beside"},
    {"{respond: {redirect: //b.example/}}", "must be https, a path such as /new, or a URL"},
    {"{respond: {redirect: '/\\b.example/'}}", "must be https, a path such as /new, or a URL"},
    {"{respond: {redirect: '/a b'}}", "must be https, a path such as /new, or a URL"},
    {"{respond: {redirect: '/a#b'}}", "must be https, a path such as /new, or a URL"},
    {"{respond: {redirect: a}}", "must be https, a path such as /new, or a URL"},
    {"{respond: {body: a}}", "\"status\" or \"redirect\" is missing"},
    {"{respond: {status: 204, body: a}}", "an answer of status 204 has no body"},
};

START_TEST(what_is_wrong_is_said)
{
    char yaml[512];
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s\n", WRONG[_i].route);
    char *errors = policy_errors(yaml);
    ck_assert_msg(strstr(errors, WRONG[_i].error) != NULL, "%s: %s", WRONG[_i].route, errors);
    free(errors);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/compile/reply");
    TCase *tcase = tcase_create("replies");
    tcase_add_loop_test(tcase, a_redirect_leads_there, 0, ARRAY_LEN(REDIRECTS));
    tcase_add_test(tcase, a_redirect_may_have_a_body_and_fields);
    tcase_add_loop_test(tcase, what_is_wrong_is_said, 0, ARRAY_LEN(WRONG));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
