#include "http/octet.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool is_in(const char *list, unsigned octet)
{
    return octet != 0 && octet < 0x80 && strchr(list, (int)octet) != NULL;
}

#define ALNUM "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

START_TEST(each_class_is_what_its_rfc_lists)
{
    for (unsigned octet = 0; octet < 256; octet++) {
        const char c = (char)octet;
        const bool is_visible = octet > 0x20 && octet < 0x7f;
        ck_assert_int_eq(octet_is(c, OCTET_TCHAR), is_in(ALNUM "!#$%&'*+-.^_`|~", octet));
        ck_assert_int_eq(octet_is(c, OCTET_TARGET), is_visible && octet != '#');
        ck_assert_int_eq(octet_is(c, OCTET_VALUE),
                         is_visible || octet == ' ' || octet == '\t' || octet >= 0x80);
        ck_assert_int_eq(octet_is(c, OCTET_UNRESERVED), is_in(ALNUM "-._~", octet));
        ck_assert_int_eq(octet_is(c, OCTET_HOST), is_in(ALNUM "-_~", octet));
        ck_assert_int_eq(octet_is(c, OCTET_HEX), is_in("0123456789abcdefABCDEF", octet));
        ck_assert_int_eq(octet_is(c, OCTET_PLAIN), is_visible && !is_in("#%/;?\\", octet));
    }
}
END_TEST

START_TEST(hex_digits_have_their_value_in_either_case)
{
    for (unsigned value = 0; value < 16; value++) {
        ck_assert_uint_eq(octet_hex_value("0123456789abcdef"[value]), value);
        ck_assert_uint_eq(octet_hex_value("0123456789ABCDEF"[value]), value);
    }
}
END_TEST

/* Lines of @len octets in memory of their own, with colons from @first on; @first == @len: none. */
static void check_colon(size_t len, size_t first)
{
    char *line = malloc(len + 2);
    ck_assert_ptr_nonnull(line);
    memset(line, 'a', len);
    memset(line + first, ':', len - first);
    memcpy(line + len, "\r\n", 2);
    ck_assert_uint_eq(octet_find_colon(span_of(line, len)), first);
    free(line);
}

START_TEST(the_first_colon_of_a_line_is_found)
{
    for (size_t len = 0; len <= 40; len++) {
        for (size_t first = 0; first <= len; first++) {
            check_colon(len, first);
        }
    }
}
END_TEST

/* Whether the first @n octets of a line of @len, which has @octet at @at and letters elsewhere, are
 * said to be letters. */
static bool are_letters(size_t len, size_t n, size_t at, unsigned octet)
{
    char *line = malloc(len + 2);
    ck_assert_ptr_nonnull(line);
    memset(line, 'q', len);
    line[at] = (char)octet;
    memcpy(line + len, "\r\n", 2);
    const bool result = octet_are_letters(span_of(line, len), n);
    free(line);
    return result;
}

START_TEST(names_of_letters_and_hyphens_are_told_from_others)
{
    for (size_t n = 1; n <= 16; n++) {
        for (size_t at = 0; at <= n; at++) {
            for (unsigned octet = 0; octet < 256; octet++) {
                const bool is_letter = is_in("ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "abcdefghijklmnopqrstuvwxyz-",
                                             octet);
#ifdef __SSE2__
                ck_assert_int_eq(are_letters(20, n, at, octet), at == n || is_letter);
#endif
                ck_assert(at == n || is_letter || !are_letters(20, n, at, octet));
            }
        }
    }
}
END_TEST

START_TEST(where_letters_cannot_be_told_quickly_the_answer_is_no)
{
    ck_assert(!are_letters(20, 0, 0, 'a'));
    ck_assert(!are_letters(20, 17, 0, 'a'));
    ck_assert(!are_letters(13, 4, 0, 'a'));
}
END_TEST

static Suite *octet_suite(void)
{
    Suite *suite = suite_create("http/octet");

    TCase *classes = tcase_create("classes");
    tcase_add_test(classes, each_class_is_what_its_rfc_lists);
    tcase_add_test(classes, hex_digits_have_their_value_in_either_case);
    tcase_add_test(classes, the_first_colon_of_a_line_is_found);
    tcase_add_test(classes, names_of_letters_and_hyphens_are_told_from_others);
    tcase_add_test(classes, where_letters_cannot_be_told_quickly_the_answer_is_no);
    suite_add_tcase(suite, classes);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(octet_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
