#include "policy/loader.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "limit/algorithm.h"
#include "unit/policy/policy_support.h"

#define HEAD "listen: 127.0.0.1:8080\n"
#define SECOND UINT64_C(1000000)

static void assert_span(struct span got, const char *expected)
{
    ck_assert_msg(span_equals(got, span_of_text(expected)), "expected %s, got %.*s", expected,
                  SPAN_ARGS(got));
}

START_TEST(what_is_not_said_has_its_default)
{
    struct policy *policy = policy_from_text(HEAD "upstream: http://127.0.0.1:9000\n");
    ck_assert_uint_eq(policy->workers, 0);
    ck_assert_uint_eq(policy->n_trusted_proxies, 0);
    ck_assert_int_eq(policy->store.kind, STORE_MEMORY);
    ck_assert_int_eq(policy->store.when_full, STORE_FULL_SHARED_COUNTER);
    ck_assert_uint_eq(policy->store.memory_bytes, UINT64_C(64) << 20);
    ck_assert_int_eq(policy->log.format, LOG_FORMAT_LOGFMT);
    assert_span(policy->log.path, "");
    ck_assert_uint_eq(policy->max.connections, 10000);
    ck_assert_uint_eq(policy->max.head_bytes, 16384);
    ck_assert_uint_eq(policy->max.headers, 100);
    ck_assert_uint_eq(policy->max.body_bytes, UINT64_C(1) << 30);
    ck_assert_uint_eq(policy->timeouts.head_us, 10 * SECOND);
    ck_assert_uint_eq(policy->timeouts.idle_us, 60 * SECOND);
    ck_assert_uint_eq(policy->timeouts.drain_us, 30 * SECOND);
    policy_free(policy);
}
END_TEST

START_TEST(the_short_form_is_an_upstream_a_limit_and_a_route)
{
    struct policy *policy =
        policy_from_text(HEAD "upstream: http://127.0.0.1:9000\nlimit: 100/minute\n");
    ck_assert_uint_eq(policy->n_listeners, 1);
    assert_span(policy->listeners[0].endpoint.host, "127.0.0.1");
    ck_assert_uint_eq(policy->listeners[0].endpoint.port, 8080);
    ck_assert_uint_eq(policy->n_upstreams, 1);
    assert_span(policy->upstreams[0].name, "default");
    assert_span(policy->upstreams[0].servers[0].endpoint.host, "127.0.0.1");
    ck_assert_uint_eq(policy->upstreams[0].servers[0].endpoint.port, 9000);
    ck_assert_uint_eq(policy->upstreams[0].response_us, 30 * SECOND);
    ck_assert_uint_eq(policy->n_limits, 1);
    assert_span(policy->limits[0].name, "per-client");
    assert_span(policy->limits[0].algorithm->name == NULL
                    ? SPAN("")
                    : span_of_text(policy->limits[0].algorithm->name),
                "token_bucket");
    ck_assert_uint_eq(policy->limits[0].params.rate, 100);
    ck_assert_uint_eq(policy->limits[0].params.burst, 100);
    ck_assert_uint_eq(policy->rules[0].key.parts[0].terms[0].source, KEY_CLIENT_IP);
    ck_assert_uint_eq(policy->n_routes, 1);
    ck_assert_ptr_eq(policy->routes[0].upstream, &policy->upstreams[0]);
    ck_assert_ptr_eq(policy->routes[0].rules[0], &policy->rules[0]);
    assert_span(policy->routes[0].policy_field, "\"per-client\";q=100;w=60");
    policy_free(policy);
}
END_TEST

#define LONG_FORM                                                                                  \
    HEAD "upstreams:\n"                                                                            \
         "  api: {servers: [http://a:1, http://b:2], host: server}\n"                              \
         "  named: {servers: http://c, host: c.internal, timeout: {connect: 5s}}\n"                \
         "limits:\n"                                                                               \
         "  one: {key: client.ip, rate: 5/s, burst: 7, missing: skip, except: {client: "           \
         "192.0.2.0/24}}\n"                                                                        \
         "  many: {key: [method, host], rate: [{rate: 10/s, burst: 12}, 20/m, 30/5h, 40/month]}\n" \
         "  window: {key: global, rate: 6/day, algorithm: fixed_window, deny: {body: no}}\n"       \
         "defaults: {limits: [one]}\n"                                                             \
         "routes:\n"                                                                               \
         "  - {name: a, match: {path: /a}, upstream: api, cost: 5, max_body: 1KiB}\n"              \
         "  - {match: {path: /b}, upstream: named, limits: [], upgrade: [chat/2, x]}\n"            \
         "  - {upstream: api, limits: [window, many], upgrade: []}\n"                              \
         "  - {respond: {status: 404, body: gone}}\n"

START_TEST(routes_have_their_own_limits_or_the_defaults)
{
    struct policy *policy = policy_from_text(LONG_FORM);
    ck_assert_uint_eq(policy->n_routes, 4);
    assert_span(policy->routes[0].name, "a");
    ck_assert_uint_eq(policy->routes[0].n_rules, 1);
    ck_assert_uint_eq(policy->routes[0].cost.units, 5);
    ck_assert_uint_eq(policy->routes[0].body_bytes_max, 1024);
    assert_span(policy->routes[0].policy_field, "\"one\";q=5;w=1");
    ck_assert_uint_eq(policy->routes[0].n_upgrades, 1);
    assert_span(policy->routes[0].upgrades[0], "websocket");
    ck_assert_uint_eq(policy->routes[1].n_upgrades, 2);
    assert_span(policy->routes[1].upgrades[0], "chat/2");
    ck_assert_uint_eq(policy->routes[2].n_upgrades, 0);
    assert_span(policy->routes[1].name, "route-2");
    ck_assert_uint_eq(policy->routes[1].n_rules, 0);
    ck_assert_uint_eq(policy->routes[1].body_bytes_max, UINT64_C(1) << 30);
    assert_span(policy->routes[1].policy_field, "");
    ck_assert_ptr_eq(policy->routes[1].upstream, &policy->upstreams[1]);
    ck_assert_uint_eq(policy->routes[2].n_rules, 2);
    ck_assert_uint_eq(policy->routes[2].n_limits, 5);
    ck_assert_uint_eq(policy->routes[2].cost.units, 1);
    ck_assert_uint_eq(policy->routes[3].n_rules, 1);
    ck_assert_ptr_null(policy->routes[3].upstream);
    ck_assert_uint_eq(policy->routes[3].respond->status, 404);
    assert_span(policy->routes[3].respond->body, "gone");
    policy_free(policy);
}
END_TEST

START_TEST(each_of_several_rates_is_a_limit_with_a_name)
{
    static const char *const NAMES[] = {"one",     "many.1s",  "many.1m",
                                        "many.5h", "many.1mo", "window"};
    struct policy *policy = policy_from_text(LONG_FORM);
    ck_assert_uint_eq(policy->n_limits, ARRAY_LEN(NAMES));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        assert_span(policy->limits[i].name, NAMES[i]);
        ck_assert_uint_eq(policy->limits[i].index, i);
    }
    ck_assert_uint_eq(policy->limits[0].params.burst, 7);
    ck_assert_uint_eq(policy->limits[1].params.burst, 12);
    ck_assert_uint_eq(policy->limits[2].params.burst, 20); /* none is said: its N */
    ck_assert_uint_eq(policy->rules[1].n_limits, 4);
    ck_assert_ptr_eq(policy->rules[1].limits, &policy->limits[1]);
    ck_assert_int_eq(policy->rules[0].missing, KEY_MISSING_SKIP);
    ck_assert_int_eq(policy->rules[1].missing, KEY_MISSING_SHARED_COUNTER);
    ck_assert_uint_eq(policy->rules[1].key.n_parts, 2);
    ck_assert_uint_eq(policy->rules[0].n_except, 1);
    ck_assert_ptr_null(policy->rules[0].deny);
    ck_assert_uint_eq(policy->rules[2].deny->status, 429);
    assert_span(policy->rules[2].deny->body, "no");
    assert_span(policy->rules[2].deny->content_type, "text/plain");
    policy_free(policy);
}
END_TEST

START_TEST(upstreams_say_which_host_their_servers_see)
{
    struct policy *policy = policy_from_text(LONG_FORM);
    ck_assert_int_eq(policy->upstreams[0].host, UPSTREAM_HOST_SERVER);
    ck_assert_uint_eq(policy->upstreams[0].n_servers, 2);
    ck_assert_uint_eq(policy->upstreams[0].index, 0);
    ck_assert_int_eq(policy->upstreams[1].host, UPSTREAM_HOST_NAME);
    assert_span(policy->upstreams[1].host_name, "c.internal");
    ck_assert_uint_eq(policy->upstreams[1].servers[0].endpoint.port, 80);
    ck_assert_uint_eq(policy->upstreams[1].connect_us, 5 * SECOND);
    ck_assert_uint_eq(policy->upstreams[1].idle_us, 4 * SECOND);
    policy_free(policy);
}
END_TEST

START_TEST(a_route_may_name_a_server_by_its_url)
{
    struct policy *policy = policy_from_text("listen: 127.0.0.1:8080\n"
                                             "upstreams: {api: {servers: ['http://a']}}\n"
                                             "routes:\n"
                                             "- {match: {path: /a}, upstream: http://b:81}\n"
                                             "- {match: {path: /b}, upstream: api}\n"
                                             "- {match: {path: /c}, upstream: 'unix:/c'}\n"
                                             "- {upstream: http://b:81}\n");
    ck_assert_uint_eq(policy->n_upstreams, 3);
    ck_assert_ptr_eq(policy->routes[0].upstream, &policy->upstreams[1]);
    ck_assert_ptr_eq(policy->routes[1].upstream, &policy->upstreams[0]);
    ck_assert_ptr_eq(policy->routes[2].upstream, &policy->upstreams[2]);
    ck_assert_ptr_eq(policy->routes[3].upstream, &policy->upstreams[1]);
    ck_assert(span_equals(policy->upstreams[1].name, SPAN("http://b:81")));
    ck_assert_uint_eq(policy->upstreams[1].n_servers, 1);
    ck_assert_uint_eq(policy->upstreams[1].servers[0].endpoint.port, 81);
    ck_assert(span_equals(policy->upstreams[2].servers[0].endpoint.unix_path, SPAN("/c")));
    policy_free(policy);
}
END_TEST

START_TEST(a_url_of_a_route_that_is_none_is_told_where_it_stands)
{
    char *errors = policy_errors(
        "listen: 127.0.0.1:8080\n"
        "upstreams: {'a:1': {servers: ['http://a']}}\n"
        "routes:\n"
        "- {match: {path: /a}, upstream: localhost:9000}\n"
        "- {match: {path: /b}, upstream: http://a/b}\n"
        "- {upstream: http://a.name.that.is.longer.than.any.name.of.an.upstream.may.be.example}\n");
    ck_assert_ptr_nonnull(strstr(errors, "policy.yaml:2:13: error: upstream \"a:1\": a name is"));
    ck_assert_ptr_nonnull(
        strstr(errors, "policy.yaml:4:33: error: upstream \"localhost:9000\": must be"));
    ck_assert_ptr_nonnull(
        strstr(errors, "policy.yaml:5:33: error: upstream \"http://a/b\": must end"));
    ck_assert_ptr_nonnull(strstr(errors, "policy.yaml:6:14: error: upstream: a URL of more than"));
    ck_assert_ptr_null(strstr(errors, "unknown upstream"));
    free(errors);
}
END_TEST

START_TEST(what_is_said_of_redis_is_in_the_policy)
{
    struct policy *policy = policy_from_text(
        HEAD "store: {redis: 'redis://u:p%40@r:7000/3', deadline: 5ms, proxy_count: 4, secret: x}\n"
             "upstreams: {api: {servers: http://a}}\n"
             "limits:\n"
             "  local: {key: client.ip, rate: 100/s}\n"
             "  allow: {key: client.ip, rate: 100/s, on_failure: allow}\n"
             "routes: [{upstream: api, limits: [local, allow]}]\n");
    ck_assert_int_eq(policy->store.kind, STORE_REDIS);
    assert_span(policy->store.redis.endpoints[0].host, "r");
    ck_assert_uint_eq(policy->store.redis.endpoints[0].port, 7000);
    assert_span(policy->store.user, "u");
    assert_span(policy->store.password, "p@");
    assert_span(policy->store.prefix, "sluice");
    assert_span(policy->store.secret, "x");
    ck_assert_uint_eq(policy->store.database, 3);
    ck_assert_uint_eq(policy->store.deadline_us, 5000);
    ck_assert_int_eq(policy->limits[0].on_failure, ON_FAILURE_LOCAL);
    ck_assert_uint_eq(policy->store.proxy_count, 4);
    ck_assert_int_eq(policy->limits[1].on_failure, ON_FAILURE_ALLOW);
    policy_free(policy);
}
END_TEST

START_TEST(without_a_word_of_them_the_instances_are_those_seen)
{
    struct policy *policy = policy_from_text(HEAD "store: {redis: 'redis://r'}\n"
                                                  "upstream: http://a\n"
                                                  "limit: 100/s\n");
    ck_assert_uint_eq(policy->store.proxy_count, 0);
    policy_free(policy);
}
END_TEST

START_TEST(the_log_may_be_said_in_a_word)
{
    struct policy *policy = policy_from_text(HEAD "upstream: http://a\nlog: off\n");
    ck_assert_int_eq(policy->log.format, LOG_FORMAT_OFF);
    policy_free(policy);
    policy = policy_from_text(HEAD "upstream: http://a\nlog: {format: json, to: /tmp/a.log}\n");
    ck_assert_int_eq(policy->log.format, LOG_FORMAT_JSON);
    assert_span(policy->log.path, "/tmp/a.log");
    policy_free(policy);
}
END_TEST

START_TEST(aliases_are_read_like_what_they_stand_for)
{
    struct policy *policy = policy_from_text(
        HEAD "upstreams: {api: {servers: http://a}}\n"
             "limits:\n"
             "  a: &rate {key: client.ip, rate: 5/s}\n"
             "  b: *rate\n"
             "routes: [{upstream: api, limits: &both [a, b]}, {upstream: api, limits: *both}]\n");
    ck_assert_uint_eq(policy->n_limits, 2);
    ck_assert_uint_eq(policy->routes[1].n_limits, 2);
    policy_free(policy);
}
END_TEST

START_TEST(an_unused_name_is_a_warning_and_no_error)
{
    static const char YAML[] =
        HEAD "upstreams: {api: {servers: http://a}, old: {servers: http://b}}\n"
             "limits: {spare: {key: client.ip, rate: 5/s}}\n"
             "routes: [{upstream: api}]\n";
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(YAML), NULL, &policy, &diags), STATUS_OK);
    ck_assert_uint_eq(diags.n_errors, 0);
    ck_assert_uint_eq(diags.n_items, 2);
    ck_assert_str_eq(diags.items[0].text, "upstream \"old\" is used by no route");
    ck_assert_str_eq(diags.items[1].text, "limit \"spare\" is used by no route");
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

START_TEST(the_environment_of_the_process_is_used)
{
    struct diags diags;
    struct policy *policy = NULL;
    ck_assert_int_eq(setenv("SLUICE_TEST_RATE", "7/s", 1), 0);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(SPAN(HEAD "upstream: http://${SLUICE_TEST_HOST:-a}:9000\n"
                                                "limit: ${SLUICE_TEST_RATE}\n"),
                                      NULL, &policy, &diags),
                     STATUS_OK);
    ck_assert_uint_eq(policy->limits[0].params.rate, 7);
    assert_span(policy->upstreams[0].servers[0].endpoint.host, "a");
    policy_free(policy);
    diags_close(&diags);
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused)
{
    const size_t len = (size_t)POLICY_FILE_BYTES_MAX + 1;
    char *yaml = malloc(len);
    struct diags diags;
    struct policy *policy = NULL;
    ck_assert_ptr_nonnull(yaml);
    memset(yaml, '#', len);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of(yaml, len), NULL, &policy, &diags), STATUS_INVALID);
    ck_assert_uint_eq(diags.n_errors, 1);
    diags_close(&diags);
    free(yaml);
}
END_TEST

/* --- what is too much is refused where it stands --- */

static const struct {
    const char *head;
    const char *piece; /* repeated; %zu is how many there were before */
    size_t n_pieces;
    const char *message; /* the only one, although the file is not YAML behind the pieces */
} TOO_MUCH[] = {
    {"upstream: ", "[", 100000, "1:26: error: nested more than 16 deep"},
    {"upstream: ", "{a: ", 100000, "1:71: error: nested more than 16 deep"},
    {"upstream:\n", "- ", 100000, "2:31: error: nested more than 16 deep"},
    {"upstream: [", "&a%zu 1,", 100000, "1:88902: error: more than 10000 anchors"},
    {"", "%%TAG !a%zu! x\n", 100000, "65:1: error: more than 64 directives"},
    {"upstream: 'x", " ", 100000, "1:1: error: more than 4096 bytes of white space"},
    {"upstream: 'x", "\n", 100000, "4098:1: error: more than 4096 bytes of white space"},
    {"upstream: 'x", "\xe2\x80\xa8", 100000, "1:1: error: more than 4096 bytes of white space"},
    {"upstream: [", "1,", 300000, "1:200012: error: more than 100000 values in a list"},
    {"upstream: {", "k%zu: 1,", 150000, "1:988902: error: more than 100000 keys in a mapping"},
    {"routes:\n", "- {}\n", 300000, "20002:3: error: more than 20000 routes"},
    {"limits:\n", " l%zu: 1\n", 300000, "10002:2: error: more than 10000 limits"},
    {"upstreams:\n", " u%zu: 1\n", 300000, "1002:2: error: more than 1000 upstreams"},
};

static char *repeated(size_t i)
{
    char *yaml = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&yaml, &len);
    ck_assert_ptr_nonnull(file);
    fputs(TOO_MUCH[i].head, file);
    for (size_t j = 0; j < TOO_MUCH[i].n_pieces; j++) {
        const char *number = strstr(TOO_MUCH[i].piece, "%zu");
        for (const char *at = TOO_MUCH[i].piece; *at != '\0'; at++) {
            if (at == number) {
                fprintf(file, "%zu", j);
                at += 2;
            } else {
                fputc(*at, file);
                at += *at == '%' && at[1] == '%';
            }
        }
    }
    fputs("\n\x01", file); /* which no YAML has */
    fclose(file);
    return yaml;
}

START_TEST(what_is_too_much_ends_the_reading_where_it_stands)
{
    char *yaml = repeated((size_t)_i);
    char message[128];
    char *errors = policy_errors(yaml);
    (void)snprintf(message, sizeof(message), "policy.yaml:%s\n", TOO_MUCH[_i].message);
    ck_assert_str_eq(errors, message);
    free(errors);
    free(yaml);
}
END_TEST

START_TEST(what_aliases_repeat_counts_as_if_it_stood_there)
{
    char *errors = policy_errors("upstream: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
                                 "limit: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n"
                                 "limits: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n"
                                 "routes: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n"
                                 "store: &e [*d, *d, *d, *d, *d, *d, *d, *d]\n"
                                 "listen: [*e, *e, *e, *e, *e, *e, *e, *e]\n");
    ck_assert_str_eq(errors, "policy.yaml:6:14: error: the aliases of this file repeat too much: "
                             "more than 100448 values\n");
    free(errors);
}
END_TEST

START_TEST(the_messages_of_the_manual_are_these)
{
    char *errors = policy_errors(HEAD "upstreams: {api: {servers: http://a}}\n"
                                      "limits:\n"
                                      "  per-client:\n"
                                      "    key: client.ip\n"
                                      "    rate: 100/minit\n"
                                      "    brust: 20\n"
                                      "routes: [{upstream: api, limits: [per-client]}]\n");
    ck_assert_str_eq(errors,
                     "policy.yaml:6:11: error: rate \"100/minit\": unknown period \"minit\"; did "
                     "you mean \"minute\"?\n"
                     "policy.yaml:7:5: error: unknown key \"brust\" in limits.per-client; did you "
                     "mean \"burst\"?\n");
    free(errors);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/loader");
    TCase *tcase = tcase_create("load");
    tcase_add_test(tcase, what_is_not_said_has_its_default);
    tcase_add_test(tcase, the_short_form_is_an_upstream_a_limit_and_a_route);
    tcase_add_test(tcase, routes_have_their_own_limits_or_the_defaults);
    tcase_add_test(tcase, each_of_several_rates_is_a_limit_with_a_name);
    tcase_add_test(tcase, upstreams_say_which_host_their_servers_see);
    tcase_add_test(tcase, a_route_may_name_a_server_by_its_url);
    tcase_add_test(tcase, a_url_of_a_route_that_is_none_is_told_where_it_stands);
    tcase_add_test(tcase, what_is_said_of_redis_is_in_the_policy);
    tcase_add_test(tcase, without_a_word_of_them_the_instances_are_those_seen);
    tcase_add_test(tcase, the_log_may_be_said_in_a_word);
    tcase_add_test(tcase, aliases_are_read_like_what_they_stand_for);
    tcase_add_test(tcase, an_unused_name_is_a_warning_and_no_error);
    tcase_add_test(tcase, the_environment_of_the_process_is_used);
    tcase_add_test(tcase, a_file_that_is_too_large_is_refused);
    tcase_add_loop_test(tcase, what_is_too_much_ends_the_reading_where_it_stands, 0,
                        (int)ARRAY_LEN(TOO_MUCH));
    tcase_add_test(tcase, what_aliases_repeat_counts_as_if_it_stood_there);
    tcase_add_test(tcase, the_messages_of_the_manual_are_these);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
