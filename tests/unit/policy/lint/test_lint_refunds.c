#include "policy/lint/lint.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 4096 };

#define STATUS_KIND "client-chosen-status"
#define JWT "jwt: {j: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
#define LOGIN "charge_on: [400, 401, 403, 422]"

/* The number of warnings of @kind about a policy with a limit that has @rule, at a route that has
 * @route. Their texts go to *text, unless it is NULL. */
static unsigned count(const char *kind, const char *rule, const char *route, struct text *text)
{
    char yaml[YAML_BYTES_MAX];
    (void)snprintf(yaml, sizeof(yaml),
                   "listen: 127.0.0.1:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n" JWT
                   "limits: {l: {key: client.ip, rate: 1/s, %s}}\n"
                   "routes: [{limits: [l], %s}]\n",
                   rule, route);
    return policy_count_warnings(yaml, kind, text);
}

#define AT_U "upstream: u"
#define REQUIRED "jwt: {required: true}"
#define CONDITION "by Range, If-None-Match or If-Match"
#define ACCEPT "to an Accept that asks for what they cannot write"
#define LOST "a gateway loses"
#define BODY "for a body that is too large"
#define REFUSAL "where an application works before it refuses"
#define GUESS "wrong password"

static const struct {
    const char *rule;
    unsigned n_warnings;
    const char *reported; /* in one of them */
} RULES[] = {
    /* What conditions and ranges give stands for a 200. */
    {"charge_on: [200, 206]", 0, ""},
    {"charge_on: [200, 304]", 1, "whole answer as 206, which is not charged"},
    {"charge_on: [200], shadow: true", 0, ""},
    {"charge_on: [2xx], refund_on: [206]", 1, "it gets a 206"},
    {"refund_on: [304]", 1, CONDITION},
    {"refund_on: [3xx]", 1, "it gets a 304"},
    {"refund_on: [412]", 1, CONDITION},
    {"refund_on: [416]", 1, CONDITION},
    {LOGIN ", refund_on: [304, 412, 416]", 0, ""},

    /* What applications say when their work is done, in place of another answer. */
    {LOGIN ", refund_on: [406]", 1, ACCEPT},
    {LOGIN ", refund_on: [5xx]", 1, "it gets a 500"},
    {LOGIN ", refund_on: [501]", 1, ACCEPT},
    {"charge_on: [2xx], refund_on: [500]", 1, ACCEPT},
    {"refund_on: [5xx, server_failed]", 2, "it gets a 500"},
    {"refund_on: [5xx], shadow: true", 0, ""},
    {"charge_on: [5xx], refund_on: [500]", 0, ""},
    {"charge_on: [5xx], refund_on: [502]", 0, ""},

    /* What gateways say when they have lost an answer; what is said before work, as a rule. */
    {"charge_on: [2xx], refund_on: [504]", 1, LOST},
    {LOGIN ", refund_on: [502, 503, 504]", 1, "it gets a 502"},
    {"refund_on: [429, 503]", 0, ""},
    {"refund_on: [server_failed]", 1, "takes longer than its server allows"},
    {LOGIN ", refund_on: [server_failed]", 1, "takes longer than its server allows"},
    {"charge_on: [5xx], refund_on: [server_failed]", 0, ""},
    {LOGIN ", refund_on: [503]", 0, ""},

    /* What refuses a body, or the rest of it. */
    {LOGIN ", refund_on: [413]", 1, BODY},
    {LOGIN ", refund_on: [408]", 1, BODY},
    {LOGIN ", refund_on: [431]", 1, BODY},
    {"charge_on: [2xx], refund_on: [400]", 1, BODY},

    /* Any other 4xx, of a limit that charges 200 and it. */
    {"refund_on: [404]", 1, REFUSAL},
    {"refund_on: [4xx]", 1, "it gets a 404"},
    {"charge_on: [2xx, 4xx], refund_on: [422]", 1, "it gets a 422"},
    {"charge_on: [2xx], refund_on: [404]", 0, ""},
    {"charge_on: [4xx], refund_on: [404]", 0, ""},
    {"refund_on: [200, 404]", 0, ""},

    /* One warning of each way. */
    {"refund_on: [304, 404, 406, 410, 413, 5xx, 501, 502, 504]", 5, ACCEPT},

    /* Limits on guesses. */
    {LOGIN, 0, ""},
    {"charge_on: [4xx]", 0, ""},
    {"charge_on: [2xx, 4xx]", 0, ""},
    {"charge_on: [401]", 1, "charges 401 and not 400"},
    {"charge_on: [403]", 1, "charges 403 and not 400"},
    {"charge_on: [400, 401, 403]", 1, "charges 401 and not 422"},
    {"charge_on: [401, 403, 422]", 1, GUESS},
    {"charge_on: [2xx, 401, 403]", 1, GUESS},
    {"charge_on: [4xx], refund_on: [422]", 1, "charges 401 and not 422"},
    {"charge_on: [401], shadow: true", 0, ""},
    {"charge_on: [400, 422]", 0, ""},
    {"refund_on: [200]", 0, ""},
    {"refund_on: [2xx, 3xx, 429]", 0, ""},
    {"refund_on: [200, 422]", 1, "charges 401 and not 422"},
    {"refund_on: [2xx, 3xx, 4xx]", 0, ""},
};

START_TEST(a_limit_that_a_status_avoids_is_reported_with_the_way_to_it)
{
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    const unsigned n = count(STATUS_KIND, RULES[_i].rule, AT_U, &text);
    buffer[text.len] = '\0';
    ck_assert_msg(n == RULES[_i].n_warnings, "%u: %s\n%s", n, RULES[_i].rule, buffer);
    ck_assert_msg(strstr(buffer, RULES[_i].reported) != NULL, "%s\n%s", RULES[_i].rule, buffer);
}
END_TEST

START_TEST(a_refund_of_each_error_but_two_is_reported)
{
    for (unsigned status = 200; status < 600; status++) {
        const bool is_choice = status == 206 || status == 304;
        const bool is_early = status == 429 || status == 503;
        char rule[32];
        (void)snprintf(rule, sizeof(rule), "refund_on: [%u]", status);
        ck_assert_msg(count(STATUS_KIND, rule, AT_U, NULL) ==
                          (is_choice || (status >= 400 && !is_early)),
                      "%s", rule);
    }
}
END_TEST

START_TEST(a_limit_on_tokens_that_sluice_refuses_is_none_on_passwords)
{
    ck_assert_uint_eq(count(STATUS_KIND, "charge_on: [401]", "jwt: j, " AT_U, NULL), 1);
    ck_assert_uint_eq(count(STATUS_KIND, "charge_on: [401]", REQUIRED ", " AT_U, NULL), 0);
    ck_assert_uint_eq(count(STATUS_KIND, "charge_on: [401]",
                            REQUIRED ", " AT_U "}, {match: {path: /login}, limits: [l], " AT_U,
                            NULL),
                      1);
}
END_TEST

START_TEST(a_limit_that_leaving_avoids_is_reported)
{
    static const char KIND[] = "refunds-leaving";
    ck_assert_uint_eq(count(KIND, "refund_on: [5xx, client_left]", AT_U, NULL), 1);
    ck_assert_uint_eq(count(KIND, "refund_on: client_left, shadow: true", AT_U, NULL), 0);
    ck_assert_uint_eq(
        count(KIND, "charge_on: [401, client_left], refund_on: server_failed", AT_U, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_refunds");
    TCase *tcase = tcase_create("lint_refunds");
    tcase_add_loop_test(tcase, a_limit_that_a_status_avoids_is_reported_with_the_way_to_it, 0,
                        (int)ARRAY_LEN(RULES));
    tcase_add_test(tcase, a_refund_of_each_error_but_two_is_reported);
    tcase_add_test(tcase, a_limit_on_tokens_that_sluice_refuses_is_none_on_passwords);
    tcase_add_test(tcase, a_limit_that_leaving_avoids_is_reported);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
