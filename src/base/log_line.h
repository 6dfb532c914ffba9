/* The form of a line of the program's log: `time=… level=warn mod=store.redis msg="link lost" …`.
 */

#ifndef SLUICE_BASE_LOG_LINE_H
#define SLUICE_BASE_LOG_LINE_H

#include <stdarg.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/text.h"

enum { LOG_LINE_BYTES_MAX = 4096 }; /* PIPE_BUF: a longer line is cut, so that it is one write */

/* Write a line with its newline to @buffer, which has LOG_LINE_BYTES_MAX bytes. The parameters are
 * those of log_write(). */
struct span log_line_format(char *buffer, enum log_level level, const char *module,
                            const char *message, const char *fields, ...) PRINTF_LIKE(5, 6);
struct span log_line_format_list(char *buffer, enum log_level level, const char *module,
                                 const char *message, const char *fields, va_list args)
    PRINTF_LIKE(5, 0);

/* The same of a report that @n_lines of the log @name were lost, because of @error: a number of the
 * system, or 0: the reader did not keep up. */
struct span log_line_format_loss(char *buffer, const char *name, uint64_t n_lines, int error);

#endif /* SLUICE_BASE_LOG_LINE_H */
