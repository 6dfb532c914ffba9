#include "base/compiler.h"
#include "unit/simulation/log_support.h"

#define TIME "[23/Nov/2026:08:00:00 +0000]"

static bool read_line(char *copy, size_t len, struct log_line *line)
{
    struct log_clock clock = {.len = 0};
    return log_combined_read(copy, len, &clock, line);
}

START_TEST(a_line_says_who_when_what_and_what_came_of_it)
{
    char *copy = line_copy("192.0.2.7 - frank " TIME " \"POST /a?x=1 HTTP/1.1\" 401 17 "
                           "\"http://a.test/\" \"curl \\\"7\\\"\" \"203.0.113.9\"");
    struct log_line line;
    ck_assert(read_line(copy,
                        strlen("192.0.2.7 - frank " TIME " \"POST /a?x=1 HTTP/1.1\" 401 17 "
                               "\"http://a.test/\" \"curl \\\"7\\\"\" \"203.0.113.9\""),
                        &line));
    ck_assert_uint_eq(line.time_us, 1795420800000000);
    ck_assert_uint_eq(line.peer.family, ADDRESS_IPV4);
    ck_assert_span_eq(line.method, "POST");
    ck_assert_span_eq(line.target, "/a?x=1");
    ck_assert_uint_eq(line.status, 401);
    ck_assert_span_eq(line.headers[LOG_REFERER], "http://a.test/");
    ck_assert_span_eq(line.headers[LOG_USER_AGENT], "curl \"7\"");
    ck_assert_span_eq(line.headers[LOG_FORWARDED_FOR], "203.0.113.9");
    ck_assert_ptr_null(line.host.data);
    ck_assert(!line.has_takes);
    free(copy);
}
END_TEST

static const struct {
    const char *text;
    const char *host; /* NULL: none */
    bool has_agent;
} LINES[] = {
    {"::1 - - " TIME " \"GET / HTTP/1.1\" 200 -", NULL, false},
    {"a.test:443 192.0.2.1 - - " TIME " \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"", "a.test:443", true},
    {"192.0.2.1 - a user " TIME " \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"", NULL, false},
    {"192.0.2.1 - - " TIME " \"-\" 408 0", NULL, false},
    {"unix: - - " TIME " \"GET / HTTP/1.1\" 200 5", NULL, false},
    {"unix - - " TIME " \"GET / HTTP/1.1\" 200 5 \"-\" \"open", NULL, false},
};

START_TEST(what_may_be_missing_may_be_missing)
{
    struct log_line line;
    char *copy = line_copy(LINES[_i].text);
    const bool is_read = read_line(copy, strlen(LINES[_i].text), &line);
    if (strncmp(LINES[_i].text, "unix:", 5) == 0) {
        ck_assert(!is_read); /* that is nobody */
    } else {
        ck_assert(is_read);
        ck_assert((line.host.data != NULL) == (LINES[_i].host != NULL));
        if (LINES[_i].host != NULL) {
            ck_assert_span_eq(line.host, LINES[_i].host);
        }
        ck_assert((line.headers[LOG_USER_AGENT].data != NULL) == LINES[_i].has_agent);
    }
    free(copy);
}
END_TEST

START_TEST(a_line_that_ends_early_is_refused_wherever_it_ends)
{
    static const char TEXT[] = "192.0.2.7 - - " TIME " \"GET / HTTP/1.1\" 200 ";
    for (size_t len = 0; len < sizeof(TEXT) - 1; len++) {
        struct log_line line;
        char *copy = malloc(len + 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, TEXT, len);
        ck_assert(!read_line(copy, len, &line));
        free(copy);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trial/log_combined");
    TCase *all = tcase_create("read");
    tcase_add_test(all, a_line_says_who_when_what_and_what_came_of_it);
    tcase_add_loop_test(all, what_may_be_missing_may_be_missing, 0, (int)ARRAY_LEN(LINES));
    tcase_add_test(all, a_line_that_ends_early_is_refused_wherever_it_ends);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
