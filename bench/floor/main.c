/* bench_floor PORT [UPSTREAM_PORT]: the least that a proxy can do in one thread. It reads no HTTP.
 *
 * With UPSTREAM_PORT each connection from a client has one of its own to 127.0.0.1:UPSTREAM_PORT,
 * and what comes on either is sent on the other: recv, send, recv, send for a request. Without it
 * whatever comes is answered with 429: recv, send. A message must come in one piece, and be taken
 * in one: true on loopback of what bench/run asks for, and checked. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_MAX = 256, BACKLOG = 4096, MESSAGE_BYTES_MAX = 64 * 1024 };

static const char DENIAL[] =
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n"
    "Retry-After: 60\r\nContent-Length: 43\r\n\r\n"
    "{\"title\":\"Quota exceeded\",\"status\":\"429\"}\r\n";

/* An end of a relayed connection. */
struct end {
    int fd;
    struct end *other; /* NULL: answered with DENIAL */
};

struct relay {
    int epoll_fd;
    struct sockaddr_in upstream;
    bool has_upstream;
};

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in address_of(const char *port)
{
    char *end;
    const unsigned long number = strtoul(port, &end, 10);
    if (*port == '\0' || *end != '\0' || number == 0 || number > UINT16_MAX) {
        errno = EINVAL;
        fail(port);
    }
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)number)};
}

static void watch(const struct relay *relay, int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    if (epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        fail("epoll_ctl");
    }
}

static struct end *new_end(const struct relay *relay, int fd)
{
    struct end *end = malloc(sizeof(*end));
    const int on = 1;
    if (end == NULL || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
        fail("a connection");
    }
    *end = (struct end){.fd = fd};
    watch(relay, fd, end);
    return end;
}

static struct end *connect_upstream(const struct relay *relay)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, (const struct sockaddr *)&relay->upstream, sizeof(relay->upstream)) != 0) {
        fail("the upstream");
    }
    return new_end(relay, fd);
}

static void on_new_client(const struct relay *relay, int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        fail("accept4");
    }
    struct end *client = new_end(relay, fd);
    if (relay->has_upstream) {
        client->other = connect_upstream(relay);
        client->other->other = client;
    }
}

/* The kernel takes the closed descriptor out of the epoll. The other end's memory is left: an event
 * of it may still be in the batch. */
static void close_both(struct end *end)
{
    if (end->fd >= 0) {
        close(end->fd);
        end->fd = -1;
    }
    if (end->other != NULL && end->other->fd >= 0) {
        close(end->other->fd);
        end->other->fd = -1;
    }
}

static void on_readable(struct end *end)
{
    static char message[MESSAGE_BYTES_MAX];
    if (end->fd < 0) {
        return; /* closed in this batch of events */
    }
    const ssize_t n = recv(end->fd, message, sizeof(message), 0);
    if (n <= 0) {
        close_both(end);
        return;
    }
    const bool is_relayed = end->other != NULL;
    const char *answer = is_relayed ? message : DENIAL;
    const size_t n_answer = is_relayed ? (size_t)n : sizeof(DENIAL) - 1;
    const int to = is_relayed ? end->other->fd : end->fd;
    const ssize_t n_sent = send(to, answer, n_answer, MSG_NOSIGNAL);
    if (n_sent >= 0 && (size_t)n_sent != n_answer) {
        errno = EMSGSIZE;
        fail("a message was not taken in one piece");
    }
    if (n_sent < 0) {
        close_both(end);
    }
}

static int listen_at(const char *port)
{
    const struct sockaddr_in address = address_of(port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, BACKLOG) != 0) {
        fail("the port to listen on");
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: bench_floor PORT [UPSTREAM_PORT]\n");
        return 2;
    }
    struct relay relay = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .has_upstream = argc == 3};
    if (relay.has_upstream) {
        relay.upstream = address_of(argv[2]);
    }
    const int listener = listen_at(argv[1]);
    watch(&relay, listener, NULL);
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        const int n = epoll_wait(relay.epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL) {
                on_new_client(&relay, listener);
            } else {
                on_readable(events[i].data.ptr);
            }
        }
    }
}
