#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_output.h"
#include "base/status.h"
#include "base/text.h"

static const uint64_t GATE_US = 1000 * 1000;

static _Atomic(enum log_level) threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, level, memory_order_relaxed);
}

bool log_is_on(enum log_level level)
{
    return level <= atomic_load_explicit(&threshold, memory_order_relaxed);
}

/* --- lines --- */

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

/* Add the caller's pairs, cut at the end of the line. Control characters become '?', so that text
 * that the caller failed to escape cannot start a second line. */
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

/* Write a line with its newline to @buffer, which has LOG_LINE_BYTES_MAX bytes. The other
 * parameters are those of log_write(). */
static PRINTF_LIKE(5, 0) struct span
    format_line_of(char *buffer, enum log_level level, const char *module, const char *message,
                   const char *fields, va_list args)
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

static PRINTF_LIKE(5, 6) struct span
    format_line(char *buffer, enum log_level level, const char *module, const char *message,
                const char *fields, ...)
{
    va_list args;
    va_start(args, fields);
    const struct span line = format_line_of(buffer, level, module, message, fields, args);
    va_end(args);
    return line;
}

struct span log_format_loss(char *buffer, const char *name, uint64_t n_lines, int error)
{
    char text[128];
    const char *why = error == 0 ? "the reader is too slow" : strerror_r(error, text, sizeof(text));
    return format_line(buffer, LOG_WARN, "log", "lines lost", "log=%s lines=%llu err=\"%s\"", name,
                       (unsigned long long)n_lines, why);
}

/* --- writing --- */

/* A failed write is not reported: there is no other output for it. */
static void write_directly(struct span lines)
{
    while (lines.len > 0) {
        ssize_t n = write(STDERR_FILENO, lines.data, lines.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return;
        }
        lines = span_of(lines.data + n, lines.len - (size_t)n);
    }
}

void log_write_lines(struct span lines)
{
    if (!log_output_append_program(lines)) {
        write_directly(lines);
    }
}

void log_write(enum log_level level, const char *module, const char *message, const char *fields,
               ...)
{
    char buffer[LOG_LINE_BYTES_MAX];
    int error = errno; /* a caller may log first and read errno then */
    va_list args;

    if (!log_is_on(level)) {
        return;
    }
    va_start(args, fields);
    log_write_lines(format_line_of(buffer, level, module, message, fields, args));
    va_end(args);
    errno = error;
}

bool log_gate_pass(struct log_gate *gate, uint64_t now_us, uint64_t *n_held)
{
    if (gate->passed_us != 0 && now_us - gate->passed_us < GATE_US) {
        gate->n_held++;
        return false;
    }
    *n_held = gate->n_held;
    *gate = (struct log_gate){.passed_us = now_us};
    return true;
}

/* --- texts of statuses, and the end by a panic --- */

const char *status_text(enum status status)
{
    switch (status) {
#define STATUS_CASE(name, text)                                                                    \
    case STATUS_##name:                                                                            \
        return text;
        STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

void panic(const char *message)
{
    (void)fprintf(stderr, "sluice: panic: %s\n", message);
    abort();
}
