#include "policy/tests/sections_test.h"

#include "base/clock.h"
#include "http/target.h"
#include "policy/load/value_types.h"
#include "policy/units.h"

/* --- single values --- */

static bool parse_name(const struct value_input *input, void *out)
{
    *(struct span *)out = input->text;
    return true;
}

static bool parse_timestamp(const struct value_input *input, void *out)
{
    return timestamp_parse(input->text, out) ||
           text_refuse(input->problem,
                       "must be a time such as 2026-03-29T01:59:00Z, with Z or an offset");
}

static bool parse_address(const struct value_input *input, void *out)
{
    return address_parse(input->text, out) ||
           text_refuse(input->problem, "must be an address such as 192.0.2.1");
}

static bool parse_retry_after(const struct value_input *input, void *out)
{
    struct test_retry_after *retry_after = out;
    uint64_t us = 0;
    if (span_equals(input->text, SPAN("none"))) {
        retry_after->is_none = true;
    } else if (!value_parse_duration(input, &us)) {
        return false;
    } else if (us % 1000000 != 0) {
        return text_refuse(input->problem, "the field has whole seconds");
    }
    retry_after->seconds = us / 1000000;
    return true;
}

static bool parse_answer(const struct value_input *input, void *out)
{
    struct spec_test_answer *answer = out;
    if (answer_end_read(input->text, &answer->end)) {
        return true;
    }
    if (!value_parse_number(input, &answer->status)) {
        return text_refuse(input->problem, ", client_left or server_failed");
    }
    return true;
}

/* Split "https://host/path" into host and path; a path alone is unchanged. */
static void split_url(struct spec_request *request)
{
    static const struct span SCHEMES[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < ARRAY_LEN(SCHEMES); i++) {
        if (span_starts_with(request->target, SCHEMES[i])) {
            const struct span rest = span_of(request->target.data + SCHEMES[i].len,
                                             request->target.len - SCHEMES[i].len);
            const size_t slash = span_find(rest, '/');
            request->is_https = i == 1;
            request->host = span_of(rest.data, slash);
            request->target =
                slash < rest.len ? span_of(rest.data + slash, rest.len - slash) : SPAN("/");
            return;
        }
    }
}

static bool parse_request(const struct value_input *input, void *out)
{
    struct spec_request *request = out;
    struct target target;
    const size_t space = span_find(input->text, ' ');
    if (space == input->text.len) {
        return text_refuse(input->problem, "must be a method and a path, such as GET /v1/items");
    }
    request->method = span_of(input->text.data, space);
    request->target = span_trim(span_of(input->text.data + space, input->text.len - space));
    split_url(request);
    if (!value_check_method(request->method, input->problem)) {
        return false;
    }
    const char *fault = target_parse(request->target, request->method, &target);
    if (fault == NULL && !target_is_host(request->host)) {
        fault = "this is no host";
    }
    if (fault != NULL) {
        text_add(input->problem, span_of_text(fault));
        return false;
    }
    return true;
}

#define DURATION_TYPE(struct_)                                                                     \
    {                                                                                              \
        VALUE_WITH_NODE(struct_, us), .noun = "a duration such as 500ms or 10s",                   \
                                      .parse = value_parse_duration, .max = UNITS_DURATION_US_MAX, \
                                      .pattern = "^(" PATTERN_DURATION ")$"                        \
    }
#define WHOLE(struct_, min_, max_)                                                                 \
    {                                                                                              \
        VALUE_WITH_NODE(struct_, value), .noun = "a whole number", .parse = value_parse_number,    \
                                         .min = (min_), .max = (max_), .form = FORM_NUMBER         \
    }

static const struct value_type COUNT = WHOLE(struct test_number, 0, UINT32_MAX);
static const struct value_type REMAINING = WHOLE(struct spec_remaining, 0, UINT32_MAX);
static const struct value_type STATUS = WHOLE(struct test_number, 100, 599);
static const struct value_type GRPC_STATUS = WHOLE(struct test_number, 0, 16);
static const struct value_type REPEAT = VALUE_NUMBER_TYPE(1, 10 * 1000 * 1000);
static const struct value_type CLIENTS = VALUE_NUMBER_TYPE(1, 1000 * 1000);
static const struct value_type EVERY = VALUE_DURATION_TYPE(0, UNITS_DURATION_US_MAX);
static const struct value_type DURATION = DURATION_TYPE(struct test_duration);
static const struct value_type TIME = DURATION_TYPE(struct spec_time);
static const struct value_type NAME = {VALUE_WITH_NODE(struct test_name, text), .noun = "a name",
                                       .parse = parse_name};
static const struct value_type RETRY_AFTER = {
    .kind = VALUE_SCALAR,
    .noun = "a duration such as 12s, or none",
    .bytes = sizeof(struct test_retry_after),
    .has_node = true,
    .parse = parse_retry_after,
    .max = UNITS_DURATION_US_MAX,
    .pattern = "^(" PATTERN_DURATION "|none)$",
};
static const struct value_type ANSWER = {.kind = VALUE_SCALAR,
                                         .noun = "a status, client_left or server_failed",
                                         .bytes = sizeof(struct spec_test_answer),
                                         .parse = parse_answer,
                                         .min = 200,
                                         .max = 599,
                                         .form = FORM_NUMBER,
                                         .pattern = "^(client_left|server_failed)$"};
static const struct value_type TIMESTAMP = {
    .noun = "a time such as 2026-03-29T01:59:00Z",
    VALUE_WITH_NODE(struct spec_time, us),
    .parse = parse_timestamp,
};
static const struct value_type ADDRESS =
    VALUE_SCALAR_TYPE("an address such as 192.0.2.1", struct address, parse_address);
static const struct value_type REQUEST = VALUE_SCALAR_TYPE(
    "a method and a path, such as GET /v1/items", struct spec_request, parse_request);
static const struct value_type VERDICT = {
    .kind = VALUE_WORD,
    .noun = "allowed, denied, refused, undecided or banned",
    .bytes = sizeof(int),
    .min = TEST_ALLOWED,
    .words = (const char *const[]){"allowed", "denied", "refused", "undecided", "banned", NULL},
};

static const struct value_type SCHEME = WORD_TYPE("http or https", "http", "https");
static const struct value_type VERSION = WORD_TYPE("1.1 or 2", "1.1", "2");

/* --- sections, the inner ones first --- */

static const struct section_field EXPECT_FIELDS[] = {
    {"verdict", SHAPE_ONE, &VERDICT, offsetof(struct spec_expect, values.verdict), NULL,
     KEY_OPTIONAL,
     "of each request: allowed, denied (by a limit or a ban), banned (by a ban), refused (4xx "
     "before "
     "limits), undecided (503)"},
    {"allowed", SHAPE_ONE, &COUNT, offsetof(struct spec_expect, values.allowed), NULL, KEY_OPTIONAL,
     "how many of the step's requests are allowed"},
    {"denied", SHAPE_ONE, &COUNT, offsetof(struct spec_expect, values.denied), NULL, KEY_OPTIONAL,
     "how many of them are denied"},
    {"banned", SHAPE_ONE, &COUNT, offsetof(struct spec_expect, values.banned), NULL, KEY_OPTIONAL,
     "how many of those that are denied a ban denies"},
    {"status", SHAPE_ONE, &STATUS, offsetof(struct spec_expect, values.status), NULL, KEY_OPTIONAL,
     "that the client of each request gets"},
    {"grpc", SHAPE_ONE, &GRPC_STATUS, offsetof(struct spec_expect, values.grpc), NULL, KEY_OPTIONAL,
     "the status that each gRPC call by HTTP/2 gets of sluice"},
    {"limit", SHAPE_ONE, &NAME, offsetof(struct spec_expect, values.limit), NULL, KEY_OPTIONAL,
     "the first enforced limit that denies each request"},
    {"route", SHAPE_ONE, &NAME, offsetof(struct spec_expect, values.route), NULL, KEY_OPTIONAL,
     "that each request takes"},
    {"held", SHAPE_ONE, &DURATION, offsetof(struct spec_expect, values.held), NULL, KEY_OPTIONAL,
     "how long the last request is held before it is forwarded"},
    {"retry_after", SHAPE_ONE, &RETRY_AFTER, offsetof(struct spec_expect, values.retry_after), NULL,
     KEY_OPTIONAL, "what the last answer says, in whole seconds, or none"},
    {"remaining", SHAPE_ONE, &COUNT, offsetof(struct spec_expect, values.remaining), NULL,
     KEY_OPTIONAL, "units left after the last request, of the enforced limit nearest to its end"},
    {"remaining_of", SHAPE_MAP, &REMAINING, offsetof(struct spec_expect, remaining_of), NULL,
     KEY_OPTIONAL, "units left after the last request, by limit"},
    {"shadow", SHAPE_LIST, &NAME, offsetof(struct spec_expect, shadow), NULL, KEY_OPTIONAL,
     "limits in shadow that would have denied the last request; [] for none"},
    {"headers", SHAPE_MAP, &VALUE_FIELD, offsetof(struct spec_expect, headers), NULL, KEY_OPTIONAL,
     "fields of the last answer that are sluice's; absent: it does not stand there"},
};
static const struct value_type EXPECT_TYPE = {.kind = VALUE_SECTION,
                                              .noun = "a verdict or a mapping",
                                              .bytes = sizeof(struct spec_expect),
                                              .section = SHORT_SECTION(EXPECT_FIELDS, "verdict")};

static const struct section_field CLIENT_CERT_FIELDS[] = {
    {"dns", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_test_certificate, facts[CERTIFICATE_DNS]),
     NULL, KEY_OPTIONAL, "its first alternative name of the kind DNS"},
    {"uri", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_test_certificate, facts[CERTIFICATE_URI]),
     NULL, KEY_OPTIONAL, "its first one of the kind URI"},
    {"cn", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_test_certificate, facts[CERTIFICATE_CN]),
     NULL, KEY_OPTIONAL, "the common name of its subject"},
    {"fingerprint", SHAPE_ONE, &VALUE_TEXT,
     offsetof(struct spec_test_certificate, facts[CERTIFICATE_FINGERPRINT]), NULL, KEY_OPTIONAL,
     "its SHA-256, 64 hexadecimal digits; left out: 64 zeros"},
};
static const struct value_type CLIENT_CERT_TYPE =
    SECTION_TYPE(CLIENT_CERT_FIELDS, struct spec_test_certificate);

static const struct section_field STEP_FIELDS[] = {
    {"at", SHAPE_ONE, &TIME, offsetof(struct spec_step, at), NULL, KEY_OPTIONAL,
     "after the start; left out: when the step before ended"},
    {"after", SHAPE_ONE, &TIME, offsetof(struct spec_step, after), NULL, KEY_OPTIONAL,
     "after the last request of the step before; instead of at"},
    {"request", SHAPE_ONE, &REQUEST, offsetof(struct spec_step, request), NULL, KEY_REQUIRED,
     "METHOD and a path, or METHOD and http://HOST/PATH or https://HOST/PATH"},
    {"headers", SHAPE_MAP, &VALUE_FIELD, offsetof(struct spec_step, headers), NULL, KEY_OPTIONAL,
     "fields of the request, beside those of defaults"},
    {"from", SHAPE_ONE, &ADDRESS, offsetof(struct spec_step, values.from), NULL, KEY_OPTIONAL,
     "address of the peer; left out: that of defaults"},
    {"clients", SHAPE_ONE, &CLIENTS, offsetof(struct spec_step, values.clients), "1", KEY_OPTIONAL,
     "how many clients send the step's requests in turn: from, and the addresses after it"},
    {"host", SHAPE_ONE, &VALUE_HOST_RULE, offsetof(struct spec_step, host), NULL, KEY_OPTIONAL,
     "Host; left out: that of the URL, or of defaults"},
    {"version", SHAPE_ONE, &VERSION, offsetof(struct spec_step, version), NULL, KEY_OPTIONAL,
     "1.1 or 2: of HTTP; left out: that of defaults"},
    {"client_cert", SHAPE_ONE, &CLIENT_CERT_TYPE, offsetof(struct spec_step, certificate), NULL,
     KEY_OPTIONAL, "the certificate that the client shows, over https"},
    {"ja4", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_step, ja4), NULL, KEY_OPTIONAL,
     "the JA4 fingerprint of the client, over https"},
    {"jwt", SHAPE_MAP_OF_LISTS, &VALUE_CLAIM, offsetof(struct spec_step, claims), NULL,
     KEY_OPTIONAL, "claim: value or list of values of the request's token, which counts as valid"},
    {"country", SHAPE_ONE, &VALUE_COUNTRY, offsetof(struct spec_step, country), NULL, KEY_OPTIONAL,
     "of the client; this or asn in place of the databases of geo"},
    {"asn", SHAPE_ONE, &VALUE_ASN, offsetof(struct spec_step, asn), NULL, KEY_OPTIONAL,
     "autonomous system of the client"},
    {"tenant", SHAPE_ONE, &NAME, offsetof(struct spec_step, values.tenant), NULL, KEY_OPTIONAL,
     "the plan, or numbers, that the table of tenants has for the request's keys; left out: none"},
    {"repeat", SHAPE_ONE, &REPEAT, offsetof(struct spec_step, values.repeat), "1", KEY_OPTIONAL,
     "how many such requests"},
    {"every", SHAPE_ONE, &EVERY, offsetof(struct spec_step, values.every_us), "0s", KEY_OPTIONAL,
     "from one of them to the next"},
    {"takes", SHAPE_ONE, &EVERY, offsetof(struct spec_step, values.takes_us), "0s", KEY_OPTIONAL,
     "from when a request is forwarded to the end of its answer"},
    {"answer", SHAPE_ONE, &ANSWER, offsetof(struct spec_step, answer), "200", KEY_OPTIONAL,
     "status of the upstream's answer, 200 to 599, client_left or server_failed"},
    {"answer_headers", SHAPE_MAP, &VALUE_FIELD, offsetof(struct spec_step, answer_headers), NULL,
     KEY_OPTIONAL, "fields of the upstream's answer"},
    {"expect", SHAPE_ONE, &EXPECT_TYPE, offsetof(struct spec_step, expect), NULL, KEY_OPTIONAL,
     "what must come of it; a verdict alone, or a mapping"},
};
static const struct value_type STEP_TYPE = SECTION_TYPE(STEP_FIELDS, struct spec_step);

static const struct section_field TEST_FIELDS[] = {
    {"name", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_test, name), NULL, KEY_REQUIRED,
     "what holds, for people"},
    {"start", SHAPE_ONE, &TIMESTAMP, offsetof(struct spec_test, start), NULL, KEY_OPTIONAL,
     "the time when it begins; left out: that of the file"},
    {"steps", SHAPE_LIST, &STEP_TYPE, offsetof(struct spec_test, steps), NULL, KEY_REQUIRED,
     "requests, in the order of time"},
};
static const struct value_type TEST_TYPE = SECTION_TYPE(TEST_FIELDS, struct spec_test);

static const struct section_field TEST_DEFAULTS_FIELDS[] = {
    {"from", SHAPE_ONE, &ADDRESS, offsetof(struct spec_test_defaults, from), "192.0.2.1",
     KEY_OPTIONAL, "address of the peer"},
    {"host", SHAPE_ONE, &VALUE_HOST_RULE, offsetof(struct spec_test_defaults, host), "localhost",
     KEY_OPTIONAL, "Host"},
    {"scheme", SHAPE_ONE, &SCHEME, offsetof(struct spec_test_defaults, scheme), "http",
     KEY_OPTIONAL, "http or https, of requests that are no URL"},
    {"version", SHAPE_ONE, &VERSION, offsetof(struct spec_test_defaults, version), "1.1",
     KEY_OPTIONAL, "1.1 or 2: of HTTP"},
    {"headers", SHAPE_MAP, &VALUE_FIELD, offsetof(struct spec_test_defaults, headers), NULL,
     KEY_OPTIONAL, "fields of every request that does not say its own of that name"},
};
static const struct value_type TEST_DEFAULTS_TYPE =
    SECTION_TYPE(TEST_DEFAULTS_FIELDS, struct spec_test_defaults);

static const struct section_field TEST_FILE_FIELDS[] = {
    {"policy", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_test_file, policy), NULL, KEY_REQUIRED,
     "path of the policy, from the folder of this file"},
    {"start", SHAPE_ONE, &TIMESTAMP, offsetof(struct spec_test_file, start), "2026-01-01T00:00:00Z",
     KEY_OPTIONAL, "the time when each test begins"},
    {"defaults", SHAPE_ONE, &TEST_DEFAULTS_TYPE, offsetof(struct spec_test_file, defaults), NULL,
     KEY_OPTIONAL, "what requests need not say"},
    {"tests", SHAPE_LIST, &TEST_TYPE, offsetof(struct spec_test_file, tests), NULL, KEY_REQUIRED,
     "each begins with no counter taken"},
};
const struct value_type SECTIONS_TEST_FILE = SECTION_TYPE(TEST_FILE_FIELDS, struct spec_test_file);
