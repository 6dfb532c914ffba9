/* A descriptor that lines of a log are written to: a file, a pipe, a terminal, a socket, or the
 * socket of syslog.
 *
 * A line of at most PIPE_BUF bytes is one write, so that it stays whole in a pipe that others write
 * to as well. syslog gets a datagram a line, as RFC 3164 and every /dev/log take them: facility
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
    bool is_regular_file; /* a write takes any number of bytes */
    bool is_syslog;
    char syslog_path[SYSLOG_PATH_BYTES_MAX + 1];
};

/* @fd stays the caller's: of stdout and stderr, which other processes may share, so that no flag of
 * it may be changed and a write may block. */
void log_sink_of_fd(struct log_sink *sink, int fd);

/* Append to the file at @path, which is created. Its writes do not block. STATUS_IO: errno; also of
 * a named pipe that nobody reads. */
MUST_USE enum status log_sink_open_file(struct log_sink *sink, const char *path);

/* @path: at most SYSLOG_PATH_BYTES_MAX bytes. Nobody need listen there yet. Its writes do not
 * block. STATUS_IO: errno. */
MUST_USE enum status log_sink_open_syslog(struct log_sink *sink, struct span path);

/* stdout and stderr stay open. */
void log_sink_close(struct log_sink *sink);

/* Whether both write to the same file, pipe, terminal or socket. */
bool log_sink_is_same(const struct log_sink *sink, const struct log_sink *other);

/* Write as many of @lines, which are not empty and end with a newline, as one system call should.
 * How many bytes were written; -1: errno, EAGAIN where a write would block. The socket of syslog is
 * connected anew where its listener is another one. */
MUST_USE ssize_t log_sink_write(struct log_sink *sink, struct span lines);

#endif /* SLUICE_BASE_LOG_SINK_H */
