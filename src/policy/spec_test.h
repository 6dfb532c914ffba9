/* What a file of tests says, value by value; as spec.h for the policy. */

#ifndef SLUICE_POLICY_SPEC_TEST_H
#define SLUICE_POLICY_SPEC_TEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "policy/section.h"
#include "policy/spec_values.h"

/* node is NULL: not said. */
struct spec_number {
    const struct node *node;
    uint32_t value;
};

struct spec_named_number {
    struct section_place place;
    uint32_t value;
};

struct spec_duration {
    const struct node *node;
    uint64_t us;
};

struct spec_moment {
    const struct node *node;
    uint64_t us; /* since the epoch */
};

struct spec_retry_after {
    const struct node *node;
    bool is_none;
    uint64_t seconds;
};

/* METHOD and path, or METHOD and URL. */
struct spec_request {
    const struct node *node;
    struct span method;
    struct span host; /* empty: not said */
    struct span target;
};

struct spec_expect {
    struct section_place place;
    int verdict; /* enum test_verdict */
    struct spec_number allowed;
    struct spec_number denied;
    struct spec_number status;
    struct spec_text limit;
    struct spec_text route;
    struct spec_duration held;
    struct spec_retry_after retry_after;
    struct spec_number remaining;
    struct section_items remaining_of; /* struct spec_named_number */
    struct section_items shadow;       /* struct spec_text */
    struct section_items headers;      /* struct spec_field */
};

/* How the request of a step ends. */
struct spec_test_answer {
    enum answer_end end;
    uint64_t status; /* of ANSWER_WHOLE */
};

struct spec_step {
    struct section_place place;
    struct spec_duration at;
    struct spec_duration after;
    struct spec_request request;
    struct section_items headers; /* struct spec_field */
    struct address from;          /* ADDRESS_NONE: where is_from_said is false */
    struct spec_text host;
    uint32_t repeat;
    uint64_t every_us;
    struct spec_test_answer answer;
    struct section_items answer_headers;
    uint64_t takes_us;
    struct spec_expect expect;
};

struct spec_test {
    struct section_place place;
    struct spec_text name;
    struct spec_moment start;
    struct section_items steps; /* struct spec_step */
};

struct spec_test_defaults {
    struct section_place place;
    struct address from;
    struct spec_text host;
    struct section_items headers; /* struct spec_field */
};

struct spec_test_file {
    struct section_place place;
    struct spec_text policy;
    struct spec_moment start;
    struct spec_test_defaults defaults;
    struct section_items tests; /* struct spec_test */
};

#endif /* SLUICE_POLICY_SPEC_TEST_H */
