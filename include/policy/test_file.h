/* Tests of a policy from a YAML file: requests at given times, and the expected outcome of each.
 * The format is described in docs/testing-policies.md. */

#ifndef SLUICE_POLICY_TEST_FILE_H
#define SLUICE_POLICY_TEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "geo/database.h"
#include "http/field.h"
#include "policy/policy.h"
#include "tls/client_certificate.h"

struct node; /* of the file's tree, which lives as long as the tests */

/* A position in the file; lines and columns count from 1. */
struct test_position {
    uint32_t line;
    uint32_t column;
};

enum test_verdict {
    TEST_VERDICT_UNSAID,
    TEST_ALLOWED,
    TEST_DENIED,    /* by a limit, or a ban of it */
    TEST_REFUSED,   /* 4xx: refused before limits are checked */
    TEST_UNDECIDED, /* 503: no decision could be made */
    TEST_BANNED,    /* by a ban */
};

/* Values that may be given; node is NULL: not given. */

struct test_number {
    const struct node *node;
    uint32_t value;
};

struct test_duration {
    const struct node *node;
    uint64_t us;
};

struct test_retry_after {
    const struct node *node;
    bool is_none; /* a response without Retry-After is expected */
    uint64_t seconds;
};

/* The name of a limit or a route. */
struct test_name {
    const struct node *node;
    struct span text;
};

struct test_remaining {
    struct test_name limit;
    uint32_t value;
};

/* A field that the response must have, or must not have. */
struct test_field {
    const struct node *node; /* of the name */
    struct span name;
    struct span value;
    bool is_absent;
};

/* The expected outcome of a step. Values that are not given are not checked. */
struct test_expect {
    enum test_verdict verdict;
    struct test_number allowed; /* of its requests */
    struct test_number denied;
    struct test_number banned; /* those that a ban has denied */
    struct test_number status;
    struct test_number grpc; /* of a gRPC call by HTTP/2 that sluice answers */
    struct test_name limit;
    struct test_name route;
    struct test_duration held;
    struct test_retry_after retry_after;
    struct test_number remaining; /* of the limit with the least left */
    struct test_remaining *remaining_of;
    size_t n_remaining_of;
    bool has_shadow;
    struct test_name *shadow; /* all shadow limits that would have denied, in any order */
    size_t n_shadow;
    struct test_field *fields;
    size_t n_fields;
};

/* One request, or several identical ones. */
struct test_step {
    struct test_position position;
    uint64_t at_us; /* of the first, us since the epoch */
    uint32_t repeat;
    uint64_t every_us; /* between two requests */

    struct span method;
    struct span host;
    struct span target;
    struct field *fields; /* ids are not filled */
    size_t n_fields;
    struct address from;
    uint32_t clients; /* that send the requests in turn: from, and those after it */
    bool is_http2;
    const struct tls_client *tls;    /* NULL: over plain HTTP */
    const struct given_token *token; /* NULL: none */
    const struct node *token_node;   /* of the claims */
    const struct geo_facts *geo;     /* NULL: the databases are asked */
    const struct node *geo_node;     /* of one of the facts */
    struct test_name tenant;         /* plan of its keys in the table of tenants */

    uint64_t takes_us; /* from when it is forwarded to the end of its answer */
    uint16_t status;   /* of the upstream's response; 0: there is no response */
    enum answer_end end;
    struct field *answer_fields; /* ids are not filled */
    size_t n_answer_fields;

    struct test_expect expect;
};

struct policy_test {
    struct span name;
    struct test_position position;
    struct test_step *steps;
    size_t n_steps;
};

struct test_file {
    struct arena arena; /* of everything below */
    struct span policy; /* path as written, NUL-terminated */
    struct test_position policy_position;
    uint64_t start_us; /* of the earliest test, us since the epoch */
    struct policy_test *tests;
    size_t n_tests;
};

/* Read the file at @path. STATUS_OK: @file is filled, and closed with test_file_close(). Other
 * results as for loader_load_file(). */
MUST_USE enum status test_file_load(const char *path, struct test_file *file, struct diags *diags);

/* The same from text in memory. Environment variables are looked up with @getenv_value. */
MUST_USE enum status test_file_load_text(struct span yaml,
                                         const char *(*getenv_value)(const char *name),
                                         struct test_file *file, struct diags *diags);

/* Report an error for each name in @file that @policy does not have, and for each expected response
 * field that only the upstream or the network can produce. */
void test_file_check(const struct test_file *file, const struct policy *policy,
                     struct diags *diags);

void test_file_close(struct test_file *file);

#endif /* SLUICE_POLICY_TEST_FILE_H */
