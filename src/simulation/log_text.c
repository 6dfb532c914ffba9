/* The single values of log lines. */

#include <string.h>

#include "base/clock.h"
#include "simulation/log_line.h"

enum { CLF_BYTES = 26 }; /* 10/Oct/2000:13:55:36 -0700 */

/* --- times --- */

static bool read_digits(const char *text, size_t n, unsigned *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        *value = *value * 10 + (unsigned)(text[i] - '0');
    }
    return true;
}

static unsigned month_of(const char *text)
{
    static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (unsigned i = 0; i < 12; i++) {
        if (memcmp(MONTHS + 3 * (size_t)i, text, 3) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* The common log format's time. */
static bool read_clf(struct span text, uint64_t *us)
{
    struct timestamp timestamp = {0};
    unsigned zone;
    const char *t = text.data;
    if (text.len != CLF_BYTES || t[2] != '/' || t[6] != '/' || t[11] != ':' || t[14] != ':' ||
        t[17] != ':' || t[20] != ' ' || (t[21] != '+' && t[21] != '-')) {
        return false;
    }
    timestamp.month = month_of(t + 3);
    if (!read_digits(t, 2, &timestamp.day) || !read_digits(t + 7, 4, &timestamp.year) ||
        !read_digits(t + 12, 2, &timestamp.hour) || !read_digits(t + 15, 2, &timestamp.minute) ||
        !read_digits(t + 18, 2, &timestamp.second) || !read_digits(t + 22, 4, &zone)) {
        return false;
    }
    const int offset_s = (int)(zone / 100 * 3600 + zone % 100 * 60);
    timestamp.offset_s = t[21] == '-' ? -offset_s : offset_s;
    return timestamp_to_us(&timestamp, us);
}

/* Seconds, ms, us or ns since the epoch: told apart by their size, which no two share within 1,900
 * years of each. */
static bool read_epoch(struct span text, uint64_t *us)
{
    static const uint64_t MS_FROM = UINT64_C(100000000000);
    static const uint64_t US_FROM = UINT64_C(100000000000000);
    static const uint64_t NS_FROM = UINT64_C(100000000000000000);
    const struct span whole = span_of(text.data, span_find(text, '.'));
    uint64_t number;
    if (!span_to_u64(whole, UINT64_MAX, &number)) {
        return false;
    }
    const uint64_t unit_ns = number >= NS_FROM   ? 1
                             : number >= US_FROM ? 1000
                             : number >= MS_FROM ? 1000000
                                                 : 1000000000;
    return log_length_read(text, unit_ns, us);
}

bool log_time_read(struct span text, struct log_clock *clock, uint64_t *us)
{
    if (text.len == clock->len && text.len > 0 && memcmp(text.data, clock->text, text.len) == 0) {
        *us = clock->us;
        return true;
    }
    const bool is_date = text.len > 4 && text.data[4] == '-';
    const bool is_clf = text.len > 2 && text.data[2] == '/';
    if (is_date  ? !timestamp_parse(text, us)
        : is_clf ? !read_clf(text, us)
                 : !read_epoch(text, us)) {
        return false;
    }
    if (text.len <= sizeof(clock->text)) {
        memcpy(clock->text, text.data, text.len);
        clock->len = text.len;
        clock->us = *us;
    }
    return true;
}

bool log_length_read(struct span text, uint64_t unit_ns, uint64_t *us)
{
    const size_t point = span_find(text, '.');
    uint64_t number;
    if (!span_to_u64(span_of(text.data, point), UINT64_MAX / unit_ns, &number)) {
        return false;
    }
    uint64_t ns = 0;
    uint64_t digit_ns = unit_ns;
    for (size_t i = point + 1; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        digit_ns /= 10;
        ns += (uint64_t)(text.data[i] - '0') * digit_ns;
    }
    /* Whole units of a us and more are multiplied where they cannot overflow in ns. */
    const uint64_t whole_us = unit_ns >= 1000 ? number * (unit_ns / 1000) : number * unit_ns / 1000;
    *us = whole_us + ns / 1000;
    return true;
}

/* --- requests --- */

void log_request_split(struct span request, struct log_line *out)
{
    const size_t first = span_find(request, ' ');
    size_t last = request.len;
    while (last > first && request.data[last - 1] != ' ') {
        last--;
    }
    out->method = SPAN("");
    out->target = SPAN("");
    if (last <= first + 2 || request.len - last < 8 ||
        memcmp(request.data + last, "HTTP/", 5) != 0) {
        return;
    }
    out->method = span_of(request.data, first);
    out->target = span_of(request.data + first + 1, last - first - 2);
}

bool log_peer_read(struct span text, struct address *peer)
{
    if (span_equals(text, SPAN("unix"))) {
        *peer = (struct address){.family = ADDRESS_NONE};
        return true;
    }
    return address_parse(text, peer);
}

uint16_t log_status_read(struct span text)
{
    uint64_t status = 0;
    return span_to_u64(text, 999, &status) ? (uint16_t)status : 0;
}

/* --- escapes --- */

static int hex_digit(char c)
{
    const char lower = ascii_lower(c);
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The number in @n hexadecimal digits, or -1. */
static int32_t read_hex(const char *text, const char *end, size_t n)
{
    int32_t value = 0;
    if ((size_t)(end - text) < n) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const int digit = hex_digit(text[i]);
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* As UTF-8, at most three bytes: halves of a pair are written one by one, which is no UTF-8, and
 * what is made of it is escaped wherever it is shown. */
static char *write_utf8(char *out, int32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* The byte that a backslash and @c stand for; 0: none. */
static char simple_escape(char c)
{
    static const char FROM[] = "\"\\/bfnrt";
    static const char TO[] = "\"\\/\b\f\n\r\t";
    const char *found = c == '\0' ? NULL : strchr(FROM, c);
    return found == NULL ? '\0' : TO[found - FROM];
}

static struct span unescape(char *text, size_t len)
{
    const char *in = text;
    const char *end = text + len;
    char *out = text;
    while (in < end) {
        const char c = in + 1 < end && *in == '\\' ? in[1] : '\0';
        const int32_t code = c == 'u'   ? read_hex(in + 2, end, 4)
                             : c == 'x' ? read_hex(in + 2, end, 2)
                                        : -1;
        if (c != '\0' && simple_escape(c) != '\0') {
            *out++ = simple_escape(c);
            in += 2;
        } else if (code >= 0 && c == 'u') {
            out = write_utf8(out, code);
            in += 6;
        } else if (code >= 0) {
            *out++ = (char)code;
            in += 4;
        } else {
            *out++ = *in++;
        }
    }
    return span_of(text, (size_t)(out - text));
}

/* The quote at the end of a text with backslashes, each of which takes the next
 * byte's meaning; NULL: none. */
static char *find_quote(char *at, const char *end)
{
    while (at < end && *at != '"') {
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    }
    return at < end ? at : NULL;
}

bool log_quoted_read(char **at, char *end, bool is_wanted, struct span *text)
{
    char *start = *at;
    char *quote = memchr(start, '"', (size_t)(end - start));
    if (quote == NULL) {
        return false;
    }
    char *escape = memchr(start, '\\', (size_t)(quote - start));
    if (escape != NULL) {
        quote = find_quote(escape, end);
        if (quote == NULL) {
            return false;
        }
    }
    *at = quote + 1;
    *text = escape != NULL && is_wanted ? unescape(start, (size_t)(quote - start))
                                        : span_of(start, (size_t)(quote - start));
    return true;
}
