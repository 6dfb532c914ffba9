/* sluice test FILE...: runs the tests of policies and reports as text, as JSON, or as JUnit XML for
 * CI systems.
 *
 * file of tests ─► its policy ─► each test under a clock of its own ─► a report */

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/text.h"
#include "policy/units.h"
#include "simulation/test_run.h"

enum test_report_format {
    TEST_REPORT_TEXT,
    TEST_REPORT_JSON,
    TEST_REPORT_JUNIT,
};

struct test_report {
    enum test_report_format format;
    FILE *out;        /* borrowed */
    const char *path; /* of the file of tests being reported; borrowed */
    uint64_t n_tests;
    uint64_t n_failed;
    uint64_t n_requests;
    uint64_t n_errors; /* files that could not be run */
    json_t *files;     /* JSON format: the files reported so far */
    json_t *tests;     /* of the file being reported; borrowed from files */
};

/* --- for people --- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static struct word duration_of(uint64_t us)
{
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    if (us == 0) {
        text_add_literal(&text, "0s");
    } else {
        units_write_duration(&text, us);
    }
    return word_of(&text);
}

static void print_observation(FILE *out, char mark, struct span name, struct span value)
{
    fprintf(out, "  %c %.*s: ", mark, SPAN_ARGS(name));
    print_printable(out, "%.*s", SPAN_ARGS(value));
    fputc('\n', out);
}

static void print_request(FILE *out, const struct test_run_failure *failure)
{
    const struct test_step *step = failure->step;
    if (failure->number == 0) {
        fprintf(out, "  all %u requests: ", step->repeat);
    } else if (step->repeat > 1) {
        fprintf(out, "  request %u of %u: ", failure->number, step->repeat);
    } else {
        fputs("  ", out);
    }
    print_printable(out, "%.*s %.*s", SPAN_ARGS(step->method), SPAN_ARGS(step->target));
    fprintf(out, ", %s after the first\n", duration_of(failure->after_us).text);
}

static void print_failure(FILE *out, const struct test_run_failure *failure)
{
    print_request(out, failure);
    for (size_t i = 0; i < failure->n_observations; i++) {
        const struct test_run_fact *observation = &failure->observations[i];
        if (test_run_fact_differs(observation)) {
            print_observation(out, '-', observation->name, observation->wanted);
            print_observation(out, '+', observation->name, observation->got);
        } else {
            print_observation(out, ' ', observation->name, observation->got);
        }
    }
}

static size_t n_reported(const struct test_run_result *result)
{
    return result->n_failures < TEST_RUN_FAILURES_MAX ? result->n_failures : TEST_RUN_FAILURES_MAX;
}

static void add_text(struct test_report *report, const struct test_run_result *result)
{
    FILE *out = report->out;
    fputs(result->n_failures == 0 ? "ok    " : "FAIL  ", out);
    print_printable(out, "%.*s", SPAN_ARGS(result->test->name));
    fprintf(out, " (%" PRIu64 " request%s in %s)\n", result->n_requests, plural(result->n_requests),
            duration_of(result->simulated_us).text);
    for (size_t i = 0; i < n_reported(result); i++) {
        const struct test_run_failure *failure = &result->failures[i];
        fprintf(out, "%s:%u:%u: not as expected (- expected, + got)\n", report->path,
                failure->step->position.line, failure->step->position.column);
        print_failure(out, failure);
    }
    if (result->n_failures > n_reported(result)) {
        fprintf(out, "  and %" PRIu64 " more that went wrong in this test\n",
                result->n_failures - n_reported(result));
    }
}

/* --- JSON --- */

static json_t *json_observation(const struct test_run_fact *observation)
{
    json_t *object = json_pack("{s:o}", "name", json_of_bytes(observation->name));
    if (observation->wanted.data != NULL) {
        json_object_set_new(object, "expected", json_of_bytes(observation->wanted));
    }
    json_object_set_new(object, "got", json_of_bytes(observation->got));
    return object;
}

static json_t *json_failure(const struct test_run_failure *failure)
{
    json_t *observations = json_array();
    for (size_t i = 0; i < failure->n_observations; i++) {
        json_array_append_new(observations, json_observation(&failure->observations[i]));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "line", (json_int_t)failure->step->position.line,
                     "column", (json_int_t)failure->step->position.column, "request",
                     (json_int_t)failure->number, "after_us", (json_int_t)failure->after_us,
                     "facts", observations);
}

static void add_json(struct test_report *report, const struct test_run_result *result)
{
    json_t *failures = json_array();
    for (size_t i = 0; i < n_reported(result); i++) {
        json_array_append_new(failures, json_failure(&result->failures[i]));
    }
    json_array_append_new(
        report->tests,
        json_pack("{s:o, s:I, s:b, s:I, s:I, s:o}", "name", json_of_bytes(result->test->name),
                  "line", (json_int_t)result->test->position.line, "passed",
                  result->n_failures == 0, "requests", (json_int_t)result->n_requests, "failed",
                  (json_int_t)result->n_failures, "failures", failures));
}

static void begin_json(struct test_report *report, const char *path, const char *policy_path)
{
    json_t *file = json_pack("{s:s, s:s, s:[]}", "file", path, "policy", policy_path, "tests");
    report->tests = json_object_get(file, "tests");
    json_array_append_new(report->files, file);
}

static void close_json(struct test_report *report)
{
    json_t *all =
        json_pack("{s:I, s:I, s:I, s:I, s:o}", "tests", (json_int_t)report->n_tests, "failed",
                  (json_int_t)report->n_failed, "errors", (json_int_t)report->n_errors, "requests",
                  (json_int_t)report->n_requests, "files", report->files);
    json_dumpf(all, report->out, JSON_INDENT(2));
    fputc('\n', report->out);
    json_decref(all);
}

/* --- JUnit --- */

static void print_xml_observation(FILE *out, char mark, struct span name, struct span value)
{
    fprintf(out, "%c ", mark);
    markup_print_text(out, name);
    fputs(": ", out);
    markup_print_text(out, value);
    fputc('\n', out);
}

static void add_junit_failure(struct test_report *report, const struct test_run_failure *failure)
{
    FILE *out = report->out;
    fputs("      <failure message=\"", out);
    markup_print_text(out, span_of_text(report->path));
    fprintf(out, ":%u:%u: not as expected\">", failure->step->position.line,
            failure->step->position.column);
    for (size_t i = 0; i < failure->n_observations; i++) {
        const struct test_run_fact *observation = &failure->observations[i];
        if (test_run_fact_differs(observation)) {
            print_xml_observation(out, '-', observation->name, observation->wanted);
        }
        print_xml_observation(out, test_run_fact_differs(observation) ? '+' : ' ',
                              observation->name, observation->got);
    }
    fputs("</failure>\n", out);
}

static void add_junit(struct test_report *report, const struct test_run_result *result)
{
    fputs("    <testcase classname=\"", report->out);
    markup_print_text(report->out, span_of_text(report->path));
    fputs("\" name=\"", report->out);
    markup_print_text(report->out, result->test->name);
    fputs(result->n_failures == 0 ? "\"/>\n" : "\">\n", report->out);
    for (size_t i = 0; i < n_reported(result); i++) {
        add_junit_failure(report, &result->failures[i]);
    }
    if (result->n_failures > 0) {
        fputs("    </testcase>\n", report->out);
    }
}

static void begin_junit(struct test_report *report, const char *path)
{
    fputs("  <testsuite name=\"", report->out);
    markup_print_text(report->out, span_of_text(path));
    fputs("\">\n", report->out);
}

/* --- all of them --- */

static void test_report_init(struct test_report *report, enum test_report_format format, FILE *out)
{
    *report = (struct test_report){.format = format, .out = out};
    if (format == TEST_REPORT_JSON) {
        report->files = json_array();
    } else if (format == TEST_REPORT_JUNIT) {
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
    }
}

/* Begin the tests of the file at @path, for the policy at @policy_path. */
static void test_report_begin(struct test_report *report, const char *path, const char *policy_path)
{
    report->path = path;
    switch (report->format) {
    case TEST_REPORT_TEXT:
        fprintf(report->out, "%s, of %s\n", path, policy_path);
        break;
    case TEST_REPORT_JSON:
        begin_json(report, path, policy_path);
        break;
    case TEST_REPORT_JUNIT:
        begin_junit(report, path);
        break;
    }
}

static void test_report_add(struct test_report *report, const struct test_run_result *result)
{
    report->n_tests++;
    report->n_failed += result->n_failures > 0;
    report->n_requests += result->n_requests;
    switch (report->format) {
    case TEST_REPORT_TEXT:
        add_text(report, result);
        break;
    case TEST_REPORT_JSON:
        add_json(report, result);
        break;
    case TEST_REPORT_JUNIT:
        add_junit(report, result);
        break;
    }
}

static void test_report_end(struct test_report *report)
{
    if (report->format == TEST_REPORT_JUNIT) {
        fputs("  </testsuite>\n", report->out);
    }
}

static void fail_junit(struct test_report *report, const char *path, const char *why)
{
    begin_junit(report, path);
    fputs("    <testcase classname=\"", report->out);
    markup_print_text(report->out, span_of_text(path));
    fputs("\" name=\"the file can be run\">\n      <error message=\"", report->out);
    markup_print_text(report->out, span_of_text(why));
    fputs("\"/>\n    </testcase>\n  </testsuite>\n", report->out);
}

/* Report that the file at @path could not be run, or not to its end. The full reason is on stderr;
 * @why is a short one. Must not be called between begin and end. */
static void test_report_fail(struct test_report *report, const char *path, const char *why)
{
    report->n_errors++;
    if (report->format == TEST_REPORT_JSON) {
        json_array_append_new(report->files, json_pack("{s:o, s:o, s:[]}", "file",
                                                       json_of_bytes(span_of_text(path)), "error",
                                                       json_of_bytes(span_of_text(why)), "tests"));
    } else if (report->format == TEST_REPORT_JUNIT) {
        fail_junit(report, path, why);
    }
}

/* End the report. True: every file was run, every test passed, and the report was written. */
static bool test_report_close(struct test_report *report)
{
    switch (report->format) {
    case TEST_REPORT_TEXT:
        fprintf(report->out, "%" PRIu64 " test%s, %" PRIu64 " failed, %" PRIu64 " request%s\n",
                report->n_tests, plural(report->n_tests), report->n_failed, report->n_requests,
                plural(report->n_requests));
        break;
    case TEST_REPORT_JSON:
        close_json(report);
        break;
    case TEST_REPORT_JUNIT:
        fputs("</testsuites>\n", report->out);
        break;
    }
    return fflush(report->out) == 0 && report->n_failed == 0 && report->n_errors == 0;
}

/* --- the runs --- */

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
