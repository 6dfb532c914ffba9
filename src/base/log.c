#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/log_line.h"
#include "base/log_output.h"

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

/* A failed write is not reported: there is no other place to report it to. */
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
    int error = errno; /* a caller may log first and look then */
    va_list args;

    if (!log_is_on(level)) {
        return;
    }
    va_start(args, fields);
    log_write_lines(log_line_format_list(buffer, level, module, message, fields, args));
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
