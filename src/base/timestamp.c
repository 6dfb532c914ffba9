#include "base/clock.h"

enum {
    US_PER_S = 1000000,
    DAY_S = 24 * 3600,
    YEAR_MAX = 9999,
};

/* Days from the epoch to @year-@month-@day. Years start in March, so that the leap day is the last
 * day of a year; 400 years have 146,097 days. */
static int64_t days_of(unsigned year, unsigned month, unsigned day)
{
    const int64_t march_year = (int64_t)year - (month <= 2);
    const int64_t era = march_year / 400;
    const int64_t of_era = march_year - era * 400;
    const int64_t of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static unsigned days_in(unsigned year, unsigned month)
{
    static const unsigned DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return DAYS[month - 1] + (month == 2 && is_leap);
}

bool timestamp_to_us(const struct timestamp *timestamp, uint64_t *us)
{
    if (timestamp->year < 1970 || timestamp->year > YEAR_MAX || timestamp->month < 1 ||
        timestamp->month > 12 || timestamp->day < 1 ||
        timestamp->day > days_in(timestamp->year, timestamp->month) || timestamp->hour > 23 ||
        timestamp->minute > 59 || timestamp->second > 60 || timestamp->us >= US_PER_S) {
        return false;
    }
    const int64_t seconds = days_of(timestamp->year, timestamp->month, timestamp->day) * DAY_S +
                            timestamp->hour * 3600 + timestamp->minute * 60 + timestamp->second -
                            timestamp->offset_s;
    if (seconds < 0) {
        return false;
    }
    *us = (uint64_t)seconds * US_PER_S + timestamp->us;
    return true;
}

/* Remove @n digits from the front of @rest. */
static bool take_digits(struct span *rest, size_t n, unsigned *value)
{
    unsigned number = 0;
    for (size_t i = 0; i < n; i++) {
        if (i >= rest->len || rest->data[i] < '0' || rest->data[i] > '9') {
            return false;
        }
        number = number * 10 + (unsigned)(rest->data[i] - '0');
    }
    *rest = span_of(rest->data + n, rest->len - n);
    *value = number;
    return true;
}

static bool take(struct span *rest, char wanted)
{
    if (rest->len == 0 || rest->data[0] != wanted) {
        return false;
    }
    *rest = span_of(rest->data + 1, rest->len - 1);
    return true;
}

/* Take `.5`, with any number of digits; only the first six count. */
static bool take_fraction(struct span *rest, unsigned *us)
{
    unsigned scale = US_PER_S;
    unsigned digit;
    *us = 0;
    if (!take(rest, '.') && !take(rest, ',')) {
        return true;
    }
    const size_t before = rest->len;
    while (take_digits(rest, 1, &digit)) {
        scale /= 10;
        *us += digit * scale;
    }
    return rest->len < before;
}

static bool take_offset(struct span *rest, int *offset_s)
{
    unsigned hours;
    unsigned minutes;
    *offset_s = 0;
    if (take(rest, 'Z') || take(rest, 'z')) {
        return true;
    }
    const bool is_west = rest->len > 0 && rest->data[0] == '-';
    if ((!take(rest, '+') && !take(rest, '-')) || !take_digits(rest, 2, &hours)) {
        return false;
    }
    (void)take(rest, ':');
    if (!take_digits(rest, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *offset_s = (int)(hours * 3600 + minutes * 60) * (is_west ? -1 : 1);
    return true;
}

bool timestamp_parse(struct span text, uint64_t *us)
{
    struct timestamp timestamp = {0};
    struct span rest = text;
    return take_digits(&rest, 4, &timestamp.year) && take(&rest, '-') &&
           take_digits(&rest, 2, &timestamp.month) && take(&rest, '-') &&
           take_digits(&rest, 2, &timestamp.day) &&
           (take(&rest, 'T') || take(&rest, 't') || take(&rest, ' ')) &&
           take_digits(&rest, 2, &timestamp.hour) && take(&rest, ':') &&
           take_digits(&rest, 2, &timestamp.minute) && take(&rest, ':') &&
           take_digits(&rest, 2, &timestamp.second) && take_fraction(&rest, &timestamp.us) &&
           take_offset(&rest, &timestamp.offset_s) && rest.len == 0 &&
           timestamp_to_us(&timestamp, us);
}

static void add_digits(struct text *text, uint64_t value, unsigned n)
{
    char digits[8];
    for (unsigned i = n; i-- > 0; value /= 10) {
        digits[i] = (char)('0' + value % 10);
    }
    text_add(text, span_of(digits, n));
}

/* The inverse of days_of(). */
static void date_of(uint64_t days, uint64_t *year, uint64_t *month, uint64_t *day)
{
    const uint64_t shifted = days + 719468;
    const uint64_t era = shifted / 146097;
    const uint64_t of_era = shifted % 146097;
    const uint64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint64_t of_year = of_era - (365 * years + years / 4 - years / 100);
    const uint64_t march_month = (5 * of_year + 2) / 153;
    *day = of_year - (153 * march_month + 2) / 5 + 1;
    *month = march_month < 10 ? march_month + 3 : march_month - 9;
    *year = years + era * 400 + (*month <= 2);
}

void timestamp_write(struct text *text, uint64_t us)
{
    const uint64_t seconds = us / US_PER_S;
    const uint64_t fraction = us % US_PER_S;
    uint64_t year;
    uint64_t month;
    uint64_t day;
    date_of(seconds / DAY_S, &year, &month, &day);
    add_digits(text, year, 4);
    text_add_char(text, '-');
    add_digits(text, month, 2);
    text_add_char(text, '-');
    add_digits(text, day, 2);
    text_add_char(text, 'T');
    add_digits(text, seconds % DAY_S / 3600, 2);
    text_add_char(text, ':');
    add_digits(text, seconds % 3600 / 60, 2);
    text_add_char(text, ':');
    add_digits(text, seconds % 60, 2);
    if (fraction != 0) {
        text_add_char(text, '.');
        add_digits(text, fraction % 1000 == 0 ? fraction / 1000 : fraction,
                   fraction % 1000 == 0 ? 3 : 6);
    }
    text_add_char(text, 'Z');
}
