/* The spellings of a request by which dodged-route asks for more than one route says: suffixes
 * and methods that routes name, and a suffix before a slash. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lint/lint.h"
#include "policy/loader.h"
#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 4096 };

#define HEAD                                                                                       \
    "listen: 127.0.0.1:0\n"                                                                        \
    "upstreams: {u: {servers: http://127.0.0.1:1}, other: {servers: http://127.0.0.1:2}}\n"        \
    "limits: {l: {key: client.ip, rate: 9/s}, m: {key: client.ip, rate: 9/m}}\n"                   \
    "routes:\n"

/* Whether the only dodged-route of @routes says @text of route "a"; NULL: there is none. */
static void expect(const char *routes, const char *text)
{
    char yaml[YAML_BYTES_MAX];
    char whole[YAML_BYTES_MAX];
    struct policy *policy = NULL;
    struct diags diags;
    const char *found = NULL;
    unsigned n = 0;
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s", routes);
    (void)snprintf(whole, sizeof(whole), "route \"a\" can be avoided: %s", text);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_check_text(span_of_text(yaml), NULL, &policy, &diags), STATUS_OK);
    for (size_t i = 0; i < diags.n_items; i++) {
        if (strcmp(diags.items[i].name, "dodged-route") == 0) {
            found = diags.items[i].text;
            n++;
        }
    }
    ck_assert_msg(n == (text != NULL ? 1 : 0), "%u: %s\n%s", n, routes, found);
    if (text != NULL) {
        ck_assert_str_eq(found, whole);
    }
    diags_close(&diags);
    policy_free(policy);
}

#define ROUTE(name, match, limits)                                                                 \
    "- {name: " name ", match: {" match "}, limits: [" limits "], upstream: u}\n"
#define A(match) ROUTE("a", match, "l, m")
#define REST "- {name: rest, limits: [m], upstream: u}\n"

#define TO(name) " to route \"" name "\" without limit \"l\", and many servers take "
#define IT "it for the same request; "
#define THEM "them for the same request; "
#define OR_GIVE "or give that route the same limits"
#define IN_FRONT "put it in front of that route, " OR_GIVE

struct row {
    const char *routes;
    const char *text; /* NULL: no warning */
};

/* --- suffixes --- */

#define SCRIPTS "path: [/assets/**, \"/*.css\", \"/*.js\"]"

static const struct row SUFFIXES[] = {
    {ROUTE("files", SCRIPTS, "m") A("path: /1*/**") REST, "/1.css leads" TO("files") IT IN_FRONT},
    {ROUTE("files", SCRIPTS, "") A("path: [/1*/**, \"/*/1*/**\"]") REST,
     "/1.css leads" TO("files") IT IN_FRONT},
    {/* of GET alone */ ROUTE("files", SCRIPTS ", method: GET", "m") A("path: /1*/**") REST,
     "/1.css leads" TO("files") IT IN_FRONT},
    {/* of another segment, and of a start */ ROUTE("files", "path: [/2/*.css, /2/1*.js]", "m")
         A("path: /2/1*/**") REST,
     "/2/1.css leads" TO("files") IT IN_FRONT},
    {/* the route itself does not take it */ ROUTE("files", SCRIPTS, "m")
         A("path: [/1, /1.x/**, /1/**]"),
     "/1.css leads" TO("files") IT "give that route the same limits"},
    {/* a later route */ A("path: /1/**") ROUTE("files", SCRIPTS, "m"),
     "/1.css leads" TO("files") IT "write path: /1*/**, " OR_GIVE},
    {/* behind it, with the same limits, or to other servers */ A("path: /1*/**")
         ROUTE("files", SCRIPTS, "m"),
     NULL},
    {ROUTE("files", SCRIPTS, "m, l") A("path: /1*/**"), NULL},
    {"- {match: {path: \"/*.js\"}, limits: [m], upstream: other}\n" A("path: /1*/**"), NULL},
    {"- {match: {path: \"/*.js\"}, respond: {status: 404}}\n" A("path: /1*/**"), NULL},
    {/* no suffix, of another segment, or of any segment */
     ROUTE("files", "path: [\"/*-js\", \"/*.\", \"/*/*.js\"]", "m") A("path: /1*/**"), NULL},
    {ROUTE("files", "path: /1/*.js", "m") A("path: /1/*/**"), NULL},
};

START_TEST(a_suffix_that_another_route_names_avoids_no_limit_unwarned)
{
    expect(SUFFIXES[_i].routes, SUFFIXES[_i].text);
}
END_TEST

/* --- a suffix and a slash --- */

#define SUFFIX_SLASH "/1.x/ leads" TO("rest") IT "write path: /1*/**, " OR_GIVE

static const struct row BOTH_ENDS[] = {
    {A("path: [/1*, /1/]") REST, SUFFIX_SLASH},
    {A("path: [/1*, /1/**]") REST, SUFFIX_SLASH},
    {A("path: [/1, /1/, /1.x]") REST, SUFFIX_SLASH},
    {A("path: [/1/**, /1*]") REST, SUFFIX_SLASH},
    {ROUTE("first", "path: \"/*.x/\"", "m") A("path: /1*/**"),
     "/1.x/ leads" TO("first") IT "give that route the same limits"},
    {A("path: /1*/**") REST, NULL},
    {A("path: [/1*, \"/1*/\"]") REST, NULL},
    {A("path: [\"/*.1\", \"/*.1/**\"]") REST, NULL},
    {/* no route for it */ A("path: [/1*, /1/]") ROUTE("rest", "path: /2/**", "m"), NULL},
};

START_TEST(a_suffix_before_a_slash_avoids_no_limit_unwarned)
{
    expect(BOTH_ENDS[_i].routes, BOTH_ENDS[_i].text);
}
END_TEST

/* --- methods --- */

#define PATH "path: /1*/**"
#define WRITES PATH ", method: [POST, PUT, PATCH, DELETE]"

static const struct row METHODS[] = {
    {/* preflights in front */ ROUTE("first", "method: OPTIONS", "") A(PATH) REST,
     "OPTIONS /1 leads" TO("first") IT IN_FRONT},
    {/* uploads */ ROUTE("first", "method: PUT", "m") A(PATH) REST,
     "PUT /1 leads" TO("first") IT IN_FRONT},
    {ROUTE("first", "path: /**, method: [GET, PUT]", "m") A(PATH ", method: [POST, PUT]"),
     "PUT /1 leads" TO("first") IT IN_FRONT},
    {/* a method that is not tried else */ ROUTE("first", "method: PURGE", "m") A(PATH),
     "PURGE /1 leads" TO("first") IT IN_FRONT},
    {/* which it does not take */ ROUTE("first", "method: [PURGE, LOCK]", "m")
         A(PATH ", method: POST"),
     "PURGE /1 leads" TO("first") IT "give that route the same limits"},
    {/* a route of a wider path */ ROUTE("first", "path: \"/*/**\", method: PUT", "m") A(PATH),
     "PUT /1 leads" TO("first") IT IN_FRONT},
    {/* all that write are named: OPTIONS */ A(WRITES) REST,
     "OPTIONS /1 leads" TO("rest") IT "write no method, " OR_GIVE},
    {/* one that nobody knows */ A(PATH ", method: [POST, PUT, PATCH, DELETE, OPTIONS]") REST,
     "FOO /1 leads" TO("rest") IT "write no method, " OR_GIVE},
    {/* a later route names the method */ A(PATH ", method: POST")
         ROUTE("writes", "method: [PUT, DELETE]", "m"),
     "PUT /1 leads" TO("writes") IT "write no method, " OR_GIVE},
    {/* a preflight that sluice answers */
     "- {match: {method: OPTIONS}, respond: {status: 204}}\n" A(PATH) REST, NULL},
    {A(PATH ", method: POST") "- {match: {method: OPTIONS}, respond: {status: 204}}\n", NULL},
    {/* the same limits, other servers */ ROUTE("first", "method: OPTIONS", "m, l") A(PATH) REST,
     NULL},
    {"- {match: {method: PUT}, limits: [m], upstream: other}\n" A(PATH) REST, NULL},
    {A(PATH ", method: POST") "- {match: {method: PUT}, limits: [m], upstream: other}\n", NULL},
    {/* of the same path, or of a narrower one, on purpose */
     ROUTE("first", PATH ", method: OPTIONS", "m") A(PATH) REST, NULL},
    {ROUTE("first", "path: [/2/**, /1/**], method: PUT", "m") A(PATH) REST, NULL},
    {ROUTE("first", "path: /1/2, method: PUT", "m") A(PATH) REST, NULL},
    {A(PATH ", method: POST") ROUTE("put", PATH ", method: PUT", "m"), NULL},
    {/* what reads beside what writes */ ROUTE("first", "method: [GET, HEAD]", "m") A(PATH), NULL},
    {A(PATH ", method: [GET, HEAD]") ROUTE("rest", "method: [POST, PUT]", "m"), NULL},
    {ROUTE("first", "method: POST", "m") A(PATH ", method: GET"), NULL},
    {A(WRITES) ROUTE("rest", "method: [GET, HEAD]", "m"), NULL},
};

START_TEST(another_method_avoids_no_limit_unwarned)
{
    expect(METHODS[_i].routes, METHODS[_i].text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_spellings");
    TCase *cases = tcase_create("lint_spellings");
    tcase_add_loop_test(cases, a_suffix_that_another_route_names_avoids_no_limit_unwarned, 0,
                        ARRAY_LEN(SUFFIXES));
    tcase_add_loop_test(cases, a_suffix_before_a_slash_avoids_no_limit_unwarned, 0,
                        ARRAY_LEN(BOTH_ENDS));
    tcase_add_loop_test(cases, another_method_avoids_no_limit_unwarned, 0, ARRAY_LEN(METHODS));
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
