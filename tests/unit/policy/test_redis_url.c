#include "policy/redis_url.h"

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
    ck_assert(span_equals(url.endpoint.host, span_of_text(GOOD[_i].host)));
    ck_assert_uint_eq(url.endpoint.port, GOOD[_i].port);
    ck_assert(span_equals(url.endpoint.unix_path, span_of_text(GOOD[_i].unix_path)));
    ck_assert(span_equals(url.user, span_of_text(GOOD[_i].user)));
    ck_assert(span_equals(url.password, span_of_text(GOOD[_i].password)));
    ck_assert_uint_eq(url.database, GOOD[_i].database);
    ck_assert_uint_eq(span_find(url.endpoint.text, '@'), url.endpoint.text.len);
    arena_reset(&arena);
}
END_TEST

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
    "redis://a,b",
    "rediss://a",
    "redis+sentinel://a/main",
    "redis-sentinel://a/main",
    "redis+cluster://a",
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

int main(void)
{
    Suite *suite = suite_create("policy/redis_url");
    TCase *tcase = tcase_create("parse");
    tcase_add_loop_test(tcase, a_url_says_where_redis_is_and_how_to_log_in, 0,
                        (int)ARRAY_LEN(GOOD));
    tcase_add_loop_test(tcase, other_urls_are_refused_without_quoting_them, 0, (int)ARRAY_LEN(BAD));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
