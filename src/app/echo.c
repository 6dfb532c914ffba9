/* sluice echo [ADDRESS]: a small HTTP server that answers with what it received, as JSON. The
 * upstream of the demonstration and of the tests. When it listens it says where, in one line. */

#include "app/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/echo_connection.h"
#include "base/address.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/resolver.h"

static const char DEFAULT_ADDRESS[] = "127.0.0.1:9000";

struct echo_server {
    struct loop *loop;
    struct listener listener;
    struct wakeup stop;
    struct list connections;
};

static struct wakeup *stop_on_signal; /* a signal handler has no context */

static void on_signal(int number)
{
    (void)number;
    wakeup_signal(stop_on_signal);
}

static void on_stop(void *context)
{
    struct echo_server *server = context;

    loop_stop(server->loop);
}

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    struct echo_server *server = context;

    (void)peer;
    if (echo_connection_new(server->loop, fd, &server->connections) != STATUS_OK) {
        log_warn("echo", "no memory for a connection", "");
    }
}

/* `127.0.0.1:9000` or `[::1]:9000`. */
static bool read_address(struct span text, struct resolver_address *address)
{
    size_t colon = text.len;
    uint64_t port;

    while (colon > 0 && text.data[colon - 1] != ':') {
        colon--;
    }
    if (colon == 0 ||
        !span_to_u64(span_of(text.data + colon, text.len - colon), UINT16_MAX, &port)) {
        return false;
    }
    struct span host = span_of(text.data, colon - 1);
    if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
        host = span_of(host.data + 1, host.len - 2);
    }
    return resolver_read_address(host, (uint16_t)port, address);
}

/* Where @fd listens: with the port that the kernel chose. */
static void tell_address(int fd)
{
    struct resolver_address bound = {.bytes = sizeof(bound.sockaddr)};
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));

    if (getsockname(fd, &bound.sockaddr.any, &bound.bytes) != 0) {
        return;
    }
    struct address address = address_of_sockaddr(&bound.sockaddr.any);
    bool is_ipv6 = bound.sockaddr.any.sa_family == AF_INET6;
    uint16_t port = ntohs(is_ipv6 ? bound.sockaddr.ipv6.sin6_port : bound.sockaddr.ipv4.sin_port);
    address_write(&address, &text);
    printf(is_ipv6 ? "sluice echo: listening on [%.*s]:%u\n"
                   : "sluice echo: listening on %.*s:%u\n",
           SPAN_ARGS(text_span(&text)), (unsigned)port);
    fflush(stdout);
}

static enum status listen_on(struct echo_server *server, const struct resolver_address *address)
{
    int fd;
    enum status status = listener_probe(&address->sockaddr.any, address->bytes);

    if (status == STATUS_OK) {
        status = listener_bind(&address->sockaddr.any, address->bytes, &fd);
    }
    if (status != STATUS_OK) {
        return status;
    }
    status = listener_open(&server->listener, server->loop, fd, on_accept, server);
    if (status == STATUS_OK) {
        tell_address(fd);
    }
    return status;
}

static void catch_signals(struct wakeup *stop)
{
    struct sigaction stopping = {.sa_handler = on_signal};
    struct sigaction ignoring = {.sa_handler = SIG_IGN};

    stop_on_signal = stop;
    sigaction(SIGINT, &stopping, NULL);
    sigaction(SIGTERM, &stopping, NULL);
    sigaction(SIGPIPE, &ignoring, NULL); /* a client that is gone is told by the write */
}

static enum status serve(struct echo_server *server, const struct resolver_address *address)
{
    enum status status = loop_new(&server->loop);
    if (status != STATUS_OK) {
        return status;
    }
    status = wakeup_init(&server->stop, server->loop, on_stop, server);
    if (status != STATUS_OK) {
        goto out;
    }
    catch_signals(&server->stop);
    status = listen_on(server, address);
    if (status == STATUS_OK) {
        status = loop_run(server->loop);
        listener_close(&server->listener);
        echo_connections_free(&server->connections);
    }
    wakeup_close(&server->stop);
out:
    loop_free(server->loop);
    return status;
}

int echo_command(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : DEFAULT_ADDRESS;
    struct echo_server server = {.loop = NULL};
    struct resolver_address address;

    list_init(&server.connections);
    if (argc > 2 || !read_address(span_of_text(where), &address)) {
        fprintf(stderr, "usage: sluice echo [ADDRESS:PORT]   (%s unless told otherwise)\n",
                DEFAULT_ADDRESS);
        return EXIT_USAGE;
    }
    errno = 0;
    enum status status = serve(&server, &address);
    if (status != STATUS_OK) {
        fprintf(stderr, "sluice echo: cannot listen on %s: %s\n", where,
                errno != 0 ? strerror(errno) : status_text(status));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
