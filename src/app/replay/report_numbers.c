/* Numbers of a report as people read them. */

#include <inttypes.h>

#include "app/replay/replay.h"
#include "base/clock.h"

enum { US_PER_S = 1000000 };

struct word report_count_text(uint64_t n)
{
    char digits[24];
    struct text plain = text_of(digits, sizeof(digits));
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_u64(&plain, n);
    for (size_t i = 0; i < plain.len; i++) {
        if (i > 0 && (plain.len - i) % 3 == 0) {
            text_add_char(&text, ',');
        }
        text_add_char(&text, digits[i]);
    }
    return word_of(&text);
}

/* Rounded to tenths; a part above 0 that rounds to 0.0 is shown as "<0.1 %". */
struct word report_percent_text(uint64_t part, uint64_t whole)
{
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    const uint64_t unit = whole / 1000 > 0 ? whole : 1;
    uint64_t tenths = 0;
    if (whole > 0) { /* the product fits below 2^53; above, the quotient is exact enough */
        tenths =
            part < UINT64_MAX / 2000 ? (part * 2000 + whole) / (2 * whole) : part / (unit / 1000);
    }
    if (tenths == 0 && part > 0) {
        text_add_literal(&text, "<0.1 %");
    } else {
        text_add_u64(&text, tenths / 10);
        text_add_char(&text, '.');
        text_add_u64(&text, tenths % 10);
        text_add_literal(&text, " %");
    }
    return word_of(&text);
}

static void add_timestamp(struct text *text, uint64_t us, size_t from)
{
    char buffer[40];
    struct text timestamp = text_of(buffer, sizeof(buffer));
    timestamp_write(&timestamp, us / US_PER_S * US_PER_S);
    for (size_t i = from; i + 1 < timestamp.len; i++) { /* without the Z */
        text_add_char(text, buffer[i] == 'T' ? ' ' : buffer[i]);
    }
}

struct word report_time_text(uint64_t us)
{
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    add_timestamp(&text, us, 0);
    return word_of(&text);
}

struct word report_clock_text(uint64_t us)
{
    enum { DATE_BYTES = 11 };
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    add_timestamp(&text, us, DATE_BYTES);
    return word_of(&text);
}

/* The largest unit that is not 0 and, if not 0 either, the next smaller one: "1h 5m". */
struct word report_length_text(uint64_t us)
{
    static const struct {
        uint64_t us;
        const char *name;
    } UNITS[] = {
        {UINT64_C(86400) * US_PER_S, "d"},
        {UINT64_C(3600) * US_PER_S, "h"},
        {UINT64_C(60) * US_PER_S, "m"},
        {US_PER_S, "s"},
        {1000, "ms"},
        {1, "us"},
    };
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    unsigned n_written = 0;
    for (size_t i = 0; i < ARRAY_LEN(UNITS) && n_written < 2; i++) {
        if (us >= UNITS[i].us) {
            text_add(&text, n_written > 0 ? SPAN(" ") : SPAN(""));
            text_add_u64(&text, us / UNITS[i].us);
            text_add(&text, span_of_text(UNITS[i].name));
            us %= UNITS[i].us;
            n_written++;
        } else if (n_written > 0) {
            break;
        }
    }
    text_add(&text, n_written == 0 ? SPAN("0s") : SPAN(""));
    return word_of(&text);
}
