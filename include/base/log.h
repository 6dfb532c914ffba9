/* The program log: messages for operators. The access log, one line per request, is in
 * proxy/access_log.
 *
 * Each call writes one logfmt line to stderr: `time=… level=warn mod=store.redis msg="link lost"
 * err=timeout`. Safe from any thread. Between log_output_start() and log_output_stop()
 * (base/log_output.h) no call waits for the reader of stderr; otherwise a call writes its line
 * itself, with one write. Levels: error: an operator must act; warn: degraded, recovers by itself;
 * info: start, stop, listener up; debug: transitions. */

#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

enum log_level {
    LOG_ERROR,
    LOG_WARN,
    LOG_INFO,
    LOG_DEBUG,
};

/* Lines above @level are dropped; default LOG_INFO, to stderr. */
void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);

/* Write one line. @module is like "proxy.worker". @fields is a printf format of logfmt pairs that
 * follow the message, "" for none. Pass text from outside through text_add_logfmt() first. */
void log_write(enum log_level level, const char *module, const char *message, const char *fields,
               ...) PRINTF_LIKE(4, 5);

/* Write whole lines unchanged, each with its newline: text for people. */
void log_write_lines(struct span lines);

/* Rate limit of one message per second, for warnings that traffic can repeat. All zero is the
 * initial state. For one thread. */
struct log_gate {
    uint64_t passed_us; /* time of the last message, monotonic; 0: none yet */
    uint64_t n_held;    /* messages held back since then */
};

/* Whether a message may be written at @now_us. If so, *n_held is the number of messages held back
 * before it. */
MUST_USE bool log_gate_pass(struct log_gate *gate, uint64_t now_us, uint64_t *n_held);

#define log_error(module, message, ...) log_at(LOG_ERROR, module, message, __VA_ARGS__)
#define log_warn(module, message, ...) log_at(LOG_WARN, module, message, __VA_ARGS__)
#define log_info(module, message, ...) log_at(LOG_INFO, module, message, __VA_ARGS__)
#define log_debug(module, message, ...) log_at(LOG_DEBUG, module, message, __VA_ARGS__)

/* Arguments are not evaluated if the level is off. */
#define log_at(level, module, message, ...)                                                        \
    (log_is_on(level) ? log_write((level), (module), (message), __VA_ARGS__) : (void)0)

/* --- for base/log_output alone --- */

enum { LOG_LINE_BYTES_MAX = 4096 }; /* PIPE_BUF: a longer line is cut to be one write */

/* Write the line that reports that @n_lines of the log @name were lost, with its newline, to
 * @buffer, which has LOG_LINE_BYTES_MAX bytes. @error is the cause: an errno, or 0 if the reader
 * did not keep up. */
struct span log_format_loss(char *buffer, const char *name, uint64_t n_lines, int error);

#endif /* SLUICE_BASE_LOG_H */
