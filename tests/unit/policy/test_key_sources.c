#include "policy/key_sources.h"

#include <check.h>
#include <regex.h>
#include <stdlib.h>

#include "policy/key.h"
#include "policy/load/value_types.h"

static struct arena arena;

static void setup(void)
{
    arena_init(&arena, NULL, 0);
}

static void teardown(void)
{
    arena_reset(&arena);
}

/* Write the source as a policy may write it. */
static void write_term(const struct key_source_row *source, struct text *text)
{
    text_add(text, source->word);
    switch (source->naming) {
    case KEY_NAMING_NONE:
    case KEY_NAMING_BITS:
        break;
    case KEY_NAMING_NUMBER:
        text_add_literal(text, ".7");
        break;
    case KEY_NAMING_NAME:
    case KEY_NAMING_FIELD:
        text_add_literal(text, ".some-name");
        break;
    case KEY_NAMING_CLAIM:
        text_add_literal(text, ".sub.\"a|b\"");
        break;
    case KEY_NAMING_POSITION:
        text_add_literal(text, "(query.Lat header.x-lon 6)");
        break;
    }
}

START_TEST(each_source_is_parsed_and_printed)
{
    char buffers[3][256];
    struct text written = text_of(buffers[0], sizeof(buffers[0]));
    struct text printed = text_of(buffers[1], sizeof(buffers[1]));
    struct text problem = text_of(buffers[2], sizeof(buffers[2]));
    struct key_part part;
    write_term(&KEY_SOURCE_ROWS[_i], &written);
    ck_assert_msg(value_parse_key_part(text_span(&written), &arena, &part, &problem), "%.*s",
                  (int)problem.len, buffers[2]);
    ck_assert_int_eq(part.terms[0].source, _i);
    key_print_term(&part.terms[0], &printed);
    ck_assert(span_equals(text_span(&printed), text_span(&written)));
}
END_TEST

START_TEST(the_schema_has_each_source)
{
    char buffer[256];
    struct text written = text_of(buffer, sizeof(buffer) - 3);
    regex_t pattern;
    ck_assert_int_eq(regcomp(&pattern, VALUE_KEY_PART.pattern, REG_EXTENDED | REG_NOSUB), 0);
    write_term(&KEY_SOURCE_ROWS[_i], &written);
    buffer[written.len] = '\0';
    ck_assert_int_eq(regexec(&pattern, buffer, 0, NULL, 0), 0);
    buffer[written.len] = ' ';
    buffer[written.len + 1] = 'x';
    buffer[written.len + 2] = '\0';
    ck_assert_int_eq(regexec(&pattern, buffer, 0, NULL, 0), REG_NOMATCH);
    regfree(&pattern);
}
END_TEST

START_TEST(the_schema_takes_no_empty_key)
{
    regex_t pattern;
    ck_assert_int_eq(regcomp(&pattern, VALUE_KEY_PART.pattern, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_int_eq(regexec(&pattern, "", 0, NULL, 0), REG_NOMATCH);
    ck_assert_int_eq(regexec(&pattern, "host |", 0, NULL, 0), REG_NOMATCH);
    regfree(&pattern);
}
END_TEST

/* Identities of two sources are never equal. */
START_TEST(each_name_is_of_one_source)
{
    for (int i = 0; i < _i; i++) {
        ck_assert(!span_equals(KEY_SOURCE_ROWS[i].name, KEY_SOURCE_ROWS[_i].name));
    }
    ck_assert_uint_gt(KEY_SOURCE_ROWS[_i].name.len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/key_sources");
    TCase *tcase = tcase_create("rows");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, each_source_is_parsed_and_printed, 0, KEY_SOURCES);
    tcase_add_loop_test(tcase, the_schema_has_each_source, 0, KEY_SOURCES);
    tcase_add_test(tcase, the_schema_takes_no_empty_key);
    tcase_add_loop_test(tcase, each_name_is_of_one_source, 0, KEY_SOURCES);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
