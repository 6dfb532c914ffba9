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
            const struct span rest = span_from(request->target, SCHEMES[i].len);
            const size_t slash = span_find(rest, '/');
            request->is_https = i == 1;
            request->host = span_of(rest.data, slash);
            request->target = slash < rest.len ? span_from(rest, slash) : SPAN("/");
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
    request->target = span_trim(span_from(input->text, space));
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
    VALUE_NODE_TYPE("a duration such as 500ms or 10s", struct_, us, value_parse_duration,          \
                    .max = UNITS_DURATION_US_MAX, .pattern = "^(" PATTERN_DURATION ")$")
#define WHOLE(struct_, min_, max_)                                                                 \
    VALUE_NODE_TYPE("a whole number", struct_, value, value_parse_number,                          \
                    VALUE_IS_NUMBER(min_, max_))

static const struct value_type COUNT = WHOLE(struct test_number, 0, UINT32_MAX);
static const struct value_type REMAINING = WHOLE(struct spec_remaining, 0, UINT32_MAX);
static const struct value_type STATUS = WHOLE(struct test_number, 100, 599);
static const struct value_type GRPC_STATUS = WHOLE(struct test_number, 0, 16);
static const struct value_type EVERY = VALUE_DURATION_TYPE(0, UNITS_DURATION_US_MAX);
static const struct value_type HELD = DURATION_TYPE(struct test_duration);
static const struct value_type TIME = DURATION_TYPE(struct spec_time);
static const struct value_type NAME = VALUE_NODE_TYPE("a name", struct test_name, text, parse_name);
static const struct value_type RETRY_AFTER = VALUE_NODE_TYPE(
    "a duration such as 12s, or none", struct test_retry_after, node, parse_retry_after,
    .max = UNITS_DURATION_US_MAX, .pattern = "^(" PATTERN_DURATION "|none)$");
static const struct value_type ANSWER = VALUE_SCALAR_TYPE(
    "a status, client_left or server_failed", struct spec_test_answer, parse_answer,
    VALUE_IS_NUMBER(200, 599), .pattern = "^(client_left|server_failed)$");
static const struct value_type TIMESTAMP =
    VALUE_NODE_TYPE("a time such as 2026-03-29T01:59:00Z", struct spec_time, us, parse_timestamp);
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
    KEY("verdict", &VERDICT, spec_expect, values.verdict, NULL,
        "of each request: allowed, denied (by a limit or a ban), banned (by a ban), refused (4xx "
        "before limits), undecided (503)"),
    KEY("allowed", &COUNT, spec_expect, values.allowed, NULL,
        "how many of the step's requests are allowed"),
    KEY("denied", &COUNT, spec_expect, values.denied, NULL, "how many of them are denied"),
    KEY("banned", &COUNT, spec_expect, values.banned, NULL,
        "how many of those that are denied a ban denies"),
    KEY("status", &STATUS, spec_expect, values.status, NULL,
        "that the client of each request gets"),
    KEY("grpc", &GRPC_STATUS, spec_expect, values.grpc, NULL,
        "the status that each gRPC call by HTTP/2 gets of sluice"),
    KEY("limit", &NAME, spec_expect, values.limit, NULL,
        "the first enforced limit that denies each request"),
    KEY("route", &NAME, spec_expect, values.route, NULL, "that each request takes"),
    KEY("held", &HELD, spec_expect, values.held, NULL,
        "how long the last request is held before it is forwarded"),
    KEY("retry_after", &RETRY_AFTER, spec_expect, values.retry_after, NULL,
        "what the last answer says, in whole seconds, or none"),
    KEY("remaining", &COUNT, spec_expect, values.remaining, NULL,
        "units left after the last request, of the enforced limit nearest to its end"),
    MAP_KEY("remaining_of", &REMAINING, spec_expect, remaining_of,
            "units left after the last request, by limit"),
    LIST_KEY("shadow", &NAME, spec_expect, shadow,
             "limits in shadow that would have denied the last request; [] for none"),
    MAP_KEY("headers", &VALUE_FIELD, spec_expect, headers,
            "fields of the last answer that are sluice's; absent: it does not stand there"),
};
static const struct value_type EXPECT_TYPE = {.kind = VALUE_SECTION,
                                              .noun = "a verdict or a mapping",
                                              .bytes = sizeof(struct spec_expect),
                                              .section = SHORT_SECTION(EXPECT_FIELDS, "verdict")};

static const struct section_field CLIENT_CERT_FIELDS[] = {
    KEY("dns", &VALUE_TEXT, spec_test_certificate, facts[CERTIFICATE_DNS], NULL,
        "its first alternative name of the kind DNS"),
    KEY("uri", &VALUE_TEXT, spec_test_certificate, facts[CERTIFICATE_URI], NULL,
        "its first one of the kind URI"),
    KEY("cn", &VALUE_TEXT, spec_test_certificate, facts[CERTIFICATE_CN], NULL,
        "the common name of its subject"),
    KEY("fingerprint", &VALUE_TEXT, spec_test_certificate, facts[CERTIFICATE_FINGERPRINT], NULL,
        "its SHA-256, 64 hexadecimal digits; left out: 64 zeros"),
};
static const struct value_type CLIENT_CERT_TYPE =
    SECTION_TYPE(CLIENT_CERT_FIELDS, struct spec_test_certificate);

static const struct section_field STEP_FIELDS[] = {
    KEY("at", &TIME, spec_step, at, NULL, "after the start; left out: when the step before ended"),
    KEY("after", &TIME, spec_step, after, NULL,
        "after the last request of the step before; instead of at"),
    KEY("request", &REQUEST, spec_step, request, NULL,
        "METHOD and a path, or METHOD and http://HOST/PATH or https://HOST/PATH",
        .presence = KEY_REQUIRED),
    MAP_KEY("headers", &VALUE_FIELD, spec_step, headers,
            "fields of the request, beside those of defaults"),
    KEY("from", &ADDRESS, spec_step, values.from, NULL,
        "address of the peer; left out: that of defaults"),
    KEY("clients", NUMBER(1, 1000 * 1000), spec_step, values.clients, "1",
        "how many clients send the step's requests in turn: from, and the addresses after it"),
    KEY("host", &VALUE_HOST_RULE, spec_step, host, NULL,
        "Host; left out: that of the URL, or of defaults"),
    KEY("version", &VERSION, spec_step, version, NULL,
        "1.1 or 2: of HTTP; left out: that of defaults"),
    KEY("client_cert", &CLIENT_CERT_TYPE, spec_step, certificate, NULL,
        "the certificate that the client shows, over https"),
    KEY("ja4", &VALUE_TEXT, spec_step, ja4, NULL, "the JA4 fingerprint of the client, over https"),
    LISTS_KEY("jwt", &VALUE_CLAIM, spec_step, claims,
              "claim: value or list of values of the request's token, which counts as valid"),
    KEY("country", &VALUE_COUNTRY, spec_step, country, NULL,
        "of the client; this or asn in place of the databases of geo"),
    KEY("asn", &VALUE_ASN, spec_step, asn, NULL, "autonomous system of the client"),
    KEY("tenant", &NAME, spec_step, values.tenant, NULL,
        "the plan, or numbers, that the table of tenants has for the request's keys; left out: "
        "none"),
    KEY("repeat", NUMBER(1, 10 * 1000 * 1000), spec_step, values.repeat, "1",
        "how many such requests"),
    KEY("every", &EVERY, spec_step, values.every_us, "0s", "from one of them to the next"),
    KEY("takes", &EVERY, spec_step, values.takes_us, "0s",
        "from when a request is forwarded to the end of its answer"),
    KEY("answer", &ANSWER, spec_step, answer, "200",
        "status of the upstream's answer, 200 to 599, client_left or server_failed"),
    MAP_KEY("answer_headers", &VALUE_FIELD, spec_step, answer_headers,
            "fields of the upstream's answer"),
    KEY("expect", &EXPECT_TYPE, spec_step, expect, NULL,
        "what must come of it; a verdict alone, or a mapping"),
};
static const struct value_type STEP_TYPE = SECTION_TYPE(STEP_FIELDS, struct spec_step);

static const struct section_field TEST_FIELDS[] = {
    KEY("name", &VALUE_TEXT, spec_test, name, NULL, "what holds, for people",
        .presence = KEY_REQUIRED),
    KEY("start", &TIMESTAMP, spec_test, start, NULL,
        "the time when it begins; left out: that of the file"),
    LIST_KEY("steps", &STEP_TYPE, spec_test, steps, "requests, in the order of time",
             .presence = KEY_REQUIRED),
};
static const struct value_type TEST_TYPE = SECTION_TYPE(TEST_FIELDS, struct spec_test);

static const struct section_field TEST_DEFAULTS_FIELDS[] = {
    KEY("from", &ADDRESS, spec_test_defaults, from, "192.0.2.1", "address of the peer"),
    KEY("host", &VALUE_HOST_RULE, spec_test_defaults, host, "localhost", "Host"),
    KEY("scheme", &SCHEME, spec_test_defaults, scheme, "http",
        "http or https, of requests that are no URL"),
    KEY("version", &VERSION, spec_test_defaults, version, "1.1", "1.1 or 2: of HTTP"),
    MAP_KEY("headers", &VALUE_FIELD, spec_test_defaults, headers,
            "fields of every request that does not say its own of that name"),
};
static const struct value_type TEST_DEFAULTS_TYPE =
    SECTION_TYPE(TEST_DEFAULTS_FIELDS, struct spec_test_defaults);

static const struct section_field TEST_FILE_FIELDS[] = {
    KEY("policy", &VALUE_TEXT, spec_test_file, policy, NULL,
        "path of the policy, from the folder of this file", .presence = KEY_REQUIRED),
    KEY("start", &TIMESTAMP, spec_test_file, start, "2026-01-01T00:00:00Z",
        "the time when each test begins"),
    KEY("defaults", &TEST_DEFAULTS_TYPE, spec_test_file, defaults, NULL,
        "what requests need not say"),
    LIST_KEY("tests", &TEST_TYPE, spec_test_file, tests, "each begins with no counter taken",
             .presence = KEY_REQUIRED),
};
const struct value_type SECTIONS_TEST_FILE = SECTION_TYPE(TEST_FILE_FIELDS, struct spec_test_file);
