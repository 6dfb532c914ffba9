/* The program's own log: what operators read, not one line per request (that is proxy/access_log).
 *
 * logfmt, one line a call, to stderr: `time=… level=warn mod=store.redis msg="link lost"
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

/* One line. @module is like "proxy.worker". @fields is a printf format of ready logfmt pairs after
 * the message, "" for none: text from outside goes through text_add_logfmt() first. */
void log_write(enum log_level level, const char *module, const char *message, const char *fields,
               ...) PRINTF_LIKE(4, 5);

/* Whole lines as they are, each with its newline: text for people. */
void log_write_lines(struct span lines);

/* Lets one in a second through, for warnings that traffic can repeat. All zero
 * is fresh. One thread's. */
struct log_gate {
    uint64_t passed_us; /* when the latest was let through, monotonic; 0: never */
    uint64_t n_held;    /* since then */
};

/* Whether one may be written at @now_us; then *n_held is how many were held back before it. */
MUST_USE bool log_gate_pass(struct log_gate *gate, uint64_t now_us, uint64_t *n_held);

#define log_error(module, message, ...) log_at(LOG_ERROR, module, message, __VA_ARGS__)
#define log_warn(module, message, ...) log_at(LOG_WARN, module, message, __VA_ARGS__)
#define log_info(module, message, ...) log_at(LOG_INFO, module, message, __VA_ARGS__)
#define log_debug(module, message, ...) log_at(LOG_DEBUG, module, message, __VA_ARGS__)

/* Arguments are not evaluated below the level. */
#define log_at(level, module, message, ...)                                                        \
    (log_is_on(level) ? log_write((level), (module), (message), __VA_ARGS__) : (void)0)

#endif /* SLUICE_BASE_LOG_H */
