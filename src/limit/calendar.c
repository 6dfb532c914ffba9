#include "limit/calendar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

enum {
    BEFORE = 3, /* windows that the table begins before now */
    DAY_S = 86400,
    US_PER_S = 1000000,
    ZONE_BYTES_MAX = 64,
};

static const char ZONES[] = "/usr/share/zoneinfo/";

/* Windows in about 25 years. */
static const int AHEAD[] = {
    [CALENDAR_DAY] = 25 * 366,
    [CALENDAR_WEEK] = 25 * 53,
    [CALENDAR_MONTH] = 25 * 12,
};

struct calendar {
    size_t n;
    uint64_t edges[]; /* us since the epoch, ascending */
};

/* --- the time zone of the process --- */

static bool is_zone_name(struct span name)
{
    if (name.len == 0 || name.len >= ZONE_BYTES_MAX || name.data[0] == '/') {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '/' && c != '_' && c != '-' && c != '+') {
            return false;
        }
    }
    return true;
}

bool calendar_knows_zone(struct span name)
{
    char path[sizeof(ZONES) + ZONE_BYTES_MAX];
    if (!is_zone_name(name)) {
        return false;
    }
    if (span_equals(name, SPAN("UTC"))) {
        return true;
    }
    /* Every zone file begins with this: a folder, or another file, is none. */
    char magic[4] = {0};
    snprintf(path, sizeof(path), "%s%.*s", ZONES, SPAN_ARGS(name));
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    const bool is_zone =
        fread(magic, 1, sizeof(magic), file) == sizeof(magic) && memcmp(magic, "TZif", 4) == 0;
    fclose(file);
    return is_zone;
}

/* Returns what TZ was, to be given to leave_zone(); NULL if it was not set. */
static char *enter_zone(struct span zone)
{
    char value[ZONE_BYTES_MAX + sizeof(ZONES)];
    const char *old = getenv("TZ");
    char *kept = old == NULL ? NULL : strdup(old);
    if (span_equals(zone, SPAN("UTC"))) {
        snprintf(value, sizeof(value), "UTC0");
    } else {
        snprintf(value, sizeof(value), ":%s%.*s", ZONES, SPAN_ARGS(zone));
    }
    setenv("TZ", value, 1);
    tzset();
    return kept;
}

static void leave_zone(char *kept)
{
    if (kept == NULL) {
        unsetenv("TZ");
    } else {
        setenv("TZ", kept, 1);
    }
    free(kept);
    tzset();
}

/* --- edges --- */

/* Days from the epoch to the date of @date, which may be out of its month. */
static int64_t day_number(const struct tm *date)
{
    struct tm utc = {.tm_year = date->tm_year, .tm_mon = date->tm_mon, .tm_mday = date->tm_mday};
    return (int64_t)timegm(&utc) / DAY_S;
}

static int64_t local_day(time_t second)
{
    struct tm local;
    localtime_r(&second, &local);
    return day_number(&local);
}

/* The first second of the local day @date. Midnight is it, unless the clock is changed then: so it
 * is looked for where midnight is not, or is not the first. */
static time_t first_second(const struct tm *date)
{
    struct tm midnight = {
        .tm_year = date->tm_year, .tm_mon = date->tm_mon, .tm_mday = date->tm_mday, .tm_isdst = -1};
    const int64_t day = day_number(date);
    const time_t guess = mktime(&midnight);
    if (local_day(guess) >= day && local_day(guess - 1) < day) {
        return guess;
    }
    time_t before = guess - DAY_S;
    time_t after = guess + DAY_S;
    while (after - before > 1) {
        const time_t middle = before + (after - before) / 2;
        if (local_day(middle) >= day) {
            after = middle;
        } else {
            before = middle;
        }
    }
    return after;
}

/* The first day of the window that is @i windows after the one of @today. */
static struct tm first_day(enum calendar_unit unit, const struct tm *today, int i)
{
    enum { DAYS_PER_WEEK = 7, SUNDAY_TO_MONDAY = 6 };
    struct tm day = {.tm_year = today->tm_year, .tm_mon = today->tm_mon, .tm_mday = today->tm_mday};
    switch (unit) {
    case CALENDAR_DAY:
        day.tm_mday += i;
        break;
    case CALENDAR_WEEK:
        day.tm_mday -= (today->tm_wday + SUNDAY_TO_MONDAY) % DAYS_PER_WEEK;
        day.tm_mday += DAYS_PER_WEEK * i;
        break;
    case CALENDAR_MONTH:
        day.tm_mday = 1;
        day.tm_mon += i;
        break;
    }
    return day;
}

static void fill(struct calendar *calendar, enum calendar_unit unit, uint64_t now_us)
{
    struct tm today;
    const time_t now = (time_t)(now_us / US_PER_S);
    localtime_r(&now, &today);
    for (int i = -BEFORE; i <= AHEAD[unit]; i++) {
        const struct tm day = first_day(unit, &today, i);
        const time_t second = first_second(&day);
        const uint64_t last = calendar->n > 0 ? calendar->edges[calendar->n - 1] : 0;
        /* A day that a zone skips has no window, and nothing before the epoch is ever asked for. */
        if (second > 0 && (uint64_t)second * US_PER_S > last) {
            calendar->edges[calendar->n++] = (uint64_t)second * US_PER_S;
        }
    }
}

enum status calendar_new(enum calendar_unit unit, struct span zone, uint64_t now_us,
                         struct calendar **calendar)
{
    if (!calendar_knows_zone(zone)) {
        return STATUS_INVALID;
    }
    const size_t most = (size_t)(BEFORE + 1 + AHEAD[unit]);
    struct calendar *made = malloc(sizeof(*made) + most * sizeof(made->edges[0]));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->n = 0;
    char *kept = enter_zone(zone);
    fill(made, unit, now_us);
    leave_zone(kept);
    *calendar = made;
    return STATUS_OK;
}

void calendar_free(struct calendar *calendar)
{
    free(calendar);
}

bool calendar_find(const struct calendar *calendar, uint64_t now_us, uint64_t edges[LIMIT_EDGES])
{
    size_t low = 0; /* edges before it are at or before now, those from high on are after */
    size_t high = calendar->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (calendar->edges[middle] <= now_us) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const size_t half = LIMIT_EDGES / 2;
    if (low < half || calendar->n - low < half) {
        return false;
    }
    memcpy(edges, calendar->edges + low - half, LIMIT_EDGES * sizeof(edges[0]));
    return true;
}
