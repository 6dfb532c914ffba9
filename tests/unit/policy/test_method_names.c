#include "policy/policy.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "policy/matcher.h"
#include "unit/policy/policy_support.h"

static const char *const POLICY =
    "listen: 127.0.0.1:0\n"
    "limits: {few: {key: method, rate: 5/minute}}\n"
    "routes:\n"
    "  - {match: {path: /v1/login, method: [POST, Purge]}, limits: [few], respond: {status: 204}}\n"
    "  - {match: {path: /**}, limits: [few], cost: {SWEEP: 2, default: 1},\n"
    "     respond: {status: 204}}\n";

/* What becomes of a request with @method: NULL and what it is counted as, or the refusal. */
static const char *ask(const struct policy *policy, const char *method, struct span *counted)
{
    static struct request request;
    const struct route *route = NULL;
    request_init(&request, method, "/v1/login", "x");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    ck_assert_int_eq(refusal == NULL, route != NULL);
    *counted = request.view.method;
    return refusal;
}

static const struct {
    const char *method;
    const char *counted; /* NULL: refused */
    const char *meant;
} CASES[] = {
    {"POST", "POST", NULL},    {"PROPFIND", "PROPFIND", NULL}, {"Purge", "Purge", NULL},
    {"SWEEP", "SWEEP", NULL},  {"post", NULL, "POST"},         {"Post", NULL, "POST"},
    {"pOST", NULL, "POST"},    {"propFind", NULL, "PROPFIND"}, {"PURGE", NULL, "Purge"},
    {"purge", NULL, "Purge"},  {"Sweep", NULL, "SWEEP"},       {"FOO", "@other", NULL},
    {"HEAD", "GET", NULL},     {"head", NULL, "HEAD"},         {"foo", "@other", NULL},
    {"POSTS", "@other", NULL}, {"x-1", "@other", NULL},
};

START_TEST(rule_09_a_known_method_in_another_case_is_refused)
{
    struct policy *policy = policy_from_text(POLICY);
    struct span counted;
    const char *refusal = ask(policy, CASES[_i].method, &counted);
    if (CASES[_i].counted == NULL) {
        ck_assert_msg(refusal != NULL, "%s", CASES[_i].method);
        ck_assert_ptr_nonnull(strstr(refusal, "case-sensitive"));
        ck_assert_ptr_nonnull(strstr(refusal, CASES[_i].meant));
    } else {
        ck_assert_msg(refusal == NULL, "%s: %s", CASES[_i].method, refusal);
        ck_assert(span_equals(counted, span_of_text(CASES[_i].counted)));
    }
    policy_free(policy);
}
END_TEST

/* @error: a part of what is told of @routes; NULL: they are sound. */
static void check_error(const char *routes, const char *error)
{
    char buffer[8192];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_literal(&text, "listen: 127.0.0.1:0\nroutes:\n");
    text_add(&text, span_of_text(routes));
    text_add_char(&text, '\0');
    if (error == NULL) {
        policy_free(policy_from_text(buffer));
        return;
    }
    char *errors = policy_errors(buffer);
    ck_assert_msg(strstr(errors, error) != NULL, "%s", errors);
    free(errors);
}

START_TEST(a_policy_names_a_method_in_one_case)
{
    check_error("  - {match: {method: [PURGE]}, respond: {status: 204}}\n"
                "  - {match: {method: [PURGE]}, respond: {status: 204}}\n",
                NULL);
    check_error("  - {match: {method: [PURGE]}, respond: {status: 204}}\n"
                "  - {match: {method: [Purge]}, respond: {status: 204}}\n",
                "the policy also names it \"PURGE\"");
    check_error("  - {match: {method: [propfind]}, respond: {status: 204}}\n",
                "did you mean \"PROPFIND\"?");
}
END_TEST

START_TEST(a_policy_names_so_many_methods_of_its_own)
{
    char buffer[8192];
    for (unsigned n = POLICY_METHODS_MAX; n <= POLICY_METHODS_MAX + 1; n++) {
        struct text text = text_of(buffer, sizeof(buffer));
        text_add_literal(&text, "  - {respond: {status: 204}, match: {method: [POST");
        for (unsigned i = 0; i < n; i++) {
            text_add_format(&text, ", M%u", i);
        }
        text_add_literal(&text, "]}}\n");
        text_add_char(&text, '\0');
        check_error(buffer, n == POLICY_METHODS_MAX ? NULL : "methods that are not registered");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/method_names");
    TCase *tcase = tcase_create("method_names");
    tcase_add_loop_test(tcase, rule_09_a_known_method_in_another_case_is_refused, 0,
                        (int)ARRAY_LEN(CASES));
    tcase_add_test(tcase, a_policy_names_a_method_in_one_case);
    tcase_add_test(tcase, a_policy_names_so_many_methods_of_its_own);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
