/* What came of the tests of policies: for people, as JSON, or as the XML of
 * JUnit that CI systems show. */

#ifndef SLUICE_APP_TEST_REPORT_H
#define SLUICE_APP_TEST_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/compiler.h"
#include "trial/story.h"

enum test_report_format {
    TEST_REPORT_TEXT,
    TEST_REPORT_JSON,
    TEST_REPORT_JUNIT,
};

struct test_report {
    enum test_report_format format;
    FILE *out;        /* borrowed */
    const char *path; /* of the file of tests that is being told; borrowed */
    uint64_t n_tests;
    uint64_t n_failed;
    uint64_t n_requests;
    uint64_t n_errors; /* files that could not be run */
    json_t *files;     /* of JSON: those told so far */
    json_t *tests;     /* of the file that is being told; borrowed from files */
};

void test_report_init(struct test_report *report, enum test_report_format format, FILE *out);

/* The tests of the file at @path, which are of the policy at @policy_path, follow. */
void test_report_begin(struct test_report *report, const char *path, const char *policy_path);
void test_report_add(struct test_report *report, const struct story_result *result);
void test_report_end(struct test_report *report);

/* The file at @path cannot be run, or not to its end; what ails it is on stderr, @why says in
 * short. Not between begin and end. */
void test_report_fail(struct test_report *report, const char *path, const char *why);

/* That was all. Whether every file was run, every test passed, and what
 * was told could be written. */
MUST_USE bool test_report_close(struct test_report *report);

#endif /* SLUICE_APP_TEST_REPORT_H */
