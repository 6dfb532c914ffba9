
#include <check.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/hash.h"
#include "policy/loader.h"

static const char *environment(const char *name)
{
    return span_equals(span_of_text(name), SPAN("LISTEN_AT")) ? "127.0.0.1:8080" : NULL;
}

static struct policy *load(const char *yaml)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(yaml), environment, &policy, &diags), STATUS_OK);
    diags_close(&diags);
    return policy;
}

/* The description as compact JSON. */
static const char *describe(const char *yaml, bool with_defaults)
{
    static char buffer[8192];
    struct policy *policy = load(yaml);
    json_t *json = description_of_policy(policy, with_defaults);
    const size_t len = json_dumpb(json, buffer, sizeof(buffer) - 1, JSON_COMPACT);
    ck_assert_uint_gt(len, 0);
    ck_assert_uint_lt(len, sizeof(buffer));
    buffer[len] = '\0';
    json_decref(json);
    policy_free(policy);
    return buffer;
}

static void assert_tells(const char *yaml, const char *part)
{
    const char *all = describe(yaml, true);
    ck_assert_msg(strstr(all, part) != NULL, "no %s in %s", part, all);
}

#define HEAD "listen: 127.0.0.1:8080\nupstream: http://127.0.0.1:9000\n"

START_TEST(what_is_left_out_is_told_with_its_default)
{
    assert_tells(HEAD, "{\"listen\":[{\"address\":\"127.0.0.1:8080\",\"proxy_protocol\":false}]");
    assert_tells(HEAD, "\"workers\":\"auto\"");
    assert_tells(HEAD, "\"log\":{\"format\":\"logfmt\",\"to\":\"stdout\",\"sample\":\"100%\","
                       "\"denied_lines\":100}");
    assert_tells(HEAD, "\"max\":{\"connections\":10000,");
    ck_assert_ptr_null(strstr(describe(HEAD, true), "\"admin\":"));
    ck_assert_ptr_null(strstr(describe(HEAD, true), "\"limits\":"));
}
END_TEST

START_TEST(what_stands_for_a_section_is_told_as_one)
{
    assert_tells(
        HEAD "log: off\n",
        "\"log\":{\"format\":\"off\",\"to\":\"stdout\",\"sample\":\"100%\",\"denied_lines\":100}");
    assert_tells(HEAD "admin: 127.0.0.1:9900\n",
                 "\"admin\":{\"listen\":[{\"address\":\"127.0.0.1:9900\"}],"
                 "\"metrics_top\":0}");
    assert_tells(HEAD "admin: [127.0.0.1:9900, {address: 'unix:/a', mode: 0600}]\n",
                 "\"admin\":{\"listen\":[{\"address\":\"127.0.0.1:9900\"},"
                 "{\"address\":\"unix:/a\",\"mode\":\"0600\"}],\"metrics_top\":0}");
}
END_TEST

START_TEST(the_environment_is_reported_by_name)
{
    assert_tells("listen: ${LISTEN_AT}\nupstream: http://127.0.0.1:9000\n",
                 "\"address\":\"${LISTEN_AT}\"");
}
END_TEST

START_TEST(what_is_left_out_is_not_told_unless_asked_for)
{
    ck_assert_str_eq(describe(HEAD "log: json\nstore: {redis: 'redis://a'}\n", false),
                     "{\"listen\":[\"127.0.0.1:8080\"],"
                     "\"store\":{\"redis\":[\"redis://a\"]},\"log\":\"json\","
                     "\"upstream\":\"http://127.0.0.1:9000\"}");
    assert_tells(HEAD "store: {redis: 'redis://a'}\n", "\"deadline\":\"20ms\"");
    ck_assert_ptr_null(strstr(describe(HEAD, true), "\"deadline\""));
}
END_TEST

START_TEST(references_stand_in_place_of_secrets)
{
    static const char YAML[] =
        HEAD "store:\n"
             "  redis: redis://user:hush1@127.0.0.1:6379/0\n"
             "  secret: hush2\n"
             "admin: {listen: 127.0.0.1:9900, token: hush3hush3hush3hush3}\n";
    assert_tells(YAML, "\"redis\":[\"redis://user:${REDACTED_2}@127.0.0.1:6379/0\"]");
    assert_tells(YAML, "\"secret\":\"${REDACTED_3}\"");
    assert_tells(YAML, "\"token\":\"${REDACTED_1}\"");
    ck_assert_ptr_null(strstr(describe(YAML, true), "hush"));
}
END_TEST

START_TEST(references_of_the_file_stay)
{
    static const char *const VALUES[][2] = {
        {"${LISTEN_AT}", "${LISTEN_AT}"},        {"${NONE:-}", "${NONE:-}"},
        {"${NONE:-hush}", "${REDACTED_1}"},      {"x${LISTEN_AT}", "${REDACTED_1}"},
        {"${LISTEN_AT}x", "${REDACTED_1}"},      {"$$", "${REDACTED_1}"},
        {"${NONE:-}${NONE:-}", "${REDACTED_1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        char yaml[256];
        char part[64];
        snprintf(yaml, sizeof(yaml), HEAD "store: {redis: 'redis://a', password: '%s'}\n",
                 VALUES[i][0]);
        snprintf(part, sizeof(part), "\"password\":\"%s\"", VALUES[i][1]);
        assert_tells(yaml, part);
    }
}
END_TEST

/* What the loader takes for a password is not told, all else is. */
/* What another process is given, as compact JSON. */
static const char *describe_to_load(const char *yaml, const char *path)
{
    static char buffer[8192];
    struct policy *policy = load(yaml);
    json_t *json = description_to_load(policy, path);
    const size_t len = json_dumpb(json, buffer, sizeof(buffer) - 1, JSON_COMPACT);
    ck_assert_uint_lt(len, sizeof(buffer));
    buffer[len] = '\0';
    json_decref(json);
    policy_free(policy);
    return buffer;
}

START_TEST(another_process_loads_the_same_secrets_and_files)
{
    static const char YAML[] =
        HEAD "admin: {listen: 127.0.0.1:9900, token: 0123456789abcdef0123456789abcdef}\n"
             "store: {redis: \"redis://u:p@127.0.0.1/0\"}\n";
    const char *described = describe_to_load(YAML, "/etc/sluice/policy.yaml");
    ck_assert_ptr_nonnull(strstr(described, "0123456789abcdef0123456789abcdef"));
    ck_assert_ptr_nonnull(strstr(described, "redis://u:p@127.0.0.1/0"));
    struct policy *again = load(described);
    ck_assert_uint_eq(again->n_upstreams, 1);
    policy_free(again);
}
END_TEST

/* The path of the certificate in @described is @path from where this process is. */
static void assert_has_path(const char *described, const char *path)
{
    char folder[PATH_MAX];
    char part[PATH_MAX + 64];
    ck_assert_ptr_nonnull(getcwd(folder, sizeof(folder)));
    snprintf(part, sizeof(part), "\"cert\":[\"%s/%s\"]", folder, path);
    ck_assert_msg(strstr(described, part) != NULL, "%s", described);
}

START_TEST(paths_of_files_are_relative_to_the_file_that_is_named)
{
    static const char YAML[] =
        "listen: {address: 127.0.0.1:8443, tls: {cert: a.pem, key: [/b.key]}}\n"
        "upstreams: {u: {servers: [https://127.0.0.1:9000], tls: {ca: system}}}\n"
        "routes: [{upstream: u}]\n";
    const char *described = describe_to_load(YAML, "/etc/policy.yaml");
    ck_assert_msg(strstr(described, "\"cert\":[\"/etc/a.pem\"]") != NULL, "%s", described);
    ck_assert_ptr_nonnull(strstr(described, "\"key\":[\"/b.key\"]"));
    ck_assert_ptr_nonnull(strstr(described, "\"ca\":\"system\""));
    assert_has_path(describe_to_load(YAML, "etc/policy.yaml"), "etc/a.pem");
    assert_has_path(describe_to_load(YAML, "policy.yaml"), "a.pem");
}
END_TEST

START_TEST(a_url_loses_its_password_alone)
{
    static const char *const URLS[][2] = {
        {"redis://a:1/0", "redis://a:1/0"},
        {"redis://:pw@a:1/0", "redis://:${REDACTED_1}@a:1/0"},
        {"redis://u:p@w@a:1", "redis://u:${REDACTED_1}@a:1"},
        {"redis://:p/w@a:1/0", "redis://:${REDACTED_1}@a:1/0"},
        {"redis://u/x:p/w@a:1/0", "redis://u/x:${REDACTED_1}@a:1/0"},
        {"redis://u:a://b@c", "redis://u:${REDACTED_1}@c"},
        {"redis+sentinel://u:p@a:1,b:2/m", "redis+sentinel://u:${REDACTED_1}@a:1,b:2/m"},
        {"redis://u/x:hush?#hush@a,b", "redis://u/x:${REDACTED_1}@a,b"},
        {"redis://:/hush@[::1]:7000/15", "redis://:${REDACTED_1}@[::1]:7000/15"},
        {"unix:///a@b:c", "unix:///a@b:c"},
        {"redis+unix:///a:b@c", "redis+unix:///a:b@c"},
        {"redis://u:${LISTEN_AT}@b", "redis://u:${LISTEN_AT}@b"},
        {"redis://u:x${LISTEN_AT}@b", "${REDACTED_1}"},
        {"${X:-redis://:pw@a}", "${REDACTED_1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(URLS); i++) {
        char yaml[256];
        char part[128];
        snprintf(yaml, sizeof(yaml), HEAD "store: {redis: '%s'}\n", URLS[i][0]);
        snprintf(part, sizeof(part), "\"redis\":[\"%s\"]", URLS[i][1]);
        assert_tells(yaml, part);
    }
}
END_TEST

START_TEST(no_query_of_a_url_is_told)
{
    static const char *const PATHS[][2] = {
        {"/healthz", "/healthz"},
        {"/h?", "/h?"},
        {"/h?hush", "/h?${REDACTED_1}"},
        {"/h?token=hush", "/h?token=${REDACTED_1}"},
        {"/h?a=hush&b=hush", "/h?${REDACTED_1}"},
        {"/h?token=${NONE:-hush}", "${REDACTED_1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(PATHS); i++) {
        char yaml[256];
        char part[128];
        snprintf(yaml, sizeof(yaml),
                 "listen: 127.0.0.1:8080\nroutes: [{upstream: one}]\n"
                 "upstreams: {one: {servers: ['http://127.0.0.1:9000'], health: '%s'}}\n",
                 PATHS[i][0]);
        snprintf(part, sizeof(part), "\"health\":{\"path\":\"%s\"", PATHS[i][1]);
        assert_tells(yaml, part);
    }
    assert_tells(
        HEAD "jwt: {a: {keys: 'https://id.test/jwks?key=hush', algorithms: ES256, issuer: i}}\n",
        "\"keys\":\"https://id.test/jwks?key=${REDACTED_1}\"");
}
END_TEST

START_TEST(no_value_of_a_header_or_query_is_told)
{
    static const char YAML[] = "listen: 127.0.0.1:8080\n"
                               "routes:\n"
                               "  - match: {header: {x-pass: hush1, x-tier: '${LISTEN_AT}',\n"
                               "                      x-a: true, x-b: 'true'},\n"
                               "            query: {api_key: hush4, b: [hush5, '${LISTEN_AT}'],\n"
                               "                    c: false, d: 'false'}}\n"
                               "    upstream: one\n"
                               "    request: {set: {x-session: hush2}}\n"
                               "    response: {set: {x-jwt: hush3}}\n"
                               "upstreams: {one: {servers: ['http://127.0.0.1:9000']}}\n";
    assert_tells(YAML, "\"header\":{\"x-pass\":\"${REDACTED_1}\",\"x-tier\":\"${LISTEN_AT}\","
                       "\"x-a\":true,\"x-b\":\"${REDACTED_2}\"}");
    assert_tells(YAML, "\"set\":{\"x-session\":{\"value\":\"${REDACTED_6}\"}}");
    assert_tells(YAML, "\"query\":{\"api_key\":\"${REDACTED_3}\","
                       "\"b\":[\"${REDACTED_4}\",\"${LISTEN_AT}\"],"
                       "\"c\":false,\"d\":\"${REDACTED_5}\"}");
    ck_assert_ptr_null(strstr(describe(YAML, true), "hush"));
}
END_TEST

/* With it, a value is longer than MATCH_VALUE_BYTES_MAX. */
#define LONG_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG LONG_64 LONG_64 LONG_64 LONG_64

static const char *const BAD_SECRETS[] = {
    "routes: [{match: {header: {x-pass: \"hush\\x01\"}}, respond: {status: 204}}]\n",
    "routes: [{match: {header: {x-pass: [a, \"hush\\x01\"]}}, respond: {status: 204}}]\n",
    "routes: [{match: {query: {k: hush" LONG "}}, respond: {status: 204}}]\n",
    "routes: [{respond: {status: 204}, response: {set: {x-jwt: \"hush\\x01\"}}}]\n",
    ("upstreams: {a: {servers: 'http://127.0.0.1:1', health: {path: 'h?token=hush'}}}\n"
     "routes: [{upstream: a}]\n"),
};

START_TEST(messages_do_not_quote_what_descriptions_do_not_tell)
{
    char yaml[1024];
    struct diags diags;
    struct policy *policy = NULL;
    snprintf(yaml, sizeof(yaml), "listen: 127.0.0.1:0\n%s", BAD_SECRETS[_i]);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_ne(loader_load_text(span_of_text(yaml), NULL, &policy, &diags), STATUS_OK);
    ck_assert_uint_gt(diags.n_errors, 0);
    for (size_t i = 0; i < diags.n_items; i++) {
        ck_assert_msg(strstr(diags.items[i].text, "hush") == NULL, "%s", diags.items[i].text);
    }
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

START_TEST(fields_of_own_answers_are_printed)
{
    static const char YAML[] =
        "listen: 127.0.0.1:8080\n"
        "limits: {a: {key: header.x, rate: 1/s, deny: {set: {x-a: one}},\n"
        "             missing: {status: 401, set: {WWW-Authenticate: ApiKey}}}}\n"
        "routes: [{limits: [a], respond: {status: 200, set: {x-b: two, x-c: '${LISTEN_AT}'}}}]\n";
    assert_tells(YAML, "\"set\":{\"x-a\":\"one\"}");
    assert_tells(YAML, "\"set\":{\"WWW-Authenticate\":\"ApiKey\"}");
    assert_tells(YAML, "\"set\":{\"x-b\":\"two\",\"x-c\":\"${LISTEN_AT}\"}");
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return 1;
    }
    Suite *suite = suite_create("policy/description");
    TCase *cases = tcase_create("description");
    tcase_add_test(cases, what_is_left_out_is_told_with_its_default);
    tcase_add_test(cases, fields_of_own_answers_are_printed);
    tcase_add_test(cases, what_stands_for_a_section_is_told_as_one);
    tcase_add_test(cases, the_environment_is_reported_by_name);
    tcase_add_test(cases, what_is_left_out_is_not_told_unless_asked_for);
    tcase_add_test(cases, references_stand_in_place_of_secrets);
    tcase_add_test(cases, references_of_the_file_stay);
    tcase_add_test(cases, another_process_loads_the_same_secrets_and_files);
    tcase_add_test(cases, paths_of_files_are_relative_to_the_file_that_is_named);
    tcase_add_test(cases, a_url_loses_its_password_alone);
    tcase_add_test(cases, no_query_of_a_url_is_told);
    tcase_add_test(cases, no_value_of_a_header_or_query_is_told);
    tcase_add_loop_test(cases, messages_do_not_quote_what_descriptions_do_not_tell, 0,
                        (int)ARRAY_LEN(BAD_SECRETS));
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
