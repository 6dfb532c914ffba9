#include "limit/calendar.h"

#include <check.h>
#include <stdlib.h>
#include <time.h>

#include "base/compiler.h"

#define S UINT64_C(1000000)

/* The edges around a time, s since the epoch, as Python's zoneinfo reckons them. */
static const struct {
    const char *says;
    enum calendar_unit unit;
    const char *zone;
    uint64_t now;
    uint64_t edges[LIMIT_EDGES];
} EDGES[] = {
    {"a day of UTC is 24 hours",
     CALENDAR_DAY,
     "UTC",
     1763668790,
     {1763510400, 1763596800, 1763683200, 1763769600}},
    {"an edge is of the window that it begins",
     CALENDAR_DAY,
     "UTC",
     1763596800,
     {1763510400, 1763596800, 1763683200, 1763769600}},
    {"the second before it is not",
     CALENDAR_DAY,
     "UTC",
     1763596799,
     {1763424000, 1763510400, 1763596800, 1763683200}},
    {"the day on which summer time begins has 23 hours: 29 March 2026",
     CALENDAR_DAY,
     "Europe/Berlin",
     1774750000,
     {1774652400, 1774738800, 1774821600, 1774908000}},
    {"the day on which it ends has 25: 25 October 2026",
     CALENDAR_DAY,
     "Europe/Berlin",
     1792900000,
     {1792792800, 1792879200, 1792969200, 1793055600}},
    {"weeks begin on Monday: 16 November 2026 in UTC",
     CALENDAR_WEEK,
     "UTC",
     1795219200,
     {1794182400, 1794787200, 1795392000, 1795996800}},
    {"a week with a change of the clock",
     CALENDAR_WEEK,
     "Europe/Berlin",
     1774750000,
     {1773615600, 1774220400, 1774821600, 1775426400}},
    {"months differ: January, February and March 2026",
     CALENDAR_MONTH,
     "UTC",
     1770000000,
     {1767225600, 1769904000, 1772323200, 1775001600}},
    {"February 2028 has 29 days",
     CALENDAR_MONTH,
     "UTC",
     1835000000,
     {1830297600, 1832976000, 1835481600, 1838160000}},
    {"a month begins by the clock of its zone",
     CALENDAR_MONTH,
     "Europe/Berlin",
     1775000000,
     {1772319600, 1774994400, 1777586400, 1780264800}},
    {"where summer time begins at midnight, a day begins an hour later: Cairo, 24 April 2026",
     CALENDAR_DAY,
     "Africa/Cairo",
     1777010000,
     {1776895200, 1776981600, 1777064400, 1777150800}},
};

/* The table is made half a year before the time that is asked for. */
START_TEST(edges_are_those_of_the_zone)
{
    const uint64_t now_us = EDGES[_i].now * S;
    struct calendar *calendar;
    uint64_t edges[LIMIT_EDGES];
    ck_assert_int_eq(calendar_new(EDGES[_i].unit, span_of_text(EDGES[_i].zone),
                                  now_us - 183 * 86400 * S, &calendar),
                     STATUS_OK);
    ck_assert(calendar_find(calendar, now_us, edges));
    for (size_t i = 0; i < LIMIT_EDGES; i++) {
        ck_assert_msg(edges[i] == EDGES[_i].edges[i] * S, "%s: edge %zu is %lu", EDGES[_i].says, i,
                      (unsigned long)(edges[i] / S));
    }
    calendar_free(calendar);
}
END_TEST

START_TEST(a_table_holds_now_and_25_years_and_no_more)
{
    const uint64_t now_us = UINT64_C(1763668790) * S;
    const enum calendar_unit units[] = {CALENDAR_DAY, CALENDAR_WEEK, CALENDAR_MONTH};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        struct calendar *calendar;
        uint64_t edges[LIMIT_EDGES];
        ck_assert_int_eq(calendar_new(units[i], SPAN("Europe/Berlin"), now_us, &calendar),
                         STATUS_OK);
        ck_assert(calendar_find(calendar, now_us, edges));
        ck_assert(calendar_find(calendar, now_us + 24 * 366 * 86400 * S, edges));
        ck_assert(!calendar_find(calendar, now_us + 27 * 366 * 86400 * S, edges));
        ck_assert(!calendar_find(calendar, now_us - 366 * 86400 * S, edges));
        ck_assert(!calendar_find(calendar, 0, edges));
        calendar_free(calendar);
    }
}
END_TEST

START_TEST(every_window_follows_the_one_before_it)
{
    const uint64_t now_us = UINT64_C(1763668790) * S;
    struct calendar *calendar;
    uint64_t edges[LIMIT_EDGES];
    ck_assert_int_eq(calendar_new(CALENDAR_DAY, SPAN("America/New_York"), now_us, &calendar),
                     STATUS_OK);
    for (uint64_t at_us = now_us; at_us < now_us + 24 * 365 * 86400 * S; at_us += 86400 * S) {
        ck_assert(calendar_find(calendar, at_us, edges));
        ck_assert(edges[1] <= at_us && at_us < edges[2]);
        for (size_t i = 0; i + 1 < LIMIT_EDGES; i++) {
            const uint64_t hours = (edges[i + 1] - edges[i]) / (3600 * S);
            ck_assert(hours >= 23 && hours <= 25);
        }
    }
    calendar_free(calendar);
}
END_TEST

START_TEST(what_is_no_zone_is_refused)
{
    struct calendar *calendar;
    const char *const names[] = {"",       "Europe",         "Europe/Nowhere", "../etc/passwd",
                                 "/etc/x", "Europe/Berlin ", "tzdata.zi",      "UTC0"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        ck_assert_msg(!calendar_knows_zone(span_of_text(names[i])), "%s", names[i]);
        ck_assert_int_eq(calendar_new(CALENDAR_DAY, span_of_text(names[i]), S, &calendar),
                         STATUS_INVALID);
    }
    ck_assert(calendar_knows_zone(SPAN("UTC")));
    ck_assert(calendar_knows_zone(SPAN("America/Argentina/Buenos_Aires")));
}
END_TEST

START_TEST(the_zone_of_the_process_stays_what_it_was)
{
    struct calendar *calendar;
    setenv("TZ", "America/New_York", 1);
    tzset();
    ck_assert_int_eq(calendar_new(CALENDAR_DAY, SPAN("Asia/Tokyo"), 1763668790 * S, &calendar),
                     STATUS_OK);
    calendar_free(calendar);
    ck_assert_str_eq(getenv("TZ"), "America/New_York");
    ck_assert_str_eq(tzname[0], "EST");

    unsetenv("TZ");
    ck_assert_int_eq(calendar_new(CALENDAR_DAY, SPAN("Asia/Tokyo"), 1763668790 * S, &calendar),
                     STATUS_OK);
    calendar_free(calendar);
    ck_assert_ptr_null(getenv("TZ"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/calendar");
    TCase *tcase = tcase_create("calendar");
    tcase_add_loop_test(tcase, edges_are_those_of_the_zone, 0, (int)ARRAY_LEN(EDGES));
    tcase_add_test(tcase, a_table_holds_now_and_25_years_and_no_more);
    tcase_add_test(tcase, every_window_follows_the_one_before_it);
    tcase_add_test(tcase, what_is_no_zone_is_refused);
    tcase_add_test(tcase, the_zone_of_the_process_stays_what_it_was);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
