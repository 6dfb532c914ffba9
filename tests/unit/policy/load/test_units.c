#include "policy/units.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

static const struct {
    const char *text;
    uint64_t us;
} DURATIONS[] = {
    {"0s", 0},
    {"1us", 1},
    {"500ms", 500000},
    {"10s", 10000000},
    {"1m", 60000000},
    {"1h30m", 5400000000},
    {"1d", 86400000000},
    {"1w", 604800000000},
    {"1h1m1s1ms1us", 3661001001},
    {"3650d", UNITS_DURATION_US_MAX},
};

START_TEST(durations_are_sums_of_numbers_with_units)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    uint64_t us = 1;
    ck_assert_msg(units_parse_duration(span_of_text(DURATIONS[_i].text), &us, &problem), "%s",
                  DURATIONS[_i].text);
    ck_assert_uint_eq(us, DURATIONS[_i].us);
}
END_TEST

static const struct {
    const char *text;
    const char *problem;
} BAD_DURATIONS[] = {
    {"", "must be a whole number with a unit"},
    {"s", "must be a whole number with a unit"},
    {"20", "needs a unit; did you mean \"20s\" or \"20ms\"?"},
    {"1.5s", "unknown unit \".\"; write one of us, ms, s, m, h, d, w"},
    {"1 s", "unknown unit \" s\"; did you mean \"s\"?"},
    {"10sec", "unknown unit \"sec\"; write one of us, ms, s, m, h, d, w"},
    {"1m1h", "must name each unit once, the greatest first"},
    {"1s1s", "must name each unit once, the greatest first"},
    {"3651d", "is too large"},
    {"3650d1us", "is too large"},
    {"99999999999999999999s", "is too large"},
};

START_TEST(durations_that_are_none_are_refused_with_the_reason)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    uint64_t us = 7;
    ck_assert_msg(!units_parse_duration(span_of_text(BAD_DURATIONS[_i].text), &us, &problem), "%s",
                  BAD_DURATIONS[_i].text);
    ck_assert_msg(span_equals(text_span(&problem), span_of_text(BAD_DURATIONS[_i].problem)),
                  "%s: %.*s", BAD_DURATIONS[_i].text, SPAN_ARGS(text_span(&problem)));
    ck_assert_uint_eq(us, 7);
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes;
} SIZES[] = {
    {"0B", 0},
    {"1000B", 1000},
    {"16KiB", 16384},
    {"64MiB", UINT64_C(64) << 20},
    {"1GiB", UINT64_C(1) << 30},
    {"2TiB", UINT64_C(2) << 40},
};

START_TEST(sizes_are_a_number_with_a_unit)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct text written = text_of(buffer, sizeof(buffer));
    uint64_t bytes = 1;
    ck_assert(units_parse_size(span_of_text(SIZES[_i].text), &bytes, &problem));
    ck_assert_uint_eq(bytes, SIZES[_i].bytes);
    units_write_size(&written, bytes);
    ck_assert(span_equals(text_span(&written), span_of_text(SIZES[_i].text)));
}
END_TEST

static const struct {
    const char *text;
    const char *problem;
} BAD_SIZES[] = {
    {"", "must be a whole number with a unit"},
    {"KiB", "must be a whole number with a unit"},
    {"16384", "needs a unit; did you mean \"16KiB\"?"},
    {"16385", "needs a unit; did you mean \"16385B\"?"},
    {"16KB", "unknown unit \"KB\"; did you mean \"KiB\"?"},
    {"1MiB1KiB", "must be one number with one unit"},
    {"9223372036854775808B", "is too large"},
    {"99999999TiB", "is too large"},
    {"99999999999999999999", "unknown unit \"\"; write one of B, KiB, MiB, GiB, TiB"},
};

START_TEST(sizes_that_are_none_are_refused_with_the_reason)
{
    char buffer[256];
    struct text problem = text_of(buffer, sizeof(buffer));
    uint64_t bytes = 7;
    ck_assert(!units_parse_size(span_of_text(BAD_SIZES[_i].text), &bytes, &problem));
    ck_assert_msg(span_equals(text_span(&problem), span_of_text(BAD_SIZES[_i].problem)), "%s: %.*s",
                  BAD_SIZES[_i].text, SPAN_ARGS(text_span(&problem)));
}
END_TEST

START_TEST(a_duration_is_written_in_its_greatest_whole_unit)
{
    static const struct {
        uint64_t us;
        const char *text;
    } cases[] = {{0, "0us"},        {1500, "1500us"},   {20000, "20ms"},
                 {90000000, "90s"}, {3600000000, "1h"}, {UINT64_C(604800000000), "1w"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char buffer[64];
        struct text text = text_of(buffer, sizeof(buffer));
        units_write_duration(&text, cases[i].us);
        ck_assert_msg(span_equals(text_span(&text), span_of_text(cases[i].text)), "%s",
                      cases[i].text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/units");
    TCase *tcase = tcase_create("units");
    tcase_add_loop_test(tcase, durations_are_sums_of_numbers_with_units, 0,
                        (int)ARRAY_LEN(DURATIONS));
    tcase_add_loop_test(tcase, durations_that_are_none_are_refused_with_the_reason, 0,
                        (int)ARRAY_LEN(BAD_DURATIONS));
    tcase_add_loop_test(tcase, sizes_are_a_number_with_a_unit, 0, (int)ARRAY_LEN(SIZES));
    tcase_add_loop_test(tcase, sizes_that_are_none_are_refused_with_the_reason, 0,
                        (int)ARRAY_LEN(BAD_SIZES));
    tcase_add_test(tcase, a_duration_is_written_in_its_greatest_whole_unit);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
