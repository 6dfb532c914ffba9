/* Policies and requests at random, of so few words that they often meet. */

#ifndef SLUICE_TESTS_DIFFERENTIAL_RANDOM_REQUEST_H
#define SLUICE_TESTS_DIFFERENTIAL_RANDOM_REQUEST_H

#include "base/text.h"

enum {
    REQUEST_FIELDS_MAX = 16,
    REQUEST_FIELD_BYTES = 96,
    REQUEST_TARGET_BYTES = 128,
};

/* The name that the process has in Via. */
#define REQUEST_OWN_NAME "sluice-010203040506"

/* As on a command line. */
struct random_request {
    const char *method;
    char target[REQUEST_TARGET_BYTES];
    char fields[REQUEST_FIELDS_MAX][REQUEST_FIELD_BYTES]; /* "Name: value" */
    size_t n_fields;
    const char *peer;
};

/* The YAML of a policy, where "PORT" is the port of its servers. It need not be a valid one. */
void random_policy(struct text *yaml);

void random_request(struct random_request *request);

/* The head as it is sent, with a NUL behind it. */
void random_request_write(const struct random_request *request, struct text *head);

#endif /* SLUICE_TESTS_DIFFERENTIAL_RANDOM_REQUEST_H */
