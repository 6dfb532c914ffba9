/* Policies from text and requests without a connection, for the tests of this folder. */

#ifndef SLUICE_TESTS_POLICY_SUPPORT_H
#define SLUICE_TESTS_POLICY_SUPPORT_H

#include "base/text.h"
#include "policy/key.h"
#include "policy/policy.h"

enum { REQUEST_FIELDS_MAX = 16 };

/* The policy that @yaml says; the test fails, and prints what is wrong, if it says none. */
struct policy *policy_from_text(const char *yaml);

/* All that is wrong with @yaml, as it would be printed for a file "policy.yaml". Freed by the
 * caller. */
char *policy_errors(const char *yaml);

/* The number of warnings of @kind about @yaml, in which nothing is wrong. Their texts are added to
 * *text, a line each, unless it is NULL. */
unsigned policy_count_warnings(const char *yaml, const char *kind, struct text *text);

/* A request that only exists here. */
struct request {
    struct head head;
    struct field fields[REQUEST_FIELDS_MAX];
    struct path path;
    char path_buffer[1024];
    char host_buffer[HOST_BYTES_MAX];
    struct request_view view;
};

/* @method and @target as in a request line, @host as in Host; the client is 192.0.2.1. All texts
 * are borrowed. */
void request_init(struct request *request, const char *method, const char *target,
                  const char *host);
void request_add_field(struct request *request, struct span name, struct span value);
void request_set_client(struct request *request, struct span address);

#endif /* SLUICE_TESTS_POLICY_SUPPORT_H */
