#include "policy/units.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

#define SECOND UINT64_C(1000000)

static const struct {
    const char *text;
    uint32_t units;
    uint64_t period_us;
    const char *name;
    enum rate_calendar calendar;
} GOOD[] = {
    {"10/s", 10, SECOND, "1s", RATE_CALENDAR_NONE},
    {"10/sec", 10, SECOND, "1s", RATE_CALENDAR_NONE},
    {"10/second", 10, SECOND, "1s", RATE_CALENDAR_NONE},
    {"100/m", 100, 60 * SECOND, "1m", RATE_CALENDAR_NONE},
    {"100/min", 100, 60 * SECOND, "1m", RATE_CALENDAR_NONE},
    {"100/minute", 100, 60 * SECOND, "1m", RATE_CALENDAR_NONE},
    {"1/h", 1, 3600 * SECOND, "1h", RATE_CALENDAR_NONE},
    {"1/hour", 1, 3600 * SECOND, "1h", RATE_CALENDAR_NONE},
    {"1/d", 1, 86400 * SECOND, "1d", RATE_CALENDAR_DAY},
    {"1/day", 1, 86400 * SECOND, "1d", RATE_CALENDAR_DAY},
    {"1/w", 1, 604800 * SECOND, "1w", RATE_CALENDAR_WEEK},
    {"1/week", 1, 604800 * SECOND, "1w", RATE_CALENDAR_WEEK},
    {"1/mo", 1, 30 * 86400 * SECOND, "1mo", RATE_CALENDAR_MONTH},
    {"1/month", 1, 30 * 86400 * SECOND, "1mo", RATE_CALENDAR_MONTH},
    {"5/10s", 5, 10 * SECOND, "10s", RATE_CALENDAR_NONE},
    {"5/500ms", 5, SECOND / 2, "500ms", RATE_CALENDAR_NONE},
    {"5/1h30m", 5, 5400 * SECOND, "1h30m", RATE_CALENDAR_NONE},
    {"100 / minute", 100, 60 * SECOND, "1m", RATE_CALENDAR_NONE},
    {"1/24h", 1, 86400 * SECOND, "24h", RATE_CALENDAR_NONE},
    {"7", 7, 0, "", RATE_CALENDAR_NONE},
    {"4294967295/s", UINT32_MAX, SECOND, "1s", RATE_CALENDAR_NONE},
};

START_TEST(a_rate_is_a_number_and_a_period)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct rate rate;
    ck_assert_msg(rate_parse(span_of_text(GOOD[_i].text), &rate, &problem), "%s", GOOD[_i].text);
    ck_assert_uint_eq(rate.units, GOOD[_i].units);
    ck_assert_uint_eq(rate.period_us, GOOD[_i].period_us);
    ck_assert(span_equals(rate.period_name, span_of_text(GOOD[_i].name)));
    ck_assert_int_eq(rate.calendar, GOOD[_i].calendar);
}
END_TEST

static const struct {
    const char *text;
    const char *problem;
} BAD[] = {
    {"", "must be a whole number and a period, such as 100/minute"},
    {"/s", "must be a whole number and a period, such as 100/minute"},
    {"1.5/s", "must be a whole number and a period, such as 100/minute"},
    {"0", "must be at least 1; to refuse everything, use a route that responds"},
    {"0/s", "must be at least 1; to refuse everything, use a route that responds"},
    {"4294967296/s", "must be at most 4294967295"},
    {"100/minit", "unknown period \"minit\"; did you mean \"minute\"?"},
    {"100/minutes", "unknown period \"minutes\"; did you mean \"minute\"?"},
    {"100/", "unknown period \"\"; write s, minute, hour, day, week, month or a duration"},
    {"100/10", "period \"10\": needs a unit; did you mean \"10s\" or \"10ms\"?"},
    {"100/0s", "period \"0s\": must not be 0"},
};

START_TEST(what_is_no_rate_is_refused_with_the_reason)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct rate rate;
    ck_assert_msg(!rate_parse(span_of_text(BAD[_i].text), &rate, &problem), "%s", BAD[_i].text);
    ck_assert_msg(span_equals(text_span(&problem), span_of_text(BAD[_i].problem)), "%s: %.*s",
                  BAD[_i].text, SPAN_ARGS(text_span(&problem)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/rate");
    TCase *tcase = tcase_create("parse");
    tcase_add_loop_test(tcase, a_rate_is_a_number_and_a_period, 0, (int)ARRAY_LEN(GOOD));
    tcase_add_loop_test(tcase, what_is_no_rate_is_refused_with_the_reason, 0, (int)ARRAY_LEN(BAD));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
