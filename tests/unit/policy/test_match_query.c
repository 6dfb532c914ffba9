#include "policy/matcher.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/diag.h"
#include "unit/policy/policy_support.h"

/* The time to match a request with @query at the last of @n_routes routes, each of which asks for a
 * parameter of its own with one of several values: the shortest of several runs. */
static double seconds_of_match(size_t n_routes, const char *query)
{
    static char yaml[64 * 1024];
    static char target[TARGET_BYTES_MAX];
    struct text text = text_of(yaml, sizeof(yaml) - 1);
    struct text path = text_of(target, sizeof(target) - 1);
    struct request request;
    const struct route *route;
    double shortest = 1e9;
    text_add_literal(&text, "listen: 127.0.0.1:0\n"
                            "upstreams: {d: {servers: [\"http://127.0.0.1:1\"]}}\nroutes:\n");
    for (size_t i = 0; i < n_routes; i++) {
        text_add_format(
            &text, "  - {match: {path: /a, query: {a%zu: [\"1\", \"2\", \"3\"]}}, upstream: d}\n",
            i);
    }
    text_add_literal(&text, "  - {upstream: d}\n");
    text_add_literal(&path, "/a?");
    while (path.len + strlen(query) < 7900) {
        text_add(&path, span_of_text(query));
    }
    ck_assert(!text.truncated && !path.truncated);
    yaml[text.len] = '\0';
    target[path.len] = '\0';
    struct policy *policy = policy_from_text(yaml);
    for (size_t i = 0; i < 7; i++) {
        struct timespec before;
        struct timespec after;
        request_init(&request, "GET", target, "a.test");
        ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before), 0);
        ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
        ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after), 0);
        ck_assert_ptr_eq(route, &policy->routes[n_routes]);
        const double seconds =
            (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
        shortest = seconds < shortest ? seconds : shortest;
    }
    policy_free(policy);
    return shortest;
}

/* Otherwise a client could have 8 KB read a hundred times, before any limit. */
START_TEST(the_query_is_read_once_however_many_routes_ask_for_parameters)
{
    static const char *const QUERIES[] = {"&", "b=c&", "bb=1&", "%61z=1&", "x;", "[", "a0=9&"};
    for (size_t i = 0; i < ARRAY_LEN(QUERIES); i++) {
        const double one = seconds_of_match(1, QUERIES[i]);
        const double hundred = seconds_of_match(100, QUERIES[i]);
        ck_assert_msg(hundred < 8 * one, "%s: %.0f us, and %.0f us of one route", QUERIES[i],
                      hundred * 1e6, one * 1e6);
    }
}
END_TEST

/* The route of @target: -1: refused, -2: none. */
static int route_of(const struct policy *policy, const char *target)
{
    struct request request;
    const struct route *route;
    request_init(&request, "GET", target, "a.test");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    return refusal != NULL ? -1 : route != NULL ? (int)route->index : -2;
}

/* As routes have it that share a path and a parameter, and differ in its value. */
START_TEST(a_parameter_of_several_routes_leads_to_the_one_that_has_the_value)
{
    static const struct {
        const char *target;
        int route; /* -1: refused, -2: none */
    } ROWS[] = {
        {"/?act=a", 0},
        {"/?act=b", 1},
        {"/?act=c", 1},
        {"/?act=%63&act=b", -1}, /* a list to Express, though both are of the second route */
        {"/?act=b&act=b", -1},
        {"/?act=b&x&act=%62", -1},
        {"/?act=a&act=b", -1},
        {"/?act=b&act=a", -1},
        {"/?act=b&act=d", -1},
        {"/?act=d&act=e", 4},
        {"/?act=d", 4},
        {"/?a.b=1", 2},
        {"/?a_b=1", -1}, /* PHP takes it for the other */
        {"/?a_b=2", 4},
        {"/?a+b=1", -1},
        {"/?_x=1", -2},
        {"/?[_]=1", -1},
        {"/?_=1", 5},
        {"/?act=aa&x=y", 4},
        {"/", 4},
    };
    struct policy *policy =
        policy_from_text("listen: 127.0.0.1:0\n"
                         "upstreams: {d: {servers: [\"http://127.0.0.1:1\"]}}\n"
                         "routes:\n"
                         "  - {match: {query: {act: a}}, upstream: d}\n"
                         "  - {match: {query: {act: [b, c]}}, upstream: d}\n"
                         "  - {match: {query: {a.b: 1}}, upstream: d}\n"
                         "  - {match: {query: {a_b: 1}}, upstream: d}\n"
                         "  - {match: {query: {_: false, _x: false}}, upstream: d}\n"
                         "  - {match: {query: {_: true}}, upstream: d}\n");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const int got = route_of(policy, ROWS[i].target);
        ck_assert_msg(got == ROWS[i].route, "%s: %d", ROWS[i].target, got);
    }
    policy_free(policy);
}
END_TEST

/* A route that a parameter leaves, and one that it leads to: neither by a pair that a server
 * drops. */
static const char *const BY_PRESENCE =
    "listen: 127.0.0.1:0\n"
    "upstreams: {d: {servers: [\"http://127.0.0.1:1\"]}}\n"
    "routes:\n"
    "  - {match: {path: /a, query: {format: csv, preview: false}}, upstream: d}\n"
    "  - {match: {path: /b, query: {preview: true}}, upstream: d}\n"
    "  - {match: {path: /c, query: {preview: \"1\"}}, upstream: d}\n"
    "  - {upstream: d}\n";

START_TEST(a_parameter_that_some_servers_drop_is_ambiguous)
{
    static const char *const DROPPED[] = {"%zz",     "%",     "%f",     "%u0031", "1%",
                                          "1;x",     ";",     ";x",     "]=1",    "x]=1",
                                          "[x]=1",   "%5D=1", "x%5d=1", "%5dx]=", "%zz&x=1",
                                          "]=&x]=1", "%&x=",  "1;&x",   "a%5B]=", "]=&format"};
    static const char *const FOUND[] = {
        "",     "1",       "%25",   "%3b",           "%7a%7A", "]",
        "=",    "]x=1",    "[=",    "x%5D",          "%5D1=",  "%5B=",
        "5D=1", "1&x=%zz", "1&a;b", "%zz&preview=1", "1&x=]=1"};
    struct policy *policy = policy_from_text(BY_PRESENCE);
    char target[128];
    for (size_t i = 0; i < ARRAY_LEN(DROPPED); i++) {
        (void)snprintf(target, sizeof(target), "/a?format=csv&preview=%s", DROPPED[i]);
        ck_assert_msg(route_of(policy, target) == -1, "%s", target);
        (void)snprintf(target, sizeof(target), "/b?preview=%s", DROPPED[i]);
        ck_assert_msg(route_of(policy, target) == -1, "%s", target);
    }
    for (size_t i = 0; i < ARRAY_LEN(FOUND); i++) {
        (void)snprintf(target, sizeof(target), "/a?format=csv&preview=%s", FOUND[i]);
        ck_assert_msg(route_of(policy, target) == 3, "%s", target);
        (void)snprintf(target, sizeof(target), "/b?preview=%s", FOUND[i]);
        ck_assert_msg(route_of(policy, target) == 1, "%s", target);
    }
    policy_free(policy);
}
END_TEST

START_TEST(a_parameter_with_blanks_that_some_servers_trim_is_ambiguous)
{
    static const char *const ODD[] = {"1%20",    "+1",   "%091",     "1%0a",
                                      "1%C2%A0", "1%00", "%1c1+%20", "1%EF%BB%BF"};
    struct policy *policy = policy_from_text(BY_PRESENCE);
    char target[128];
    for (size_t i = 0; i < ARRAY_LEN(ODD); i++) {
        (void)snprintf(target, sizeof(target), "/c?preview=%s", ODD[i]);
        ck_assert_msg(route_of(policy, target) == -1, "%s", target);
    }
    ck_assert_int_eq(route_of(policy, "/c?preview=1"), 2);
    ck_assert_int_eq(route_of(policy, "/c?preview=2%20"), 3);
    policy_free(policy);
}
END_TEST

START_TEST(a_parameter_behind_the_first_999_pieces_is_ambiguous)
{
    static const int ROUTES[] = {3, 1, 2};
    static const char *const PIECES[] = {"&", "a&", "a=1&", "%61&", ";", "a;"};
    struct policy *policy = policy_from_text(BY_PRESENCE);
    char pieces[5000];
    for (size_t i = 0; i < ARRAY_LEN(PIECES) * 2; i++) {
        const size_t n_before = i % 2 == 0 ? 998 : 999;
        char queries[3][8192];
        struct text text = text_of(pieces, sizeof(pieces));
        for (size_t j = 0; j < n_before - 1; j++) {
            text_add(&text, span_of_text(PIECES[i / 2]));
        }
        ck_assert(!text.truncated);
        const int len = (int)text.len;
        (void)snprintf(queries[0], sizeof(queries[0]), "/a?format=csv&%.*spreview=1", len, pieces);
        (void)snprintf(queries[1], sizeof(queries[1]), "/b?x&%.*spreview=1", len, pieces);
        (void)snprintf(queries[2], sizeof(queries[2]), "/c?x&%.*spreview=1", len, pieces);
        const bool is_cut = strchr(PIECES[i / 2], ';') != NULL;
        for (size_t j = 0; j < ARRAY_LEN(queries); j++) {
            const int wanted = n_before == 999 || is_cut ? -1 : ROUTES[j];
            ck_assert_msg(route_of(policy, queries[j]) == wanted, "%zu of %s, route %zu", n_before,
                          PIECES[i / 2], j);
        }
    }
    policy_free(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/match_query");
    TCase *tcase = tcase_create("match.query");
    tcase_add_test(tcase, the_query_is_read_once_however_many_routes_ask_for_parameters);
    tcase_add_test(tcase, a_parameter_of_several_routes_leads_to_the_one_that_has_the_value);
    tcase_add_test(tcase, a_parameter_that_some_servers_drop_is_ambiguous);
    tcase_add_test(tcase, a_parameter_with_blanks_that_some_servers_trim_is_ambiguous);
    tcase_add_test(tcase, a_parameter_behind_the_first_999_pieces_is_ambiguous);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
