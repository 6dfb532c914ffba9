#include "base/diag.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

/* What is suggested for each word; "" for nothing. */
static const struct {
    const char *wanted;
    const char *words[4];
    const char *best;
} CASES[] = {
    {"brust", {"key", "rate", "burst"}, "burst"},    /* two letters swapped */
    {"minit", {"min", "minute", "month"}, "minute"}, /* equally near: of nearer length */
    {"RATE", {"rate", "key"}, "rate"},               /* case is no edit */
    {"alow", {"local", "allow", "deny"}, "allow"},   /* a letter missing */
    {"listeen", {"listen"}, "listen"},               /* a letter too many */
    {"colour", {"listen", "routes"}, ""},            /* nothing is near */
    {"a", {"b"}, ""},                                /* all of a word changed is another word */
    {"", {"rate"}, ""},
};

START_TEST(the_nearest_word_is_suggested)
{
    char buffer[128];
    struct text text = text_of(buffer, sizeof(buffer));
    struct suggest suggest;
    suggest_init(&suggest, span_of_text(CASES[_i].wanted));
    for (size_t i = 0; CASES[_i].words[i] != NULL; i++) {
        suggest_offer(&suggest, span_of_text(CASES[_i].words[i]));
    }
    ck_assert_msg(span_equals(suggest.best, span_of_text(CASES[_i].best)), "%s: %.*s",
                  CASES[_i].wanted, SPAN_ARGS(suggest.best));
    suggest_write(&suggest, &text);
    ck_assert(span_starts_with(text_span(&text), SPAN("; did you mean \"")) ==
              (CASES[_i].best[0] != '\0'));
}
END_TEST

START_TEST(a_word_of_any_length_is_taken)
{
    static char lengthy[4096];
    struct suggest suggest;
    memset(lengthy, 'a', sizeof(lengthy));
    suggest_init(&suggest, span_of(lengthy, sizeof(lengthy)));
    suggest_offer(&suggest, span_of(lengthy, sizeof(lengthy)));
    suggest_offer(&suggest, SPAN("rate"));
    ck_assert_uint_eq(suggest.best.len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/suggest");
    TCase *tcase = tcase_create("suggest");
    tcase_add_loop_test(tcase, the_nearest_word_is_suggested, 0, (int)ARRAY_LEN(CASES));
    tcase_add_test(tcase, a_word_of_any_length_is_taken);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
