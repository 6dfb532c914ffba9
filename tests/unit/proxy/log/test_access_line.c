#include "proxy/log/access_log.h"

#include <check.h>
#include <stdlib.h>

static char buffer[4096];
static struct text text;

static void set_up(void)
{
    text = text_of(buffer, sizeof(buffer));
}

static void assert_text(const char *expected)
{
    ck_assert(!text.truncated);
    ck_assert_msg(span_equals(text_span(&text), span_of_text(expected)), "%.*s",
                  SPAN_ARGS(text_span(&text)));
}

static void write_line(bool is_json)
{
    const uint8_t bytes[4] = {192, 0, 2, 1};
    const struct address address = address_of_bytes(ADDRESS_IPV4, bytes);
    struct access_line line = access_line_begin(&text, is_json, SPAN("now"));
    access_line_add_address(&line, LINE_CLIENT, &address);
    access_line_add_text(&line, LINE_PATH, SPAN("/a \"b\""));
    access_line_add_word(&line, LINE_ROUTE, SPAN("all"));
    access_line_add_number(&line, LINE_UPSTREAM_US, 12);
    access_line_add_hex(&line, LINE_ID, bytes, sizeof(bytes));
    access_line_end(&line);
}

START_TEST(one_writing_makes_either_form)
{
    write_line(false);
    assert_text("time=now client=192.0.2.1 path=\"/a \\\"b\\\"\" route=all upstream_us=12"
                " id=c0000201\n");
    set_up();
    write_line(true);
    assert_text("{\"time\":\"now\",\"client\":\"192.0.2.1\",\"path\":\"/a \\\"b\\\"\","
                "\"route\":\"all\",\"upstream_us\":12,\"id\":\"c0000201\"}\n");
}
END_TEST

START_TEST(every_key_stands_whole_in_its_place)
{
    static const char *const NAMES[] = {
#define NAME(name, key) [LINE_##name] = key,
        LINE_KEY_LIST(NAME)
#undef NAME
    };
    for (unsigned is_json = 0; is_json < 2; is_json++) {
        char expected[64];
        set_up();
        struct access_line line = access_line_begin(&text, is_json, SPAN(""));
        const size_t start = text.len;
        struct text wanted = text_of(expected, sizeof(expected));
        access_line_add_number(&line, (enum line_key)_i, 7);
        text_add(&wanted, is_json ? SPAN(",\"") : SPAN(" "));
        text_add(&wanted, span_of_text(NAMES[_i]));
        text_add(&wanted, is_json ? SPAN("\":7") : SPAN("=7"));
        ck_assert(span_equals(span_of(text.data + start, text.len - start), text_span(&wanted)));
    }
}
END_TEST

START_TEST(a_value_from_outside_is_cut)
{
    static char value[LINE_VALUE_BYTES_MAX + 1];
    memset(value, 'a', sizeof(value));
    struct access_line line = access_line_begin(&text, false, SPAN(""));
    const size_t start = text.len;
    access_line_add_text(&line, LINE_PATH, span_of(value, sizeof(value)));
    ck_assert_uint_eq(text.len - start, strlen(" path=") + LINE_VALUE_BYTES_MAX);
}
END_TEST

START_TEST(a_line_without_room_for_a_key_says_so)
{
    text = text_of(buffer, strlen("time=") + LINE_KEY_BYTES - 1);
    struct access_line line = access_line_begin(&text, false, SPAN(""));
    access_line_add_number(&line, LINE_IN, 1);
    ck_assert(text.truncated);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/access_line");
    TCase *lines = tcase_create("lines");
    tcase_add_checked_fixture(lines, set_up, NULL);
    tcase_add_test(lines, one_writing_makes_either_form);
    tcase_add_loop_test(lines, every_key_stands_whole_in_its_place, 0, LINE_FAULT + 1);
    tcase_add_test(lines, a_value_from_outside_is_cut);
    tcase_add_test(lines, a_line_without_room_for_a_key_says_so);
    suite_add_tcase(suite, lines);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
