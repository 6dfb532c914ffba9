/* The file of tenants: what a line says, and what is wrong with it. */

#include "policy/tenants_file.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "unit/policy/policy_support.h"

#define POLICY                                                                                     \
    "listen: 127.0.0.1:8080\n"                                                                     \
    "limits:\n"                                                                                    \
    "  a: {key: header.x-api-key, rate: 1/s, plans: {gold: 9/s, all: none}, plan: tenant}\n"       \
    "  b: {key: [client.ip, method], rate: 1/s, plans: {silver: 5/s}, plan: tenant}\n"             \
    "  c: {key: host, rate: 1/s, plans: {other: 5/s}, plan: header.x-plan}\n"                      \
    "routes: [{limits: [a, b, c], respond: {status: 204}}]\n"

#define ALICE "header.x-api-key=alice"

static struct policy *policy;
static struct tenants_file file;
static struct diags diags;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    policy = policy_from_text(POLICY);
    diags_init(&diags, "tenants");
}

static void teardown(void)
{
    tenants_file_close(&file);
    diags_close(&diags);
    policy_free(policy);
}

static enum status parse(const char *text)
{
    tenants_file_close(&file);
    return tenants_file_parse(policy, span_of_text(text), &file, &diags);
}

static void must_parse(const char *text, size_t n)
{
    ck_assert_msg(parse(text) == STATUS_OK, "%s: %s", text,
                  diags.n_items > 0 ? diags.items[0].text : "");
    ck_assert_uint_eq(file.n, n);
}

START_TEST(a_line_is_a_key_its_plan_and_until_when)
{
    must_parse("# plans\n\n" ALICE " gold\r\n"
               "\theader.x-api-key=\"a b\\\" c\"\tall 2036-01-01T00:00:00Z # until then\n"
               "client.ip=192.0.2.1,method=GET silver 1700000000123\n"
               "0123456789abcdef0123456789abcdef all 0\n"
               "header.x-api-key=numbers 7/s:9 0\n",
               5);
    ck_assert(span_starts_with(file.lines[0].key, SPAN("{header#32=")));
    ck_assert(span_equals(file.lines[0].plan, SPAN("gold")));
    ck_assert_uint_eq(file.lines[0].until_ms, 0);
    ck_assert_uint_eq(file.lines[0].number, 3);
    ck_assert(span_equals(file.lines[1].plan, SPAN("all")));
    ck_assert_uint_eq(file.lines[1].until_ms, UINT64_C(2082758400000));
    ck_assert(span_equals(file.lines[2].key, SPAN("{client.ip:9=192.0.2.1},method:3=GET")));
    ck_assert_uint_eq(file.lines[2].until_ms, UINT64_C(1700000000123));
    ck_assert(!file.lines[2].is_hash);
    ck_assert(span_equals(file.lines[3].key, SPAN("0123456789abcdef0123456789abcdef")));
    ck_assert(file.lines[3].is_hash);
    ck_assert_uint_eq(file.lines[3].number, 6);
}
END_TEST

START_TEST(a_quoted_key_is_that_of_the_request)
{
    struct request request;
    char bytes[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(bytes, sizeof(bytes));
    request_init(&request, "GET", "/", "a");
    request_add_field(&request, SPAN("X-Api-Key"), SPAN("a \"b\" c"));
    ck_assert_int_eq(
        key_read(&policy->rules[0].key, policy->rules[0].missing, &request.view, SPAN(""), &text),
        KEY_READ);
    must_parse("header.x-api-key=\"a \\\"b\\\" c\" gold\n", 1);
    ck_assert(span_equals(file.lines[0].key, text_span(&text)));
}
END_TEST

#define BY_ADDRESS(name, key)                                                                      \
    "  " name ": {key: " key ", rate: 1/s, plans: {gold: 9/s}, plan: tenant}\n"

/* Whichever limit comes first: else the plan of a /64 would be that of all others in its /48. */
START_TEST(an_address_is_of_the_limit_that_counts_by_its_length)
{
    policy_free(policy);
    policy = policy_from_text("listen: 127.0.0.1:8080\nlimits:\n" BY_ADDRESS("a", "client.ip/48")
                                  BY_ADDRESS("b", "client.ip") BY_ADDRESS("c", "client.ip/128") //
                              "routes: [{limits: [a, b, c], respond: {status: 204}}]\n");
    must_parse("client.ip=2001:db8:1::1 gold\n2001:db8:1::/48 gold\n2001:db8:1::1/128 gold\n"
               "{client.ip:12=2001:db8:2::} gold\n192.0.2.1 gold\n",
               5);
    static const char *const KEYS[] = {
        "{client.ip:12=2001:db8:1::}",      "{client.ip:15=2001:db8:1::/48}",
        "{client.ip:17=2001:db8:1::1/128}", "{client.ip:12=2001:db8:2::}",
        "{client.ip:9=192.0.2.1}",
    };
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        ck_assert_msg(span_equals(file.lines[i].key, span_of_text(KEYS[i])), "%.*s",
                      SPAN_ARGS(file.lines[i].key));
    }
}
END_TEST

START_TEST(an_address_is_of_a_limit_by_longer_or_shorter_prefixes_where_there_is_no_other)
{
    policy_free(policy);
    policy = policy_from_text("listen: 127.0.0.1:8080\nlimits:\n" BY_ADDRESS("a", "client.ip/48") //
                              "routes: [{limits: [a], respond: {status: 204}}]\n");
    must_parse("client.ip=2001:db8:1::1 gold\n", 1);
    ck_assert(span_equals(file.lines[0].key, SPAN("{client.ip:15=2001:db8:1::/48}")));
}
END_TEST

START_TEST(nothing_is_no_tenant)
{
    must_parse("", 0);
    must_parse("\n  \n# only words\n", 0);
}
END_TEST

static const struct {
    const char *text;
    unsigned line;
    unsigned column;
    const char *problem;
} BAD[] = {
    {ALICE "\n", 1, 23, "the key has no plan"},
    {"\n" ALICE " golt\n", 2, 24, "takes it as numbers; did you mean \"gold\"?"},
    {ALICE " other\n", 1, 24, "has this plan"}, /* of a limit that looks for no tenants */
    {ALICE " 9/minute\n", 1, 24, "has this plan"},
    {ALICE " 9/s:0\n", 1, 24, "has this plan"},
    {ALICE " gold tomorrow\n", 1, 29, "UNTIL is as"},
    {ALICE " gold 2036-01-01\n", 1, 29, "UNTIL is as"},
    {ALICE " gold 99999999999999999999\n", 1, 29, "UNTIL is as"},
    {ALICE " gold 0 more\n", 1, 31, "a line is KEY PLAN [UNTIL]"},
    {"header.x-api-key=a b gold\n", 1, 22, "stands in quotes"},
    {"header.x-key=alice gold\n", 1, 1, "header.x-api-key=VALUE"},
    {"header.x-api-key=\"alice gold\n", 1, 29, "the key has no plan"},
    {"client.ip=192.0.2.0/24,method=GET silver\n", 1, 1, "key of no limit"},
    {ALICE " gold\nheader.x-api-key=bob gold\n\n" ALICE " all\n", 4, 1, "line 1 stands here again"},
};

START_TEST(what_is_wrong_is_said_with_its_line_and_without_the_key)
{
    ck_assert_int_eq(parse(BAD[_i].text), STATUS_INVALID);
    ck_assert_uint_eq(diags.n_items, 1);
    ck_assert_uint_eq(diags.items[0].line, BAD[_i].line);
    ck_assert_msg(diags.items[0].column == BAD[_i].column, "column %u", diags.items[0].column);
    ck_assert_msg(strstr(diags.items[0].text, BAD[_i].problem) != NULL, "%s", diags.items[0].text);
    ck_assert_ptr_null(strstr(diags.items[0].text, "alice"));
}
END_TEST

START_TEST(a_key_and_its_hash_are_one_key)
{
    char bytes[256];
    struct text text = text_of(bytes, sizeof(bytes) - 1);
    must_parse(ALICE " gold\n", 1);
    text_add_literal(&text, ALICE " gold\n");
    text_add_hex(&text, file.lines[0].hash, sizeof(file.lines[0].hash));
    text_add_literal(&text, " all\n");
    bytes[text.len] = '\0';
    ck_assert_int_eq(parse(bytes), STATUS_INVALID);
    ck_assert_uint_eq(diags.items[0].line, 2);
}
END_TEST

START_TEST(errors_are_bounded)
{
    static char text[8 * 1000 + 1];
    for (size_t i = 0; i < sizeof(text) - 1; i += 2) {
        text[i] = 'x';
        text[i + 1] = '\n';
    }
    ck_assert_int_eq(parse(text), STATUS_INVALID);
    ck_assert_uint_eq(diags.n_errors, POLICY_ERRORS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/tenants_file");
    TCase *tcase = tcase_create("tenants_file");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_line_is_a_key_its_plan_and_until_when);
    tcase_add_test(tcase, a_quoted_key_is_that_of_the_request);
    tcase_add_test(tcase, an_address_is_of_the_limit_that_counts_by_its_length);
    tcase_add_test(tcase,
                   an_address_is_of_a_limit_by_longer_or_shorter_prefixes_where_there_is_no_other);
    tcase_add_test(tcase, nothing_is_no_tenant);
    tcase_add_loop_test(tcase, what_is_wrong_is_said_with_its_line_and_without_the_key, 0,
                        ARRAY_LEN(BAD));
    tcase_add_test(tcase, a_key_and_its_hash_are_one_key);
    tcase_add_test(tcase, errors_are_bounded);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
