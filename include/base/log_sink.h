/* A log sink: a descriptor that log lines are written to. It is a file, a pipe, a terminal, a
 * socket, or the socket of syslog.
 *
 * A line of at most PIPE_BUF bytes is one write, so that it stays whole in a pipe with other
 * writers. syslog gets one datagram per line, as RFC 3164 and every /dev/log accept it: facility
 * daemon, severity info. */

#ifndef SLUICE_BASE_LOG_SINK_H
#define SLUICE_BASE_LOG_SINK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"

struct log_sink {
    int fd;               /* -1: none */
    bool is_regular_file; /* one write takes any number of bytes */
    bool is_syslog;
    char syslog_path[SYSLOG_PATH_BYTES_MAX + 1];
};

/* Use @fd, which is stdout or stderr and stays the caller's. Other processes may share it, so its
 * flags are not changed and a write may block. */
void log_sink_of_fd(struct log_sink *sink, int fd);

/* Open the file at @path for appending; it is created if missing. Its writes do not block.
 * STATUS_IO: see errno; also for a named pipe without a reader. */
MUST_USE enum status log_sink_open_file(struct log_sink *sink, const char *path);

/* Open the syslog socket at @path, at most SYSLOG_PATH_BYTES_MAX bytes. Its listener may start
 * later. Its writes do not block. STATUS_IO: see errno. */
MUST_USE enum status log_sink_open_syslog(struct log_sink *sink, struct span path);

/* Close the sink. stdout and stderr stay open. */
void log_sink_close(struct log_sink *sink);

/* Whether both sinks write to the same file, pipe, terminal or socket. */
bool log_sink_is_same(const struct log_sink *sink, const struct log_sink *other);

/* Write as many of @lines as one system call should; @lines is not empty and ends with a newline.
 * Returns the number of bytes written, or -1: see errno, EAGAIN if a write would block. If the
 * syslog socket has a new listener, it is connected again. */
MUST_USE ssize_t log_sink_write(struct log_sink *sink, struct span lines);

#endif /* SLUICE_BASE_LOG_SINK_H */
