/* bench_floor [--tls CERTIFICATE KEY | --http2 CERTIFICATE KEY] PORT [UPSTREAM_PORT]: the least
 * that a proxy can do in one thread. It reads no HTTP. With --tls clients speak TLS: recv,
 * SSL_read, SSL_write, send. With --http2 they speak HTTP/2 over TLS, see http2.h.
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

#include "http2.h"
#include "secure.h"

enum { EVENTS_MAX = 256, BACKLOG = 4096, MESSAGE_BYTES_MAX = 64 * 1024 };

static const char DENIAL[] =
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n"
    "Retry-After: 60\r\nContent-Length: 43\r\n\r\n"
    "{\"title\":\"Quota exceeded\",\"status\":\"429\"}\r\n";

/* An end of a relayed connection. */
struct end {
    int fd;
    struct end *other; /* NULL: answered with DENIAL */
    SSL *ssl;          /* NULL: plain text */
};

struct relay {
    int epoll_fd;
    struct sockaddr_in upstream;
    bool has_upstream;
    SSL_CTX *tls; /* NULL: clients speak plain text */
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
    if (relay->tls != NULL && (client->ssl = secure_connection(relay->tls)) == NULL) {
        fail("a TLS connection");
    }
    if (relay->has_upstream) {
        client->other = connect_upstream(relay);
        client->other->other = client;
    }
}

static void close_end(struct end *end)
{
    if (end->fd >= 0) {
        close(end->fd);
        end->fd = -1;
        SSL_free(end->ssl);
        end->ssl = NULL;
    }
}

/* The kernel takes the closed descriptor out of the epoll. The other end's memory is left: an event
 * of it may still be in the batch. */
static void close_both(struct end *end)
{
    close_end(end);
    if (end->other != NULL) {
        close_end(end->other);
    }
}

/* Returns false at the end of the connection. */
static bool receive(const struct end *end, char *bytes, size_t *n_bytes)
{
    if (end->ssl != NULL) {
        return secure_receive(end->ssl, end->fd, bytes, MESSAGE_BYTES_MAX, n_bytes);
    }
    const ssize_t n = recv(end->fd, bytes, MESSAGE_BYTES_MAX, 0);
    *n_bytes = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool answer(const struct end *end, const char *bytes, size_t n_bytes)
{
    if (end->ssl != NULL) {
        return secure_send(end->ssl, end->fd, bytes, n_bytes);
    }
    const ssize_t n_sent = send(end->fd, bytes, n_bytes, MSG_NOSIGNAL);
    if (n_sent >= 0 && (size_t)n_sent != n_bytes) {
        errno = EMSGSIZE;
        fail("a message was not taken in one piece");
    }
    return n_sent >= 0;
}

static void on_readable(struct end *end)
{
    static char message[MESSAGE_BYTES_MAX];
    size_t n_bytes;
    if (end->fd < 0) {
        return; /* closed in this batch of events */
    }
    bool is_open = receive(end, message, &n_bytes);
    if (is_open && n_bytes > 0) {
        is_open = end->other != NULL ? answer(end->other, message, n_bytes)
                                     : answer(end, DENIAL, sizeof(DENIAL) - 1);
    }
    if (!is_open) {
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
    const bool is_http2 = argc > 3 && strcmp(argv[1], "--http2") == 0;
    const bool is_secure = is_http2 || (argc > 3 && strcmp(argv[1], "--tls") == 0);
    struct relay relay = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    if (is_secure) {
        relay.tls = secure_context(argv[2], argv[3]);
        argv += 3;
        argc -= 3;
    }
    if ((argc != 2 && argc != 3) || (is_secure && relay.tls == NULL)) {
        fprintf(stderr, "usage: bench_floor [--tls CERTIFICATE KEY | --http2 CERTIFICATE KEY] PORT "
                        "[UPSTREAM_PORT]\n");
        return 2;
    }
    relay.has_upstream = argc == 3;
    if (relay.has_upstream) {
        relay.upstream = address_of(argv[2]);
    }
    const int listener = listen_at(argv[1]);
    if (is_http2) {
        secure_take_http2(relay.tls);
        http2_serve(listener, relay.tls, relay.has_upstream ? &relay.upstream : NULL);
    }
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
