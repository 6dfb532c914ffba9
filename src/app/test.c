/* sluice test FILE...: runs the tests of policies.
 *
 * file of tests ─► its policy ─► each test under a clock of its own ─► a report */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/load.h"
#include "app/test_report.h"
#include "base/diag.h"

/* The policy's path from the folder of the file of tests; the caller frees it. */
static char *path_from(const char *file, struct span policy)
{
    const char *slash = strrchr(file, '/');
    const size_t folder = slash == NULL || policy.data[0] == '/' ? 0 : (size_t)(slash - file) + 1;
    char *path = malloc(folder + policy.len + 1);
    if (path != NULL) {
        memcpy(path, file, folder);
        memcpy(path + folder, policy.data, policy.len + 1); /* with its NUL */
    }
    return path;
}

static enum status run_tests(struct test_report *report, const struct test_file *file,
                             const struct policy *policy, struct arena *arena)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < file->n_tests && status == STATUS_OK; i++) {
        struct test_run_result result;
        status = test_run_run(policy, &file->tests[i], arena, &result);
        if (status == STATUS_OK) {
            test_report_add(report, &result);
        }
        arena_reset(arena);
    }
    return status;
}

/* NULL: the tests were run. Otherwise a short reason; the details were printed on stderr. */
static const char *run_with_policy(struct test_report *report, const char *path,
                                   const struct test_file *file, const char *policy_path,
                                   struct diags *diags)
{
    struct policy *policy;
    struct arena arena;
    if (load_policy_at(policy_path, file->start_us, &policy) != STATUS_OK) {
        fprintf(stderr, "%s:%u:%u: error: its policy %s cannot be loaded\n", path,
                file->policy_position.line, file->policy_position.column, policy_path);
        return "its policy cannot be loaded";
    }
    const char *why = "it expects what its policy cannot answer";
    enum status status = STATUS_OK;
    test_file_check(file, policy, diags);
    diags_print(diags, stderr);
    if (diags->n_errors == 0) {
        arena_init(&arena, NULL, 0);
        test_report_begin(report, path, policy_path);
        status = run_tests(report, file, policy, &arena);
        test_report_end(report);
        why = status == STATUS_OK ? NULL : status_text(status);
        if (status == STATUS_INVALID) {
            fprintf(stderr,
                    "%s: error: a test goes on beyond the 25 years of its policy's calendars\n",
                    path);
        } else if (status != STATUS_OK) {
            fprintf(stderr, "%s: error: %s\n", path, status_text(status));
        }
    }
    policy_free(policy);
    return why;
}

/* Likewise. */
static const char *run_file(struct test_report *report, const char *path)
{
    struct test_file file;
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = test_file_load(path, &file, &diags);
    if (status != STATUS_OK) {
        diags_print(&diags, stderr);
        if (status == STATUS_NO_MEMORY) {
            fprintf(stderr, "%s: error: out of memory\n", path);
        }
        diags_close(&diags);
        return status == STATUS_INVALID ? "it is not a valid file of tests" : status_text(status);
    }
    char *policy_path = path_from(path, file.policy);
    const char *why = policy_path != NULL
                          ? run_with_policy(report, path, &file, policy_path, &diags)
                          : status_text(STATUS_NO_MEMORY);
    free(policy_path);
    test_file_close(&file);
    diags_close(&diags);
    return why;
}

static int test_command(int argc, char **argv)
{
    bool is_json = false;
    bool is_junit = false;
    struct test_report report;
    const struct command_option options[] = {
        {.name = "json", .help = "print JSON", .flag = &is_json},
        {.name = "junit", .help = "print JUnit XML, for CI systems", .flag = &is_junit},
    };
    int status;
    const int first = command_read(&TEST_COMMAND, options, ARRAY_LEN(options), argc, argv, &status);
    if (first == 0) {
        return status;
    }
    if (is_json && is_junit) {
        return command_usage(&TEST_COMMAND);
    }
    test_report_init(&report,
                     is_json    ? TEST_REPORT_JSON
                     : is_junit ? TEST_REPORT_JUNIT
                                : TEST_REPORT_TEXT,
                     stdout);
    for (int i = first; i < argc; i++) {
        const char *why = run_file(&report, argv[i]);
        if (why != NULL) {
            test_report_fail(&report, argv[i], why);
        }
    }
    return test_report_close(&report) ? EXIT_DONE : EXIT_FAILED;
}

const struct command TEST_COMMAND = {
    .name = "test",
    .arguments = "FILE...",
    .summary = "run tests of policies under a clock of their own",
    .notes = "Exits 1 if a test fails.\n",
    .run = test_command,
};
