#include "base/compiler.h"
#include "unit/simulation/log_support.h"

static const struct {
    const char *text;
    uint64_t us;
} TIMES[] = {
    {"10/Oct/2000:13:55:36 -0700", 971211336000000},
    {"23/Nov/2026:08:00:00 +0000", 1795420800000000},
    {"2026-11-23T08:00:00.5Z", 1795420800500000},
    {"1795420800", 1795420800000000},
    {"1795420800.25", 1795420800250000},
    {"1795420800250", 1795420800250000},
    {"1795420800250.5", 1795420800250500},
    {"1795420800250001", 1795420800250001},
    {"1795420800250001999", 1795420800250001},
    {"0", 0},
};

START_TEST(a_time_is_read_in_every_notation)
{
    struct log_clock clock = {.len = 0};
    uint64_t us = 7;
    ck_assert(log_time_read(span_of_text(TIMES[_i].text), &clock, &us));
    ck_assert_uint_eq(us, TIMES[_i].us);
    us = 7;
    ck_assert(log_time_read(span_of_text(TIMES[_i].text), &clock, &us)); /* remembered */
    ck_assert_uint_eq(us, TIMES[_i].us);
}
END_TEST

static const char *const NO_TIMES[] = {
    "",
    "-",
    "yesterday",
    "-5",
    "1e9",
    "1.2.3",
    "10/Foo/2000:13:55:36 -0700",
    "10/Oct/2000:13:55:36 0700",
    "10/Oct/2000:13:55:36",
    "32/Oct/2000:13:55:36 -0700",
    "18446744073709551616",
};

START_TEST(what_is_no_time_is_refused)
{
    struct log_clock clock = {.len = 0};
    uint64_t us = 7;
    ck_assert(!log_time_read(span_of_text(NO_TIMES[_i]), &clock, &us));
}
END_TEST

START_TEST(a_length_keeps_what_is_a_us_and_more)
{
    uint64_t us = 0;
    ck_assert(log_length_read(SPAN("1.5"), 1000000000, &us));
    ck_assert_uint_eq(us, 1500000);
    ck_assert(log_length_read(SPAN("0.0000019"), 1000000000, &us));
    ck_assert_uint_eq(us, 1);
    ck_assert(log_length_read(SPAN("2500"), 1, &us));
    ck_assert_uint_eq(us, 2);
    ck_assert(log_length_read(SPAN("3."), 1000, &us));
    ck_assert_uint_eq(us, 3);
    ck_assert(!log_length_read(SPAN("-1"), 1000, &us));
    ck_assert(!log_length_read(SPAN("18446744073709551615"), 1000, &us));
    ck_assert(!log_length_read(SPAN("1.x"), 1000, &us));
}
END_TEST

static const struct {
    const char *request;
    const char *method; /* empty: it is none */
    const char *target;
} REQUESTS[] = {
    {"GET / HTTP/1.1", "GET", "/"},
    {"GET /a b HTTP/1.0", "GET", "/a b"},
    {"OPTIONS * HTTP/1.1", "OPTIONS", "*"},
    {"GET  HTTP/1.1", "", ""},
    {"GET /", "", ""},
    {"GET", "", ""},
    {"-", "", ""},
    {"", "", ""},
    {" HTTP/1.1", "", ""},
    {"GET / HTTPS/1.1", "", ""},
};

START_TEST(a_request_line_has_three_parts)
{
    struct log_line line = {.status = 0};
    log_request_split(span_of_text(REQUESTS[_i].request), &line);
    ck_assert_span_eq(line.method, REQUESTS[_i].method);
    ck_assert_span_eq(line.target, REQUESTS[_i].target);
}
END_TEST

static const struct {
    const char *quoted; /* behind its first quote */
    const char *text;
    size_t taken;
} QUOTED[] = {
    {"plain\" rest", "plain", 6},
    {"\"", "", 1},
    {"a\\\"b\\\\\"", "a\"b\\", 7},
    {"\\x41\\x4g\\n\"", "A\\x4g\n", 11},
    {"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac", 19},
    {"\\u12\\q\"", "\\u12\\q", 7},
};

START_TEST(escapes_are_undone_in_place)
{
    char *copy = line_copy(QUOTED[_i].quoted);
    char *at = copy;
    struct span text;
    ck_assert(log_quoted_read(&at, copy + strlen(QUOTED[_i].quoted), true, &text));
    ck_assert_span_eq(text, QUOTED[_i].text);
    ck_assert_uint_eq((size_t)(at - copy), QUOTED[_i].taken);
    free(copy);
}
END_TEST

static const char *const OPEN[] = {"", "open", "open\\\"", "open\\"};

START_TEST(quotes_that_stay_open_are_refused)
{
    char *copy = line_copy(OPEN[_i]);
    char *at = copy;
    struct span text;
    ck_assert(!log_quoted_read(&at, copy + strlen(OPEN[_i]), true, &text));
    free(copy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trial/log_text");
    TCase *all = tcase_create("text");
    tcase_add_loop_test(all, a_time_is_read_in_every_notation, 0, (int)ARRAY_LEN(TIMES));
    tcase_add_loop_test(all, what_is_no_time_is_refused, 0, (int)ARRAY_LEN(NO_TIMES));
    tcase_add_test(all, a_length_keeps_what_is_a_us_and_more);
    tcase_add_loop_test(all, a_request_line_has_three_parts, 0, (int)ARRAY_LEN(REQUESTS));
    tcase_add_loop_test(all, escapes_are_undone_in_place, 0, (int)ARRAY_LEN(QUOTED));
    tcase_add_loop_test(all, quotes_that_stay_open_are_refused, 0, (int)ARRAY_LEN(OPEN));
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
