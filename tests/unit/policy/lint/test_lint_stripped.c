#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lint/lint.h"
#include "policy/loader.h"
#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 8192 };

#define HEAD                                                                                       \
    "listen: 127.0.0.1:0\n"                                                                        \
    "upstreams:\n"                                                                                 \
    "  u: {servers: [http://127.0.0.1:1, http://127.0.0.1:2]}\n"                                   \
    "  same: {servers: [http://127.0.0.1:1, http://127.0.0.1:2], retries: 0}\n"                    \
    "  host: {servers: [http://127.0.0.1:1, http://127.0.0.1:2], host: a.test}\n"                  \
    "  v: {servers: [http://127.0.0.1:1, http://127.0.0.1:3]}\n"                                   \
    "limits: {l: {key: client.ip, rate: 9/s}, m: {key: client.ip, rate: 9/m}}\n"                   \
    "routes:\n"
#define L "limits: [l, m], upstream: u}\n"
#define M "limits: [m], upstream: u}\n"
#define REST "- {name: rest, limits: [m], upstream: u}\n"

static const char *look_up(const char *name)
{
    (void)name;
    return "/secret";
}

/* The only warning of @yaml that says so of a path that its upstream gets; NULL: there is none. */
static const char *check(const char *yaml, struct diags *diags, unsigned *n)
{
    const char *text = NULL;
    struct policy *policy = NULL;
    diags_init(diags, "policy.yaml");
    const enum status status = loader_check_text(span_of_text(yaml), look_up, &policy, diags);
    if (status != STATUS_OK) {
        diags_print(diags, stderr);
    }
    ck_assert_msg(status == STATUS_OK, "%s", yaml);
    policy_free(policy);
    *n = 0;
    for (size_t i = 0; i < diags->n_items; i++) {
        const struct diag *diag = &diags->items[i];
        if (strcmp(diag->name, "dodged-route") == 0 &&
            (strstr(diag->text, "its upstream gets the same path") != NULL ||
             strstr(diag->text, "strip_prefix") != NULL)) {
            text = diag->text;
            ++*n;
        }
    }
    return text;
}

static const struct {
    unsigned n_warnings;
    const char *routes;
} POLICIES[] = {
    {1, /* another route strips a prefix of the same path */
     "- {match: {path: /login*/**, ignore_case: true}, " L
     "- {match: {path: /api/**}, strip_prefix: /api, " M REST},
    {1, /* this one does, and another does not */
     "- {match: {path: /api/login*/**}, strip_prefix: /api, " L
     "- {match: {path: /api/**}, strip_prefix: /api, " M REST},
    {1, /* both do */
     "- {match: {path: /a/login*/**}, strip_prefix: /a, " L
     "- {match: {path: /b/**}, strip_prefix: /b, " M},
    {0, /* each path has a route with the limits */
     "- {match: {path: /login*/**, ignore_case: true}, " L
     "- {match: {path: /api/login*/**, ignore_case: true}, strip_prefix: /api, " L
     "- {match: {path: /api/**}, strip_prefix: /api, " M REST},
    {0, /* the same limits */
     "- {match: {path: /login}, " L "- {match: {path: /api/**}, strip_prefix: /api, " L},
    {0, /* no limits */
     "- {match: {path: /login}, limits: [], upstream: u}\n"
     "- {match: {path: /api/**}, strip_prefix: /api, " M},
    {1, /* the same limits for less */
     "- {match: {path: /login}, cost: 2, " M "- {match: {path: /api/**}, strip_prefix: /api, " M},
    {0, /* other servers, or another Host for them */
     "- {match: {path: /login}, " L
     "- {match: {path: /a/**}, strip_prefix: /a, limits: [m], upstream: v}\n"
     "- {match: {path: /b/**}, strip_prefix: /b, limits: [m], upstream: host}\n"
     "- {match: {path: /c/**}, strip_prefix: /c, limits: [m], upstream: \"http://127.0.0.1:1\"}\n"},
    {1, /* the same servers by another name */
     "- {match: {path: /login}, " L
     "- {match: {path: /a/**}, strip_prefix: /a, limits: [m], upstream: v}\n"
     "- {match: {path: /b/**}, strip_prefix: /b, limits: [m], upstream: same}\n"},
    {0, /* answered by sluice, to no route, or to one that does not strip so much */
     "- {match: {path: /login}, " L "- {match: {path: /a/login}, respond: {status: 404}}\n"
     "- {match: {path: /a/*}, strip_prefix: /a, " M
     "- {match: {path: /b/other}, strip_prefix: /b, " M
     "- {match: {path: /c/login}, strip_prefix: /c/login, " M "- {match: {path: /d/login}, " L
     "- {match: {path: /d/*}, strip_prefix: /d, " M},
    {0, /* other methods, hosts and headers */
     "- {match: {path: /login, method: POST, host: a.test, header: {x: \"1\"}}, " L
     "- {match: {path: /a/**, method: [GET, PUT]}, strip_prefix: /a, " M
     "- {match: {path: /b/**, host: b.test}, strip_prefix: /b, " M
     "- {match: {path: /c/**, header: {x: \"2\"}}, strip_prefix: /c, " M},
    {1, /* the same ones; of methods another than the first */
     "- {match: {path: /login, method: [PUT, POST], host: a.test, header: {x: \"1\"}}, " L
     "- {match: {path: /c/**, method: POST, host: \"*.test\", header: {x: true}}, "
     "strip_prefix: /c, " M},
    {1, /* a second path, of several segments and a name */
     "- {match: {path: [/1, \"/v1/{id:int}/x\"]}, " L
     "- {match: {path: \"/api/old/v1/{id}/*\"}, strip_prefix: /api/old, " M},
    {0, /* all that is left of the path is the start page */
     "- {match: {path: /api/**}, strip_prefix: /api, " L "- {match: {path: /}, " M},
    {1, /* what is below it */
     "- {match: {path: /api/**}, strip_prefix: /api, " L "- {match: {path: /**}, " M},
    {1, /* the start page itself */
     "- {match: {path: /api}, strip_prefix: /api, " L "- {match: {path: /}, " M},
    {0, /* an earlier route takes its requests */
     "- {match: {path: /log*}, " M "- {match: {path: /login}, " L
     "- {match: {path: /api/**}, strip_prefix: /api, " M},
    {0, /* no literal */
     "- {match: {path: /api/**}, strip_prefix: /api, limits: [m], upstream: u}\n"
     "- {match: {path: /**}, " L},
};

START_TEST(a_route_is_warned_of_once_where_another_path_becomes_its_own_without_a_limit)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s", POLICIES[_i].routes);
    const char *text = check(yaml, &diags, &n);
    ck_assert_msg(n == POLICIES[_i].n_warnings, "%u: %s%s", n, POLICIES[_i].routes,
                  text != NULL ? text : "");
    diags_close(&diags);
}
END_TEST

#define SAME_PATH                                                                                  \
    "and its upstream gets the same path; write a route for that path in front of it, with the "   \
    "same "

static const struct {
    const char *routes;
    const char *text;
} MESSAGES[] = {
    {"- {name: login, match: {path: /login*/**, ignore_case: true}, " L
     "- {name: api, match: {path: /api/**}, strip_prefix: /api, " M,
     "route \"login\" can be avoided: /api/login leads to route \"api\" without limit "
     "\"l\", " SAME_PATH "limits, or give that route the same limits or servers of its own"},
    {"- {name: login, match: {path: /api/login*/**}, strip_prefix: /api, cost: 2, " M REST,
     "route \"login\" can be avoided: /login leads to route \"rest\" without the same "
     "cost, " SAME_PATH "cost, or give that route the same cost or servers of its own"},
    {"- {name: login, match: {path: \"${P}\"}, " L
     "- {name: api, match: {path: /api/**}, strip_prefix: /api, " M,
     "route \"login\" can be avoided: a path that differs by a strip_prefix leads to route "
     "\"api\" without limit \"l\", " SAME_PATH
     "limits, or give that route the same limits or servers of its own"},
    {"- {name: login, match: {path: /login}, " L
     "- {name: api, match: {path: \"${P}/**\"}, strip_prefix: \"${P}\", " M,
     "route \"login\" can be avoided: a path that differs by a strip_prefix leads to route "
     "\"api\" without limit \"l\", " SAME_PATH
     "limits, or give that route the same limits or servers of its own"},
};

START_TEST(a_warning_says_which_path_leads_where)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s", MESSAGES[_i].routes);
    const char *text = check(yaml, &diags, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(text, MESSAGES[_i].text);
    diags_close(&diags);
}
END_TEST

START_TEST(many_prefixes_are_compared_in_bounded_steps)
{
    char *yaml = NULL;
    size_t len = 0;
    struct diags diags;
    unsigned n;
    FILE *file = open_memstream(&yaml, &len);
    ck_assert_ptr_nonnull(file);
    fputs(HEAD, file);
    for (size_t i = 0; i < 3000; i++) {
        fprintf(file, "- {match: {path: /%zu/%zu/**}, strip_prefix: /%zu, " L, i, i, i);
    }
    fclose(file);
    const char *text = check(yaml, &diags, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(text, "it is not known whether routes can be avoided by a path"));
    diags_close(&diags);
    free(yaml);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_stripped");
    TCase *cases = tcase_create("lint_stripped");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(
        cases, a_route_is_warned_of_once_where_another_path_becomes_its_own_without_a_limit, 0,
        ARRAY_LEN(POLICIES));
    tcase_add_loop_test(cases, a_warning_says_which_path_leads_where, 0, ARRAY_LEN(MESSAGES));
    tcase_add_test(cases, many_prefixes_are_compared_in_bounded_steps);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
