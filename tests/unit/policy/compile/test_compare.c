/* What a reload takes to be as it was: each word that is changed alone is seen. */

#include "policy/compare.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy_support.h"

enum { YAML_BYTES = 2048 };

static struct policy *load(const char *top, const char *rest)
{
    char yaml[YAML_BYTES];
    ck_assert_int_lt(snprintf(yaml, sizeof(yaml), "listen: 127.0.0.1:0\n%s%s", top, rest),
                     YAML_BYTES);
    return policy_from_text(yaml);
}

/* --- limits --- */

static const char ROUTES[] = "routes: [{limits: [a], respond: {status: 204}}]\n";
static const char BEFORE[] = "limits: {a: {key: client.ip, rate: 10/m, burst: 5}}\n";

static const struct {
    const char *top;   /* of the policy after */
    const char *limit; /* likewise */
    enum limit_change change;
} CHANGES[] = {
    {"", "limits: {a: {key: client.ip, rate: 10/m, burst: 5}}\n", LIMIT_KEPT},
    {"", "limits: {a: {key: client.ip, rate: 20/m, burst: 5}}\n", LIMIT_RESCALED},
    {"", "limits: {a: {key: client.ip, rate: 10/m, burst: 6}}\n", LIMIT_RESCALED},
    {"", "limits: {a: {key: client.ip, rate: 10/m, burst: 5, on_failure: deny}}\n", LIMIT_KEPT},
    {"", "limits: {a: {key: client.ip, rate: 10/h, burst: 5}}\n", LIMIT_NEW},
    {"", "limits: {a: {key: client.ip/48, rate: 10/m, burst: 5}}\n", LIMIT_NEW},
    {"", "limits: {a: {key: global, rate: 10/m, burst: 5}}\n", LIMIT_NEW},
    {"", "limits: {a: {key: client.ip, rate: 10/m, algorithm: fixed_window}}\n", LIMIT_NEW},
    {"store: {redis: 'redis://127.0.0.1:1'}\n",
     "limits: {a: {key: client.ip, rate: 10/m, burst: 5}}\n", LIMIT_NEW},
};

static void on_only(void *context, const struct limit_comparison *comparison)
{
    enum limit_change *change = context;
    *change = comparison->change;
    ck_assert((comparison->why[0] != '\0') == (comparison->change == LIMIT_NEW));
}

START_TEST(a_state_is_kept_where_its_meaning_is)
{
    char rest[YAML_BYTES];
    enum limit_change change = LIMIT_GONE;
    (void)snprintf(rest, sizeof(rest), "%s%s", BEFORE, ROUTES);
    struct policy *before = load("", rest);
    (void)snprintf(rest, sizeof(rest), "%s%s", CHANGES[_i].limit, ROUTES);
    struct policy *after = load(CHANGES[_i].top, rest);
    compare_limits(before, after, on_only, &change);
    ck_assert_int_eq(change, CHANGES[_i].change);
    policy_free(before);
    policy_free(after);
}
END_TEST

static void on_changed(void *context, const struct limit_comparison *comparison)
{
    const struct limit_comparison **changed = context;
    if (comparison->change != LIMIT_KEPT) {
        static struct limit_comparison copy;
        copy = *comparison;
        *changed = &copy;
    }
}

/* It has no time of its last change: what another burst admitted would pass for a later clock. */
START_TEST(another_burst_of_gcra_is_another_count)
{
    static const char FORM[] =
        "limits: {a: {key: client.ip, algorithm: gcra, rate: 60/h, burst: %d}}\n%s";
    const struct limit_comparison *changed = NULL;
    char rest[YAML_BYTES];
    (void)snprintf(rest, sizeof(rest), FORM, 60, ROUTES);
    struct policy *before = load("", rest);
    (void)snprintf(rest, sizeof(rest), FORM, 5, ROUTES);
    struct policy *after = load("", rest);
    compare_limits(before, after, on_changed, &changed);
    ck_assert_ptr_nonnull(changed);
    ck_assert_int_eq(changed->change, LIMIT_NEW);
    policy_free(before);
    policy_free(after);
}
END_TEST

/* Windows of two zones are two counts; a rate without a calendar has no zone. */
START_TEST(another_timezone_is_another_count)
{
    static const char FORM[] = "limits: {a: {key: client.ip, algorithm: fixed_window, "
                               "rate: [5/day, 3/h], timezone: %s}}\n%s";
    const struct limit_comparison *changed = NULL;
    char rest[YAML_BYTES];
    (void)snprintf(rest, sizeof(rest), FORM, "Asia/Tokyo", ROUTES);
    struct policy *before = load("", rest);
    compare_limits(before, before, on_changed, &changed);
    ck_assert_ptr_null(changed);
    (void)snprintf(rest, sizeof(rest), FORM, "Europe/Berlin", ROUTES);
    struct policy *after = load("", rest);
    compare_limits(before, after, on_changed, &changed);
    ck_assert_ptr_nonnull(changed);
    ck_assert_int_eq(changed->change, LIMIT_NEW);
    ck_assert(span_equals(changed->after->name, SPAN("a.1d")));
    ck_assert_str_eq(changed->why, "its timezone is another");
    policy_free(before);
    policy_free(after);
}
END_TEST

/* The same Redis after another name, certificate or password keeps what it has counted. */
static const struct {
    const char *store;
    enum limit_change change;
} REACHED[] = {
    {"store: {redis: 'rediss://127.0.0.1:1', tls: {name: a.test}}\n", LIMIT_KEPT},
    {"store: {redis: 'rediss://127.0.0.1:1', tls: {name: b.test}}\n", LIMIT_KEPT},
    {"store: {redis: 'rediss://127.0.0.1:1', tls: {verify: false}}\n", LIMIT_KEPT},
    {"store: {redis: 'rediss://127.0.0.1:1', password: b}\n", LIMIT_KEPT},
    {"store: {redis: 'rediss://127.0.0.1:2', tls: {name: a.test}}\n", LIMIT_NEW},
    {"store: {redis: 'rediss://127.0.0.1:1/1', tls: {name: a.test}}\n", LIMIT_NEW},
};

START_TEST(a_state_in_redis_is_kept_however_redis_is_reached)
{
    char rest[YAML_BYTES];
    enum limit_change change = LIMIT_GONE;
    (void)snprintf(rest, sizeof(rest), "%s%s", BEFORE, ROUTES);
    struct policy *before = load(REACHED[0].store, rest);
    struct policy *after = load(REACHED[_i].store, rest);
    compare_limits(before, after, on_only, &change);
    ck_assert_int_eq(change, REACHED[_i].change);
    policy_free(before);
    policy_free(after);
}
END_TEST

/* Identities that have no hash are the same under any secret. */
static const struct {
    const char *key;
    enum limit_change change;
} SECRETS[] = {
    {"client.ip", LIMIT_KEPT},
    {"[client.ip/48, host, path, method]", LIMIT_KEPT},
    {"path.id", LIMIT_KEPT},
    {"global", LIMIT_KEPT},
    {"path.a-name-that-is-longer-than-24", LIMIT_NEW}, /* it is hashed with its value */
    {"header.x-key", LIMIT_NEW},
    {"header.x-key | client.ip", LIMIT_NEW},
    {"[client.ip, cookie.id]", LIMIT_NEW},
    {"query.q", LIMIT_NEW},
};

static void on_secret(void *context, const struct limit_comparison *comparison)
{
    *(enum limit_change *)context = comparison->change;
    ck_assert_str_eq(comparison->why,
                     comparison->change == LIMIT_NEW ? "store.secret is another" : "");
}

START_TEST(another_secret_is_another_count_of_what_is_hashed)
{
    static const char FORM[] =
        "store: {redis: 'redis://127.0.0.1:1', secret: %s}\n"
        "limits: {a: {key: %s, rate: 10/m}}\n"
        "routes: [{match: {path: '/{id}/{a-name-that-is-longer-than-24}'}, limits: [a],"
        " respond: {status: 204}}]\n";
    char rest[YAML_BYTES];
    enum limit_change change = LIMIT_GONE;
    const char *key = SECRETS[_i].key;
    (void)snprintf(rest, sizeof(rest), FORM, "one", key);
    struct policy *before = load("", rest);
    (void)snprintf(rest, sizeof(rest), FORM, "two", key);
    struct policy *after = load("", rest);
    compare_limits(before, after, on_secret, &change);
    ck_assert_int_eq(change, SECRETS[_i].change);
    policy_free(before);
    policy_free(after);
}
END_TEST

static void on_any(void *context, const struct limit_comparison *comparison)
{
    unsigned *n = context;
    n[comparison->change]++;
}

START_TEST(limits_come_go_and_change_places)
{
    unsigned n[LIMIT_GONE + 1] = {0};
    struct policy *before = load("", "limits: {a: {key: global, rate: [10/s, 100/m]}, "
                                     "b: {key: global, rate: 1/s}}\n"
                                     "routes: [{limits: [a, b], respond: {status: 204}}]\n");
    struct policy *after = load("", "limits: {c: {key: global, rate: 1/s}, "
                                    "b: {key: global, rate: 1/s}, a: {key: global, rate: 11/s}}\n"
                                    "routes: [{limits: [a, b, c], respond: {status: 204}}]\n");
    compare_limits(before, after, on_any, n);
    ck_assert_uint_eq(n[LIMIT_KEPT], 1); /* b */
    ck_assert_uint_eq(n[LIMIT_NEW], 2);  /* c, and a, which is named a.1s before */
    ck_assert_uint_eq(n[LIMIT_GONE], 2); /* a.1s and a.1m */
    ck_assert_uint_eq(n[LIMIT_RESCALED], 0);
    policy_free(before);
    policy_free(after);
}
END_TEST

/* --- upstreams --- */

static const char *const SERVERS = "servers: ['http://127.0.0.1:1', 'http://127.0.0.1:2']";

static const char *const WORDS[] = {
    "servers: ['http://127.0.0.1:1', 'http://127.0.0.1:3']",
    "servers: ['http://127.0.0.1:1']",
    "balance: least_requests",
    "balance: 'hash(client.ip)'",
    "balance: 'hash(client.ip/48)'",
    "host: server",
    "host: other.example",
    "timeout: {connect: 3s}",
    "timeout: {response: 7s}",
    "timeout: {idle: 7s}",
    "health: {path: /up}",
    "health: {path: /up, interval: 7s}",
    "health: {path: /up, status: 204}",
    "health: {path: /up, fall: 7}",
    "eject: {failures: 7}",
    "eject: {for: 7s}",
    "slow_start: 7s",
    "max_connections: 7",
    "{max_connections: 7, queue: 9}",
    "retries: 0",
    "max_head: 128KiB",
    "max_headers: 7",
    "reuse_after_head: true",
    "hold_slots: true",
    "max_streams: 99",
    "request_trailers: true",
    "request_trailers: false",
    "servers: ['https://127.0.0.1:1', 'http://127.0.0.1:2']",
    "servers: ['https://127.0.0.1:1', 'http://127.0.0.1:2'], tls: {verify: false}",
    "servers: ['https://127.0.0.1:1', 'http://127.0.0.1:2'], tls: {name: b.test}",
    "servers: ['https://127.0.0.1:1', 'http://127.0.0.1:2'], tls: {min_version: 1.3}",
};

static struct policy *load_upstream(const char *word)
{
    char rest[YAML_BYTES];
    const bool is_section = word[0] == '{';
    const bool has_servers = strncmp(word, "servers", strlen("servers")) == 0;
    (void)snprintf(rest, sizeof(rest),
                   "upstreams: {api: {%s%s%.*s}}\nroutes: [{upstream: api, limits: []}]\n",
                   has_servers ? "" : SERVERS, has_servers || word[0] == '\0' ? "" : ", ",
                   (int)strlen(word) - 2 * is_section, word + is_section);
    return load("", rest);
}

START_TEST(an_upstream_is_as_it_was_if_no_word_of_it_has_changed)
{
    struct policy *plain = load_upstream("");
    struct policy *one = load_upstream(WORDS[_i]);
    struct policy *again = load_upstream(WORDS[_i]);
    ck_assert(!compare_upstreams(&plain->upstreams[0], &one->upstreams[0]));
    ck_assert(compare_upstreams(&one->upstreams[0], &again->upstreams[0]));
    for (int j = 0; j < (int)(sizeof(WORDS) / sizeof(WORDS[0])); j++) {
        struct policy *other = load_upstream(WORDS[j]);
        ck_assert_int_eq(compare_upstreams(&one->upstreams[0], &other->upstreams[0]), j == _i);
        policy_free(other);
    }
    policy_free(plain);
    policy_free(one);
    policy_free(again);
}
END_TEST

/* --- stores --- */

static const char *const STORES[] = {
    "store: {}\n",
    "store: {redis: 'redis://127.0.0.1:1'}\n",
    "store: {redis: 'redis://127.0.0.1:2'}\n",
    "store: {redis: 'redis://127.0.0.1:1/3'}\n",
    "store: {redis: 'redis://u:p@127.0.0.1:1'}\n",
    "store: {redis: 'redis://127.0.0.1:1', prefix: other}\n",
    "store: {redis: 'redis://127.0.0.1:1', deadline: 70ms}\n",
    "store: {redis: 'redis://127.0.0.1:1', proxy_count: 7}\n",
    "store: {redis: 'redis://127.0.0.1:1', coalesce: false}\n",
    "store: {redis: 'redis://127.0.0.1:1', denial_cache: false}\n",
    "store: {redis: 'rediss://127.0.0.1:1', tls: {name: a.test}}\n",
    "store: {redis: 'rediss://127.0.0.1:1', tls: {name: b.test}}\n",
};

START_TEST(links_stay_if_the_store_is_reached_and_asked_as_it_was)
{
    struct policy *one = load(STORES[_i], "limit: 1/s\nupstream: http://127.0.0.1:1\n");
    for (int j = 0; j < (int)(sizeof(STORES) / sizeof(STORES[0])); j++) {
        struct policy *other = load(STORES[j], "limit: 2/s\nupstream: http://127.0.0.1:1\n");
        ck_assert_int_eq(compare_stores(&one->store, &other->store), j == _i);
        policy_free(other);
    }
    policy_free(one);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/compare");
    TCase *tcase = tcase_create("what is as it was");
    tcase_add_loop_test(tcase, a_state_is_kept_where_its_meaning_is, 0,
                        (int)(sizeof(CHANGES) / sizeof(CHANGES[0])));
    tcase_add_test(tcase, another_burst_of_gcra_is_another_count);
    tcase_add_test(tcase, another_timezone_is_another_count);
    tcase_add_loop_test(tcase, a_state_in_redis_is_kept_however_redis_is_reached, 0,
                        (int)(sizeof(REACHED) / sizeof(REACHED[0])));
    tcase_add_loop_test(tcase, another_secret_is_another_count_of_what_is_hashed, 0,
                        ARRAY_LEN(SECRETS));
    tcase_add_test(tcase, limits_come_go_and_change_places);
    tcase_add_loop_test(tcase, an_upstream_is_as_it_was_if_no_word_of_it_has_changed, 0,
                        (int)(sizeof(WORDS) / sizeof(WORDS[0])));
    tcase_add_loop_test(tcase, links_stay_if_the_store_is_reached_and_asked_as_it_was, 0,
                        (int)(sizeof(STORES) / sizeof(STORES[0])));
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
