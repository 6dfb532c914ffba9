/* Reports of policy tests: as text, as JSON, or as JUnit XML for CI systems. */

#ifndef SLUICE_APP_TEST_REPORT_H
#define SLUICE_APP_TEST_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/compiler.h"
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

void test_report_init(struct test_report *report, enum test_report_format format, FILE *out);

/* Begin the tests of the file at @path, for the policy at @policy_path. */
void test_report_begin(struct test_report *report, const char *path, const char *policy_path);
void test_report_add(struct test_report *report, const struct test_run_result *result);
void test_report_end(struct test_report *report);

/* Report that the file at @path could not be run, or not to its end. The full reason is on stderr;
 * @why is a short one. Must not be called between begin and end. */
void test_report_fail(struct test_report *report, const char *path, const char *why);

/* End the report. True: every file was run, every test passed, and the report was written. */
MUST_USE bool test_report_close(struct test_report *report);

#endif /* SLUICE_APP_TEST_REPORT_H */
