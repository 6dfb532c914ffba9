#include "base/span.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

START_TEST(spans_are_equal_when_their_bytes_are)
{
    ck_assert(span_equals(SPAN("abc"), SPAN("abc")));
    ck_assert(!span_equals(SPAN("abc"), SPAN("abd")));
    ck_assert(!span_equals(SPAN("abc"), SPAN("ab")));
    ck_assert(span_equals(span_of(NULL, 0), SPAN("")));
    ck_assert(!span_equals(SPAN("a\0b"), SPAN("a\0c")));
}
END_TEST

START_TEST(only_letters_of_ascii_have_case)
{
    ck_assert(span_equals_ignore_case(SPAN("Content-LENGTH"), SPAN("content-length")));
    ck_assert(span_equals_ignore_case(SPAN(""), span_of(NULL, 0)));
    ck_assert(!span_equals_ignore_case(SPAN("@[`{"), SPAN("`{@[")));
    ck_assert(!span_equals_ignore_case(SPAN("\xc3\xa4"), SPAN("\xc3\x84")));
    ck_assert(!span_equals_ignore_case(SPAN("a"), SPAN("ab")));
}
END_TEST

START_TEST(a_prefix_is_never_longer_than_the_span)
{
    ck_assert(span_starts_with(SPAN("/api/v1"), SPAN("/api")));
    ck_assert(span_starts_with(SPAN("/api"), SPAN("/api")));
    ck_assert(span_starts_with(SPAN(""), SPAN("")));
    ck_assert(!span_starts_with(SPAN("/ap"), SPAN("/api")));
    ck_assert(!span_starts_with(span_of(NULL, 0), SPAN("/")));
}
END_TEST

START_TEST(the_first_byte_is_found_or_the_end)
{
    ck_assert_uint_eq(span_find(SPAN("a:b:c"), ':'), 1);
    ck_assert_uint_eq(span_find(SPAN("abc"), ':'), 3);
    ck_assert_uint_eq(span_find(SPAN("a\0b"), '\0'), 1);
    ck_assert_uint_eq(span_find(span_of(NULL, 0), ':'), 0);
}
END_TEST

START_TEST(the_last_byte_is_found_or_the_end)
{
    ck_assert_uint_eq(span_find_last(SPAN("a:b:c"), ':'), 3);
    ck_assert_uint_eq(span_find_last(SPAN(":"), ':'), 0);
    ck_assert_uint_eq(span_find_last(SPAN("abc"), ':'), 3);
    ck_assert_uint_eq(span_find_last(span_of(NULL, 0), ':'), 0);
}
END_TEST

START_TEST(the_first_text_is_found_or_the_end)
{
    ck_assert_uint_eq(span_find_text(SPAN("a::b::c"), SPAN("::")), 1);
    ck_assert_uint_eq(span_find_text(SPAN("a:b"), SPAN("::")), 3);
    ck_assert_uint_eq(span_find_text(SPAN(":"), SPAN("::")), 1);
    ck_assert_uint_eq(span_find_text(span_of(NULL, 0), SPAN("::")), 0);
    ck_assert_uint_eq(span_find_text(span_of("a::", 2), SPAN("::")), 2);
}
END_TEST

START_TEST(bytes_beyond_letters_digits_and_the_named_ones_are_others)
{
    ck_assert(span_has_only(SPAN("aZ09._-"), "._-"));
    ck_assert(span_has_only(span_of(NULL, 0), ""));
    ck_assert(!span_has_only(SPAN("a b"), "._-"));
    ck_assert(!span_has_only(SPAN("a-b"), ""));
    ck_assert(!span_has_only(SPAN("a\0"), "._-"));
    ck_assert(!span_has_only(SPAN("\xc3\xa9"), "._-"));
}
END_TEST

START_TEST(the_rest_of_a_span_is_what_is_behind_the_bytes)
{
    ck_assert(span_equals(span_from(SPAN("abc"), 1), SPAN("bc")));
    ck_assert_uint_eq(span_from(SPAN("abc"), 3).len, 0);
}
END_TEST

START_TEST(spaces_and_tabs_go_from_both_ends_only)
{
    ck_assert(span_equals(span_trim(SPAN(" \t a b\t ")), SPAN("a b")));
    ck_assert(span_equals(span_trim(SPAN("a\n")), SPAN("a\n")));
    ck_assert_uint_eq(span_trim(SPAN(" \t ")).len, 0);
    ck_assert_uint_eq(span_trim(span_of(NULL, 0)).len, 0);
}
END_TEST

START_TEST(splitting_yields_every_piece_once)
{
    static const char *const PIECES[] = {"a", "", "b", ""};
    struct span rest = SPAN("a,,b,");
    struct span piece;

    for (size_t i = 0; i < 4; i++) {
        ck_assert(span_split(&rest, ',', &piece));
        ck_assert(span_equals(piece, span_of_text(PIECES[i])));
    }
    ck_assert(!span_split(&rest, ',', &piece));
}
END_TEST

START_TEST(an_empty_text_is_one_empty_piece_and_no_text_none)
{
    struct span rest = SPAN("");
    struct span piece = SPAN("x");

    ck_assert(span_split(&rest, ',', &piece));
    ck_assert_uint_eq(piece.len, 0);
    ck_assert(!span_split(&rest, ',', &piece));
}
END_TEST

static const struct {
    const char *text;
    uint64_t max;
    bool ok;
    uint64_t value;
} NUMBERS[] = {
    {"0", 0, true, 0},
    {"1", 0, false, 0},
    {"9", 5, false, 0},
    {"007", 7, true, 7},
    {"65535", 65535, true, 65535},
    {"65536", 65535, false, 0},
    {"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
    {"18446744073709551616", UINT64_MAX, false, 0},
    {"99999999999999999999", UINT64_MAX, false, 0},
    {"", 9, false, 0},
    {"+1", 9, false, 0},
    {"-1", 9, false, 0},
    {" 1", 9, false, 0},
    {"1 ", 9, false, 0},
    {"0x1", 9, false, 0},
};

START_TEST(a_number_is_digits_up_to_the_maximum)
{
    uint64_t value = 77;

    ck_assert_msg(span_to_u64(span_of_text(NUMBERS[_i].text), NUMBERS[_i].max, &value) ==
                      NUMBERS[_i].ok,
                  "%s", NUMBERS[_i].text);
    ck_assert_uint_eq(value, NUMBERS[_i].ok ? NUMBERS[_i].value : 77);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/span");
    TCase *all = tcase_create("span");

    tcase_add_test(all, spans_are_equal_when_their_bytes_are);
    tcase_add_test(all, only_letters_of_ascii_have_case);
    tcase_add_test(all, a_prefix_is_never_longer_than_the_span);
    tcase_add_test(all, the_first_byte_is_found_or_the_end);
    tcase_add_test(all, the_last_byte_is_found_or_the_end);
    tcase_add_test(all, the_first_text_is_found_or_the_end);
    tcase_add_test(all, bytes_beyond_letters_digits_and_the_named_ones_are_others);
    tcase_add_test(all, the_rest_of_a_span_is_what_is_behind_the_bytes);
    tcase_add_test(all, spaces_and_tabs_go_from_both_ends_only);
    tcase_add_test(all, splitting_yields_every_piece_once);
    tcase_add_test(all, an_empty_text_is_one_empty_piece_and_no_text_none);
    tcase_add_loop_test(all, a_number_is_digits_up_to_the_maximum, 0, ARRAY_LEN(NUMBERS));
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
