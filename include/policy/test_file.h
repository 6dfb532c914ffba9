/* Tests of a policy, as a YAML file tells them: requests at given times, and what must come of
 * each. The language is told in docs/testing-policies.md. */

#ifndef SLUICE_POLICY_TEST_FILE_H
#define SLUICE_POLICY_TEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/arena.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/status.h"
#include "http/field.h"
#include "policy/policy.h"

/* Where something stands in the file, from 1. */
struct test_place {
    uint32_t line;
    uint32_t column;
};

enum test_verdict {
    TEST_VERDICT_UNSAID,
    TEST_ALLOWED,
    TEST_DENIED,    /* by a limit */
    TEST_REFUSED,   /* 4xx: not a request that limits are asked about */
    TEST_UNDECIDED, /* 503: no decision could be made */
};

struct test_number {
    bool is_said;
    uint32_t value;
};

/* The name of a limit or a route; empty: not said. */
struct test_name {
    struct span text;
    struct test_place place;
};

struct test_remaining {
    struct test_name limit;
    uint32_t value;
};

/* A field that the client must see, or must not. */
struct test_field {
    struct test_place place;
    struct span name;
    struct span value;
    bool is_absent;
};

/* What must come of a step. What is not said is not looked at. */
struct test_expect {
    struct test_place place;
    enum test_verdict verdict;
    struct test_number allowed; /* of its requests */
    struct test_number denied;
    struct test_number status;
    struct test_name limit;
    struct test_name route;
    bool has_held;
    uint64_t held_us;
    bool has_retry_after;
    bool has_no_retry_after; /* it is said that there is none */
    uint64_t retry_after_s;
    struct test_number remaining; /* of the limit nearest to its end */
    struct test_remaining *remaining_of;
    size_t n_remaining_of;
    bool has_shadow;
    struct test_name *shadow; /* all limits in shadow that would have denied, in any order */
    size_t n_shadow;
    struct test_field *fields;
    size_t n_fields;
};

/* One request, or several alike. */
struct test_step {
    struct test_place place;
    uint64_t at_us; /* of the first, us since the epoch */
    uint32_t repeat;
    uint64_t every_us; /* from one to the next */

    struct span method;
    struct span host;
    struct span target;
    struct field *fields; /* ids are not filled */
    size_t n_fields;
    struct address from;

    uint64_t takes_us; /* from when it is forwarded to the end of its answer */
    uint16_t status;   /* of the upstream's answer; 0 where the end is none */
    enum answer_end end;
    struct field *answer_fields; /* likewise */
    size_t n_answer_fields;

    struct test_expect expect;
};

struct policy_test {
    struct span name;
    struct test_place place;
    struct test_step *steps;
    size_t n_steps;
};

struct test_file {
    struct arena arena; /* of everything below */
    struct span policy; /* path as written, with a NUL behind it */
    struct test_place policy_place;
    uint64_t start_us; /* of the earliest test, us since the epoch */
    struct policy_test *tests;
    size_t n_tests;
};

/* Read the file at @path. STATUS_OK: @file is filled, and closed with test_file_close(). Else as
 * loader_load_file(). */
MUST_USE enum status test_file_load(const char *path, struct test_file *file, struct diags *diags);

/* The same from text in memory. Environment variables are looked up with @getenv_value. */
MUST_USE enum status test_file_load_text(struct span yaml,
                                         const char *(*getenv_value)(const char *name),
                                         struct test_file *file, struct diags *diags);

/* Tell an error for each name in @file that @policy does not have, and for each field that is
 * expected of an answer and that nobody but the upstream and the network would make. */
void test_file_check(const struct test_file *file, const struct policy *policy,
                     struct diags *diags);

void test_file_close(struct test_file *file);

#endif /* SLUICE_POLICY_TEST_FILE_H */
