#include "policy/load/endpoint.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

static const struct {
    const char *text;
    const char *host;
    uint16_t port;
    const char *unix_path;
    const char *user;
    const char *password;
    uint32_t database;
} GOOD[] = {
    {"redis://127.0.0.1:6379/0", "127.0.0.1", 6379, "", "", "", 0},
    {"redis://redis", "redis", 6379, "", "", "", 0},
    {"redis://[::1]:7000/15", "::1", 7000, "", "", "", 15},
    {"redis://:secret@a/", "a", 6379, "", "", "secret", 0},
    {"redis://sluice:secret@a:7000/1", "a", 7000, "", "sluice", "secret", 1},
    {"redis://u%40x:p%3A%2f%25@a", "a", 6379, "", "u@x", "p:/%", 0},
    {"redis://u:p@ss:w@a", "a", 6379, "", "u", "p@ss:w", 0},
    {"unix:///run/redis.sock", "", 0, "/run/redis.sock", "", "", 0},
    {"redis+unix:///run/redis.sock", "", 0, "/run/redis.sock", "", "", 0},
};

START_TEST(a_url_says_where_redis_is_and_how_to_log_in)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct arena arena;
    struct redis_url url;
    arena_init(&arena, NULL, 0);
    ck_assert_msg(redis_url_parse(span_of_text(GOOD[_i].text), &arena, &url, &problem), "%s",
                  GOOD[_i].text);
    ck_assert_int_eq(url.kind, REDIS_SINGLE);
    ck_assert_uint_eq(url.n_endpoints, 1);
    const struct endpoint *endpoint = &url.endpoints[0];
    ck_assert(span_equals(endpoint->host, span_of_text(GOOD[_i].host)));
    ck_assert_uint_eq(endpoint->port, GOOD[_i].port);
    ck_assert(span_equals(endpoint->unix_path, span_of_text(GOOD[_i].unix_path)));
    ck_assert(span_equals(url.login.user, span_of_text(GOOD[_i].user)));
    ck_assert(span_equals(url.login.password, span_of_text(GOOD[_i].password)));
    ck_assert_uint_eq(url.database, GOOD[_i].database);
    ck_assert_uint_eq(span_find(endpoint->text, '@'), endpoint->text.len);
    arena_reset(&arena);
}
END_TEST

/* Endpoints as "host port host port ..." */
static const struct {
    const char *text;
    enum redis_kind kind;
    const char *endpoints;
    const char *master;
    const char *password;
    uint32_t database;
} SEVERAL[] = {
    {"redis://a,b", REDIS_CLUSTER, "a 6379 b 6379 ", "", "", 0},
    {"redis://a:7000,[::1]:7001,10.0.0.1/0", REDIS_CLUSTER, "a 7000 ::1 7001 10.0.0.1 6379 ", "",
     "", 0},
    {"redis://u:p,w@a,b/", REDIS_CLUSTER, "a 6379 b 6379 ", "", "p,w", 0},
    {"redis://a:1,a:2", REDIS_CLUSTER, "a 1 a 2 ", "", "", 0},
    {"redis+sentinel://a/m", REDIS_SENTINEL, "a 26379 ", "m", "", 0},
    {"redis+sentinel://a,b:26380,[::1]/my-master.1_a", REDIS_SENTINEL, "a 26379 b 26380 ::1 26379 ",
     "my-master.1_a", "", 0},
    {"redis+sentinel://u:p%40@a,b/m/3", REDIS_SENTINEL, "a 26379 b 26379 ", "m", "p@", 3},
    {"REDIS+Sentinel://a/m/", REDIS_SENTINEL, "a 26379 ", "m", "", 0},
    {"redis://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", REDIS_CLUSTER,
     "1 6379 2 6379 3 6379 4 6379 5 6379 6 6379 7 6379 8 6379 9 6379 10 6379 11 6379 12 6379 13 "
     "6379 "
     "14 6379 15 6379 16 6379 ",
     "", "", 0},
};

static void list_endpoints(const struct redis_url *url, struct text *text)
{
    for (size_t i = 0; i < url->n_endpoints; i++) {
        text_add_format(text, "%.*s %u ", SPAN_ARGS(url->endpoints[i].host),
                        url->endpoints[i].port);
    }
}

START_TEST(a_url_may_name_a_cluster_or_sentinels)
{
    char buffer[512];
    char listed[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct text endpoints = text_of(listed, sizeof(listed));
    struct arena arena;
    struct redis_url url;
    arena_init(&arena, NULL, 0);
    ck_assert_msg(redis_url_parse(span_of_text(SEVERAL[_i].text), &arena, &url, &problem),
                  "%s: %.*s", SEVERAL[_i].text, SPAN_ARGS(text_span(&problem)));
    list_endpoints(&url, &endpoints);
    ck_assert_int_eq(url.kind, SEVERAL[_i].kind);
    ck_assert(span_equals(text_span(&endpoints), span_of_text(SEVERAL[_i].endpoints)));
    ck_assert(span_equals(url.master, span_of_text(SEVERAL[_i].master)));
    ck_assert(span_equals(url.login.password, span_of_text(SEVERAL[_i].password)));
    ck_assert_uint_eq(url.database, SEVERAL[_i].database);
    arena_reset(&arena);
}
END_TEST

static const char LONG_NAME[] = "redis+sentinel://a/"
                                "a23456789a123456789a123456789a123456789a123456789a123456789a1234"
                                "a23456789a123456789a123456789a123456789a123456789a123456789a12345";

static const char *const BAD[] = {
    "",
    "127.0.0.1:6379",
    "redis:127.0.0.1",
    "redis://",
    "redis://:6379",
    "redis://a:0",
    "redis://a:6379/main",
    "redis://a:6379/1/2",
    "redis://a/65536",
    "redis://user@a",
    "redis://u:100%@a",
    "redis://a,",
    "redis://,a",
    "redis://a,,b",
    "redis://a, b",
    "redis://a,A",
    "redis://a,b/1",
    "redis://a,redis://b",
    "redis://u:p@a,redis://u:p@b",
    "redis://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
    "redis+sentinel://",
    "redis+sentinel:///m",
    "redis+sentinel://a",
    "redis+sentinel://a/",
    "redis+sentinel://a//0",
    "redis+sentinel://a,a/m",
    "redis+sentinel://a:x/m",
    "redis+sentinel://a/my master",
    "redis+sentinel://a/m/one",
    "redis+sentinel://a/m/1/2",
    "redis+sentinel://user@a/m",
    LONG_NAME,
    "redis-sentinel://a/main",
    "sentinel://a/main",
    "redis+cluster://a",
    "redis-cluster://a",
    "http://a",
    "unix://run/redis.sock",
    "unix:///",
    "unix:///"
    "a23456789a123456789a123456789a123456789a123456789a123456789a123456789a123456789a1234567"
    "89a123456789a123456789",
};

START_TEST(other_urls_are_refused_without_quoting_them)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct arena arena;
    struct redis_url url;
    arena_init(&arena, NULL, 0);
    ck_assert_msg(!redis_url_parse(span_of_text(BAD[_i]), &arena, &url, &problem), "%s", BAD[_i]);
    ck_assert_uint_gt(problem.len, 0);
    arena_reset(&arena);
}
END_TEST

/* The second is joined to the first. */
static const struct {
    const char *first;
    const char *second;
    bool is_sound;
} JOINED[] = {
    {"redis://a", "redis://b", true},
    {"redis://u:p@a", "redis://b", true},
    {"redis://u:p@a", "redis://u:p@b,c", true},
    {"redis://a", "redis://a", false},
    {"redis://a/1", "redis://b", false},
    {"redis://a", "redis://b/1", false},
    {"redis://u:p@a", "redis://u:q@b", false},
    {"redis://a", "redis://u:q@b", false},
    {"redis://a", "redis+sentinel://b/m", false},
    {"redis+sentinel://b/m", "redis://a", false},
    {"redis://a", "unix:///b", false},
    {"unix:///b", "redis://a", false},
    {"redis://a", "redis://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", false},
};

START_TEST(rediss_is_redis_over_tls)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct arena arena;
    struct redis_url url;
    arena_init(&arena, NULL, 0);
    ck_assert(redis_url_parse(SPAN("rediss://:p@a:7000/1"), &arena, &url, &problem));
    ck_assert(url.tls);
    ck_assert_int_eq(url.kind, REDIS_SINGLE);
    ck_assert_uint_eq(url.endpoints[0].port, 7000);
    ck_assert_uint_eq(url.database, 1);
    ck_assert(redis_url_parse(SPAN("rediss+sentinel://a,b/m"), &arena, &url, &problem));
    ck_assert(url.tls);
    ck_assert_int_eq(url.kind, REDIS_SENTINEL);
    ck_assert(redis_url_parse(SPAN("redis://a"), &arena, &url, &problem));
    ck_assert(!url.tls);
    arena_reset(&arena);
}
END_TEST

START_TEST(urls_are_joined_when_they_can_be_of_one_cluster)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct arena arena;
    struct redis_url first;
    struct redis_url second;
    arena_init(&arena, NULL, 0);
    ck_assert(redis_url_parse(span_of_text(JOINED[_i].first), &arena, &first, &problem));
    ck_assert(redis_url_parse(span_of_text(JOINED[_i].second), &arena, &second, &problem));
    const size_t n = first.n_endpoints + second.n_endpoints;
    ck_assert_msg(redis_url_join(&first, &second, &problem) == JOINED[_i].is_sound, "%s %s",
                  JOINED[_i].first, JOINED[_i].second);
    ck_assert_int_eq(problem.len == 0, JOINED[_i].is_sound);
    if (JOINED[_i].is_sound) {
        ck_assert_uint_eq(first.n_endpoints, n);
        ck_assert_int_eq(first.kind, REDIS_CLUSTER);
    }
    arena_reset(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/redis_url");
    TCase *tcase = tcase_create("parse");
    tcase_add_loop_test(tcase, a_url_says_where_redis_is_and_how_to_log_in, 0,
                        (int)ARRAY_LEN(GOOD));
    tcase_add_loop_test(tcase, a_url_may_name_a_cluster_or_sentinels, 0, (int)ARRAY_LEN(SEVERAL));
    tcase_add_test(tcase, rediss_is_redis_over_tls);
    tcase_add_loop_test(tcase, urls_are_joined_when_they_can_be_of_one_cluster, 0,
                        (int)ARRAY_LEN(JOINED));
    tcase_add_loop_test(tcase, other_urls_are_refused_without_quoting_them, 0, (int)ARRAY_LEN(BAD));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
