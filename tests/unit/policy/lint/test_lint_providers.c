#include "policy/lint/lint.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/loader.h"
#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 4096 };

#define KIND "any-provider"
#define ENTRY(name, rest) name ": {keys: \"https://id/" name "\", algorithms: ES256" rest "}"

static const char HEAD[] = "listen: 127.0.0.1:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
                           "jwt: {" ENTRY("main", ", issuer: a") ", " /* two of one issuer */
    ENTRY("again", ", issuer: a") ", " ENTRY("both", ", issuer: [a, b]") ", " /* and others */
    ENTRY("partner", ", issuer: b") ", " ENTRY("any", "") "}\n";

/* The number of warnings about a policy of HEAD and @rest. *text: the first of them. */
static unsigned count_in(const char *rest, struct text *text)
{
    char yaml[2 * YAML_BYTES_MAX];
    struct diags diags;
    struct policy *policy = NULL;
    unsigned n = 0;
    (void)snprintf(yaml, sizeof(yaml), "%s%s", HEAD, rest);
    diags_init(&diags, "policy.yaml");
    const enum status status = loader_check_text(span_of_text(yaml), NULL, &policy, &diags);
    ck_assert_msg(status == STATUS_OK, "%s", yaml);
    for (size_t i = 0; i < diags.n_items; i++) {
        if (strcmp(diags.items[i].name, KIND) == 0 && n++ == 0) {
            text_add_format(text, "%u:%u: %s", diags.items[i].line, diags.items[i].column,
                            diags.items[i].text);
        }
    }
    policy_free(policy);
    diags_close(&diags);
    return n;
}

/* The same of one with a limit by @key whose routes have @jwt and @other, and one of the provider
 * "main" that has @third, ", l" or nothing. */
static unsigned count(const char *key, const char *jwt, const char *other, const char *third,
                      struct text *text)
{
    char rest[YAML_BYTES_MAX];
    (void)snprintf(rest, sizeof(rest),
                   "limits: {l: {key: %s, rate: 1/s}, m: {key: jwt.sub, rate: 9/m}}\n"
                   "routes: [{match: {path: \"/a/{id}\"}, jwt: %s, limits: [l], upstream: u},\n"
                   "  {match: {path: \"/b/{id}\"}, jwt: %s, limits: [l], upstream: u},\n"
                   "  {match: {path: /c}, jwt: main, limits: [m%s], upstream: u},\n"
                   "  {jwt: partner, limits: [], upstream: u}]\n",
                   key, jwt, other, third);
    return count_in(rest, text);
}

static const struct {
    const char *key;
    const char *jwt;
    const char *other;
    unsigned n_reported;
} POLICIES[] = {
    {"jwt.sub", "main", "partner", 1},
    {"jwt.sub | client.ip", "partner", "main", 1},
    {"header.x-a | jwt.sub", "{provider: main, required: true}", "partner", 1},
    {"[method, jwt.tenant.id | client.ip]", "main", "partner", 1},
    {"jwt.issuer", "main", "partner", 1},
    {"jwt.\"iss\".x", "main", "partner", 1},

    /* The issuer is the same, or is counted. */
    {"jwt.sub", "main", "main", 0},
    {"jwt.sub", "main", "again", 0},
    {"jwt.sub", "main", "both", 0},
    {"[jwt.iss, jwt.sub]", "main", "partner", 0},
    {"[jwt.sub | client.ip, jwt.iss | client.ip]", "main", "partner", 0},
    {"[jwt.sub, client.ip | jwt.iss]", "main", "partner", 1},

    /* Any issuer is another warning. */
    {"jwt.sub", "main", "any", 0},
    {"jwt.sub", "any", "partner", 0},

    /* What else may separate them. */
    {"[route, jwt.sub]", "main", "partner", 0},
    {"[jwt.sub, path]", "main", "partner", 0},
    {"[jwt.sub, path.1]", "main", "partner", 0},
    {"[jwt.sub, client.ip]", "main", "partner", 0},
    {"[jwt.sub, client.cert]", "main", "partner", 0},
    {"[jwt.sub, client.cert | global]", "main", "partner", 1},
    {"[jwt.sub, query.q]", "main", "partner", 1},
    {"[jwt.sub, path.id]", "main", "partner", 1}, /* both may be asked for the same */
    {"[jwt.sub, host]", "main", "partner", 1},    /* which they have in common */
    {"[jwt.sub, host, route]", "main", "partner", 0},

    /* No claim. */
    {"client.ip", "main", "partner", 0},
};

START_TEST(a_claim_that_several_issuers_give_is_told)
{
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    const unsigned n = count(POLICIES[_i].key, POLICIES[_i].jwt, POLICIES[_i].other, "", &text);
    ck_assert_msg(n == POLICIES[_i].n_reported, "%u: %s: %s, %s", n, POLICIES[_i].key,
                  POLICIES[_i].jwt, POLICIES[_i].other);
}
END_TEST

static const struct {
    const char *host;
    const char *other;
    unsigned n_reported;
} HOSTS[] = {
    {"host: main.test", "host: partner.test", 0},
    {"host: [main.test, a.test]", "host: [b.test, partner.test]", 0},
    {"host: [main.test, a.test]", "host: [a.test, partner.test]", 1},
    {"host: \"*.test\"", "host: \"*.test\"", 1},
    {"host: MAIN.test", "host: main.test", 1},
    {"method: GET", "method: POST", 1},

    /* One of the routes may take all of its host before the other. */
    {"host: main.test", "host: \"*.test\"", 0},
    {"host: main.test", "method: GET", 0},
};

START_TEST(a_host_separates_what_is_on_several)
{
    char rest[YAML_BYTES_MAX];
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    (void)snprintf(rest, sizeof(rest),
                   "limits: {l: {key: [host, jwt.sub], rate: 1/s}}\n"
                   "routes: [{match: {path: /a, %s}, jwt: main, limits: [l], upstream: u},\n"
                   "  {match: {path: /b, %s}, jwt: partner, limits: [l], upstream: u},\n"
                   "  {limits: [], upstream: u}]\n",
                   HOSTS[_i].host, HOSTS[_i].other);
    const unsigned n = count_in(rest, &text);
    ck_assert_msg(n == HOSTS[_i].n_reported, "%u: %s, %s", n, HOSTS[_i].host, HOSTS[_i].other);
}
END_TEST

START_TEST(both_are_named_at_the_key)
{
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    ck_assert_uint_eq(count("jwt.sub", "partner", "main", "", &text), 1);
    buffer[text.len] = '\0';
    ck_assert_str_eq(buffer,
                     "4:19: limit \"l\" counts by a claim of tokens, and the issuers of jwt "
                     "\"partner\" and \"main\" may give the same: put jwt.iss beside it in "
                     "the key, or give each a limit of its own");
}
END_TEST

START_TEST(each_is_compared_with_each)
{
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    ck_assert_uint_eq(count("jwt.sub", "both", "partner", ", l", &text), 1);
    ck_assert_uint_eq(count("jwt.sub", "any", "partner", ", l", &text), 1);
    ck_assert_uint_eq(count("jwt.sub", "both", "again", ", l", &text), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_providers");
    TCase *tcase = tcase_create("lint_providers");
    tcase_add_loop_test(tcase, a_claim_that_several_issuers_give_is_told, 0,
                        (int)ARRAY_LEN(POLICIES));
    tcase_add_loop_test(tcase, a_host_separates_what_is_on_several, 0, (int)ARRAY_LEN(HOSTS));
    tcase_add_test(tcase, both_are_named_at_the_key);
    tcase_add_test(tcase, each_is_compared_with_each);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
