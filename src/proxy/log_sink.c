/* syslog gets a datagram a line, many with one call, as RFC 3164 and every /dev/log take
 * them: facility daemon, severity info. Its socket is connected anew when the one at the
 * other end is another one. */

#include "proxy/log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    SYSLOG_PRIORITY = 3 * 8 + 6, /* daemon, info */
    SYSLOG_HEADER_BYTES = 64,
    SYSLOG_LINES_A_CALL = 64,
};

/* --- places --- */

/* A pipe may have a slow reader. Opened once more it is non-blocking for us alone, and not for
 * those who share our stdout; a write to it then fails where it would wait. */
static int open_stdout(void)
{
    struct stat stat;
    if (fstat(STDOUT_FILENO, &stat) == 0 && S_ISFIFO(stat.st_mode)) {
        const int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        return fd >= 0 ? fd : STDOUT_FILENO;
    }
    return STDOUT_FILENO;
}

/* Without a listener it is made all the same: one may come. -1: errno. */
static int open_syslog(struct span path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _Static_assert(SYSLOG_PATH_BYTES_MAX < sizeof(address.sun_path), "the kernel takes such paths");
    memcpy(address.sun_path, path.data, path.len);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)connect(fd, (const struct sockaddr *)&address, sizeof(address));
    }
    return fd;
}

static int open_place(const struct log_section *log)
{
    switch (log->target) {
    case LOG_TO_STDOUT:
        return open_stdout();
    case LOG_TO_FILE: /* O_NONBLOCK: a named pipe without a reader fails, and waits for none */
        return open(log->path.data, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0640);
    case LOG_TO_SYSLOG:
        return open_syslog(log->path);
    }
    return -1;
}

static void tell_failure(const struct log_section *log)
{
    log_error("proxy.log_sink", "cannot open the access log", "place=\"%.*s\" err=\"%s\"",
              SPAN_ARGS(log->path), strerror(errno));
}

enum status log_place_open(const struct log_section *log, int *fd)
{
    *fd = -1;
    if (log->format == LOG_FORMAT_OFF) {
        return STATUS_OK;
    }
    *fd = open_place(log);
    if (*fd < 0) {
        tell_failure(log);
        return STATUS_IO;
    }
    return STATUS_OK;
}

void log_place_reopen(const struct log_section *log, int fd)
{
    if (fd < 0 || log->target != LOG_TO_FILE) {
        return;
    }
    const int opened = open_place(log);
    if (opened < 0 || dup3(opened, fd, O_CLOEXEC) < 0) {
        tell_failure(log);
    } else {
        log_info("proxy.log_sink", "the access log is opened anew", "file=\"%.*s\"",
                 SPAN_ARGS(log->path));
    }
    log_place_close(opened);
}

void log_place_close(int fd)
{
    if (fd > STDOUT_FILENO) {
        close(fd);
    }
}

/* --- writing --- */

void log_sink_init(struct log_sink *sink, const struct log_section *place, int fd)
{
    struct stat stat;
    *sink = (struct log_sink){.fd = fd, .is_syslog = place->target == LOG_TO_SYSLOG};
    sink->is_file = fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
    if (sink->is_syslog) {
        memcpy(sink->syslog_path, place->path.data, place->path.len);
    }
}

/* How many bytes of @lines may be written without waiting for a reader: a file takes all; a pipe or
 * a terminal that polls writable takes PIPE_BUF, cut behind a whole line where there is one. */
static size_t writable_bytes(const struct log_sink *sink, struct span lines)
{
    struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
    if (sink->is_file) {
        return lines.len;
    }
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) {
        return 0;
    }
    if (lines.len <= PIPE_BUF) {
        return lines.len;
    }
    const char *newline = memrchr(lines.data, '\n', PIPE_BUF);
    return newline == NULL ? PIPE_BUF : (size_t)(newline + 1 - lines.data);
}

static struct span write_stream(const struct log_sink *sink, struct span lines, const char **why)
{
    while (lines.len > 0) {
        const size_t bytes = writable_bytes(sink, lines);
        if (bytes == 0) {
            *why = "the reader is too slow";
            break;
        }
        const ssize_t n = write(sink->fd, lines.data, bytes);
        if (n >= 0) {
            lines = span_of(lines.data + n, lines.len - (size_t)n);
        } else if (errno != EINTR) {
            *why = strerror(errno);
            break;
        }
    }
    return lines;
}

/* "<30>Nov 21 09:51:38 sluice[4711]: ", in the machine's time, as syslog has it. */
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

/* Send the first of @lines, as many as go with one call. How many went; -1: errno. */
static int send_some(int fd, struct span header, struct span lines, size_t *bytes)
{
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
    *bytes = 0;
    for (int i = 0; i < n_sent; i++) {
        *bytes += slices[i][1].iov_len + 1;
    }
    return n_sent;
}

static bool is_stale(int error)
{
    return error == ECONNREFUSED || error == ENOTCONN || error == ECONNRESET;
}

/* Under the same number, for all who use it. */
static bool connect_anew(const struct log_sink *sink)
{
    const int opened = open_syslog(span_of_text(sink->syslog_path));
    const bool is_done = opened >= 0 && dup3(opened, sink->fd, O_CLOEXEC) >= 0;
    log_place_close(opened);
    return is_done;
}

static struct span write_syslog(const struct log_sink *sink, struct span lines, const char **why)
{
    char buffer[SYSLOG_HEADER_BYTES];
    const struct span header = write_header(buffer);
    bool may_connect = true;
    while (lines.len > 0) {
        size_t bytes;
        if (send_some(sink->fd, header, lines, &bytes) > 0) {
            lines = span_of(lines.data + bytes, lines.len - bytes);
        } else if (is_stale(errno) && may_connect && connect_anew(sink)) {
            may_connect = false;
        } else if (errno != EINTR) {
            *why = errno == EAGAIN ? "syslog is too slow" : strerror(errno);
            break;
        }
    }
    return lines;
}

struct span log_sink_write(struct log_sink *sink, struct span lines, const char **why)
{
    return sink->is_syslog ? write_syslog(sink, lines, why) : write_stream(sink, lines, why);
}
