/* The spellings of a request by which dodged-route asks for more than one route says: suffixes
 * and methods that routes name, a suffix before a slash, and those of a route for any path. */

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
    "limits: {l: {key: client.ip, rate: 9/s}, m: {key: client.ip, rate: 9/m},\n"                   \
    "         other: {key: client.ip, rate: 1/s}}\n"                                               \
    "routes:\n"

static const char *look_up(const char *name)
{
    (void)name;
    return "1";
}

#define OWN "does not take all of its path: "

/* The last dodged-route of *n; NULL: there is none. */
static const char *find_dodged(const struct diags *diags, unsigned *n)
{
    const char *found = NULL;
    *n = 0;
    for (size_t i = 0; i < diags->n_items; i++) {
        if (strcmp(diags->items[i].name, "dodged-route") == 0) {
            found = diags->items[i].text;
            ++*n;
        }
    }
    return found;
}

/* Whether the only dodged-route of @routes says @text of route "a"; NULL: there is none. */
static void expect(const char *routes, const char *text)
{
    char yaml[YAML_BYTES_MAX];
    char whole[YAML_BYTES_MAX];
    struct policy *policy = NULL;
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s", routes);
    (void)snprintf(
        whole, sizeof(whole), "route \"a\" %s%s",
        text == NULL || strncmp(text, OWN, sizeof(OWN) - 1) == 0 ? "" : "can be avoided: ", text);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_check_text(span_of_text(yaml), look_up, &policy, &diags), STATUS_OK);
    const char *found = find_dodged(&diags, &n);
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

#define TWO_DEEP "path: [/assets/**, \"/*/*.js\"]"
#define SCRIPTS "path: [/assets/**, \"/*.css\", \"/*.js\"]"

static const struct row SUFFIXES[] = {
    {ROUTE("files", SCRIPTS, "m") A("path: /1*/**") REST, "/1.css leads" TO("files") IT IN_FRONT},
    {ROUTE("files", SCRIPTS, "m") A("path: [/1*/**, \"/*/1*/**\"]") REST,
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
    {/* no suffix, or of another segment */
     ROUTE("files", "path: [\"/*-js\", \"/*.\", \"/*/*/*.js\"]", "m") A("path: [/1*, /1/*]"), NULL},
    {/* of a segment without a name */ ROUTE("files", TWO_DEEP, "m") A("path: /1*/**") REST,
     "/1/x.js leads" TO("files") IT IN_FRONT},
    {ROUTE("files", TWO_DEEP, "m") A("path: \"/1/{id}/**\"") REST,
     "/1/x.js leads" TO("files") IT IN_FRONT},
    {ROUTE("files", TWO_DEEP, "m") A("path: /1/*/**") REST,
     "/1/x.js leads" TO("files") IT IN_FRONT},
    {ROUTE("files", TWO_DEEP, "m") A("path: [\"/1/{id}\", \"/1/{id}/\"]"),
     "/1/x.js leads" TO("files") IT IN_FRONT},
    {ROUTE("files", "path: \"/*/*/*/*.js\"", "m") A("path: /1*/**"),
     "/1/x/x/x.js leads" TO("files") IT IN_FRONT},
    {/* of a path that it does not take */ ROUTE(
         "files", TWO_DEEP,
         "m") "- {match: {path: /1/*}, respond: {status: 204}}\n" A("path: /1*/**"),
     NULL},
    {ROUTE("files", TWO_DEEP, "m, l") A("path: /1*/**"), NULL},
    {/* a directory of files, named */ ROUTE("files", "path: /1/*.js", "m") A("path: /1/*/**"),
     NULL},
    {ROUTE("files", "path: /1/*.js", "m") A("path: /1*/**"), NULL},
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
    {/* preflights in front */ ROUTE("first", "method: OPTIONS", "m") A(PATH) REST,
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

/* --- routes that name nothing of a path --- */

#define WHOLE(limits) "- {name: a, limits: [" limits "], upstream: u}\n"
#define REST_OWN "- {name: rest, limits: [other], upstream: u}\n"
#define READS_FIRST "put a route with method: [GET, HEAD] before it and write no method, " OR_GIVE
#define ANSWER "answer OPTIONS there, with respond or cors, " OR_GIVE
#define DIRECTORIES "name the directories of its files there, " OR_GIVE
#define GIVE "give that route the same limits"
#define SUFFIX_FILES "path: [/assets/**, /icon.ico, \"/*.js\", \"/*.css\"]"

static const struct row WILD[] = {
    /* methods, towards a later route */
    {A("method: POST") REST, "PUT /x leads" TO("rest") IT READS_FIRST},
    {A("path: /**, method: POST") ROUTE("rest", "path: /**", "m"),
     "PUT /x leads" TO("rest") IT READS_FIRST},
    {A("method: [POST, PUT, PATCH, DELETE]") REST, "OPTIONS /x leads" TO("rest") IT READS_FIRST},
    {A("method: [POST, PUT, PATCH, DELETE, OPTIONS]") REST,
     "FOO /x leads" TO("rest") IT READS_FIRST},
    {/* beside a limit of the rest */ A("method: POST") REST_OWN,
     "PUT /x leads" TO("rest") IT READS_FIRST},
    {A("method: [GET, POST]") REST, "PUT /x leads" TO("rest") IT GIVE},
    {A("method: POST") ROUTE("rest", "path: /1/**", "m"), "PUT /1 leads" TO("rest") IT READS_FIRST},
    {A("path: /**, method: POST") ROUTE("rest", "path: /1/**", "m"),
     "PUT /1 leads" TO("rest") IT READS_FIRST},
    {A("host: a.test, method: POST") ROUTE("rest", "host: a.test", "m"),
     "PUT /x leads" TO("rest") IT READS_FIRST},
    {A("method: POST") ROUTE("rest", "host: a.test", "m"),
     "PUT /x leads" TO("rest") IT READS_FIRST},
    {A("path: \"/{t}/{id}/**\", method: POST") ROUTE("rest", "path: /**", "m"),
     "PUT /x/x leads" TO("rest") IT READS_FIRST},
    {A("method: [GET, HEAD]") REST, "POST /x leads" TO("rest") IT GIVE},
    {/* the method is named, without a limit */ A("method: POST") ROUTE("put", "method: PUT", ""),
     "PUT /x leads" TO("put") IT READS_FIRST},
    /* methods, towards an earlier route without limits */
    {ROUTE("first", "method: OPTIONS", "") WHOLE("l"), "OPTIONS /x leads" TO("first") IT ANSWER},
    {ROUTE("first", "path: /**, method: OPTIONS", "") A("path: /**"),
     "OPTIONS /x leads" TO("first") IT ANSWER},
    {ROUTE("first", "path: \"/*/{i:int}/**\", method: OPTIONS", "") WHOLE("l"),
     "OPTIONS /x/1 leads" TO("first") IT ANSWER},
    {ROUTE("first", "method: PUT", "") WHOLE("l"), "PUT /x leads" TO("first") IT GIVE},
    {ROUTE("first", "method: PURGE", "") WHOLE("l"), "PURGE /x leads" TO("first") IT GIVE},
    {ROUTE("first", "method: HEAD", "") WHOLE("l"), "HEAD /x leads" TO("first") IT GIVE},
    {/* what writes is limited, and what reads not, but not by every method */
     ROUTE("reads", "method: [GET, HEAD]", "") ROUTE("first", "method: OPTIONS", "") WHOLE("l"),
     "OPTIONS /x leads" TO("first") IT ANSWER},
    /* suffixes, towards an earlier route without limits */
    {ROUTE("files", SUFFIX_FILES, "") WHOLE("l"), "/x.js leads" TO("files") IT DIRECTORIES},
    {ROUTE("files", SUFFIX_FILES, "") A("path: /**"), "/x.js leads" TO("files") IT DIRECTORIES},
    {ROUTE("files", SUFFIX_FILES ", method: GET", "") WHOLE("l"),
     "/x.js leads" TO("files") IT DIRECTORIES},
    {ROUTE("files", "path: \"/*/*/*.js\"", "") A("path: \"/{t}/**\""),
     "/x/x/x.js leads" TO("files") IT DIRECTORIES},
    {ROUTE("files", "path: \"/*.js\"", "") A("path: \"/{page}\""),
     "/x.js leads" TO("files") IT DIRECTORIES},
    /* the same limits */
    {A("method: POST") "- {limits: [m, l], upstream: u}\n", NULL},
    {ROUTE("first", "method: OPTIONS", "l") WHOLE("l"), NULL},
    {ROUTE("files", SUFFIX_FILES, "l") WHOLE("l"), NULL},
    /* the reads apart, or the writes, with limits of their own */
    {ROUTE("reads", "method: [GET, HEAD]", "m") WHOLE("l, m"), NULL},
    {ROUTE("reads", "method: GET", "") WHOLE("l"), NULL},
    {A("method: GET") REST_OWN, NULL},
    {A("method: [GET, HEAD]") REST_OWN, NULL},
    {A("method: [GET, HEAD, OPTIONS]") REST_OWN, NULL},
    {A("method: OPTIONS") REST, NULL},
    {ROUTE("writes", "method: [POST, PUT, PATCH, DELETE, OPTIONS, FOO]", "m") WHOLE("l"), NULL},
    {ROUTE("preflights", "method: OPTIONS", "m") WHOLE("l"), NULL},
    {A("method: POST") ROUTE("put", "method: [PUT, PATCH, DELETE]", "m"), NULL},
    {A("method: POST") ROUTE("reads", "method: [GET, HEAD]", "m"), NULL},
    {A("method: POST") ROUTE("put", "path: /1/**, method: PUT", ""), NULL},
    {ROUTE("hooks", "path: /1/**, method: PUT", "") WHOLE("l"), NULL},
    {ROUTE("hooks", "path: /1/**", "") WHOLE("l"), NULL},
    /* answered by sluice */
    {"- {match: {method: OPTIONS}, respond: {status: 204}}\n" WHOLE("l"), NULL},
    {A("method: POST") "- {respond: {status: 404}}\n", NULL},
    /* other servers, other hosts */
    {A("method: POST") "- {limits: [m], upstream: other}\n", NULL},
    {"- {match: {method: OPTIONS}, limits: [], upstream: other}\n" WHOLE("l"), NULL},
    {"- {match: {method: HEAD}, limits: [], upstream: other}\n" WHOLE("l"), NULL},
    {"- {match: {path: \"/*.js\"}, limits: [], upstream: other}\n" WHOLE("l"), NULL},
    {A("host: a.test, method: POST") ROUTE("rest", "host: b.test", "m"), NULL},
    /* files with a limit of their own, or by their directories */
    {ROUTE("files", SUFFIX_FILES, "m") WHOLE("l, m"), NULL},
    {ROUTE("files", "path: [/assets/**, /icon.ico, /assets/*.js, /x/*.css]", "") WHOLE("l"), NULL},
    {/* of a path that it does not take */ ROUTE("files", "path: \"/*/*.js\"", "")
         A("path: \"/{page}\""),
     NULL},
    {/* other spellings of a path without a name */ A("path: \"/{page}\"") REST, NULL},
};

START_TEST(a_limit_for_any_path_is_avoided_by_no_method_or_suffix_unwarned)
{
    expect(WILD[_i].routes, WILD[_i].text);
}
END_TEST

/* --- the path itself --- */

#define BEFORE(name) " leads to route \"" name "\" before it, without limit \"l\"; " IN_FRONT

static const struct row TAKEN[] = {
    {ROUTE("pages", "path: \"/{page}\"", "m") A(PATH) REST, OWN "/1" BEFORE("pages")},
    {ROUTE("pages", "path: /*", "") A("path: [/2*/**, /1*/**]"), OWN "/2" BEFORE("pages")},
    {ROUTE("pages", "path: /2/*", "m") A("path: [/1*/**, /2/1*/**]"), OWN "/2/1" BEFORE("pages")},
    {ROUTE("pages", "path: /*, method: [GET, POST]", "m") A(PATH ", method: POST"),
     OWN "POST /1" BEFORE("pages")},
    {/* reads and posts apart */ ROUTE("reads", "method: [GET, HEAD]", "m")
         ROUTE("posts", "method: POST", "m") A(PATH),
     OWN "POST /1" BEFORE("posts")},
    /* the reads, or what names as much of the path, in front */
    {ROUTE("reads", "method: [GET, HEAD]", "m") A(PATH), NULL},
    {ROUTE("reads", "path: \"/{page}\", method: GET", "m") A(PATH ", method: [GET, POST, PUT]"),
     NULL},
    {ROUTE("start", "path: /1", "m") A(PATH), NULL},
    {ROUTE("some", "path: [/1, /*/2/3]", "m") A(PATH), NULL},
    /* the same limits, other servers, an answer, another host */
    {ROUTE("pages", "path: /*", "m, l") A(PATH), NULL},
    {"- {match: {path: /*}, limits: [m], upstream: other}\n" A(PATH), NULL},
    {"- {match: {path: /*}, respond: {status: 404}}\n" A(PATH), NULL},
    {ROUTE("pages", "host: a.test, path: /*", "m") A(PATH), NULL},
    {/* unreachable-route tells of it */ ROUTE("pages", "path: /**", "m") A(PATH), NULL},
    {ROUTE("pages", "path: /*", "m") A("path: /1"), NULL},
};

START_TEST(an_earlier_route_takes_the_path_of_no_limited_one_unwarned)
{
    expect(TAKEN[_i].routes, TAKEN[_i].text);
}
END_TEST

/* --- values of the environment --- */

static const struct row SECRETS[] = {
    {/* the path of the other route */ A("method: POST") ROUTE("rest", "path: \"/${S}/**\"", "m"),
     "PUT for its path leads" TO("rest") IT READS_FIRST},
    /* its suffix */
    {ROUTE("files", "path: \"/*.${S}\"", "") WHOLE("l"),
     "its path with a suffix leads" TO("files") IT DIRECTORIES},
    {ROUTE("files", "path: \"/*/*.${S}\"", "") A("path: \"/{page}/**\""),
     "its path with a suffix leads" TO("files") IT DIRECTORIES},
    {ROUTE("files", "path: \"/*.${S}\"", "m") A(PATH),
     "its path with a suffix leads" TO("files") IT IN_FRONT},
    {/* which a later path has as it is written */ ROUTE("files", "path: \"/*.${S}\"", "m")
         A(PATH) "- {match: {path: \"/2/*.1\"}, limits: [l], upstream: u}\n",
     "its path with a suffix leads" TO("files") IT IN_FRONT},
    {/* a method, which no client knows */ ROUTE("first", "method: \"${S}\"", "") WHOLE("l"), NULL},
    {ROUTE("pages", "path: /*, method: \"${S}\"", "m") A(PATH ", method: \"${S}\""),
     OWN "/1" BEFORE("pages")},
};

START_TEST(no_value_of_the_environment_is_shown)
{
    expect(SECRETS[_i].routes, SECRETS[_i].text);
}
END_TEST

/* --- many routes --- */

/* Two routes of each of many hosts, or of many values of a field. */
static const struct {
    size_t n;
    const char *first; /* with the number of the pair */
    const char *second;
} PAIRS[] = {
    {2000, "- {match: {host: h%zu.a, method: [GET, HEAD]}, limits: [l], upstream: u}\n",
     "- {match: {host: h%zu.a}, limits: [m, l], upstream: u}\n"},
    {2000, "- {match: {host: h%zu.a, path: /static/**}, limits: [m], upstream: u}\n",
     "- {match: {host: h%zu.a}, limits: [l, m], upstream: u}\n"},
    {/* a path that is tried once */ 250,
     "- {match: {header: {t: v%zu}, path: /1*/**}, limits: [m], upstream: u}\n",
     "- {match: {header: {t: v%zu}}, limits: [l, m], upstream: u}\n"},
};

/* Write @text with @number in it. */
static void write_numbered(const char *text, size_t number, FILE *file)
{
    const char *place = strstr(text, "%zu");
    fprintf(file, "%.*s%zu%s", (int)(place - text), text, number, place + 3);
}

START_TEST(many_pairs_of_routes_are_compared)
{
    char *yaml = NULL;
    size_t len = 0;
    unsigned n;
    struct policy *policy = NULL;
    struct diags diags;
    FILE *file = open_memstream(&yaml, &len);
    ck_assert_ptr_nonnull(file);
    fputs(HEAD, file);
    for (size_t i = 0; i < PAIRS[_i].n; i++) {
        write_numbered(PAIRS[_i].first, i, file);
        write_numbered(PAIRS[_i].second, i, file);
    }
    fclose(file);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_check_text(span_of_text(yaml), look_up, &policy, &diags), STATUS_OK);
    ck_assert_ptr_null(find_dodged(&diags, &n));
    diags_close(&diags);
    policy_free(policy);
    free(yaml);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_spellings");
    TCase *cases = tcase_create("lint_spellings");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, a_suffix_that_another_route_names_avoids_no_limit_unwarned, 0,
                        ARRAY_LEN(SUFFIXES));
    tcase_add_loop_test(cases, a_suffix_before_a_slash_avoids_no_limit_unwarned, 0,
                        ARRAY_LEN(BOTH_ENDS));
    tcase_add_loop_test(cases, another_method_avoids_no_limit_unwarned, 0, ARRAY_LEN(METHODS));
    tcase_add_loop_test(cases, a_limit_for_any_path_is_avoided_by_no_method_or_suffix_unwarned, 0,
                        ARRAY_LEN(WILD));
    tcase_add_loop_test(cases, an_earlier_route_takes_the_path_of_no_limited_one_unwarned, 0,
                        ARRAY_LEN(TAKEN));
    tcase_add_loop_test(cases, no_value_of_the_environment_is_shown, 0, ARRAY_LEN(SECRETS));
    tcase_add_loop_test(cases, many_pairs_of_routes_are_compared, 0, ARRAY_LEN(PAIRS));
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
