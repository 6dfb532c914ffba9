#include "policy/edits.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/text.h"

/* What stands before each value, and the value by its letter; what follows the last one. */
static const struct {
    const char *text;
    const char *parts;
} TEXTS[] = {
    {"", "|"},
    {"plain", "|plain"},
    {"{limit}", "<L|"},
    {"at {limit}, wait {wait} s", "at <L, wait <W| s"},
    {"{limit}{wait}{request_id}", "<L<W<R|"},
    {"{\"id\":\"{request_id}\"}", "{\"id\":\"<R|\"}"},
    {"{unknown}", "<?|"},
    {"{{limit}}", "{<L|}"},
    {"{ limit}", "|{ limit}"},
    {"{limit }", "|{limit }"},
    {"{Limit}", "|{Limit}"},
    {"{}", "|{}"},
    {"}{", "|}{"},
    {"{limit", "|{limit"},
    {"a{b{wait}c", "a{b<W|c"},
};

START_TEST(a_text_is_parted_at_its_values)
{
    static const char LETTERS[] = "LWR?";
    char buffer[128];
    struct text parts = text_of(buffer, sizeof(buffer));
    struct span rest = span_of_text(TEXTS[_i].text);
    struct span before;
    enum reply_value value;
    while (reply_next_value(&rest, &before, &value)) {
        text_add(&parts, before);
        text_add_format(&parts, "<%c", LETTERS[value]);
    }
    text_add_literal(&parts, "|");
    text_add(&parts, before);
    ck_assert(span_equals(text_span(&parts), span_of_text(TEXTS[_i].parts)));
    ck_assert_uint_eq(rest.len, 0);
}
END_TEST

START_TEST(bytes_of_any_value_may_stand_in_a_text)
{
    struct span rest = {"\0{wait}\xff\0", 9};
    struct span before;
    enum reply_value value;
    ck_assert(reply_next_value(&rest, &before, &value));
    ck_assert_uint_eq(before.len, 1);
    ck_assert_int_eq(value, REPLY_VALUE_WAIT);
    ck_assert(!reply_next_value(&rest, &before, &value));
    ck_assert_uint_eq(before.len, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/reply_spec");
    TCase *tcase = tcase_create("values");
    tcase_add_loop_test(tcase, a_text_is_parted_at_its_values, 0, ARRAY_LEN(TEXTS));
    tcase_add_test(tcase, bytes_of_any_value_may_stand_in_a_text);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
