#include "policy/load/loader_yaml.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

static const char *lookup(const char *name)
{
    if (strcmp(name, "NAME") == 0) {
        return "value";
    }
    if (strcmp(name, "EMPTY") == 0) {
        return "";
    }
    return strcmp(name, "TRICK") == 0 ? "${NAME}" : NULL;
}

static struct arena arena;
static char problem_bytes[512];
static struct text problem;

static bool expand(const char *text, size_t room, struct span *value, bool *secret)
{
    problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct environment environment = {.lookup = lookup, .arena = &arena, .room = room};
    return environment_expand(&environment, span_of_text(text), value, secret, &problem);
}

static const struct {
    const char *text;
    const char *value;
    bool secret;
} GOOD[] = {
    {"plain", "plain", false},
    {"", "", false},
    {"${NAME}", "value", true},
    {"a${NAME}b${NAME}", "avaluebvalue", true},
    {"${NAME:-other}", "value", true},
    {"${UNSET:-other}", "other", false},
    {"${EMPTY:-other}", "other", false},
    {"${EMPTY}", "", true},
    {"${UNSET:-}", "", false},
    {"${UNSET:-a:-b$c}", "a:-b$c", false},
    {"$$", "$", false},
    {"$${NAME}", "${NAME}", false},
    {"$$$$", "$$", false},
    {"${TRICK}", "${NAME}", true}, /* once */
};

START_TEST(values_are_expanded_once)
{
    struct span value;
    bool secret = false;
    arena_init(&arena, NULL, 0);
    ck_assert_msg(expand(GOOD[_i].text, 100, &value, &secret), "%s", GOOD[_i].text);
    ck_assert_msg(span_equals(value, span_of_text(GOOD[_i].value)), "%s: %.*s", GOOD[_i].text,
                  SPAN_ARGS(value));
    ck_assert_int_eq(secret, GOOD[_i].secret);
    arena_reset(&arena);
}
END_TEST

static const char *const BAD[] = {
    "$",     "$NAME",  "a$",       "${",     "${NAME",        "${}",
    "${1A}", "${A B}", "${UNSET}", "${:-a}", "${NAME:other}", "${NAME-other}"};

START_TEST(what_is_no_reference_is_an_error)
{
    struct span value;
    bool secret = false;
    arena_init(&arena, NULL, 0);
    ck_assert_msg(!expand(BAD[_i], 100, &value, &secret), "%s", BAD[_i]);
    ck_assert_uint_gt(problem.len, 0);
    arena_reset(&arena);
}
END_TEST

START_TEST(an_unset_name_is_named)
{
    struct span value;
    bool secret = false;
    arena_init(&arena, NULL, 0);
    ck_assert(!expand("x${UNSET}", 100, &value, &secret));
    ck_assert(
        span_equals(text_span(&problem), SPAN("the environment has no UNSET; set it, or write "
                                              "${UNSET:-a default}")));
    arena_reset(&arena);
}
END_TEST

START_TEST(no_more_is_written_than_there_is_room)
{
    struct span value;
    bool secret = false;
    arena_init(&arena, NULL, 0);
    ck_assert(expand("${NAME}", 5, &value, &secret));
    ck_assert(!expand("${NAME}", 4, &value, &secret));
    arena_reset(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/environment");
    TCase *tcase = tcase_create("expand");
    tcase_add_loop_test(tcase, values_are_expanded_once, 0, (int)ARRAY_LEN(GOOD));
    tcase_add_loop_test(tcase, what_is_no_reference_is_an_error, 0, (int)ARRAY_LEN(BAD));
    tcase_add_test(tcase, an_unset_name_is_named);
    tcase_add_test(tcase, no_more_is_written_than_there_is_room);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
