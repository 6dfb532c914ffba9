/* Where lines of the access log go: stdout, a file, or syslog by its socket. Whoever writes never
 * waits: what is not taken at once is lost. */

#ifndef SLUICE_PROXY_LOG_SINK_H
#define SLUICE_PROXY_LOG_SINK_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/settings.h"

/* A worker's use of a place that all share. */
struct log_sink {
    int fd;       /* borrowed; -1: nowhere */
    bool is_file; /* takes what it is given; anything else may have a slow reader */
    bool is_syslog;
    char syslog_path[SYSLOG_PATH_BYTES_MAX + 1];
};

/* Open the place that @log names; *fd is -1 where it is off. A syslog that is not there may come.
 * STATUS_IO: told in the log. */
MUST_USE enum status log_place_open(const struct log_section *log, int *fd);

/* What was opened as *fd is opened anew under the same number, for a file that has been renamed. On
 * failure, which is told in the log, all stays as it is. */
void log_place_reopen(const struct log_section *log, int fd);

/* STDOUT_FILENO and -1 stay. */
void log_place_close(int fd);

void log_sink_init(struct log_sink *sink, const struct log_section *place, int fd);

/* Write @lines, each with its newline. What remains of them was not taken,
 * because *why; empty: all was. */
MUST_USE struct span log_sink_write(struct log_sink *sink, struct span lines, const char **why);

#endif /* SLUICE_PROXY_LOG_SINK_H */
