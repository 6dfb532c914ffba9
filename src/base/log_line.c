#include "base/log_line.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static struct span level_name(enum log_level level)
{
    switch (level) {
    case LOG_ERROR:
        return SPAN("error");
    case LOG_WARN:
        return SPAN("warn");
    case LOG_INFO:
        return SPAN("info");
    case LOG_DEBUG:
        return SPAN("debug");
    }
    return SPAN("unknown");
}

/* RFC 3339 in UTC, with milliseconds. */
static void add_time(struct text *line)
{
    uint64_t now_us = clock_wall_us();
    time_t now_s = (time_t)(now_us / 1000000);
    char date[sizeof("2026-01-31T23:59:59")];
    struct tm utc;

    gmtime_r(&now_s, &utc);
    size_t len = strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    text_add(line, span_of(date, len));
    text_add_format(line, ".%03uZ", (unsigned)(now_us / 1000 % 1000));
}

/* The caller's pairs, cut at the end of the line. A control character in them is written as '?', so
 * that text which the caller failed to escape cannot start a second line. */
static void add_fields(struct text *line, const char *format, va_list args) PRINTF_LIKE(2, 0);
static void add_fields(struct text *line, const char *format, va_list args)
{
    size_t room = line->capacity - line->len;
    char *fields = line->data + line->len;
    int wanted = room < 2 ? 0 : vsnprintf(fields + 1, room - 1, format, args);

    if (wanted <= 0) {
        return;
    }
    size_t len = (size_t)wanted < room - 1 ? (size_t)wanted : room - 2;
    fields[0] = ' ';
    for (size_t i = 1; i <= len; i++) {
        if ((unsigned char)fields[i] < 0x20 || fields[i] == 0x7f) {
            fields[i] = '?';
        }
    }
    line->len += 1 + len;
}

struct span log_line_format_list(char *buffer, enum log_level level, const char *module,
                                 const char *message, const char *fields, va_list args)
{
    struct text line = text_of(buffer, LOG_LINE_BYTES_MAX - 1); /* one byte for the newline */
    text_add_literal(&line, "time=");
    add_time(&line);
    text_add_literal(&line, " level=");
    text_add(&line, level_name(level));
    text_add_literal(&line, " mod=");
    text_add_logfmt(&line, span_of_text(module));
    text_add_literal(&line, " msg=");
    text_add_logfmt(&line, span_of_text(message));
    add_fields(&line, fields, args);
    line.capacity++;
    text_add_char(&line, '\n');
    return text_span(&line);
}

struct span log_line_format(char *buffer, enum log_level level, const char *module,
                            const char *message, const char *fields, ...)
{
    va_list args;
    va_start(args, fields);
    const struct span line = log_line_format_list(buffer, level, module, message, fields, args);
    va_end(args);
    return line;
}

struct span log_line_format_loss(char *buffer, const char *name, uint64_t n_lines, int error)
{
    char text[128];
    const char *why = error == 0 ? "the reader is too slow" : strerror_r(error, text, sizeof(text));
    return log_line_format(buffer, LOG_WARN, "log", "lines lost", "log=%s lines=%llu err=\"%s\"",
                           name, (unsigned long long)n_lines, why);
}
