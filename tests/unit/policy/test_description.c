#include "policy/description.h"

#include <check.h>
#include <jansson.h>
#include <string.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/text.h"
#include "policy/load/endpoint.h"
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
static const char *describe(const char *yaml)
{
    static char buffer[8192];
    struct policy *policy = load(yaml);
    json_t *json = description_of_policy(policy);
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
    const char *all = describe(yaml);
    ck_assert_msg(strstr(all, part) != NULL, "no %s in %s", part, all);
}

#define HEAD "listen: 127.0.0.1:8080\nupstream: http://127.0.0.1:9000\n"

START_TEST(what_is_left_out_is_told_with_its_default)
{
    assert_tells(HEAD, "{\"listen\":[{\"address\":\"127.0.0.1:8080\",\"proxy_protocol\":false,"
                       "\"mode\":\"0660\"}]");
    assert_tells(HEAD, "\"workers\":\"auto\"");
    assert_tells(HEAD, "\"log\":{\"format\":\"logfmt\",\"to\":\"stdout\",\"sample\":\"100%\"}");
    assert_tells(HEAD, "\"max\":{\"connections\":10000,");
    ck_assert_ptr_null(strstr(describe(HEAD), "\"admin\":"));
    ck_assert_ptr_null(strstr(describe(HEAD), "\"limits\":"));
}
END_TEST

START_TEST(what_stands_for_a_section_is_told_as_one)
{
    assert_tells(HEAD "log: off\n",
                 "\"log\":{\"format\":\"off\",\"to\":\"stdout\",\"sample\":\"100%\"}");
    assert_tells(HEAD "admin: 127.0.0.1:9900\n",
                 "\"admin\":{\"listen\":[{\"address\":\"127.0.0.1:9900\",\"mode\":\"0660\"}],"
                 "\"metrics_top\":0}");
    assert_tells(HEAD "admin: [127.0.0.1:9900, {address: 'unix:/a', mode: 0600}]\n",
                 "\"admin\":{\"listen\":[{\"address\":\"127.0.0.1:9900\",\"mode\":\"0660\"},"
                 "{\"address\":\"unix:/a\",\"mode\":\"0600\"}],\"metrics_top\":0}");
}
END_TEST

START_TEST(the_environment_is_reported_by_name)
{
    assert_tells("listen: ${LISTEN_AT}\nupstream: http://127.0.0.1:9000\n",
                 "\"address\":\"${LISTEN_AT}\"");
}
END_TEST

START_TEST(secrets_are_masked)
{
    static const char YAML[] =
        HEAD "store:\n"
             "  redis: redis://user:hush1@127.0.0.1:6379/0\n"
             "  secret: hush2\n"
             "admin: {listen: 127.0.0.1:9900, token: hush3hush3hush3hush3}\n";
    assert_tells(YAML, "\"redis\":[\"redis://user:***@127.0.0.1:6379/0\"]");
    assert_tells(YAML, "\"secret\":\"***\"");
    assert_tells(YAML, "\"token\":\"***\"");
    ck_assert_ptr_null(strstr(describe(YAML), "hush"));
    assert_tells(HEAD "store: {redis: 'redis://a', password: '${NONE:-hush}'}\n",
                 "\"password\":\"***\"");
    assert_tells(HEAD "store: {redis: 'redis://a', password: '${LISTEN_AT}'}\n",
                 "\"password\":\"${LISTEN_AT}\"");
}
END_TEST

START_TEST(a_url_loses_its_password_alone)
{
    static const char *const URLS[][2] = {
        {"redis://a:1/0", "redis://a:1/0"},
        {"redis://:pw@a:1/0", "redis://:***@a:1/0"},
        {"redis://u:p@w@a:1", "redis://u:***@a:1"},
        {"redis://:p/w@a:1/0", "redis://:***@a:1/0"},
        {"redis://u/x:p/w@a:1/0", "redis://u/x:***@a:1/0"},
        {"rediss://u:a://b@c", "rediss://u:***@c"},
        {"redis+sentinel://u:p@a:1,b:2/m", "redis+sentinel://u:***@a:1,b:2/m"},
        {"unix:///a@b:c", "unix:///a@b:c"},
        {"unix:/a:b@c", "unix:/a:b@c"},
        {"redis+unix:///a:b@c", "redis+unix:///a:b@c"},
        {"redis://a@b", "redis://a@b"},
        {"u:p@a", "u:***@a"},
        {"", ""},
        {"://", "://"},
        {"${X:-redis://:pw@a}", "${X:-redis://:***@a}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(URLS); i++) {
        char buffer[128];
        const struct span masked = description_mask_url(span_of_text(URLS[i][0]), buffer);
        ck_assert_msg(span_equals(masked, span_of_text(URLS[i][1])), "%s: %.*s", URLS[i][0],
                      SPAN_ARGS(masked));
    }
}
END_TEST

/* As the loader reads it: nothing of the password is left. */
START_TEST(what_the_loader_takes_for_a_password_is_masked)
{
    static const char *const URLS[] = {
        "redis://:hush@a/",
        "redis://:hush/hush@127.0.0.1:6379/0",
        "redis://u:hush@hush:hush@a",
        "redis://u:hush://hush@a",
        "redis://u/x:hush?#hush@a,b",
        "redis+sentinel://u:hush/@a:1,b:2/m",
        "redis://:/hush@[::1]:7000/15",
    };
    char buffer[512];
    struct arena arena;
    arena_init(&arena, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(URLS); i++) {
        struct text problem = text_of(buffer, sizeof(buffer));
        struct redis_url url;
        ck_assert_msg(redis_url_parse(span_of_text(URLS[i]), &arena, &url, &problem), "%s",
                      URLS[i]);
        ck_assert_uint_gt(url.login.password.len, 0);
        const struct span masked = description_mask_url(span_of_text(URLS[i]), buffer);
        buffer[masked.len] = '\0';
        ck_assert_msg(strstr(buffer, "hush") == NULL && strstr(buffer, "***@") != NULL, "%s",
                      buffer);
    }
    arena_reset(&arena);
}
END_TEST

START_TEST(no_value_of_a_header_is_told)
{
    static const char YAML[] = "listen: 127.0.0.1:8080\n"
                               "routes:\n"
                               "  - match: {header: {x-pass: hush1, x-tier: '${LISTEN_AT}'}}\n"
                               "    upstream: one\n"
                               "    request: {set: {x-session: hush2}}\n"
                               "    response: {set: {x-jwt: hush3}}\n"
                               "upstreams: {one: {servers: ['http://127.0.0.1:9000']}}\n";
    assert_tells(YAML, "\"header\":{\"x-pass\":\"***\",\"x-tier\":\"${LISTEN_AT}\"}");
    assert_tells(YAML, "\"set\":{\"x-session\":\"***\"}");
    ck_assert_ptr_null(strstr(describe(YAML), "hush"));
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
    tcase_add_test(cases, what_stands_for_a_section_is_told_as_one);
    tcase_add_test(cases, the_environment_is_reported_by_name);
    tcase_add_test(cases, secrets_are_masked);
    tcase_add_test(cases, a_url_loses_its_password_alone);
    tcase_add_test(cases, what_the_loader_takes_for_a_password_is_masked);
    tcase_add_test(cases, no_value_of_a_header_is_told);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
