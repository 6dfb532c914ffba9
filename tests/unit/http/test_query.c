#include "http/values.h"

#include <check.h>
#include <stdlib.h>

#include "unit/http/span_assert.h"

static const struct {
    const char *query;
    const char *name;
    const char *value; /* NULL: not there */
} CASES[] = {
    {"", "a", NULL},
    {"a", "a", ""},
    {"a=", "a", ""},
    {"a=1", "a", "1"},
    {"b=2&a=1", "a", "1"},
    {"a=1&a=2", "a", "1"},
    {"a=1=2", "a", "1=2"},
    {"&&a=1&", "a", "1"},
    {"aa=1", "a", NULL},
    {"A=1", "a", NULL},
    {"a%3d=1", "a=", "1"},
    {"%61%70%69=key", "api", "key"},
    {"a+b=c+d%2B", "a b", "c d+"},
    {"a=%zz%4", "a", "%zz%4"},
    {"a=%26b=3", "a", "&b=3"},
    {"a=%00%ff", "b", NULL},
    {"=1", "", "1"},
};

START_TEST(a_value_is_found_by_its_decoded_name)
{
    char buffer[32];
    struct span value;
    const bool found = query_find(span_of_text(CASES[_i].query), span_of_text(CASES[_i].name),
                                  buffer, sizeof(buffer), &value);

    ck_assert_int_eq(found, CASES[_i].value != NULL);
    if (found) {
        ck_assert_span_eq(value, CASES[_i].value);
    }
}
END_TEST

START_TEST(what_does_not_fit_is_cut)
{
    char buffer[3];
    struct span value;

    ck_assert(query_find(SPAN("a=1%32345"), SPAN("a"), buffer, sizeof(buffer), &value));
    ck_assert_span_eq(value, "123");
    ck_assert(query_find(SPAN("a=1"), SPAN("a"), buffer, 0, &value));
    ck_assert_uint_eq(value.len, 0);
}
END_TEST

START_TEST(no_query_has_nothing)
{
    struct span value;
    ck_assert(!query_find(span_of(NULL, 0), SPAN("a"), NULL, 0, &value));
}
END_TEST

static Suite *query_suite(void)
{
    Suite *suite = suite_create("http/query");

    TCase *find = tcase_create("find");
    tcase_add_loop_test(find, a_value_is_found_by_its_decoded_name, 0, (int)ARRAY_LEN(CASES));
    tcase_add_test(find, what_does_not_fit_is_cut);
    tcase_add_test(find, no_query_has_nothing);
    suite_add_tcase(suite, find);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(query_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
