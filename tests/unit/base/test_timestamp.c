#include "base/clock.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

static const struct {
    const char *text;
    uint64_t us;
} TIMESTAMPS[] = {
    {"1970-01-01T00:00:00Z", 0},
    {"1970-01-01T00:00:00.000001Z", 1},
    {"2000-02-29T12:00:00Z", 951825600000000},
    {"2026-03-29T01:59:59.5+01:00", 1774745999500000},
    {"2026-03-29 00:59:59,5Z", 1774745999500000},
    {"2026-03-28t20:29:59.500-0430", 1774745999500000},
    {"2026-03-29T00:59:59.5000009z", 1774745999500000},
    {"2016-12-31T23:59:60Z", 1483228800000000},
    {"2400-02-29T00:00:00Z", 13574563200000000},
    {"9999-12-31T23:59:59Z", 253402300799000000},
};

START_TEST(a_moment_is_read_in_its_zone)
{
    uint64_t us = 0;
    ck_assert(timestamp_parse(span_of_text(TIMESTAMPS[_i].text), &us));
    ck_assert_uint_eq(us, TIMESTAMPS[_i].us);
}
END_TEST

START_TEST(a_moment_that_is_written_is_read_again)
{
    char buffer[40];
    struct text text = text_of(buffer, sizeof(buffer));
    uint64_t us = 0;
    timestamp_write(&text, TIMESTAMPS[_i].us);
    ck_assert(!text.truncated);
    ck_assert(timestamp_parse(text_span(&text), &us));
    ck_assert_uint_eq(us, TIMESTAMPS[_i].us);
}
END_TEST

START_TEST(every_day_of_four_centuries_follows_the_one_before)
{
    uint64_t day = 0;
    for (unsigned year = 1970; year < 2370; year++) {
        for (unsigned month = 1; month <= 12; month++) {
            for (unsigned of_month = 1; of_month <= 31; of_month++) {
                const struct timestamp timestamp = {.year = year, .month = month, .day = of_month};
                uint64_t us = 0;
                if (timestamp_to_us(&timestamp, &us)) {
                    ck_assert_uint_eq(us, day * 86400000000);
                    day++;
                }
            }
        }
    }
    ck_assert_uint_eq(day, 146097);
}
END_TEST

static const char *const WRONG[] = {
    "",
    "2026-03-29",
    "2026-03-29T01:59:00",
    "2026-3-29T01:59:00Z",
    "2026-13-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:61Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00+1:00",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00Zz",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00+00:01",
};

START_TEST(what_is_no_timestamp_is_refused)
{
    uint64_t us = 7;
    ck_assert(!timestamp_parse(span_of_text(WRONG[_i]), &us));
    ck_assert_uint_eq(us, 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/moment");
    TCase *parse = tcase_create("parse");
    tcase_add_loop_test(parse, a_moment_is_read_in_its_zone, 0, (int)ARRAY_LEN(TIMESTAMPS));
    tcase_add_loop_test(parse, what_is_no_timestamp_is_refused, 0, (int)ARRAY_LEN(WRONG));
    tcase_add_test(parse, every_day_of_four_centuries_follows_the_one_before);
    suite_add_tcase(suite, parse);
    TCase *write = tcase_create("write");
    tcase_add_loop_test(write, a_moment_that_is_written_is_read_again, 0,
                        (int)ARRAY_LEN(TIMESTAMPS));
    suite_add_tcase(suite, write);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
