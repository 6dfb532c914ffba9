#include "admin/child.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* The arguments that @json gives, with a line end behind each; or the problem. */
static const char *read_json(const char *json)
{
    static char written[4096];
    struct child_arguments arguments = {.n = 0};
    json_t *object = json_loads(json, JSON_ALLOW_NUL, NULL);
    size_t len = 0;
    ck_assert_ptr_nonnull(object);
    child_arguments_explain(&arguments, object, "POLICY");
    ck_assert(!arguments.no_memory);
    ck_assert_ptr_null(arguments.items[arguments.n]);
    for (size_t i = 0; i < arguments.n; i++) {
        const size_t item_len = strlen(arguments.items[i]);
        ck_assert_uint_lt(len + item_len + 2, sizeof(written));
        memcpy(written + len, arguments.items[i], item_len);
        len += item_len;
        written[len++] = '\n';
    }
    written[len] = '\0';
    const char *problem = arguments.problem;
    child_arguments_free(&arguments);
    json_decref(object);
    return problem != NULL ? problem : written;
}

#define BEGIN "sluice\nexplain\n--json\n"

START_TEST(members_become_options)
{
    static const struct {
        const char *json;
        const char *arguments;
    } STORIES[] = {
        {"{\"url\": \"/a\"}", BEGIN "--\nPOLICY\nGET\n/a\n"},
        {"{\"method\": \"POST\", \"url\": \"http://a/\"}", BEGIN "--\nPOLICY\nPOST\nhttp://a/\n"},
        {"{\"url\": \"/\", \"headers\": {\"A\": \"1\", \"B\": [\"2\", \"3\"]}}",
         BEGIN "-HA: 1\n-HB: 2\n-HB: 3\n--\nPOLICY\nGET\n/\n"},
        {"{\"url\": \"/\", \"headers\": [\"A: 1\"]}", BEGIN "-HA: 1\n--\nPOLICY\nGET\n/\n"},
        {"{\"url\": \"/\", \"from\": \"::1\", \"scheme\": \"https\", \"http2\": true}",
         BEGIN "--from=::1\n--scheme=https\n--http2\n--\nPOLICY\nGET\n/\n"},
        {"{\"url\": \"/\", \"tenant\": \"--gold\"}", BEGIN "--tenant=--gold\n--\nPOLICY\nGET\n/\n"},
        {"{\"url\": \"/\", \"http2\": false}", BEGIN "--\nPOLICY\nGET\n/\n"},
        {"{\"url\": \"/\", \"claims\": {\"sub\": \"a=b\", \"n\": 3, \"yes\": true,"
         " \"roles\": [\"x\", \"y\"]}}",
         BEGIN "--claim=sub=a=b\n--claim=n=3\n--claim=yes=true\n--claim=roles=x\n"
               "--claim=roles=y\n--\nPOLICY\nGET\n/\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        ck_assert_str_eq(read_json(STORIES[i].json), STORIES[i].arguments);
    }
}
END_TEST

START_TEST(no_value_becomes_an_option)
{
    ck_assert_str_eq(read_json("{\"method\": \"--help\", \"url\": \"--live\"}"),
                     BEGIN "--\nPOLICY\n--help\n--live\n");
    ck_assert_str_eq(read_json("{\"url\": \"/\", \"from\": \"--live\"}"),
                     BEGIN "--from=--live\n--\nPOLICY\nGET\n/\n");
    ck_assert_str_eq(read_json("{\"url\": \"/\", \"headers\": {\"--client-cert\": \"/x\"}}"),
                     BEGIN "-H--client-cert: /x\n--\nPOLICY\nGET\n/\n");
}
END_TEST

START_TEST(what_is_no_request_is_a_problem)
{
    static const char *const STORIES[] = {
        "{}",
        "{\"url\": 1}",
        "{\"url\": \"/\", \"method\": null}",
        "{\"url\": \"/\", \"client_cert\": \"/etc/shadow\"}",
        "{\"url\": \"/\\n\"}",
        "{\"url\": \"/\\u0000\"}",
        "{\"url\": \"/\", \"headers\": {\"A\": \"1\\r\\nB: 2\"}}",
        "{\"url\": \"/\", \"headers\": {\"A\\n\": \"1\"}}",
        "{\"url\": \"/\", \"headers\": {\"A\": 1}}",
        "{\"url\": \"/\", \"headers\": {\"A\": [1]}}",
        "{\"url\": \"/\", \"headers\": [1]}",
        "{\"url\": \"/\", \"headers\": \"A: 1\"}",
        "{\"url\": \"/\", \"from\": 1}",
        "{\"url\": \"/\", \"tenant\": 1}",
        "{\"url\": \"/\", \"tenant\": [\"gold\"]}",
        "{\"url\": \"/\", \"http2\": \"yes\"}",
        "{\"url\": \"/\", \"claims\": [1]}",
        "{\"url\": \"/\", \"claims\": {\"a\": null}}",
        "{\"url\": \"/\", \"claims\": {\"a\": 1.5}}",
        "{\"url\": \"/\", \"claims\": {\"a\": [[]]}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        const char *read = read_json(STORIES[i]);
        ck_assert_msg(strncmp(read, BEGIN, strlen(BEGIN)) != 0, "%s", STORIES[i]);
    }
}
END_TEST

START_TEST(arguments_have_a_bound)
{
    struct child_arguments arguments = {.n = 0};
    for (size_t i = 0; i < CHILD_ARGUMENTS_MAX; i++) {
        child_arguments_add(&arguments, "a", SPAN("b"));
    }
    ck_assert_ptr_null(arguments.problem);
    child_arguments_add(&arguments, "a", SPAN("b"));
    ck_assert_ptr_nonnull(arguments.problem);
    ck_assert_uint_eq(arguments.n, CHILD_ARGUMENTS_MAX);
    child_arguments_free(&arguments);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("child_arguments");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, members_become_options);
    tcase_add_test(tests, no_value_becomes_an_option);
    tcase_add_test(tests, what_is_no_request_is_a_problem);
    tcase_add_test(tests, arguments_have_a_bound);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
