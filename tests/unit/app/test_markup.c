#include "app/command.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum { TEXT_BYTES_MAX = 8192 };

static char text[TEXT_BYTES_MAX];
static size_t text_bytes;

static void set_up(void)
{
    text_bytes = 0;
}

static void append(const char *what, size_t times)
{
    const size_t len = strlen(what);
    for (size_t i = 0; i < times; i++) {
        ck_assert_uint_le(text_bytes + len, sizeof(text));
        memcpy(text + text_bytes, what, len);
        text_bytes += len;
    }
}

/* What is printed of `text`; the caller frees it. */
static char *print(void)
{
    char *printed = NULL;
    size_t printed_bytes;
    FILE *out = open_memstream(&printed, &printed_bytes);
    ck_assert_ptr_nonnull(out);
    markup_print_text(out, span_of(text, text_bytes));
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_uint_eq(strlen(printed), printed_bytes);
    return printed;
}

/* @printed starts with @what so many times; what follows that. */
static const char *take(const char *printed, const char *what, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        ck_assert_msg(strncmp(printed, what, strlen(what)) == 0, "%zu of %zu: not '%s' in '%.40s'",
                      i, times, what, printed);
        printed += strlen(what);
    }
    return printed;
}

static void assert_printed(const char *shown, size_t times)
{
    char *printed = print();
    ck_assert_str_eq(take(printed, shown, times), "");
    free(printed);
}

START_TEST(what_markup_would_read_is_escaped)
{
    append("<a b=\"c\">&'", 1);
    assert_printed("&lt;a b=&quot;c&quot;&gt;&amp;&#39;", 1);
}
END_TEST

START_TEST(of_no_text_nothing_is_printed)
{
    assert_printed("", 0);
}
END_TEST

static const struct {
    const char *raw;
    const char *shown;
    size_t times;
} LONG[] = {
    {"a", "a", 4097},        {"\x01", "\\x01", 1025}, {"\x01", "\\x01", 4097},
    {"&", "&amp;", 4097},    {"\x80", "\\x80", 4097}, /* as inside a character, but in none */
    {"\xff", "\\xff", 4097},
};

START_TEST(long_text_is_whole)
{
    append(LONG[_i].raw, LONG[_i].times);
    assert_printed(LONG[_i].shown, LONG[_i].times);
}
END_TEST

static const char *const CHARACTERS[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x8c"};

START_TEST(a_character_stays_whole_wherever_it_begins)
{
    for (size_t n_before = 0; n_before < 8; n_before++) {
        set_up();
        append("a", n_before);
        append(CHARACTERS[_i], 2000);
        char *printed = print();
        const char *rest = take(printed, "a", n_before);
        ck_assert_str_eq(take(rest, CHARACTERS[_i], 2000), "");
        free(printed);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("app/markup");
    TCase *printing = tcase_create("printing");

    tcase_add_checked_fixture(printing, set_up, NULL);
    tcase_add_test(printing, what_markup_would_read_is_escaped);
    tcase_add_test(printing, of_no_text_nothing_is_printed);
    tcase_add_loop_test(printing, long_text_is_whole, 0, ARRAY_LEN(LONG));
    tcase_add_loop_test(printing, a_character_stays_whole_wherever_it_begins, 0,
                        ARRAY_LEN(CHARACTERS));
    suite_add_tcase(suite, printing);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
