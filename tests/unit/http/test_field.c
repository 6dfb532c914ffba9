#include "http/field.h"

#include <check.h>
#include <ctype.h>
#include <stdlib.h>

#include "unit/http/span_assert.h"

static const struct {
    enum field_id id;
    char letter;
    const char *name;
} KNOWN[] = {
#define KNOWN_ROW(id, letter, name) {FIELD_##id, letter, name},
    FIELD_LIST(KNOWN_ROW)
#undef KNOWN_ROW
};

START_TEST(a_known_name_is_identified_in_any_case)
{
    char name[64];
    const size_t len = strlen(KNOWN[_i].name);

    ck_assert_int_eq(KNOWN[_i].letter, KNOWN[_i].name[0]);
    ck_assert_int_eq(field_identify(span_of_text(KNOWN[_i].name)), KNOWN[_i].id);
    for (size_t i = 0; i < len; i++) {
        name[i] = (char)toupper(KNOWN[_i].name[i]);
    }
    ck_assert_int_eq(field_identify(span_of(name, len)), KNOWN[_i].id);
    for (size_t i = 0; i < len; i++) {
        name[i] = (char)tolower(KNOWN[_i].name[i]);
    }
    ck_assert_int_eq(field_identify(span_of(name, len)), KNOWN[_i].id);
    ck_assert_span_eq(field_name(KNOWN[_i].id), KNOWN[_i].name);
}
END_TEST

START_TEST(a_name_that_differs_in_one_octet_is_another)
{
    char name[64];
    const size_t len = strlen(KNOWN[_i].name);

    for (size_t i = 0; i < len; i++) {
        memcpy(name, KNOWN[_i].name, len);
        name[i] = (char)(name[i] ^ 0x40);
        ck_assert_int_eq(field_identify(span_of(name, len)), FIELD_OTHER);
        name[i] = '_';
        ck_assert_int_eq(field_identify(span_of(name, len)), FIELD_OTHER);
    }
    ck_assert_int_eq(field_identify(span_of(KNOWN[_i].name, len - 1)), FIELD_OTHER);
}
END_TEST

START_TEST(other_names_are_others)
{
    ck_assert_int_eq(field_identify(SPAN("")), FIELD_OTHER);
    ck_assert_int_eq(field_identify(SPAN("X")), FIELD_OTHER);
    ck_assert_int_eq(field_identify(SPAN("Content-Type")), FIELD_OTHER);
    ck_assert_int_eq(field_identify(SPAN("\x08ost")), FIELD_OTHER);
    ck_assert_int_eq(field_identify(SPAN("Content-Security-Policy-Report-Only")), FIELD_OTHER);
}
END_TEST

START_TEST(a_token_is_one_tchar_at_least)
{
    ck_assert(field_is_token(SPAN("!#$%&'*+-.^_`|~aZ09")));
    ck_assert(!field_is_token(SPAN("")));
    ck_assert(!field_is_token(SPAN("a b")));
    ck_assert(!field_is_token(SPAN("a,")));
    ck_assert(!field_is_token(SPAN("\xe4")));
}
END_TEST

START_TEST(a_value_holds_no_control_but_tab_at_any_place)
{
    for (size_t len = 0; len <= 40; len++) {
        char value[40];
        memset(value, 'a', sizeof(value));
        ck_assert(field_is_value(span_of(value, len)));
        for (size_t i = 0; i < len; i++) {
            for (unsigned octet = 0; octet < 256; octet++) {
                value[i] = (char)octet;
                const bool is_good = octet == '\t' || (octet >= 0x20 && octet != 0x7f);
                ck_assert_int_eq(field_is_value(span_of(value, len)), is_good);
            }
            value[i] = i % 3 == 0 ? '\t' : '\xff';
        }
    }
}
END_TEST

static const struct {
    const char *value;
    const char *members; /* each ended by "|" */
} LISTS[] = {
    {"", ""},
    {" , ,\t,", ""},
    {"a", "a|"},
    {"a,b", "a|b|"},
    {" a\t,, b c ,", "a|b c|"},
    {"\"a,b\", c", "\"a,b\"|c|"},
    {"a=\"\\\",\";b, c", "a=\"\\\",\";b|c|"},
    {"\"open, a", "\"open, a|"},
    {"\"a\\", "\"a\\|"},
};

START_TEST(a_list_is_cut_at_commas_outside_quotes)
{
    struct span rest = span_of_text(LISTS[_i].value);
    struct span member;
    char got[128];
    size_t len = 0;

    while (field_list_next(&rest, &member)) {
        memcpy(got + len, member.data, member.len);
        len += member.len;
        got[len++] = '|';
    }
    ck_assert_span_eq(span_of(got, len), LISTS[_i].members);
    ck_assert(!field_list_next(&rest, &member));
}
END_TEST

START_TEST(a_list_has_its_members_in_any_case)
{
    ck_assert(field_list_has(SPAN("a, Close ,b"), SPAN("close")));
    ck_assert(!field_list_has(SPAN("a, closed"), SPAN("close")));
    ck_assert(!field_list_has(SPAN("\"a, close\""), SPAN("close")));
    ck_assert(!field_list_has(SPAN(""), SPAN("close")));
}
END_TEST

START_TEST(rule_20_underscores_for_hyphens_make_a_variant)
{
    ck_assert(field_is_underscore_variant(SPAN("Content_Length")));
    ck_assert(field_is_underscore_variant(SPAN("x_forwarded-for")));
    ck_assert(field_is_underscore_variant(SPAN("Script_Name")));
    ck_assert(field_is_underscore_variant(SPAN("PATH_INFO")));
    ck_assert(field_is_underscore_variant(SPAN("Client.Cert")));
    ck_assert(field_is_underscore_variant(SPAN("X.Forwarded_For")));
    static const char PUNCTUATION[] = "_.~+!'*|&^$%#`";
    for (size_t i = 0; i < sizeof(PUNCTUATION) - 1; i++) {
        char name[] = "client-cert-chain";
        name[6] = PUNCTUATION[i];
        ck_assert(field_is_underscore_variant(span_of_text(name)));
    }
    ck_assert(!field_is_underscore_variant(SPAN("Client0Cert")));
    ck_assert(!field_is_underscore_variant(SPAN("Cl+ent-Cert")));
    ck_assert(!field_is_underscore_variant(SPAN("X.Other")));
    ck_assert(!field_is_underscore_variant(SPAN("Script-Name")));
    ck_assert(!field_is_underscore_variant(SPAN("Path_Info_")));
    ck_assert(!field_is_underscore_variant(SPAN("Content-Length")));
    ck_assert(!field_is_underscore_variant(SPAN("_Content-Length")));
    ck_assert(!field_is_underscore_variant(SPAN("Ho_st")));
    ck_assert(!field_is_underscore_variant(SPAN("")));
    ck_assert(!field_is_underscore_variant(SPAN("a_name_that_is_longer_than_any_known_one")));
}
END_TEST

static Suite *field_suite(void)
{
    Suite *suite = suite_create("http/field");

    TCase *names = tcase_create("names");
    tcase_add_loop_test(names, a_known_name_is_identified_in_any_case, 0, (int)ARRAY_LEN(KNOWN));
    tcase_add_loop_test(names, a_name_that_differs_in_one_octet_is_another, 0,
                        (int)ARRAY_LEN(KNOWN));
    tcase_add_test(names, other_names_are_others);
    tcase_add_test(names, rule_20_underscores_for_hyphens_make_a_variant);
    suite_add_tcase(suite, names);

    TCase *syntax = tcase_create("syntax");
    tcase_add_test(syntax, a_token_is_one_tchar_at_least);
    tcase_add_test(syntax, a_value_holds_no_control_but_tab_at_any_place);
    tcase_add_loop_test(syntax, a_list_is_cut_at_commas_outside_quotes, 0, (int)ARRAY_LEN(LISTS));
    tcase_add_test(syntax, a_list_has_its_members_in_any_case);
    suite_add_tcase(suite, syntax);

    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(field_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
