/* What a policy and the files that it includes mean together. */

#include "policy/load/include.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/loader.h"
#include "policy/policy.h"

#define ROUTE(name) "routes: [{name: " name ", match: {path: /" name "}, respond: {status: 204}}]\n"
#define ENOUGH "listen: 127.0.0.1:0\n" ROUTE("own")

static char folder[64];
static char errors[8192];
static struct loader_files files;

static void make_folder(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/sluice-include-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    loader_files_free(&files);
    files = (struct loader_files){0};
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    (void)fclose(file);
}

/* Load policy.yaml, or @name of the same folder; NULL: errors says why. */
static struct policy *load(const char *name)
{
    char path[128];
    struct diags diags;
    struct policy *policy = NULL;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    diags_init(&diags, path);
    const enum status status = loader_load_file_to_serve(path, NULL, &files, &policy, &diags);
    FILE *out = fmemopen(errors, sizeof(errors), "w");
    ck_assert_ptr_nonnull(out);
    diags_print(&diags, out);
    (void)fclose(out);
    diags_close(&diags);
    ck_assert((policy != NULL) == (status == STATUS_OK));
    return policy;
}

static struct policy *load_good(const char *yaml)
{
    write_file("policy.yaml", yaml);
    struct policy *policy = load("policy.yaml");
    ck_assert_msg(policy != NULL, "%s", errors);
    return policy;
}

static void assert_refused(const char *yaml, const char *error)
{
    write_file("policy.yaml", yaml);
    ck_assert_ptr_null(load("policy.yaml"));
    ck_assert_msg(strstr(errors, error) != NULL, "%s", errors);
}

START_TEST(routes_stand_in_the_order_of_the_files_and_the_policys_own_last)
{
    static const char *const NAMES[] = {"deep", "a", "b", "z", "own"};
    write_file("b.part", ROUTE("b"));
    write_file("a.part", "include: deep\n" ROUTE("a"));
    write_file("deep", ROUTE("deep"));
    write_file("z", ROUTE("z"));
    struct policy *policy = load_good("include: ['*.part', z]\n" ENOUGH);
    ck_assert_uint_eq(policy->n_routes, 5);
    for (size_t i = 0; i < policy->n_routes; i++) {
        ck_assert(span_equals(policy->routes[i].name, span_of_text(NAMES[i])));
    }
    ck_assert_uint_eq(policy->n_sources, 5);
    ck_assert_uint_eq(files.n_includes, 3);
    policy_free(policy);
}
END_TEST

START_TEST(files_name_limits_and_upstreams_of_each_other)
{
    write_file("a", "limits: {one: {key: client.ip, rate: 1/s}}\n"
                    "routes: [{match: {path: /a}, limits: [one, two], upstream: own}]\n");
    struct policy *policy =
        load_good("include: a\nlimits: {two: {key: client.ip, rate: 2/s}}\n"
                  "upstreams: {own: {servers: ['http://127.0.0.1:1']}}\n" ENOUGH);
    ck_assert_uint_eq(policy->n_rules, 2);
    ck_assert_uint_eq(policy->n_upstreams, 1);
    policy_free(policy);
}
END_TEST

START_TEST(a_name_of_two_files_is_an_error_at_both)
{
    write_file("a", "limits: {one: {key: client.ip, rate: 1/s}}\n");
    write_file("b", "\nlimits: {one: {key: client.ip, rate: 1/s}}\n");
    assert_refused("include: [a, b]\n" ENOUGH, "/b:2:10: error: ");
    ck_assert_msg(strstr(errors, "/a:1") != NULL, "%s", errors);
}
END_TEST

START_TEST(all_errors_of_all_files_are_told)
{
    write_file("a", "limits: {one: {key: client.ip, rate: 1/x}}\n");
    write_file("b", "routes: [{mach: {}}]\n");
    assert_refused("include: [a, b, gone]\nfoo: 1\n" ENOUGH, "gone cannot be read");
    write_file("gone", "log: off\n");
    assert_refused("include: [a, b, gone]\nfoo: 1\n" ENOUGH, "/gone:1:1: error: \"log\" does not");
    write_file("gone", "");
    assert_refused("include: [a, b]\nfoo: 1\n" ENOUGH, "/a:1:38: error: rate \"1/x\"");
    ck_assert_msg(strstr(errors, "/b:1:11: error: unknown key \"mach\"") != NULL, "%s", errors);
    ck_assert_msg(strstr(errors, "policy.yaml:2:1: error: unknown key \"foo\"") != NULL, "%s",
                  errors);
}
END_TEST

START_TEST(a_file_that_includes_itself_is_refused)
{
    write_file("a", "include: b\n");
    write_file("b", "include: ../../tmp/../a\n");
    assert_refused("include: policy.yaml\n" ENOUGH, "includes itself");
    write_file("b", "include: a\n");
    assert_refused("include: a\n" ENOUGH, "includes itself");
}
END_TEST

START_TEST(a_file_that_comes_or_goes_changes_the_versions)
{
    write_file("a.part", ROUTE("a"));
    policy_free(load_good("include: '*.part'\n" ENOUGH));
    const struct loader_versions before = loader_files_look(&files);
    ck_assert_uint_eq(before.includes, files.read.includes);
    write_file("b.part", ROUTE("b"));
    const struct loader_versions after = loader_files_look(&files);
    ck_assert_uint_ne(before.includes, after.includes);
    ck_assert_uint_eq(before.certificates, after.certificates);
}
END_TEST

START_TEST(a_file_is_a_part_by_its_keys)
{
    struct node keys[4] = {{.kind = NODE_SCALAR, .text = SPAN("limits")},
                           {.kind = NODE_MAPPING},
                           {.kind = NODE_SCALAR, .text = SPAN("listen")},
                           {.kind = NODE_SCALAR}};
    struct node root = {.kind = NODE_MAPPING, .items = keys, .n_items = 2};
    static struct include_files read;
    read.roots[0] = &root;
    read.n = 1;
    ck_assert(include_is_part(&read));
    root.n_items = 4;
    ck_assert(!include_is_part(&read));
    root.n_items = 0;
    ck_assert(!include_is_part(&read));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/load/include");
    TCase *tcase = tcase_create("files");
    tcase_add_checked_fixture(tcase, make_folder, remove_folder);
    tcase_add_test(tcase, routes_stand_in_the_order_of_the_files_and_the_policys_own_last);
    tcase_add_test(tcase, files_name_limits_and_upstreams_of_each_other);
    tcase_add_test(tcase, a_name_of_two_files_is_an_error_at_both);
    tcase_add_test(tcase, all_errors_of_all_files_are_told);
    tcase_add_test(tcase, a_file_that_includes_itself_is_refused);
    tcase_add_test(tcase, a_file_that_comes_or_goes_changes_the_versions);
    tcase_add_test(tcase, a_file_is_a_part_by_its_keys);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
