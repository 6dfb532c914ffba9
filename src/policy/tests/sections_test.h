/* The contents of a test file, like spec.h for a policy, and its tables. All of it lives in the
 * arena of the test file. */

#ifndef SLUICE_POLICY_TESTS_SECTIONS_TEST_H
#define SLUICE_POLICY_TESTS_SECTIONS_TEST_H

#include <stdint.h>

#include "base/address.h"
#include "policy/load/section.h"
#include "policy/load/spec_values.h"
#include "policy/test_file.h"

struct spec_remaining {
    struct section_position position; /* name: of the limit */
    uint32_t value;
};

/* node is NULL: not given. */
struct spec_time {
    const struct node *node;
    uint64_t us; /* after the start, or since the epoch */
};

/* METHOD and path, or METHOD and URL. */
struct spec_request {
    struct span method;
    struct span host; /* empty: not given */
    struct span target;
    bool is_https; /* by the URL */
};

/* The certificate that the client shows. */
struct spec_test_certificate {
    struct section_position position;
    struct spec_text facts[CERTIFICATE_FACTS];
};

struct spec_expect {
    struct section_position position;
    struct test_expect values;         /* but its lists */
    struct section_items remaining_of; /* struct spec_remaining */
    struct section_items shadow;       /* struct test_name */
    struct section_items headers;      /* struct spec_field */
};

/* How the request of a step ends. */
struct spec_test_answer {
    enum answer_end end;
    uint32_t status; /* of ANSWER_WHOLE */
};

struct spec_step {
    struct section_position position;
    struct spec_time at;
    struct spec_time after;
    struct spec_request request;
    struct spec_text host;
    struct section_items headers; /* struct spec_field */
    struct spec_test_certificate certificate;
    struct section_items claims; /* struct section_list of struct spec_text */
    struct spec_text ja4;
    struct spec_country country;
    struct spec_asn asn;
    int version; /* 0: HTTP/1.1, 1: HTTP/2; valid if version is given */
    struct spec_test_answer answer;
    struct section_items answer_headers; /* struct spec_field */
    struct spec_expect expect;
    struct test_step values; /* repeat, clients, every_us, takes_us and from (ADDRESS_NONE: not
                                given) */
};

struct spec_test {
    struct section_position position;
    struct spec_text name;
    struct spec_time start;
    struct section_items steps; /* struct spec_step */
};

struct spec_test_defaults {
    struct section_position position;
    struct address from;
    struct spec_text host;
    int scheme;                   /* 1: https */
    int version;                  /* 1: HTTP/2 */
    struct section_items headers; /* struct spec_field */
};

struct spec_test_file {
    struct section_position position;
    struct spec_text policy;
    struct spec_time start;
    struct spec_test_defaults defaults;
    struct section_items tests; /* struct spec_test */
};

/* The whole file; read into a struct spec_test_file. */
extern const struct value_type SECTIONS_TEST_FILE;

#endif /* SLUICE_POLICY_TESTS_SECTIONS_TEST_H */
