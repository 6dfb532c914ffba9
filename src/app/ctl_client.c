/* Happy path: connect, write the request, read up to the end of the connection, which
 * the request asks for; then what was read is looked at. Failures: each is told in a
 * sentence that names the place. */

#include "app/ctl_client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "http/chunked.h"
#include "http/head.h"
#include "http/message.h"
#include "net/unix_socket.h"

enum {
    ANSWER_BYTES_MAX = 256 * 1024 * 1024,
    FIRST_BYTES = 64 * 1024,
    HEAD_BYTES_MAX = 64 * 1024,
    TIMEOUT_US = 60 * 1000 * 1000, /* more than the other side takes for anything */
    REQUEST_HEAD_BYTES = 16 * 1024,
};

static enum status fail(char *why, enum status status, const struct ctl_place *place,
                        const char *what)
{
    if (place->unix_path[0] != '\0') {
        (void)snprintf(why, CTL_WHY_BYTES_MAX, "unix:%.200s: %s", place->unix_path, what);
    } else {
        (void)snprintf(why, CTL_WHY_BYTES_MAX, "%.200s port %u: %s", place->host, place->port,
                       what);
    }
    return status;
}

static enum status fail_errno(char *why, const struct ctl_place *place)
{
    const bool is_late =
        errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS || errno == EALREADY;
    return fail(why, is_late ? STATUS_TIMEOUT : STATUS_UNREACHABLE, place,
                is_late ? "no answer in time" : strerror(errno));
}

/* --- connecting --- */

/* Who is stopped and goes on, by a shell or with the machine, finds its calls interrupted: with
 * time-outs they do not go on by themselves. */
static bool is_interrupted(ssize_t result)
{
    return result < 0 && errno == EINTR;
}

static uint64_t timeout_from_now(void)
{
    return clock_monotonic_us() + TIMEOUT_US;
}

/* @option is SO_RCVTIMEO or SO_SNDTIMEO, and the next call has what is left: one that was
 * interrupted not all of it once more. */
static void set_timeout(int fd, int option, uint64_t ends_us)
{
    const uint64_t now_us = clock_monotonic_us();
    const uint64_t left_us = now_us < ends_us ? ends_us - now_us : 1; /* 0 would be for ever */
    const struct timeval left = {.tv_sec = (time_t)(left_us / 1000000),
                                 .tv_usec = (suseconds_t)(left_us % 1000000)};
    (void)setsockopt(fd, SOL_SOCKET, option, &left, sizeof(left));
}

/* Interrupted, connecting to a unix socket has not begun, and to an address it goes on: on Linux
 * both are waited for by another call. */
static int connect_to(int family, const struct sockaddr *address, socklen_t bytes)
{
    const uint64_t ends_us = timeout_from_now();
    int result;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    do {
        set_timeout(fd, SO_SNDTIMEO, ends_us);
        result = connect(fd, address, bytes);
    } while (is_interrupted(result));
    if (result != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static enum status connect_unix(const struct ctl_place *place, int *fd, char *why)
{
    const struct span path = span_of_text(place->unix_path);
    if (path.len >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        return fail(why, STATUS_INVALID, place, "the path of a unix socket is not that long");
    }
    const struct sockaddr_un address = unix_socket_address(path);
    *fd = connect_to(AF_UNIX, (const struct sockaddr *)(const void *)&address, sizeof(address));
    return *fd >= 0 ? STATUS_OK : fail_errno(why, place);
}

/* The first address that takes a connection. */
static enum status connect_tcp(const struct ctl_place *place, int *fd, char *why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", place->port);
    const int error = getaddrinfo(place->host, port, &hints, &found);
    if (error != 0) {
        return fail(why, STATUS_UNREACHABLE, place, gai_strerror(error));
    }
    *fd = -1;
    for (const struct addrinfo *one = found; one != NULL && *fd < 0; one = one->ai_next) {
        *fd = connect_to(one->ai_family, one->ai_addr, one->ai_addrlen);
    }
    freeaddrinfo(found);
    return *fd >= 0 ? STATUS_OK : fail_errno(why, place);
}

/* --- asking --- */

static void write_host(const struct ctl_place *place, struct text *text)
{
    const bool is_ipv6 = strchr(place->host, ':') != NULL;
    if (place->unix_path[0] != '\0') {
        text_add_literal(text, "localhost");
    } else {
        text_add_format(text, is_ipv6 ? "[%s]:%u" : "%s:%u", place->host, place->port);
    }
}

static void write_head(const struct ctl_place *place, const char *method, struct span target,
                       struct span body, struct text *text)
{
    text_add_format(text, "%s ", method);
    text_add(text, target);
    text_add_literal(text, " HTTP/1.1\r\nHost: ");
    write_host(place, text);
    text_add_literal(text, "\r\nAccept: application/json\r\nConnection: close\r\n");
    if (place->token[0] != '\0') {
        text_add_format(text, "Authorization: Bearer %s\r\n", place->token);
    }
    if (strcmp(method, "GET") != 0 && (strcmp(method, "DELETE") != 0 || body.len > 0)) {
        text_add_literal(text, "Content-Type: application/json\r\n");
        message_write_field_u64(text, SPAN("Content-Length"), body.len);
    }
    text_add_literal(text, "\r\n");
}

static ssize_t send_some(int fd, struct span bytes)
{
    const uint64_t ends_us = timeout_from_now();
    ssize_t n;
    do {
        set_timeout(fd, SO_SNDTIMEO, ends_us);
        n = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    } while (is_interrupted(n));
    return n;
}

static ssize_t receive_some(int fd, char *to, size_t room)
{
    const uint64_t ends_us = timeout_from_now();
    ssize_t n;
    do {
        set_timeout(fd, SO_RCVTIMEO, ends_us);
        n = recv(fd, to, room, 0);
    } while (is_interrupted(n));
    return n;
}

static bool send_all(int fd, struct span bytes)
{
    while (bytes.len > 0) {
        const ssize_t n = send_some(fd, bytes);
        if (n < 0) {
            return false;
        }
        bytes = span_of(bytes.data + n, bytes.len - (size_t)n);
    }
    return true;
}

/* Up to the end of the connection; one byte of room is left behind. */
static enum status read_all(int fd, struct ctl_answer *answer, size_t *n_read)
{
    size_t capacity = 0;
    *n_read = 0;
    for (;;) {
        if (*n_read + 1 >= capacity) {
            capacity = capacity == 0 ? FIRST_BYTES : 2 * capacity;
            char *larger = capacity <= ANSWER_BYTES_MAX ? realloc(answer->memory, capacity) : NULL;
            if (larger == NULL) {
                return capacity > ANSWER_BYTES_MAX ? STATUS_TOO_LARGE : STATUS_NO_MEMORY;
            }
            answer->memory = larger;
        }
        const ssize_t n = receive_some(fd, answer->memory + *n_read, capacity - *n_read - 1);
        if (n == 0) {
            return STATUS_OK;
        }
        if (n < 0) {
            return STATUS_IO;
        }
        *n_read += (size_t)n;
    }
}

/* --- the answer --- */

/* The content behind the head, decoded in place. False: it is cut short, or none. */
static bool take_body(const struct head *head, char *data, size_t len, struct ctl_answer *answer)
{
    struct chunked_decoder decoder;
    struct http_error error;
    struct span content = span_of(data, len);
    size_t consumed;
    switch (head->body) {
    case BODY_NONE:
        content.len = 0;
        break;
    case BODY_LENGTH:
        if (head->content_length > len) {
            return false;
        }
        content.len = (size_t)head->content_length;
        break;
    case BODY_CHUNKED:
        chunked_decoder_init(&decoder);
        if (chunked_decode(&decoder, data, len, &content, &consumed, &error) != PARSE_DONE) {
            return false;
        }
        break;
    case BODY_UNTIL_CLOSE:
        break;
    }
    answer->body = answer->memory + (content.data - answer->memory);
    answer->body_bytes = content.len;
    answer->body[content.len] = '\0';
    return true;
}

static bool is_json(const struct head *head)
{
    const struct field *type = head_find_name(head, SPAN("Content-Type"));
    return type != NULL && (span_starts_with(type->value, SPAN("application/json")) ||
                            span_starts_with(type->value, SPAN("application/problem+json")));
}

static bool parse_answer(struct ctl_answer *answer, size_t len)
{
    struct field fields[HEAD_FIELDS_MAX];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = HEAD_FIELDS_MAX, .head_bytes_max = HEAD_BYTES_MAX};
    struct head head;
    size_t start = 0;
    size_t consumed;
    do {
        const struct span rest = span_of(answer->memory + start, len - start);
        if (head_parse_response(&parser, rest, false, &head, &consumed) != PARSE_DONE) {
            return false;
        }
        start += consumed;
    } while (head.status < 200);
    answer->status = head.status;
    answer->is_json = is_json(&head);
    return take_body(&head, answer->memory + start, len - start, answer);
}

static enum status exchange(int fd, const struct ctl_place *place, struct span head,
                            struct span body, struct ctl_answer *answer, char *why)
{
    size_t len = 0;
    /* Who refuses a request may answer before it has read all of it. */
    (void)!(send_all(fd, head) && send_all(fd, body));
    const enum status status = read_all(fd, answer, &len);
    if (status == STATUS_IO) {
        return fail_errno(why, place);
    }
    if (status != STATUS_OK) {
        return fail(why, status, place, status_text(status));
    }
    if (len == 0) {
        return fail(why, STATUS_UNREACHABLE, place, "the connection was closed without an answer");
    }
    return parse_answer(answer, len)
               ? STATUS_OK
               : fail(why, STATUS_INVALID, place,
                      "what was answered is no HTTP: is sluice's admin there?");
}

enum status ctl_ask(const struct ctl_place *place, const char *method, struct span target,
                    struct span body, struct ctl_answer *answer, char why[CTL_WHY_BYTES_MAX])
{
    char buffer[REQUEST_HEAD_BYTES];
    struct text head = text_of(buffer, sizeof(buffer));
    int fd;
    *answer = (struct ctl_answer){.memory = NULL};
    write_head(place, method, target, body, &head);
    if (head.truncated) {
        return fail(why, STATUS_TOO_LARGE, place, "the request is too long");
    }
    enum status status =
        place->unix_path[0] != '\0' ? connect_unix(place, &fd, why) : connect_tcp(place, &fd, why);
    if (status != STATUS_OK) {
        return status;
    }
    status = exchange(fd, place, text_span(&head), body, answer, why);
    close(fd);
    if (status != STATUS_OK) {
        ctl_answer_close(answer);
    }
    return status;
}

void ctl_answer_close(struct ctl_answer *answer)
{
    free(answer->memory);
    *answer = (struct ctl_answer){.memory = NULL};
}
