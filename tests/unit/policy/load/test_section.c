/* The tables of the language hold what their readers count on. */

#include "policy/load/section.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "policy/load/spec.h"

/* Call @check for each field of @section and of those within; as deep as the tables are. */
static void for_each_field(const struct section *section,
                           void (*check)(const struct section *, const struct section_field *))
{
    for (size_t i = 0; i < section->n_fields; i++) {
        const struct section_field *field = &section->fields[i];
        check(section, field);
        if (field->type != NULL && field->type->kind == VALUE_SECTION) {
            for_each_field(field->type->section, check);
        }
    }
}

static void check_complete(const struct section *section, const struct section_field *field)
{
    (void)section;
    ck_assert_ptr_nonnull(field->key);
    ck_assert_msg(field->doc != NULL && field->doc[0] != '\0', "%s has no doc", field->key);
    ck_assert_msg(field->type != NULL, "%s has no type", field->key);
    ck_assert_ptr_nonnull(field->type->noun);
    ck_assert_uint_gt(field->type->bytes, 0);
}

START_TEST(each_key_has_a_type_and_a_line_for_people)
{
    for_each_field(SECTIONS_POLICY.section, check_complete);
}
END_TEST

static void check_alone(const struct section *section, const struct section_field *field)
{
    for (const struct section_field *other = section->fields; other < field; other++) {
        ck_assert_msg(strcmp(other->key, field->key) != 0, "%s stands twice", field->key);
    }
}

START_TEST(no_key_stands_twice_in_a_table)
{
    for_each_field(SECTIONS_POLICY.section, check_alone);
}
END_TEST

/* Defaults are read by the same code as the file: they must pass it. */
static void check_fallback(const struct section *section, const struct section_field *field)
{
    union {
        uint64_t aligned;
        char bytes[256];
    } out = {.aligned = 0};
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct arena arena;
    (void)section;
    if (field->fallback == NULL) {
        return;
    }
    ck_assert_int_eq(field->shape, SHAPE_ONE);
    ck_assert_int_ne(field->presence, KEY_REQUIRED);
    arena_init(&arena, NULL, 0);
    const struct value_type *type = field->type;
    const struct node node = {.text = span_of_text(field->fallback), .plain = true};
    const struct value_input input = {type, &node, node.text, &arena, &problem};
    ck_assert_uint_le(type->bytes, sizeof(out));
    if (type->kind == VALUE_SCALAR) {
        ck_assert_msg(type->parse(&input, out.bytes), "%s: %.*s", field->key,
                      SPAN_ARGS(text_span(&problem)));
    } else if (type->kind == VALUE_STRING && type->check != NULL) {
        ck_assert_msg(type->check(node.text, &problem), "%s: %.*s", field->key,
                      SPAN_ARGS(text_span(&problem)));
    }
    arena_reset(&arena);
}

START_TEST(each_default_is_a_value_of_its_type)
{
    for_each_field(SECTIONS_POLICY.section, check_fallback);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/section");
    TCase *tcase = tcase_create("tables");
    tcase_add_test(tcase, each_key_has_a_type_and_a_line_for_people);
    tcase_add_test(tcase, no_key_stands_twice_in_a_table);
    tcase_add_test(tcase, each_default_is_a_value_of_its_type);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
