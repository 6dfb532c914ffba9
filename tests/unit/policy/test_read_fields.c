#include "policy/read_fields.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "http/head.h"
#include "unit/policy/policy_support.h"

static const char POLICY[] =
    "listen: 127.0.0.1:0\n"
    "trusted_proxies: [10.0.0.0/8]\n"
    "limits:\n"
    "  a: {key: [header.x-api-key | cookie.sid, header.tenant_id], rate: 1/s}\n"
    "  b: {key: header.X-Api-Key, rate: 1/s}\n"
    "  near: {key: [geohash(header.x-lat header.x-lon 6)], rate: 1/s}\n"
    "  both: {key: [header.x-a_b, header.x_a-b], rate: 1/s}\n"
    "upstreams: {u: {servers: [\"http://127.0.0.1:1\"], balance: hash(header.x-shard)}}\n"
    "routes:\n"
    "  - {match: {header: {X-Plan: gold, x-debug: true}}, limits: [a, b, both, near], upstream: "
    "u}\n"
    "  - {cost: {from: header.x-cost, max: 1}, limits: [a], upstream: u}\n";

/* What is said of @name: @first, and a second line with @second unless that is NULL. */
static const char *check(const char *name, const char *first, const char *second)
{
    struct policy *policy = policy_from_text(POLICY);
    struct request request;
    request_init(&request, "GET", "/", "a");
    request_add_field(&request, SPAN("Accept"), SPAN("*/*"));
    request_add_field(&request, span_of_text(name), span_of_text(first));
    if (second != NULL) {
        request_add_field(&request, span_of_text(name), span_of_text(second));
    }
    const char *fault = read_fields_check(&policy->read_fields, &request.head);
    policy_free(policy);
    return fault;
}

START_TEST(each_name_is_known_once_from_wherever_it_is_read)
{
    static const char *const NAMES[] = {
        "cookie",    "x-a_b",     "x_a-b",     "x-cost",          "x-plan", "x-debug", "x-shard",
        "forwarded", "tenant_id", "x-api-key", "x-forwarded-for", "x-lat",  "x-lon"};
    struct policy *policy = policy_from_text(POLICY);
    const struct read_fields *fields = &policy->read_fields;
    ck_assert_uint_eq(fields->n_items, ARRAY_LEN(NAMES));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        bool is_found = false;
        for (size_t j = 0; j < fields->n_items; j++) {
            is_found =
                is_found || span_equals_ignore_case(fields->items[j].name, span_of_text(NAMES[i]));
        }
        ck_assert_msg(is_found, "%s", NAMES[i]);
    }
    for (size_t j = 1; j < fields->n_items; j++) {
        ck_assert_int_lt(read_field_order(&fields->items[j - 1], &fields->items[j]), 0);
    }
    policy_free(policy);
}
END_TEST

START_TEST(rule_20_a_read_name_has_one_spelling_but_for_case)
{
    static const char *const GOOD[] = {"x-api-key", "X-API-Key",       "Tenant_ID",
                                       "X-A_B",     "x_a-b",           "x-api-keys",
                                       "xapikey",   "X-Forwarded-For", "x-a-c"};
    static const char *const BAD[] = {"x_api_key", "X-Api_Key", "X.Api.Key", "X~Api-Key",
                                      "tenant-id", "x-a-b",     "x_a_b",     "X.Forwarded.For"};
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        ck_assert_msg(check(GOOD[i], "1", NULL) == NULL, "%s", GOOD[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        ck_assert_msg(check(BAD[i], "1", NULL) != NULL, "%s", BAD[i]);
    }
}
END_TEST

START_TEST(what_is_read_has_no_encoded_words)
{
    static const char *const BAD[] = {"=?utf-8?q?real?=", "=?UTF-8?B?cmVhbA==?=", "a =?x?Q?\?= b",
                                      "==?x?q?a?="};
    static const char *const GOOD[] = {
        "=?", "=?utf-8?q?real", "=?utf-8?x?real?=", "a?=", "YWI=?b", "=?utf-8?q", "==", "=?=?q?="};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        ck_assert_msg(check("X-Api-Key", BAD[i], NULL) != NULL, "%s", BAD[i]);
        ck_assert_msg(check("X-Plan", BAD[i], NULL) != NULL, "%s", BAD[i]);
        ck_assert_msg(check("X-Other", BAD[i], NULL) == NULL, "%s", BAD[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        ck_assert_msg(check("X-Api-Key", GOOD[i], NULL) == NULL, "%s", GOOD[i]);
    }
}
END_TEST

/* In time that grows with the length alone: a MiB of beginnings is over at once. */
START_TEST(encoded_words_are_looked_for_once)
{
    static const char *const BEGINNINGS[] = {"=?a?q?x", "=", "a=", "=?", "=?a", "=??", "?"};
    enum { BYTES = 1 << 20 };
    char *bytes = malloc(BYTES);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < ARRAY_LEN(BEGINNINGS); i++) {
        const size_t len = strlen(BEGINNINGS[i]);
        for (size_t j = 0; j < BYTES; j++) {
            bytes[j] = BEGINNINGS[i][j % len];
        }
        ck_assert(!field_has_encoded_word(span_of(bytes, BYTES)));
        memcpy(bytes + BYTES - 3, "?!=", 3); /* a "?" far behind all */
        ck_assert(!field_has_encoded_word(span_of(bytes, BYTES)));
        memcpy(bytes + BYTES - 12, "=?x?q?text?=", 12);
        ck_assert(field_has_encoded_word(span_of(bytes, BYTES)));
    }
    free(bytes);
}
END_TEST

START_TEST(credentials_that_are_compared_have_no_encoded_words)
{
    static const char *const CONDITIONS[] = {"\"Basic a\"", "true"};
    struct request request;
    request_init(&request, "GET", "/", "a");
    request_add_field(&request, SPAN("Authorization"), SPAN("=?utf-8?q?Basic_a?="));
    for (size_t i = 0; i < ARRAY_LEN(CONDITIONS); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text),
                       "listen: 127.0.0.1:0\nroutes: [{match: {header: {authorization: %s}}, "
                       "respond: {status: 204}}]\n",
                       CONDITIONS[i]);
        struct policy *policy = policy_from_text(text);
        ck_assert((read_fields_check(&policy->read_fields, request.view.head) != NULL) == (i == 0));
        policy_free(policy);
    }
}
END_TEST

START_TEST(rule_52_what_is_compared_has_one_line)
{
    static const char *const COMPARED[] = {"X-Plan", "x-cost"};
    static const char *const OTHERS[] = {"X-Debug", "Accept-Language", "X-Forwarded-For"};
    for (size_t i = 0; i < ARRAY_LEN(COMPARED); i++) {
        ck_assert_ptr_null(check(COMPARED[i], "1", NULL));
        ck_assert_ptr_nonnull(check(COMPARED[i], "1", "1"));
        ck_assert_ptr_nonnull(check(COMPARED[i], "1", "2"));
        ck_assert_ptr_nonnull(check(COMPARED[i], "", "2"));
    }
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++) {
        ck_assert_ptr_null(check(OTHERS[i], "1", "2"));
    }
}
END_TEST

START_TEST(rule_52_blanks_that_only_some_servers_strip_hide_no_value_that_is_compared)
{
    static const char *const BLANKS[] = {"\x85",         "\xa0",         "\xc2\xa0",
                                         "\xe2\x80\x83", "\xe3\x80\x80", "\xa0 \xc2\x85"};
    static const struct {
        const char *name;
        const char *value;
        bool is_refused;
    } ROWS[] = {{"X-Plan", "gold", true},    {"x-plan", "tin", true},
                {"X-Plan", "silver", false}, {"X-Plan", "voil\xc3\xa0", true},
                {"X-Debug", "gold", false},  {"X-Cost", "1", false},
                {"Accept", "gold", false},   {"X-Plan", "gold gold", false}};
    struct policy *policy =
        policy_from_text("listen: 127.0.0.1:0\n"
                         "limits: {a: {key: client.ip, rate: 1/s}}\n"
                         "upstreams: {u: {servers: [\"http://127.0.0.1:1\"]}}\n"
                         "routes:\n"
                         "  - {match: {header: {X-Plan: gold, x-debug: true}}, upstream: u}\n"
                         "  - {match: {header: {x-plan: [tin, \"voil\xc3\xa0\"]}}, upstream: u}\n"
                         "  - {match: {grpc: true}, upstream: u}\n"
                         "  - {cost: {from: header.x-cost, max: 1}, limits: [a], upstream: u}\n");
    for (size_t i = 0; i < ARRAY_LEN(ROWS) * ARRAY_LEN(BLANKS) * 2; i++) {
        const size_t row = i / 2 % ARRAY_LEN(ROWS);
        const char *blank = BLANKS[i / 2 / ARRAY_LEN(ROWS)];
        char bytes[64];
        struct text text = text_of(bytes, sizeof(bytes));
        struct request request;
        text_add_format(&text, "%s%s%s", i % 2 == 0 ? blank : "", ROWS[row].value,
                        i % 2 == 0 ? "" : blank);
        request_init(&request, "GET", "/", "a");
        request_add_field(&request, span_of_text(ROWS[row].name), text_span(&text));
        const char *fault = read_fields_check(&policy->read_fields, &request.head);
        ck_assert_msg((fault != NULL) == ROWS[row].is_refused, "%s: %.*s", ROWS[row].name,
                      SPAN_ARGS(text_span(&text)));
        request.fields[0].value = span_of_text(ROWS[row].value);
        ck_assert_ptr_null(read_fields_check(&policy->read_fields, &request.head));
    }
    struct request request;
    request_init(&request, "POST", "/", "a");
    request_add_field(&request, SPAN("Content-Type"), SPAN("application/grpc\xa0"));
    ck_assert_ptr_nonnull(read_fields_check(&policy->read_fields, &request.head));
    static const struct {
        const char *type;
        bool is_refused;
    } TYPES[] = {{"application/grpc", false},     {"application/grpc+proto", false},
                 {"application/grpc;a=b", false}, {"application/grpc-web+proto", false},
                 {"application/json", false},     {"application/grp", false},
                 {"application/grpc-x", true},    {"Application/GRPC,x", true},
                 {"application/grpc\t;x", true}};
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        request.fields[0].value = span_of_text(TYPES[i].type);
        ck_assert_msg((read_fields_check(&policy->read_fields, &request.head) != NULL) ==
                          TYPES[i].is_refused,
                      "%s", TYPES[i].type);
    }
    policy_free(policy);
}
END_TEST

START_TEST(rule_52_a_binary_field_that_is_compared_is_no_list)
{
    static const struct {
        const char *name;
        const char *value;
        bool is_refused;
    } ROWS[] = {
        {"X-Token-Bin", "QQ", false},      {"X-Token-Bin", "QQ==", false},
        {"X-Token-Bin", "Qg", false},      {"X-Token-Bin", "", false},
        {"X-Token-Bin", ",QQ", true},      {"X-Token-Bin", "QQ==,", true},
        {"X-Token-Bin", "QQ, QQ", true},   {"x-token-bin", "Qg,QQ", true},
        {"X-Token-Bin", ",", true},        {"X-Token-Bin", "QQ\xa0", true},
        {"X-Token-Bin", "QQ==\xa0", true}, {"X-Token-Bin", "Qw==\xa0", false},
        {"X-There-Bin", "QQ,", false},     {"X-There-Bin", ",QQ,Qg", false},
        {"X-There-Bin", ",", true},        {"X-There-Bin", "", true},
        {"X-There-Bin", ", ,\t", true},    {"X-Key-Bin", ",QQ", false},
        {"X-Other-Bin", ",QQ", false},
    };
    struct policy *policy = policy_from_text(
        "listen: 127.0.0.1:0\n"
        "limits: {a: {key: header.x-key-bin, rate: 1/s}}\n"
        "routes:\n"
        "  - {match: {header: {x-token-bin: [QQ==, Qg]}}, limits: [a], respond: {status: 204}}\n"
        "  - {match: {header: {x-there-bin: true}}, respond: {status: 204}}\n");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct request request;
        request_init(&request, "GET", "/", "a");
        request_add_field(&request, span_of_text(ROWS[i].name), span_of_text(ROWS[i].value));
        const char *fault = read_fields_check(&policy->read_fields, &request.head);
        ck_assert_msg((fault != NULL) == ROWS[i].is_refused, "%s: %s: %s", ROWS[i].name,
                      ROWS[i].value, fault != NULL ? fault : "taken");
    }
    policy_free(policy);
}
END_TEST

/* What is said of a request with @lines, as the parser reads it. */
static const char *check_lines(const struct policy *policy, const char *lines)
{
    char bytes[512];
    struct text text = text_of(bytes, sizeof(bytes));
    struct field fields[REQUEST_FIELDS_MAX];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = ARRAY_LEN(fields), .head_bytes_max = sizeof(bytes)};
    struct head head;
    size_t n_consumed;
    text_add_format(&text, "GET / HTTP/1.1\r\nHost: a\r\nX-Plan: gold\r\n%s\r\n", lines);
    ck_assert(!text.truncated);
    ck_assert_msg(head_parse_request(&parser, text_span(&text), &head, &n_consumed) == PARSE_DONE,
                  "%s", lines);
    return read_fields_check(&policy->read_fields, &head);
}

START_TEST(rule_46_connection_names_no_field_that_is_read)
{
    static const char *const GOOD[] = {
        "Connection: close\r\n",
        "Connection: keep-alive, Upgrade\r\n",
        "Connection: x-other, x-plans\r\nX-Other: X-Plan\r\n",
        "Connection:\r\nConnection: ,\r\n",
        "Keep-Alive: x-plan\r\n",
    };
    static const char *const BAD[] = {
        "Connection: X-Plan\r\n",
        "Connection: x-plan\r\n",
        "CONNECTION: X-PLAN\r\n",
        "Connection:X-Api-Key\r\n",
        "Connection: \t X-Plan \t \r\n",
        "Connection: close,X-Plan\r\n",
        "Connection: close\t,\tx-plan,upgrade\r\n",
        "Connection: ,, , x-plan\r\n",
        "Connection: x-plan,\r\n",
        "Connection: cookie\r\n",
        "Connection: close\r\nConnection: X-Plan\r\n",
        "Connection:\r\nAccept: a\r\nConnection: ,x-other\r\nconnection: x-plan ,\r\n",
        "Connection: X_Plan\r\n",
    };
    struct policy *policy = policy_from_text(POLICY);
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        ck_assert_msg(check_lines(policy, GOOD[i]) == NULL, "%s", GOOD[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        const char *fault = check_lines(policy, BAD[i]);
        ck_assert_msg(fault != NULL, "%s", BAD[i]);
        ck_assert_str_eq(fault, "Connection names a field that the policy reads");
    }
    policy_free(policy);
}
END_TEST

/* The routes of a policy, or its limits, with one place that reads the field %s. */
static const char *const PLACES[] = {
    "limits: {a: {key: header.%s, rate: 1/s}}\n"
    "routes: [{limits: [a], respond: {status: 204}}]\n",
    "limits: {a: {key: [client.ip, cookie.sid | header.%s], rate: 1/s}}\n"
    "routes: [{limits: [a], respond: {status: 204}}]\n",
    "routes: [{match: {header: {%s: true}}, respond: {status: 204}}]\n",
    "routes: [{match: {header: {X-Plan: gold, %s: a}}, respond: {status: 204}}]\n",
    "limits: {a: {key: client.ip, rate: 1/s}}\n"
    "routes: [{cost: {from: header.%s, max: 1}, limits: [a], respond: {status: 204}}]\n",
    "upstreams: {u: {servers: [\"http://127.0.0.1:1\"], balance: hash(header.%s)}}\n"
    "routes: [{upstream: u}]\n",
};

/* The policy that reads the field @name at @place. */
static const char *yaml_of_reading(const char *place, const char *name)
{
    static char yaml[512];
    struct text text = text_of(yaml, sizeof(yaml));
    const char *const hole = strstr(place, "%s");
    text_add_literal(&text, "listen: 127.0.0.1:0\n");
    text_add(&text, span_of(place, (size_t)(hole - place)));
    text_add(&text, span_of_text(name));
    text_add(&text, span_of_text(hole + 2));
    text_add_char(&text, '\0');
    ck_assert(!text.truncated);
    return yaml;
}

/* What is said of it. The caller frees it. */
static char *errors_of_reading(const char *place, const char *name)
{
    return policy_errors(yaml_of_reading(place, name));
}

START_TEST(a_policy_that_reads_a_field_of_one_connection_is_an_error)
{
    static const char *const NAMES[] = {
        "Connection", "connection", "CONNECTION",        "Keep-Alive",         "TE",
        "Trailer",    "Upgrade",    "Transfer-Encoding", "Proxy-Authorization"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char *errors = errors_of_reading(PLACES[_i], NAMES[i]);
        ck_assert_msg(strstr(errors, " belongs to one connection") != NULL, "%s: %s%s", NAMES[i],
                      PLACES[_i], errors);
        free(errors);
    }
}
END_TEST

START_TEST(a_policy_that_reads_a_field_that_servers_get_otherwise_is_an_error)
{
    static const struct {
        const char *name;
        const char *error;
    } FIELDS[] = {
        {"Host", ": use host"},
        {"host", ": use host"},
        {"HOST", ": use host"},
        {"X-Real-IP", "the client is client.ip in a key"},
        {"x-real-ip", "the client is client.ip in a key"},
        {"Client-Cert", "a certificate is read by client.cert"},
        {"client-cert-chain", "a certificate is read by client.cert"},
        {"Early-Data", " of a client is never believed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
        char *errors = errors_of_reading(PLACES[_i], FIELDS[i].name);
        ck_assert_msg(strstr(errors, FIELDS[i].error) != NULL, "%s: %s%s", FIELDS[i].name,
                      PLACES[_i], errors);
        free(errors);
    }
}
END_TEST

START_TEST(a_policy_knows_whether_it_reads_a_field_that_needs_trust)
{
    static const struct {
        const char *name;
        bool needs_trust;
    } FIELDS[] = {
        {"x-forwarded-for", true},   {"Forwarded", true},     {"X-Request-ID", true},
        {"X-Forwarded-Proto", true}, {"x-forwarded-x", true}, {"x-forwarded", false},
        {"x-real", false},           {"x-id", false},         {"x_forwarded_x", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
        struct policy *policy = policy_from_text(yaml_of_reading(PLACES[_i], FIELDS[i].name));
        ck_assert_msg(policy->read_fields.has_one_that_needs_trust == FIELDS[i].needs_trust,
                      "%s: %s", FIELDS[i].name, PLACES[_i]);
        policy_free(policy);
    }
    struct policy *policy = policy_from_text(POLICY); /* has proxies, and reads none itself */
    ck_assert(!policy->read_fields.has_one_that_needs_trust);
    policy_free(policy);
}
END_TEST

START_TEST(a_policy_that_reads_no_field_looks_at_none)
{
    struct policy *policy = policy_from_text("listen: 127.0.0.1:0\nlimit: 1/s\n"
                                             "upstream: http://127.0.0.1:1\n");
    ck_assert_uint_eq(policy->read_fields.n_items, 0);
    ck_assert_uint_eq(policy->read_fields.lengths, 0);
    policy_free(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/read_fields");
    TCase *tcase = tcase_create("check");
    tcase_add_test(tcase, each_name_is_known_once_from_wherever_it_is_read);
    tcase_add_test(tcase, rule_20_a_read_name_has_one_spelling_but_for_case);
    tcase_add_test(tcase, what_is_read_has_no_encoded_words);
    tcase_add_test(tcase, encoded_words_are_looked_for_once);
    tcase_add_test(tcase, credentials_that_are_compared_have_no_encoded_words);
    tcase_add_test(tcase, rule_52_what_is_compared_has_one_line);
    tcase_add_test(tcase,
                   rule_52_blanks_that_only_some_servers_strip_hide_no_value_that_is_compared);
    tcase_add_test(tcase, rule_52_a_binary_field_that_is_compared_is_no_list);
    tcase_add_test(tcase, rule_46_connection_names_no_field_that_is_read);
    tcase_add_loop_test(tcase, a_policy_that_reads_a_field_of_one_connection_is_an_error, 0,
                        (int)ARRAY_LEN(PLACES));
    tcase_add_loop_test(tcase, a_policy_that_reads_a_field_that_servers_get_otherwise_is_an_error,
                        0, (int)ARRAY_LEN(PLACES));
    tcase_add_loop_test(tcase, a_policy_knows_whether_it_reads_a_field_that_needs_trust, 0,
                        (int)ARRAY_LEN(PLACES));
    tcase_add_test(tcase, a_policy_that_reads_no_field_looks_at_none);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
