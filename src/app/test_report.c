#include "app/test_report.h"

#include <inttypes.h>

#include "app/markup.h"
#include "base/text.h"
#include "policy/units.h"

enum { LINE_BYTES = 4096 };

/* --- for people --- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_text(FILE *out, const struct text *text)
{
    fwrite(text->data, 1, text->len, out);
}

/* What a test file says, and fields that come of it, on a terminal. */
static void print_printable(FILE *out, struct span span)
{
    char buffer[LINE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_printable(&text, span);
    print_text(out, &text);
}

static void print_duration(FILE *out, uint64_t us)
{
    char buffer[64];
    struct text text = text_of(buffer, sizeof(buffer));
    if (us == 0) {
        text_add_literal(&text, "0s");
    } else {
        units_write_duration(&text, us);
    }
    print_text(out, &text);
}

static void print_observation(FILE *out, char mark, struct span name, struct span value)
{
    fprintf(out, "  %c %.*s: ", mark, SPAN_ARGS(name));
    print_printable(out, value);
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
    print_printable(out, step->method);
    fputc(' ', out);
    print_printable(out, step->target);
    fputs(", ", out);
    print_duration(out, failure->after_us);
    fputs(" after the first\n", out);
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
    print_printable(out, result->test->name);
    fprintf(out, " (%" PRIu64 " request%s in ", result->n_requests, plural(result->n_requests));
    print_duration(out, result->simulated_us);
    fputs(")\n", out);
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

/* What is not UTF-8, which only values of the environment can be, is shown
 * as a terminal shows it. */
static json_t *json_span(struct span span)
{
    char buffer[LINE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    json_t *string = json_stringn(span.data, span.len);
    if (string == NULL) {
        text_add_printable(&text, span);
        string = json_stringn(text.data, text.len);
    }
    return string;
}

static json_t *json_observation(const struct test_run_fact *observation)
{
    json_t *object = json_pack("{s:o}", "name", json_span(observation->name));
    if (observation->wanted.data != NULL) {
        json_object_set_new(object, "expected", json_span(observation->wanted));
    }
    json_object_set_new(object, "got", json_span(observation->got));
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
        json_pack("{s:o, s:I, s:b, s:I, s:I, s:o}", "name", json_span(result->test->name), "line",
                  (json_int_t)result->test->position.line, "passed", result->n_failures == 0,
                  "requests", (json_int_t)result->n_requests, "failed",
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

void test_report_init(struct test_report *report, enum test_report_format format, FILE *out)
{
    *report = (struct test_report){.format = format, .out = out};
    if (format == TEST_REPORT_JSON) {
        report->files = json_array();
    } else if (format == TEST_REPORT_JUNIT) {
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
    }
}

void test_report_begin(struct test_report *report, const char *path, const char *policy_path)
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

void test_report_add(struct test_report *report, const struct test_run_result *result)
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

void test_report_end(struct test_report *report)
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

void test_report_fail(struct test_report *report, const char *path, const char *why)
{
    report->n_errors++;
    if (report->format == TEST_REPORT_JSON) {
        json_array_append_new(report->files,
                              json_pack("{s:o, s:o, s:[]}", "file", json_span(span_of_text(path)),
                                        "error", json_span(span_of_text(why)), "tests"));
    } else if (report->format == TEST_REPORT_JUNIT) {
        fail_junit(report, path, why);
    }
}

bool test_report_close(struct test_report *report)
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
