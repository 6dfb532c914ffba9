#include "base/compiler.h"
#include "unit/simulation/log_support.h"

static struct log_fields fields;

static void set_up(void)
{
    log_fields_init(&fields);
    ck_assert_ptr_null(log_fields_add(&fields, SPAN("header.X-Key"), SPAN("a.key")));
    ck_assert_ptr_null(log_fields_add(&fields, SPAN("cost"), SPAN("tokens")));
}

static bool read_text(const char *text, struct log_line *line, char **copy)
{
    struct log_clock clock = {.len = 0};
    *copy = line_copy(text);
    return text[0] == '{' ? log_json_read(*copy, strlen(text), &fields, &clock, line)
                          : log_logfmt_read(*copy, strlen(text), &fields, &clock, line);
}

START_TEST(members_of_objects_are_known_by_their_path)
{
    struct log_line line;
    char *copy;
    ck_assert(
        read_text("{ \"ts\" : 1795420800.5, \"request\": {\"remote_ip\":\"192.0.2.1\", "
                  "\"method\":\"GET\",\"uri\":\"/a\\u0022b\",\"headers\":{\"X\":[\"]\",{}]}},"
                  "\"a\":{\"b\":{\"key\":\"no\"},\"key\":\"yes\"},\"key\":\"no\",\"tokens\":7,"
                  "\"duration\":0.5,\"status\":204, \"empty\":{}}",
                  &line, &copy));
    ck_assert_uint_eq(line.time_us, 1795420800000000); /* it ended half a second later */
    ck_assert_uint_eq(line.takes_us, 500000);
    ck_assert_span_eq(line.target, "/a\"b");
    ck_assert_span_eq(line.headers[3], "yes");
    ck_assert_span_eq(line.cost, "7");
    ck_assert_uint_eq(line.status, 204);
    free(copy);
}
END_TEST

START_TEST(of_several_names_for_one_thing_the_operators_then_the_first_counts)
{
    struct log_line line;
    char *copy;
    ck_assert(read_text("{\"time_local\":1,\"time\":1795420800,\"remote_ip\":\"192.0.2.2\","
                        "\"client\":\"192.0.2.1\",\"path\":\"/path\",\"request_uri\":\"/uri\"}",
                        &line, &copy));
    ck_assert_uint_eq(line.time_us, 1795420800000000);
    ck_assert_uint_eq(line.peer.bytes[3], 1);
    ck_assert_span_eq(line.target, "/uri");
    free(copy);
    ck_assert_ptr_null(log_fields_add(&fields, SPAN("path"), SPAN("path")));
    ck_assert(
        read_text("time=1795420800 client=192.0.2.1 request_uri=/uri path=/path", &line, &copy));
    ck_assert_span_eq(line.target, "/path");
    free(copy);
}
END_TEST

START_TEST(logfmt_has_quotes_and_keys_without_values)
{
    struct log_line line;
    char *copy;
    ck_assert(
        read_text("time=2026-11-23T08:00:00Z flag level= client=\"192.0.2.1\" path=\"/a \\\"b\" "
                  "us=250 status=0",
                  &line, &copy));
    ck_assert_span_eq(line.target, "/a \"b");
    ck_assert_uint_eq(line.time_us, 1795420799999750);
    free(copy);
}
END_TEST

static const char *const WRONG[] = {
    "{}",
    "{\"time\":1795420800}",
    "{\"client\":\"192.0.2.1\"}",
    "{\"time\":1795420800,\"client\":\"a.test\"}",
    "{\"time\":\"never\",\"client\":\"192.0.2.1\"}",
    "{\"time\":null,\"client\":\"192.0.2.1\"}",
    "{\"time\":1795420800,\"client\":\"192.0.2.1\"",
    "{\"time\":1795420800,\"client\":\"192.0.2.1\"} x",
    "{\"time\":1795420800 \"client\":\"192.0.2.1\"}",
    "{\"time\":1795420800,\"client\":\"192.0.2.1\",}",
    "{\"time\":1795420800,\"client\":\"192.0.2.1\",\"a\":[1}",
    "{\"time\":1795420800,\"client\":\"192.0.2.1\",\"a\":}",
    ("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}},"
     "\"time\":1795420800,\"client\":\"192.0.2.1\"}"),
    "time=1795420800",
    "time=x client=192.0.2.1",
};

START_TEST(what_says_neither_when_nor_who_is_refused)
{
    struct log_line line;
    char *copy;
    ck_assert(!read_text(WRONG[_i], &line, &copy));
    free(copy);
}
END_TEST

START_TEST(names_that_mean_nothing_are_refused)
{
    ck_assert_ptr_nonnull(log_fields_add(&fields, SPAN("who"), SPAN("x")));
    ck_assert_ptr_nonnull(log_fields_add(&fields, SPAN("header."), SPAN("x")));
    ck_assert_ptr_nonnull(log_fields_add(&fields, SPAN("time"), SPAN("")));
    static const char *const MORE[] = {"header.a", "header.b", "header.c", "header.d"};
    for (size_t i = 0; i < ARRAY_LEN(MORE); i++) {
        ck_assert_ptr_null(log_fields_add(&fields, span_of_text(MORE[i]), SPAN("x")));
    }
    ck_assert_ptr_nonnull(log_fields_add(&fields, SPAN("header.z"), SPAN("x")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trial/log_json");
    TCase *all = tcase_create("read");
    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_test(all, members_of_objects_are_known_by_their_path);
    tcase_add_test(all, of_several_names_for_one_thing_the_operators_then_the_first_counts);
    tcase_add_test(all, logfmt_has_quotes_and_keys_without_values);
    tcase_add_loop_test(all, what_says_neither_when_nor_who_is_refused, 0, (int)ARRAY_LEN(WRONG));
    tcase_add_test(all, names_that_mean_nothing_are_refused);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
