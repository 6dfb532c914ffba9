#include "policy/matcher.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/loader.h"
#include "tls/client_certificate.h"
#include "unit/policy/policy_support.h"

enum { WORD_BYTES_MAX = 256 };

/* Write what became of a request as the data file does: route and captures. */
static void write_result(const struct route *route, const char *refusal,
                         const struct request *request, struct text *text)
{
    if (refusal != NULL) {
        ck_assert_ptr_null(route);
        text_add_literal(text, "refused");
        return;
    }
    if (route == NULL) {
        text_add_literal(text, "none");
        return;
    }
    ck_assert(span_equals(request->view.route, route->name));
    text_add(text, route->name);
    for (size_t i = 0; i < request->view.n_captures; i++) {
        text_add_literal(text, " ");
        text_add(text, request->view.captures[i]);
    }
}

static struct client_certificate certificate;
static struct tls_client tls;

/* The client's connection: https, or one with a certificate that has a name. False: @word is not
 * about it. */
static bool add_connection(struct request *request, struct span word)
{
    static const struct span NAMES[] = {{"print=", 6}, {"dns=", 4}, {"uri=", 4}, {"cn=", 3}};
    bool is_name = false;
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (span_starts_with(word, NAMES[i])) {
            is_name = true;
            tls.certificate = &certificate;
            certificate.facts[i] = span_of(word.data + NAMES[i].len, word.len - NAMES[i].len);
        }
    }
    if (is_name || span_equals(word, SPAN("https"))) {
        request->view.tls = &tls;
        return true;
    }
    return false;
}

/* One more word of a request: client=ADDRESS, name:value, or of its connection. */
static void add_word(struct request *request, struct span word)
{
    if (add_connection(request, word)) {
        return;
    }
    if (span_starts_with(word, SPAN("client="))) {
        request_set_client(request, span_of(word.data + 7, word.len - 7));
        return;
    }
    const size_t colon = span_find(word, ':');
    ck_assert_uint_lt(colon, word.len);
    request_add_field(request, span_of(word.data, colon),
                      span_of(word.data + colon + 1, word.len - colon - 1));
}

/* What is told of each route agrees with the one that was found, if any was. */
static void check_comparison(const struct policy *policy, const struct route *found,
                             struct request *request)
{
    const struct value_match *condition;
    ck_assert_ptr_null(matcher_read_path(&request->view));
    for (size_t i = 0; i < policy->n_routes; i++) {
        const enum match_part part =
            matcher_compare(&policy->routes[i], &request->view, &condition);
        ck_assert((part == MATCH_FIELD || part == MATCH_PARAMETER) == (condition != NULL));
        if (found == &policy->routes[i]) {
            ck_assert_int_eq(part, MATCH_ALL);
            return;
        }
        ck_assert_int_ne(part, MATCH_ALL);
    }
    ck_assert_ptr_null(found);
}

/* @line is "METHOD HOST TARGET [words] => RESULT". */
static void check_line(const struct policy *policy, char *line)
{
    char buffer[WORD_BYTES_MAX];
    struct text got = text_of(buffer, sizeof(buffer));
    struct request request;
    const struct route *route = NULL;
    char *expected = strstr(line, " => ");
    ck_assert_msg(expected != NULL, "%s", line);
    *expected = '\0';
    expected += 4;

    char *rest = NULL;
    const char *method = strtok_r(line, " ", &rest);
    const char *host = strtok_r(NULL, " ", &rest);
    const char *target = strtok_r(NULL, " ", &rest);
    request_init(&request, method, target, host);
    certificate = (struct client_certificate){.field = SPAN("")};
    tls = (struct tls_client){.certificate = NULL};
    for (const char *word = strtok_r(NULL, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        add_word(&request, span_of_text(word));
    }
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    write_result(route, refusal, &request, &got);
    ck_assert_msg(span_equals(text_span(&got), span_of_text(expected)),
                  "%s %s %s: expected %s, got %.*s", method, host, target, expected,
                  SPAN_ARGS(text_span(&got)));
    if (refusal == NULL) {
        check_comparison(policy, route, &request);
    }
}

START_TEST(requests_take_the_first_route_that_matches)
{
    struct policy *policy = NULL;
    struct diags diags;
    char line[1024];
    size_t n_lines = 0;
    diags_init(&diags, "routes.yaml");
    ck_assert_int_eq(loader_load_file(TEST_DATA_DIR "/policies/match/routes.yaml", &policy, &diags),
                     STATUS_OK);
    diags_close(&diags);
    FILE *file = fopen(TEST_DATA_DIR "/policies/match/routes.requests", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#') {
            check_line(policy, line);
            n_lines++;
        }
    }
    fclose(file);
    ck_assert_uint_gt(n_lines, 40);
    policy_free(policy);
}
END_TEST

START_TEST(keys_see_the_path_under_the_rules_of_the_route)
{
    struct policy *policy = policy_from_text("listen: 127.0.0.1:0\n"
                                             "routes:\n"
                                             "  - match: {path: /a/**, ignore_case: true}\n"
                                             "    respond: {status: 204}\n"
                                             "  - respond: {status: 204}\n");
    struct request request;
    const struct route *route = NULL;
    request_init(&request, "GET", "/A/B%c3%A9", "x");
    ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
    ck_assert_uint_eq(route->index, 0);
    ck_assert(span_equals(request.path.text, SPAN("/a/b%C3%A9")));
    ck_assert(span_equals(request.path.segments[1], SPAN("b%C3%A9")));

    request_init(&request, "GET", "/B", "x");
    ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
    ck_assert_uint_eq(route->index, 1);
    ck_assert(span_equals(request.path.text, SPAN("/B")));
    policy_free(policy);
}
END_TEST

/* What is said of @target by routes of which the last takes everything, encoded slashes too. */
static const struct route *find_beside_a_lenient_rest(const char *target, struct span *capture)
{
    static struct policy *policy;
    static struct request request;
    const struct route *route = NULL;
    policy_free(policy);
    policy = policy_from_text("listen: 127.0.0.1:0\n"
                              "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
                              "routes:\n"
                              "  - match: {path: /v1/login}\n"
                              "    upstream: api\n"
                              "  - match: {path: \"/f/{name}\", encoded_slash: allow}\n"
                              "    upstream: api\n"
                              "  - match: {path: /**, encoded_slash: allow}\n"
                              "    upstream: api\n");
    request_init(&request, "GET", target, "x");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    ck_assert((refusal == NULL) == (route != NULL));
    *capture = request.view.captures[0];
    return route;
}

START_TEST(rule_69_an_encoded_slash_never_leads_around_an_earlier_route)
{
    static const char *const around[] = {
        "/v1%2Flogin",         "/v1%5clogin",    "/v1\\login",      "/v1%252Flogin",
        "/v1/%256Cogin",       "/%2Fv1/login",   "/v1%25252Flogin", "/%2561/..%2Flogin",
        "/v1%2F%252e%2Flogin", "/v1/a%2Fb/../x", "/a%25252525252F",
    };
    static const char *const through[] = {"/v1%2Flogout", "/a%2Fb", "/v1/login%2F", "/a%2561"};
    struct span capture;
    for (size_t i = 0; i < ARRAY_LEN(around); i++) {
        const struct route *route = find_beside_a_lenient_rest(around[i], &capture);
        ck_assert_msg(route == NULL, "%s", around[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(through); i++) {
        const struct route *route = find_beside_a_lenient_rest(through[i], &capture);
        ck_assert_msg(route != NULL && route->index == 2, "%s", through[i]);
    }
    const struct route *route = find_beside_a_lenient_rest("/f/a%2Fb%252e", &capture);
    ck_assert_uint_eq(route->index, 1);
    ck_assert(span_equals(capture, SPAN("a%2Fb%252e")));
}
END_TEST

/* A file server's route that allows encoded slashes, and behind it what a server reaches that takes
 * them for slashes. */
static bool is_taken_beside(const char *others, const char *target)
{
    char text[4096];
    struct text policy_text = text_of(text, sizeof(text));
    struct request request;
    const struct route *route = NULL;
    text_add_literal(&policy_text,
                     "listen: 127.0.0.1:0\n"
                     "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
                     "limits:\n"
                     "  all: {key: client.ip, rate: 10/s}\n"
                     "  few: {key: client.ip, rate: 9/s}\n"
                     "  seen: {key: client.ip, rate: 9/s, shadow: true}\n"
                     "  by-path: {key: [client.ip, path], rate: 9/s}\n"
                     "routes:\n"
                     "  - {name: f, match: {path: \"/{name}\", encoded_slash: allow},\n"
                     "     limits: [all, by-path], upstream: api}\n");
    text_add(&policy_text, span_of_text(others));
    text_add_char(&policy_text, '\0');
    struct policy *policy = policy_from_text(text);
    request_init(&request, "GET", target, "x");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    ck_assert((refusal == NULL) == (route != NULL));
    ck_assert(route == NULL || route->index == 0);
    policy_free(policy);
    return route != NULL;
}

static const struct {
    const char *others;
    bool is_taken;
} BEHIND[] = {
    {"", true},
    {"  - {match: {path: /admin/**}, limits: [all, few], upstream: api}\n", false},
    {"  - {match: {path: /admin/**}, limits: [few], upstream: api}\n", false},
    {"  - {match: {path: /admin/**}, limits: [all], upstream: api}\n", true},
    {"  - {match: {path: /admin/**}, limits: [all, seen], upstream: api}\n", true},
    {"  - {match: {path: /admin/**}, limits: [], upstream: api}\n", true},
    {"  - {match: {path: /admin/**}, limits: [all], cost: 5, upstream: api}\n", false},
    {"  - {match: {path: /admin/**}, limits: [all], cost: {POST: 3, default: 1},\n"
     "     upstream: api}\n",
     false},
    {"  - {match: {path: /admin/**}, limits: [], cost: 5, upstream: api}\n", true},
    {"  - {match: {path: /admin/**}, limits: [by-path], upstream: api}\n", true},
    /* blocked, and not there */
    {"  - {match: {path: /admin/**}, limits: [], respond: {status: 403}}\n", false},
    {"  - {match: {path: /**}, limits: [], respond: {status: 404}}\n", true},
    {"  - {match: {path: /other/**}, limits: [few], upstream: api}\n", true},
    {"  - {match: {path: /admin/**, method: POST}, limits: [few], upstream: api}\n", true},
};

START_TEST(rule_69_an_encoded_slash_never_leads_around_a_later_stricter_route)
{
    ck_assert_msg(is_taken_beside(BEHIND[_i].others, "/admin%2Fx") == BEHIND[_i].is_taken, "%s",
                  BEHIND[_i].others);
    ck_assert_int_eq(is_taken_beside(BEHIND[_i].others, "/admin\\x"), BEHIND[_i].is_taken);
    ck_assert_int_eq(is_taken_beside(BEHIND[_i].others, "/admin%252Fx"), BEHIND[_i].is_taken);
    ck_assert(is_taken_beside(BEHIND[_i].others, "/name"));
}
END_TEST

/* Servers that parse the target as a reference take what follows "//" for a host. */
static bool is_taken_by_rest(const char *others, const char *target)
{
    char text[4096];
    struct text policy_text = text_of(text, sizeof(text));
    struct request request;
    const struct route *route = NULL;
    text_add_literal(&policy_text, "listen: 127.0.0.1:0\n"
                                   "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
                                   "limits:\n"
                                   "  few: {key: client.ip, rate: 9/s}\n"
                                   "  by-path: {key: [client.ip, path.1], rate: 9/s}\n"
                                   "routes:\n");
    text_add(&policy_text, span_of_text(others));
    text_add_char(&policy_text, '\0');
    struct policy *policy = policy_from_text(text);
    request_init(&request, "GET", target, "x");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    ck_assert(refusal == NULL || route == NULL);
    if (route != NULL) {
        ck_assert(request.view.path->text.data[1] != '/');
    }
    policy_free(policy);
    return route != NULL;
}

START_TEST(rule_68_octets_that_are_no_utf_8_lead_around_no_route)
{
    static const char *const rest = "  - {match: {path: /v1/login}, limits: [few], upstream: api}\n"
                                    "  - {match: {path: /**}, upstream: api}\n";
    static const char *const keyed = "  - {match: {path: /**}, limits: [by-path], upstream: api}\n";
    static const char *const around[] = {"/v1/log%FFin", "/v1/%C3login",       "/v1%80/login",
                                         "/v1/login%E2", "/v1/login%ED%A0%80", "/v1/log%f0%90in",
                                         "/%FF/v1/login"};

    for (size_t i = 0; i < ARRAY_LEN(around); i++) {
        ck_assert_msg(!is_taken_by_rest(rest, around[i]), "%s", around[i]);
        ck_assert_msg(!is_taken_by_rest(keyed, around[i]), "%s", around[i]);
    }
    ck_assert(is_taken_by_rest(rest, "/caf%E9"));
    ck_assert(is_taken_by_rest(rest, "/v1/login%C3%A9"));
    ck_assert(is_taken_by_rest(keyed, "/caf%C3%A9/%E2%82%AC/%F0%9F%98%80"));
    ck_assert(!is_taken_by_rest(keyed, "/caf%E9"));
}
END_TEST

/* U+0130 and U+0131 are i, U+017F is s and U+212A is k where case is ignored as Unicode has it. */
START_TEST(rule_72_letters_that_are_others_of_ascii_lead_around_no_route)
{
    static const char *const rest =
        "  - {match: {path: /v1/kiosks, ignore_case: true}, limits: [few], upstream: api}\n"
        "  - {match: {path: /**}, upstream: api}\n";
    static const char *const exact =
        "  - {match: {path: /v1/kiosks}, limits: [few], upstream: api}\n"
        "  - {match: {path: /**}, limits: [by-path], upstream: api}\n";
    static const char *const around[] = {"/v1/%E2%84%AAiosks", "/v1/kio%c5%bfks", "/V1/K%C4%B0OSKS",
                                         "/v1/k%C4%B1o%C5%BF%E2%84%AA%C5%BF"};

    for (size_t i = 0; i < ARRAY_LEN(around); i++) {
        ck_assert_msg(!is_taken_by_rest(rest, around[i]), "%s", around[i]);
        ck_assert_msg(is_taken_by_rest(exact, around[i]), "%s", around[i]);
    }
    ck_assert(is_taken_by_rest(rest, "/v1/k%C4%B1osk"));
    ck_assert(is_taken_by_rest(rest, "/v1/kio%C5%BEks"));
    ck_assert(is_taken_by_rest(rest, "/v1/kios%E2%84%ABs"));
}
END_TEST

START_TEST(rule_72_such_letters_are_one_key_where_case_is_ignored)
{
    static const char *const targets[] = {"/Kim/a", "/%E2%84%AA%C4%B1m/a", "/k%C4%B0M/a"};
    struct request request;
    const struct route *route;
    struct policy *policy = policy_from_text("listen: 127.0.0.1:0\n"
                                             "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
                                             "limits: {by-name: {key: path.name, rate: 9/s}}\n"
                                             "routes:\n"
                                             "  - {match: {path: \"/{name}/a\", ignore_case: "
                                             "true}, limits: [by-name], upstream: api}\n");

    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        request_init(&request, "GET", targets[i], "x");
        ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
        ck_assert_ptr_nonnull(route);
        ck_assert(span_equals(request.view.path->text, SPAN("/kim/a")));
        ck_assert(span_equals(request.view.captures[0], SPAN("kim")));
    }
    policy_free(policy);
}
END_TEST

START_TEST(rule_71_what_stands_behind_two_slashes_leads_around_no_route)
{
    static const char *const rest = "  - {match: {path: /v1/login}, limits: [few], upstream: api}\n"
                                    "  - {match: {path: /**}, upstream: api}\n";
    static const char *const later = "  - {match: {path: /x/**}, upstream: api}\n"
                                     "  - {match: {path: /v1/**}, limits: [few], upstream: api}\n";
    static const char *const lenient =
        "  - {match: {path: /v1/login}, limits: [few], upstream: api}\n"
        "  - {match: {path: /**, encoded_slash: allow}, upstream: api}\n";
    static const char *const keyed = "  - {match: {path: /**}, limits: [by-path], upstream: api}\n";
    static const char *const around[] = {"//x/v1/login", "///x/v1/login", "//x//v1/login",
                                         "//x:80/v1/./login", "//u@x/v1;a/login"};

    for (size_t i = 0; i < ARRAY_LEN(around); i++) {
        ck_assert_msg(!is_taken_by_rest(rest, around[i]), "%s", around[i]);
        ck_assert_msg(!is_taken_by_rest(later, around[i]), "%s", around[i]);
    }
    ck_assert(is_taken_by_rest(rest, "//v1/login"));
    ck_assert(is_taken_by_rest(rest, "//x/v1/users"));
    ck_assert(is_taken_by_rest(rest, "/x//v1/login"));
    ck_assert(is_taken_by_rest(later, "//v1/login"));
    ck_assert(!is_taken_by_rest(lenient, "/\\x/v1/login"));
    ck_assert(!is_taken_by_rest(lenient, "/%2Fx/v1/login"));
    ck_assert(is_taken_by_rest(lenient, "/\\x/v1/users"));
    ck_assert(!is_taken_by_rest(keyed, "//x/v1/login"));
    ck_assert(is_taken_by_rest(keyed, "/x/v1/login"));
}
END_TEST

/* Whether "/v1/@me", of @limits, takes @target beside a catch-all with `few` and `many`. */
static bool is_taken_as_written(const char *limits, const char *rest, const char *target)
{
    char text[4096];
    struct text policy_text = text_of(text, sizeof(text));
    struct request request;
    const struct route *route = NULL;
    text_add_format(
        &policy_text,
        "listen: 127.0.0.1:0\n"
        "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
        "store: {redis: \"redis://127.0.0.1:1\"}\n"
        "jwt: {a: {secret: 01234567890123456789012345678901, issuer: i}}\n"
        "limits:\n"
        "  few: {key: client.ip, rate: 9/s}\n"
        "  shadowed: {key: client.ip, rate: 1/s, shadow: true}\n"
        "  fewer: {key: [client.ip, route], rate: [100/s, {rate: 300/m, burst: 9}]}\n"
        "  bursty: {key: client.ip, rate: {rate: 1/s, burst: 10}}\n"
        "  windows: {key: client.ip, algorithm: fixed_window, rate: 9/s}\n"
        "  log: {key: client.ip, algorithm: sliding_log, rate: 4/s}\n"
        "  addresses: {key: client.ip/128, rate: 1/s}\n"
        "  networks: {key: client.ip/48, rate: 9/s}\n"
        "  all: {key: global, rate: 9/s}\n"
        "  all-fewer: {key: [global, route], rate: 8/s}\n"
        "  but-24: {key: client.ip, rate: 9/s, except: {client: [192.0.2.0/24, 10.0.0.0/8]}}\n"
        "  but-25: {key: client.ip, rate: 9/s, except: {client: 192.0.2.128/25}}\n"
        "  bans: {key: client.ip, rate: 9/s, ban: {after: 10/m, for: 1m}}\n"
        "  bans-soon: {key: client.ip, rate: 9/s, ban: {after: 5/h, for: 1h}}\n"
        "  bans-late: {key: client.ip, rate: 9/s, ban: {after: 11/m, for: 1h}}\n"
        "  bans-short: {key: client.ip, rate: 9/s, ban: {after: 5/m, for: 59s}}\n"
        "  bans-401: {key: client.ip, rate: 9/s, charge_on: [401],\n"
        "             ban: {after: 10/m, for: 1m}}\n"
        "  would-ban: {key: client.ip, rate: 9/s,\n"
        "              ban: {after: 5/h, for: 1h, shadow: true}}\n"
        "  stubborn: {key: client.ip, rate: 9/s, charge_denied: true}\n"
        "  closed: {key: client.ip, rate: 9/s, on_failure: deny}\n"
        "  open: {key: client.ip, rate: 9/s, on_failure: allow}\n"
        "  more: {key: client.ip, rate: 10/s}\n"
        "  failed: {key: client.ip, rate: 1/s, charge_on: [401]}\n"
        "  by-name: {key: header.x-name, rate: 1/s}\n"
        "  at-once: {key: client.ip, algorithm: concurrency, rate: 1}\n"
        "routes:\n"
        "  - {name: me, match: {path: [/v1/@me, /v1/me/*/x]}, %s%s}\n"
        "  - {name: rest, match: {path: /**}, %s}\n",
        limits, strstr(limits, "respond") == NULL ? ", upstream: api" : "", rest);
    text_add_char(&policy_text, '\0');
    struct policy *policy = policy_from_text(text);
    request_init(&request, "GET", target, "x");
    const char *refusal = matcher_find_route(policy, &request.view, &route);
    ck_assert((refusal == NULL) == (route != NULL));
    ck_assert(route == NULL || (span_equals(route->name, SPAN("me")) &&
                                span_equals(request.view.path->text, SPAN("/v1/@me"))));
    policy_free(policy);
    return route != NULL;
}

static const char *const UNUSUAL[] = {
    "/v1/@me;x", "/v1/@me;",  "/v1;a=b/@me", "/v1/./@me", "/v1/%2e/@me",
    "/v1//@me",  "/v1/%40me", "/%76%31/@me", "/v1/@m%65",
};

START_TEST(rule_78_what_only_sluice_takes_for_a_laxer_route_is_refused)
{
    static const char *const limited = "limits: [few], upstream: api";
    static const char *const lax[] = {"limits: []",       "limits: [more]",    "limits: [shadowed]",
                                      "limits: [failed]", "limits: [by-name]", "limits: [at-once]"};
    static const char *const strict[] = {"limits: [few]", "limits: [fewer]", "limits: [more, few]",
                                         "limits: [more, fewer]"};
    const char *target = UNUSUAL[_i];
    for (size_t i = 0; i < ARRAY_LEN(lax); i++) {
        ck_assert_msg(!is_taken_as_written(lax[i], limited, target), "%s %s", lax[i], target);
        ck_assert(is_taken_as_written(lax[i], limited, "/v1/@me"));
    }
    for (size_t i = 0; i < ARRAY_LEN(strict); i++) {
        ck_assert_msg(is_taken_as_written(strict[i], limited, target), "%s %s", strict[i], target);
    }
    ck_assert(is_taken_as_written("limits: []", "limits: [shadowed], upstream: api", target));
    ck_assert(is_taken_as_written("limits: [], respond: {status: 204}", limited, target));
    ck_assert(is_taken_as_written("limits: []", "limits: [], respond: {status: 404}", target));
    ck_assert(!is_taken_as_written("limits: []", "limits: [], respond: {status: 403}", target));
    ck_assert(
        !is_taken_as_written("limits: [few]", "limits: [few], cost: 2, upstream: api", target));
    ck_assert(
        !is_taken_as_written("limits: [fewer]", "limits: [few], cost: 2, upstream: api", target));
    ck_assert(
        !is_taken_as_written("limits: [few]", "limits: [few, at-once], upstream: api", target));
}
END_TEST

START_TEST(a_binary_field_matches_with_its_padding_and_without)
{
    static const struct {
        const char *name;
        const char *value;
        size_t index;
    } ROWS[] = {
        {"X-A-Bin", "QQ", 0},  {"x-a-bin", "QQ==", 0}, {"X-A-Bin", "Qg", 0}, {"X-A-Bin", "Qg==", 0},
        {"X-A-Bin", "QQ=", 2}, {"X-A-Bin", "Qw", 2},   {"X-B", "QQ==", 2},   {"X-B", "QQ", 1},
    };
    struct policy *policy =
        policy_from_text("listen: 127.0.0.1:0\n"
                         "routes:\n"
                         "  - {match: {header: {x-a-bin: [QQ==, Qg]}}, respond: {status: 204}}\n"
                         "  - {match: {header: {x-b: QQ}}, respond: {status: 204}}\n"
                         "  - {respond: {status: 204}}\n");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct request request;
        const struct route *route = NULL;
        request_init(&request, "GET", "/", "x");
        request_add_field(&request, span_of_text(ROWS[i].name), span_of_text(ROWS[i].value));
        ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
        ck_assert_msg(route != NULL && route->index == ROWS[i].index, "%s: %s", ROWS[i].name,
                      ROWS[i].value);
    }
    policy_free(policy);
}
END_TEST

/* Limits of a route, and those of the route as which servers may read its requests. */
static const struct {
    const char *limits;
    const char *rest;
    bool is_laxer;
} GUARDS[] = {
    {"bursty", "few", true},     {"windows", "few", true},     {"log", "few", false},
    {"log", "windows", false},   {"few", "windows", true},     {"fewer", "few, more", false},
    {"addresses", "few", true},  {"few", "networks", true},    {"networks", "few", false},
    {"few", "all", true},        {"all-fewer", "all", false},  {"all-fewer", "few", false},
    {"but-25", "few", true},     {"but-24", "but-25", true},   {"but-25", "but-24", false},
    {"few", "but-24", false},    {"few", "bans", true},        {"would-ban", "bans", true},
    {"bans-late", "bans", true}, {"bans-short", "bans", true}, {"bans-soon", "bans", false},
    {"bans", "few", false},      {"few", "would-ban", false},  {"bans-soon", "bans-401", true},
    {"few", "stubborn", true},   {"stubborn", "few", false},   {"few", "closed", true},
    {"closed", "few", false},    {"open", "few", true},        {"few", "open", false},
};

START_TEST(rule_78_a_laxer_burst_exception_or_ban_is_a_laxer_route)
{
    char limits[128];
    char rest[128];
    snprintf(limits, sizeof(limits), "limits: [%s]", GUARDS[_i].limits);
    snprintf(rest, sizeof(rest), "limits: [%s], upstream: api", GUARDS[_i].rest);
    for (size_t i = 0; i < ARRAY_LEN(UNUSUAL); i++) {
        ck_assert_msg(is_taken_as_written(limits, rest, UNUSUAL[i]) != GUARDS[_i].is_laxer,
                      "%s beside %s", limits, rest);
    }
    ck_assert(is_taken_as_written(limits, rest, "/v1/@me"));
}
END_TEST

START_TEST(rule_78_a_route_that_asks_for_tokens_or_edits_fields_is_stricter)
{
    static const char *const strict[] = {
        "jwt: {required: true}",
        "request: {remove: [X-User]}",
        "request: {set: {X-User: a}}",
        "request: {remove: [Cookie]}",
    };
    static const char *const all[] = {
        "limits: [], jwt: {required: true}, request: {remove: [x_user, cookie]}",
        "limits: [few], jwt: {required: true}, request: {set: {X-User: b, Cookie: c}}",
    };
    const char *target = UNUSUAL[_i];
    char rest[256];
    for (size_t i = 0; i < ARRAY_LEN(strict); i++) {
        snprintf(rest, sizeof(rest), "limits: [], %s, upstream: api", strict[i]);
        ck_assert_msg(!is_taken_as_written("limits: []", rest, target), "%s", rest);
        ck_assert_msg(is_taken_as_written("limits: []", rest, "/v1/@me"), "%s", rest);
        for (size_t j = 0; j < ARRAY_LEN(all); j++) {
            ck_assert_msg(is_taken_as_written(all[j], rest, target), "%s %s", all[j], rest);
        }
    }
    ck_assert(is_taken_as_written(
        "limits: []",
        "limits: [], response: {remove: [X-A]}, jwt: {required: false}, upstream: api", target));
}
END_TEST

/* Servers that decode escapes may keep parameters: Flask's, Django's, Go's and Rack's do. */
START_TEST(rule_78_a_path_that_is_decoded_and_keeps_its_parameters_is_no_laxer_route)
{
    static const char *const targets[] = {
        "/avatar/;x",     "/%61vatar/;x",   "/%61vatar/;%78", "/%61vatar/;",
        "/./%61vatar/;x", "/%61vatar/./;x", "//%61vatar/;x",  "/x/../%61vatar/;x",
    };
    const char *text = "listen: 127.0.0.1:0\n"
                       "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
                       "limits: {few: {key: client.ip, rate: 9/s}}\n"
                       "routes:\n"
                       "  - {match: {path: \"/avatar/{seed}\"}, limits: [few], upstream: api}\n"
                       "  - {match: {path: /**}, limits: [], upstream: api}\n";
    struct policy *policy = policy_from_text(text);
    const struct route *route;
    struct request request;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        request_init(&request, "GET", targets[i], "x");
        const char *refusal = matcher_find_route(policy, &request.view, &route);
        ck_assert_msg(refusal != NULL || route->index == 0, "%s", targets[i]);
    }
    request_init(&request, "GET", "/%61vatars/;x", "x");
    ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
    ck_assert_uint_eq(route->index, 1);
    policy_free(policy);
}
END_TEST

START_TEST(rule_78_a_path_that_is_the_same_route_as_written_is_taken)
{
    static const char *const targets[] = {"/v1/me/a;b/x", "/v1/me/%41/x", "/v1/me/caf%c3%a9/x",
                                          "/v1/me/%7eann/x"};
    const char *text =
        "listen: 127.0.0.1:0\n"
        "upstreams: {api: {servers: \"http://127.0.0.1:1\"}}\n"
        "limits: {few: {key: client.ip, rate: 9/s}}\n"
        "routes:\n"
        "  - {match: {path: [/v1/me/*/x, /v1/caf%C3%A9]}, limits: [], upstream: api}\n"
        "  - {match: {path: /**}, limits: [few], upstream: api}\n";
    struct policy *policy = policy_from_text(text);
    const struct route *route;
    struct request request;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        request_init(&request, "GET", targets[i], "x");
        ck_assert_msg(matcher_find_route(policy, &request.view, &route) == NULL, "%s", targets[i]);
        ck_assert_uint_eq(route->index, 0);
    }
    request_init(&request, "GET", "/v1/caf%c3%a9", "x");
    ck_assert_ptr_null(matcher_find_route(policy, &request.view, &route));
    ck_assert_uint_eq(route->index, 0);
    policy_free(policy);
}
END_TEST

START_TEST(the_first_part_that_fails_is_told)
{
    static const struct {
        const char *method;
        const char *target;
        const char *host;
        const char *client;
        enum match_part part;
    } STORIES[] = {
        {"PUT", "/b", "b.test", "192.0.2.1", MATCH_PATH},
        {"PUT", "/a/x", "b.test", "192.0.2.1", MATCH_METHOD},
        {"GET", "/a/x", "b.test", "192.0.2.1", MATCH_HOST},
        {"GET", "/a/x", "a.test", "192.0.2.1", MATCH_CLIENT},
        {"GET", "/a/x", "a.test", "10.0.0.1", MATCH_FIELD},
        {"GET", "/a/x?q=2", "a.test", "10.0.0.2", MATCH_PARAMETER},
        {"GET", "/c/x?q=1", "a.test", "10.0.0.2", MATCH_ALL},
    };
    struct policy *policy =
        policy_from_text("listen: 127.0.0.1:0\n"
                         "routes:\n"
                         "  - match: {path: [\"/a/{b}/**\", /c/x], method: GET,\n"
                         "            host: a.test, client: 10.0.0.0/8,\n"
                         "            header: {x-a: true, x-b: \"1\"},\n"
                         "            query: {q: 1}}\n"
                         "    respond: {status: 204}\n");
    char buffer[WORD_BYTES_MAX];
    struct text path = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        struct request request;
        const struct value_match *condition;
        request_init(&request, STORIES[i].method, STORIES[i].target, STORIES[i].host);
        request_set_client(&request, span_of_text(STORIES[i].client));
        request_add_field(&request, SPAN("X-A"), SPAN("0"));
        if (STORIES[i].part > MATCH_FIELD) {
            request_add_field(&request, SPAN("X-B"), SPAN("1"));
        }
        ck_assert_ptr_null(matcher_read_path(&request.view));
        const enum match_part part = matcher_compare(&policy->routes[0], &request.view, &condition);
        ck_assert_int_eq(part, STORIES[i].part);
        ck_assert(condition == NULL ||
                  span_equals(condition->name, part == MATCH_FIELD ? SPAN("x-b") : SPAN("q")));
    }
    matcher_write_path(&policy->routes[0].match.paths[0], &path);
    ck_assert(span_equals(text_span(&path), SPAN("/a/{b}/**")));
    policy_free(policy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/matcher");
    TCase *tcase = tcase_create("find_route");
    tcase_add_test(tcase, requests_take_the_first_route_that_matches);
    tcase_add_test(tcase, keys_see_the_path_under_the_rules_of_the_route);
    tcase_add_test(tcase, rule_69_an_encoded_slash_never_leads_around_an_earlier_route);
    tcase_add_test(tcase, rule_68_octets_that_are_no_utf_8_lead_around_no_route);
    tcase_add_test(tcase, rule_72_letters_that_are_others_of_ascii_lead_around_no_route);
    tcase_add_test(tcase, rule_72_such_letters_are_one_key_where_case_is_ignored);
    tcase_add_test(tcase, rule_71_what_stands_behind_two_slashes_leads_around_no_route);
    tcase_add_loop_test(tcase, rule_78_what_only_sluice_takes_for_a_laxer_route_is_refused, 0,
                        ARRAY_LEN(UNUSUAL));
    tcase_add_test(tcase, a_binary_field_matches_with_its_padding_and_without);
    tcase_add_loop_test(tcase, rule_78_a_laxer_burst_exception_or_ban_is_a_laxer_route, 0,
                        ARRAY_LEN(GUARDS));
    tcase_add_loop_test(tcase, rule_78_a_route_that_asks_for_tokens_or_edits_fields_is_stricter, 0,
                        ARRAY_LEN(UNUSUAL));
    tcase_add_test(tcase,
                   rule_78_a_path_that_is_decoded_and_keeps_its_parameters_is_no_laxer_route);
    tcase_add_test(tcase, rule_78_a_path_that_is_the_same_route_as_written_is_taken);
    tcase_add_loop_test(tcase, rule_69_an_encoded_slash_never_leads_around_a_later_stricter_route,
                        0, (int)ARRAY_LEN(BEHIND));
    tcase_add_test(tcase, the_first_part_that_fails_is_told);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
