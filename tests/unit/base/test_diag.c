#include "base/diag.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static char *printed(const struct diags *diags)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    ck_assert_ptr_nonnull(out);
    diags_print(diags, out);
    fclose(out);
    return text;
}

static void assert_printed(struct diags *diags, const char *expected)
{
    char *text = printed(diags);

    ck_assert_str_eq(text, expected);
    free(text);
    diags_close(diags);
}

START_TEST(they_are_printed_in_order_of_place)
{
    struct diags diags;

    diags_init(&diags, "policy.yaml");
    diags_add(&diags, DIAG_ERROR, 7, 3, "unknown key '%s'", "brust");
    diags_add(&diags, DIAG_WARNING, 2, 9, "first");
    diags_add(&diags, DIAG_ERROR, 7, 1, "before it");
    diags_add(&diags, DIAG_ERROR, 2, 9, "second");
    diags_add(&diags, DIAG_ERROR, 0, 0, "no routes");
    ck_assert_uint_eq(diags.n_errors, 4);
    assert_printed(&diags, "policy.yaml: error: no routes\n"
                           "policy.yaml:2:9: warning: first\n"
                           "policy.yaml:2:9: error: second\n"
                           "policy.yaml:7:1: error: before it\n"
                           "policy.yaml:7:3: error: unknown key 'brust'\n");
}
END_TEST

static void PRINTF_LIKE(4, 5)
    warn(struct diags *diags, const char *name, uint32_t line, const char *format, ...)
{
    const struct diag diag = {.severity = DIAG_WARNING, .line = line, .column = 3, .name = name};
    va_list args;
    va_start(args, format);
    diags_add_args(diags, diag, format, args);
    va_end(args);
}

START_TEST(a_warning_is_told_with_its_kind_and_can_be_dropped_by_it)
{
    struct diags diags;

    diags_init(&diags, "p");
    diags_add(&diags, DIAG_ERROR, 9, 1, "wrong");
    for (uint32_t i = 1; i <= 20; i++) {
        warn(&diags, i % 2 == 0 ? "even" : "odd", i, "number %u", (unsigned)i);
    }
    ck_assert_uint_eq(diags.n_errors, 1);
    diags_drop(&diags, "odd");
    ck_assert_uint_eq(diags.n_items, 11);
    diags_drop(&diags, "even");
    warn(&diags, "even", 2, "again");
    assert_printed(&diags, "p:2:3: warning: again [even]\n"
                           "p:9:1: error: wrong\n");
}
END_TEST

START_TEST(bytes_that_are_not_printable_are_escaped)
{
    struct diags diags;

    diags_init(&diags, "p");
    diags_add(&diags, DIAG_ERROR, 1, 1, "'%s'", "a\n\x1b[2J\xff\xc3\xa4");
    assert_printed(&diags, "p:1:1: error: 'a\\x0a\\x1b[2J\\xff\xc3\xa4'\n");
}
END_TEST

START_TEST(a_text_without_end_is_cut_between_characters)
{
    char *huge = malloc(100001);
    struct diags diags;

    for (size_t i = 0; i < 100000; i += 2) {
        memcpy(huge + i, "\xc3\xa4", 2);
    }
    huge[100000] = '\0';
    diags_init(&diags, "p");
    diags_add(&diags, DIAG_ERROR, 1, 1, "x%s", huge);
    free(huge);
    const char *text = diags.items[0].text;
    size_t len = strlen(text);
    ck_assert_uint_le(len, 1024);
    ck_assert_uint_gt(len, 1000);
    ck_assert_str_eq(text + len - 5, "\xc3\xa4\xe2\x80\xa6");
    diags_close(&diags);
}
END_TEST

START_TEST(there_is_a_most_that_one_run_tells)
{
    struct diags diags;

    diags_init(&diags, "p");
    for (uint32_t line = 1; line <= POLICY_ERRORS_MAX; line++) {
        diags_add(&diags, DIAG_ERROR, line, 1, "wrong");
    }
    ck_assert(!diags.truncated);
    ck_assert_uint_eq(diags.n_items, POLICY_ERRORS_MAX);
    diags_add(&diags, DIAG_ERROR, 1, 1, "wrong");
    ck_assert(diags.truncated);
    ck_assert_uint_eq(diags.n_items, POLICY_ERRORS_MAX);
    ck_assert_uint_eq(diags.n_errors, POLICY_ERRORS_MAX + 1);
    char *text = printed(&diags);
    ck_assert_ptr_nonnull(strstr(text, "there is more"));
    free(text);
    diags_close(&diags);
}
END_TEST

START_TEST(an_empty_list_prints_nothing_and_closes_twice)
{
    struct diags diags = {0};

    assert_printed(&diags, "");
    diags_init(&diags, "p");
    assert_printed(&diags, "");
    diags_close(&diags);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/diag");
    TCase *all = tcase_create("diags");

    tcase_add_test(all, they_are_printed_in_order_of_place);
    tcase_add_test(all, a_warning_is_told_with_its_kind_and_can_be_dropped_by_it);
    tcase_add_test(all, bytes_that_are_not_printable_are_escaped);
    tcase_add_test(all, a_text_without_end_is_cut_between_characters);
    tcase_add_test(all, there_is_a_most_that_one_run_tells);
    tcase_add_test(all, an_empty_list_prints_nothing_and_closes_twice);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
