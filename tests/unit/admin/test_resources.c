#include "admin/resources.h"

#include <check.h>
#include <string.h>

#include "unit/http/span_assert.h"

static struct resource_match find(const char *method, const char *path)
{
    static char decoded[ADMIN_PATH_BYTES_MAX];
    static char allow[RESOURCE_ALLOW_BYTES];
    struct resource_match match;
    resource_find(span_of_text(method), span_of_text(path), decoded, allow, &match);
    return match;
}

START_TEST(a_method_and_a_path_are_a_resource)
{
    const struct resource_match match = find("GET", "/healthz");
    ck_assert_ptr_nonnull(match.resource);
    ck_assert_str_eq(match.resource->path, "/healthz");
    ck_assert_int_eq(match.effect, ADMIN_READS);
    ck_assert_ptr_eq(find("HEAD", "/healthz").resource, match.resource);
    ck_assert_ptr_nonnull(find("GET", "/").resource);
}
END_TEST

START_TEST(segments_are_decoded_once)
{
    ck_assert_ptr_nonnull(find("GET", "/%68ealthz").resource);
    ck_assert_uint_eq(find("GET", "/%2568ealthz").status, 404);
    ck_assert_uint_eq(find("GET", "%2Fhealthz").status, 404);
    ck_assert_uint_eq(find("GET", "/%2Fhealthz").status, 404);
}
END_TEST

START_TEST(what_is_not_there_is_not_found)
{
    static const char *const PATHS[] = {
        "",         "*",          "//",  "/healthz/",
        "/Healthz", "/healthz/x", "/v1", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n"};
    for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++) {
        const struct resource_match match = find("GET", PATHS[i]);
        ck_assert_ptr_null(match.resource);
        ck_assert_msg(match.status == 404, "%s: %u", PATHS[i], match.status);
    }
}
END_TEST

START_TEST(an_escape_that_is_none_is_a_bad_request)
{
    static const char *const PATHS[] = {"/%", "/%2", "/%zz", "/a%00", "/%0", "/healthz%"};
    for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++) {
        ck_assert_msg(find("GET", PATHS[i]).status == 400, "%s", PATHS[i]);
    }
}
END_TEST

START_TEST(another_method_is_told_which_there_are)
{
    const struct resource_match match = find("PATCH", "/healthz");
    ck_assert_ptr_null(match.resource);
    ck_assert_uint_eq(match.status, 405);
    ck_assert_span_eq(match.allow, "GET, HEAD");
}
END_TEST

START_TEST(what_is_not_there_is_after_what_its_method_is_after)
{
    ck_assert_int_eq(find("GET", "/nothing").effect, ADMIN_READS);
    ck_assert_int_eq(find("HEAD", "/%").effect, ADMIN_READS);
    ck_assert_int_eq(find("POST", "/nothing").effect, ADMIN_CHANGES);
    ck_assert_int_eq(find("OPTIONS", "*").effect, ADMIN_CHANGES);
    ck_assert_int_eq(find("get", "/healthz").effect, ADMIN_CHANGES);
}
END_TEST

/* A resource that changes something must not be reached by a method that pages can
 * send without being asked. */
START_TEST(what_changes_something_is_no_get)
{
    for (size_t i = 0; i < N_ADMIN_RESOURCES; i++) {
        const bool is_get = strcmp(ADMIN_RESOURCES[i].method, "GET") == 0;
        const bool has_long_question = strcmp(ADMIN_RESOURCES[i].path, "/v1/explain") == 0;
        const bool changes = ADMIN_RESOURCES[i].effect != ADMIN_READS &&
                             ADMIN_RESOURCES[i].effect != ADMIN_SHOWS_PAGE;
        ck_assert_msg((is_get || has_long_question) != changes, "%s %s", ADMIN_RESOURCES[i].method,
                      ADMIN_RESOURCES[i].path);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/resources");
    TCase *cases = tcase_create("resources");
    tcase_add_test(cases, a_method_and_a_path_are_a_resource);
    tcase_add_test(cases, segments_are_decoded_once);
    tcase_add_test(cases, what_is_not_there_is_not_found);
    tcase_add_test(cases, an_escape_that_is_none_is_a_bad_request);
    tcase_add_test(cases, another_method_is_told_which_there_are);
    tcase_add_test(cases, what_is_not_there_is_after_what_its_method_is_after);
    tcase_add_test(cases, what_changes_something_is_no_get);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
