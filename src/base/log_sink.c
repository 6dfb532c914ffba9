#include "base/log_sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    SYSLOG_PRIORITY = 3 * 8 + 6, /* daemon, info */
    SYSLOG_HEADER_BYTES = 64,
    SYSLOG_LINES_A_CALL = 64,
};

/* --- opening --- */

void log_sink_of_fd(struct log_sink *sink, int fd)
{
    struct stat stat;
    *sink = (struct log_sink){.fd = fd};
    sink->is_regular_file = fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
}

enum status log_sink_open_file(struct log_sink *sink, const char *path)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    log_sink_of_fd(sink, open(path, flags, 0640));
    return sink->fd >= 0 ? STATUS_OK : STATUS_IO;
}

/* If the socket has no listener, it is connected later. -1: see errno. */
static int connect_to_syslog(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _Static_assert(SYSLOG_PATH_BYTES_MAX < sizeof(address.sun_path), "the kernel takes such paths");
    memcpy(address.sun_path, path, strlen(path));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)connect(fd, (const struct sockaddr *)&address, sizeof(address));
    }
    return fd;
}

enum status log_sink_open_syslog(struct log_sink *sink, struct span path)
{
    assert(path.len <= SYSLOG_PATH_BYTES_MAX);
    *sink = (struct log_sink){.is_syslog = true};
    memcpy(sink->syslog_path, path.data, path.len);
    sink->fd = connect_to_syslog(sink->syslog_path);
    return sink->fd >= 0 ? STATUS_OK : STATUS_IO;
}

void log_sink_close(struct log_sink *sink)
{
    if (sink->fd > STDERR_FILENO) {
        close(sink->fd);
    }
    sink->fd = -1;
}

bool log_sink_is_same(const struct log_sink *sink, const struct log_sink *other)
{
    struct stat stat;
    struct stat other_stat;
    return fstat(sink->fd, &stat) == 0 && fstat(other->fd, &other_stat) == 0 &&
           stat.st_dev == other_stat.st_dev && stat.st_ino == other_stat.st_ino;
}

/* --- streams --- */

/* The length of the next write: whole lines of at most PIPE_BUF bytes in total, or one longer line.
 * A write of at most PIPE_BUF bytes is not mixed with those of other writers. */
static size_t atomic_bytes(struct span lines)
{
    if (lines.len <= PIPE_BUF) {
        return lines.len;
    }
    const char *newline = memrchr(lines.data, '\n', PIPE_BUF);
    return newline != NULL ? (size_t)(newline + 1 - lines.data) : span_find(lines, '\n') + 1;
}

static ssize_t write_stream(const struct log_sink *sink, struct span lines)
{
    return write(sink->fd, lines.data, sink->is_regular_file ? lines.len : atomic_bytes(lines));
}

/* --- syslog --- */

/* Write "<30>Nov 21 09:51:38 sluice[4711]: ", in local time, as syslog expects it. */
static struct span write_header(char *buffer)
{
    const time_t now_s = (time_t)(clock_wall_us() / 1000000);
    char date[sizeof("Nov 21 09:51:38")];
    struct tm local;
    localtime_r(&now_s, &local);
    const size_t len = strftime(date, sizeof(date), "%b %e %H:%M:%S", &local);
    const int n = snprintf(buffer, SYSLOG_HEADER_BYTES, "<%d>%.*s sluice[%d]: ", SYSLOG_PRIORITY,
                           (int)len, date, (int)getpid());
    return span_of(buffer, (size_t)n);
}

/* Send as many of @lines as one call takes. Returns the bytes sent, or -1: see errno. */
static ssize_t send_some(int fd, struct span lines)
{
    char buffer[SYSLOG_HEADER_BYTES];
    const struct span header = write_header(buffer);
    struct mmsghdr messages[SYSLOG_LINES_A_CALL];
    struct iovec slices[SYSLOG_LINES_A_CALL][2];
    unsigned n = 0;
    memset(messages, 0, sizeof(messages));
    while (n < SYSLOG_LINES_A_CALL && lines.len > 0) {
        const size_t len = span_find(lines, '\n');
        slices[n][0] = (struct iovec){(void *)(uintptr_t)header.data, header.len};
        slices[n][1] = (struct iovec){(void *)(uintptr_t)lines.data, len};
        messages[n].msg_hdr.msg_iov = slices[n];
        messages[n].msg_hdr.msg_iovlen = 2;
        lines = span_of(lines.data + len + 1, lines.len - len - 1);
        n++;
    }
    const int n_sent = sendmmsg(fd, messages, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    size_t bytes = 0;
    for (int i = 0; i < n_sent; i++) {
        bytes += slices[i][1].iov_len + 1;
    }
    return n_sent > 0 ? (ssize_t)bytes : -1;
}

static bool is_stale(int error)
{
    return error == ECONNREFUSED || error == ENOTCONN || error == ECONNRESET;
}

static ssize_t write_syslog(struct log_sink *sink, struct span lines)
{
    const ssize_t n = send_some(sink->fd, lines);
    if (n >= 0 || !is_stale(errno)) {
        return n;
    }
    const int fd = connect_to_syslog(sink->syslog_path);
    if (fd < 0) {
        return -1;
    }
    close(sink->fd);
    sink->fd = fd;
    return send_some(fd, lines);
}

ssize_t log_sink_write(struct log_sink *sink, struct span lines)
{
    return sink->is_syslog ? write_syslog(sink, lines) : write_stream(sink, lines);
}
