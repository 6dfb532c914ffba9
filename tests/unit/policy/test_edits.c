#include "policy/edits.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "policy/matcher.h"
#include "unit/policy/policy_support.h"

static struct policy *policy;

static void set_up(void)
{
    policy = policy_from_text(
        "listen: 127.0.0.1:0\n"
        "upstreams: {api: {servers: http://127.0.0.1:1}}\n"
        "routes:\n"
        "  - match: {path: /api/v1/**, encoded_slash: allow}\n"
        "    strip_prefix: /api/v1\n"
        "    upstream: api\n"
        "  - match: {path: /Any/**, ignore_case: true}\n"
        "    strip_prefix: /ANY\n"
        "    upstream: api\n"
        "  - match: {path: /exact}\n"
        "    strip_prefix: /exact\n"
        "    upstream: api\n"
        "  - match: {path: /**}\n"
        "    upstream: api\n"
        "    request: {set: {X-A: 1, cookie: a=1}, remove: [X-Gone, x-forwarded-for]}\n");
}

static void tear_down(void)
{
    policy_free(policy);
}

static const struct {
    const char *target;
    const char *left; /* "": refused */
} STRIPPED[] = {
    {"/api/v1/users", "/users"},
    {"/api/v1/users/", "/users/"},
    {"/api/v1/users?x=/api/v1", "/users"},
    {"/api/v1", "/"},
    {"/api/v1?x", "/"},
    {"/api/v1/", "/"},
    {"/api/v1/;a", "/;a"},
    {"/api/v1//users", "/users"},
    {"/api/v1///", "/"},
    {"/api/v1//evil.test/x", "/evil.test/x"},
    {"/api/v1/a//b/./c;d/%41", "/a//b/./c;d/%41"},
    {"/api/v1/.//a", "/.//a"},
    {"/api/v1/a/../b", "/a/../b"},
    {"/api/v1/a%2Fb\\c", "/a%2Fb\\c"},
    {"/api/v1/api/v1/x", "/api/v1/x"},
    {"http://h.test/api/v1/x", "/x"},
    /* the prefix in another spelling */
    {"/%61pi/v1/users", ""},
    {"/api/%76%31/users", ""},
    {"//api/v1/users", ""},
    {"/api//v1/users", ""},
    {"/api/./v1/users", ""},
    {"/api;a/v1/users", ""},
    {"/api/v1;a/users", ""},
    {"/api/v1;a", ""},
    {"/x/../api/v1/users", ""},
    {"/api/x/../v1/users", ""},
    /* above it, and back */
    {"/api/v1/../v1/users", ""},
    {"/api/v1/x/../../v1/users", ""},
    {"/api/v1/%2e%2e/v1/users", ""},
    {"/api/v1/../../api/v1/users", ""},
    {"/api/v1/../../../api/v1", ""},
    /* letters */
    {"/any/Users", "/Users"},
    {"/ANY/Users", "/Users"},
    {"/aNy", "/"},
    {"/%41NY/x", ""},
    {"/exact", "/"},
};

START_TEST(rule_54_what_is_left_of_a_path_is_the_matched_one_without_the_prefix)
{
    char buffer[64];
    struct request request;
    struct span left = span_of(NULL, 0);
    const struct route *route = NULL;
    request_init(&request, "GET", STRIPPED[_i].target, "h.test");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    if (refusal == NULL) {
        ck_assert_uint_lt(route->index, 3);
        refusal = edits_strip_prefix(route, &request.view, buffer, &left);
    }
    if (STRIPPED[_i].left[0] == '\0') {
        ck_assert_msg(refusal != NULL, "%s: %.*s", STRIPPED[_i].target, SPAN_ARGS(left));
        return;
    }
    ck_assert_msg(refusal == NULL, "%s: %s", STRIPPED[_i].target, refusal);
    ck_assert_msg(span_equals(left, span_of_text(STRIPPED[_i].left)), "%s: %.*s",
                  STRIPPED[_i].target, SPAN_ARGS(left));
}
END_TEST

static bool drops_at(const struct route *route, const char *name)
{
    const struct field field = {
        .name = span_of_text(name),
        .id = field_identify(span_of_text(name)),
    };
    return field_edits_drop(&route->edits->request, &field);
}

static bool drops(const char *name)
{
    return drops_at(&policy->routes[3], name);
}

START_TEST(fields_that_are_set_or_removed_do_not_pass_in_any_case)
{
    static const char *const dropped[] = {"X-A",    "x-a",    "Cookie",
                                          "COOKIE", "x-gone", "X-Forwarded-For"};
    static const char *const kept[] = {"X-AB", "X", "Cookies", "X-Forwarded-Proto", "Host"};
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++) {
        ck_assert_msg(drops(dropped[i]), "%s", dropped[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        ck_assert_msg(!drops(kept[i]), "%s", kept[i]);
    }
    ck_assert_uint_eq(policy->set_bytes_max, strlen("X-A: 1\r\ncookie: a=1\r\n"));
    ck_assert_uint_eq(policy->routes[0].edits->request.n_set, 0);
}
END_TEST

START_TEST(a_route_that_changes_nothing_has_no_edits)
{
    struct policy *plain = policy_from_text("listen: 127.0.0.1:0\n"
                                            "routes: [{respond: {status: 204}}]\n");
    ck_assert_ptr_null(plain->routes[0].edits);
    ck_assert_uint_eq(plain->set_bytes_max, 0);
    policy_free(plain);
}
END_TEST

START_TEST(what_a_claim_sets_on_one_route_no_client_sends_on_any)
{
    struct policy *claims =
        policy_from_text("listen: 127.0.0.1:0\n"
                         "jwt: {main: {secret: 01234567890123456789012345678901}}\n"
                         "upstreams: {api: {servers: http://127.0.0.1:1}}\n"
                         "routes:\n"
                         "  - match: {path: /a}\n"
                         "    upstream: api\n"
                         "    request: {set: {X-User: {from: jwt.sub}, Authorization: {from: "
                         "jwt.key}, X-Zone: eu}}\n"
                         "  - match: {path: /b}\n"
                         "    upstream: api\n"
                         "    request: {set: {x-user: robot}, remove: [X-Gone]}\n"
                         "  - match: {path: /c}\n"
                         "    respond: {status: 204}\n"
                         "  - upstream: api\n");
    for (size_t i = 0; i < claims->n_routes; i++) {
        if (i == 2) {
            ck_assert_ptr_null(claims->routes[i].edits);
            continue;
        }
        ck_assert(drops_at(&claims->routes[i], "X-User"));
        ck_assert(drops_at(&claims->routes[i], "x_user"));
        ck_assert(!drops_at(&claims->routes[i], "X-Users"));
        ck_assert_int_eq(drops_at(&claims->routes[i], "X-Zone"), i == 0);
        ck_assert_int_eq(drops_at(&claims->routes[i], "Authorization"), i == 0);
        ck_assert_int_eq(drops_at(&claims->routes[i], "X-Gone"), i == 1);
    }
    ck_assert_uint_eq(claims->routes[1].edits->request.n_set, 1);
    ck_assert_uint_eq(claims->routes[3].edits->request.n_set, 0);
    policy_free(claims);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/edits");
    TCase *tcase = tcase_create("edits");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, rule_54_what_is_left_of_a_path_is_the_matched_one_without_the_prefix,
                        0, (int)ARRAY_LEN(STRIPPED));
    tcase_add_test(tcase, fields_that_are_set_or_removed_do_not_pass_in_any_case);
    tcase_add_test(tcase, a_route_that_changes_nothing_has_no_edits);
    tcase_add_test(tcase, what_a_claim_sets_on_one_route_no_client_sends_on_any);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
