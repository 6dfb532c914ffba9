/* Broken policies beside what is said of them, good ones, and those that are shipped. */

#include "policy/loader.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"

enum { BAD_FILES_MIN = 30 };

static const char *lookup(const char *name)
{
    return strcmp(name, "SECRET_URL") == 0 ? "s3cret value" : NULL;
}

static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    ck_assert_int_ge(size, 0);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    ck_assert_ptr_nonnull(text);
    *len = fread(text, 1, (size_t)size, file);
    ck_assert_uint_eq(*len, (size_t)size);
    fclose(file);
    return text;
}

/* All that is said of the policy @yaml, called @name. */
static char *errors_of(struct span yaml, const char *name, enum status expected)
{
    char *text = NULL;
    size_t len = 0;
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, name);
    const enum status status = loader_load_text(yaml, lookup, &policy, &diags);
    FILE *out = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(out);
    diags_print(&diags, out);
    fclose(out);
    ck_assert_msg(status == expected, "%s: %s\n%s", name, status_text(status), text);
    ck_assert((policy != NULL) == (status == STATUS_OK));
    policy_free(policy);
    diags_close(&diags);
    return text;
}

static bool ends_with_yaml(const char *name)
{
    const size_t len = strlen(name);
    return len > 5 && strcmp(name + len - 5, ".yaml") == 0;
}

/* Compare what is said of FOLDER/@name with FOLDER/NAME.expect, whole. */
static void check_file(const char *folder, const char *name)
{
    char path[1024];
    size_t yaml_len = 0;
    size_t expected_len = 0;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    char *yaml = read_file(path, &yaml_len);
    snprintf(path, sizeof(path), "%s/%.*s.expect", folder, (int)strlen(name) - 5, name);
    char *expected = read_file(path, &expected_len);
    char *got = errors_of(span_of(yaml, yaml_len), name, STATUS_INVALID);
    ck_assert_msg(strcmp(got, expected) == 0, "%s\n--- expected\n%s--- got\n%s", name, expected,
                  got);
    ck_assert_ptr_null(strstr(got, "s3cret"));
    free(yaml);
    free(expected);
    free(got);
}

START_TEST(each_broken_policy_gets_exactly_its_messages)
{
    size_t n_files = 0;
    DIR *folder = opendir(TEST_DATA_DIR "/policies/bad");
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (ends_with_yaml(entry->d_name)) {
            check_file(TEST_DATA_DIR "/policies/bad", entry->d_name);
            n_files++;
        }
    }
    closedir(folder);
    ck_assert_uint_ge(n_files, BAD_FILES_MIN);
}
END_TEST

/* A file of the project; nothing at all is said of it. */
static struct policy *load_quietly(const char *path)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, path);
    const enum status status = loader_load_file(path, &policy, &diags);
    ck_assert_msg(status == STATUS_OK && diags.n_items == 0, "%s: %s", path,
                  diags.n_items > 0 ? diags.items[0].text : status_text(status));
    diags_close(&diags);
    return policy;
}

static const char *const SHIPPED[] = {"quickstart", "redis", "full"};

START_TEST(shipped_policies_load_as_they_are)
{
    char path[1024];
    snprintf(path, sizeof(path), PROJECT_DIR "/config/%s.yaml", SHIPPED[_i]);
    policy_free(load_quietly(path));
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named_with_the_reason)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "nowhere.yaml");
    ck_assert_int_eq(loader_load_file(TEST_DATA_DIR "/policies/nowhere.yaml", &policy, &diags),
                     STATUS_IO);
    ck_assert_uint_eq(diags.n_errors, 1);
    ck_assert_str_eq(diags.items[0].text, "cannot be read: No such file or directory");
    diags_close(&diags);

    diags_init(&diags, "policies");
    ck_assert_int_eq(loader_load_file(TEST_DATA_DIR "/policies", &policy, &diags), STATUS_IO);
    ck_assert_ptr_null(policy);
    diags_close(&diags);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/loader_files");
    TCase *tcase = tcase_create("files");
    tcase_add_test(tcase, each_broken_policy_gets_exactly_its_messages);
    tcase_add_loop_test(tcase, shipped_policies_load_as_they_are, 0, (int)ARRAY_LEN(SHIPPED));
    tcase_add_test(tcase, a_file_that_cannot_be_read_is_named_with_the_reason);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
