#include "net/hosts.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the file --- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void read_whole(struct hosts *hosts, int fd, size_t bytes)
{
    hosts->text = malloc(bytes);
    while (hosts->text != NULL && hosts->len < bytes) {
        const ssize_t n = read(fd, hosts->text + hosts->len, bytes - hosts->len);
        if (n <= 0) {
            return; /* the file became shorter meanwhile */
        }
        hosts->len += (size_t)n;
    }
}

/* Read the file. Its status is that of the opened file, which may have been replaced since the
 * check: the next check finds the difference. */
static void read_file(struct hosts *hosts)
{
    const int fd = open(hosts->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &hosts->read_as) == 0 && S_ISREG(hosts->read_as.st_mode)) {
        const size_t size = (size_t)hosts->read_as.st_size;
        read_whole(hosts, fd, size < HOSTS_BYTES_MAX ? size : HOSTS_BYTES_MAX);
    }
    close(fd);
}

void hosts_refresh(struct hosts *hosts, uint64_t now_us)
{
    struct stat now = {0};
    if (hosts->checked_us != 0 && now_us - hosts->checked_us < HOSTS_CHECK_US) {
        return;
    }
    hosts->checked_us = now_us;
    if (stat(hosts->path, &now) != 0 || !S_ISREG(now.st_mode)) {
        hosts_close(hosts);
    } else if (!is_same(&now, &hosts->read_as)) {
        hosts_close(hosts);
        read_file(hosts);
    }
}

void hosts_close(struct hosts *hosts)
{
    free(hosts->text);
    hosts->text = NULL;
    hosts->len = 0;
    hosts->read_as = (struct stat){0};
}

/* --- its lines --- */

static struct span without_dot(struct span host)
{
    const bool has_dot = host.len > 1 && host.data[host.len - 1] == '.';
    return span_of(host.data, host.len - has_dot);
}

/* The next word of *line, up to white space; false: there is none. */
static bool next_word(struct span *line, struct span *word)
{
    size_t start = 0;
    while (start < line->len && memchr(" \t\r", line->data[start], 3) != NULL) {
        start++;
    }
    size_t end = start;
    while (end < line->len && memchr(" \t\r", line->data[end], 3) == NULL) {
        end++;
    }
    *word = span_of(line->data + start, end - start);
    *line = span_of(line->data + end, line->len - end);
    return word->len > 0;
}

/* Whether @line, `address name…`, names @host. If so, *address is its address word. */
static bool names_host(struct span line, struct span host, struct span *address)
{
    struct span word;
    line.len = span_find(line, '#');
    if (!next_word(&line, address)) {
        return false;
    }
    while (next_word(&line, &word)) {
        if (span_equals_ignore_case(without_dot(word), host)) {
            return true;
        }
    }
    return false;
}

static bool is_localhost(struct span host)
{
    static const char LABEL[] = ".localhost";
    const size_t len = sizeof(LABEL) - 1;
    return span_equals_ignore_case(host, span_of(LABEL + 1, len - 1)) ||
           (host.len > len &&
            span_equals_ignore_case(span_of(host.data + host.len - len, len), span_of(LABEL, len)));
}

size_t hosts_find(struct span text, struct span host, uint16_t port,
                  struct resolver_address *addresses)
{
    const struct span name = without_dot(host);
    struct span line;
    struct span address;
    size_t n = 0;
    while (n < RESOLVER_ADDRESSES_MAX && span_split(&text, '\n', &line)) {
        if (names_host(line, name, &address)) {
            n += resolver_read_address(address, port, &addresses[n]);
        }
    }
    if (n == 0 && is_localhost(name)) {
        n += resolver_read_address(SPAN("127.0.0.1"), port, &addresses[0]);
        n += resolver_read_address(SPAN("::1"), port, &addresses[1]);
    }
    return n;
}
