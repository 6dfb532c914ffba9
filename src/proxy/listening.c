#include "proxy/listening.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/listener.h"

static bool is_unix(const struct listening_place *place)
{
    return place->section->endpoint.unix_path.len > 0;
}

static enum status tell_failure(const struct listening_place *place, enum status status)
{
    const char *hint = "see listen in the policy";
    if (status == STATUS_IN_USE) {
        hint = "another process listens there: stop it, or change listen";
    } else if (errno == ENOTSOCK) {
        hint = "a file that is no socket is in the way: remove it, or change listen";
    }
    log_error("proxy.listening", "cannot listen", "address=%.*s err=\"%s\" hint=\"%s\"",
              SPAN_ARGS(place->section->endpoint.text), strerror(errno), hint);
    return status;
}

static enum status probe(struct listening_place *place)
{
    const struct endpoint *endpoint = &place->section->endpoint;
    if (!resolver_read_address(endpoint->host, endpoint->port, &place->address)) {
        errno = EINVAL;
        return STATUS_IO;
    }
    return listener_probe(&place->address.sockaddr.any, place->address.bytes);
}

static enum status open_place(struct listening_place *place)
{
    return is_unix(place)
               ? unix_listener_open(&place->unix_socket, place->section->endpoint.unix_path,
                                    place->section->mode)
               : probe(place);
}

enum status listening_open(struct listening *listening, const struct policy *policy)
{
    *listening = (struct listening){.n_places = policy->n_listeners};
    for (size_t i = 0; i < listening->n_places; i++) {
        listening->places[i].section = &policy->listeners[i];
        listening->places[i].unix_socket.fd = -1;
    }
    for (size_t i = 0; i < listening->n_places; i++) {
        const enum status status = open_place(&listening->places[i]);
        if (status != STATUS_OK) {
            (void)!tell_failure(&listening->places[i], status);
            listening_close(listening);
            return status;
        }
    }
    return STATUS_OK;
}

/* A port of 0 is chosen by the first socket; the other workers' follow it. */
static void learn_port(int fd, struct resolver_address *address)
{
    address->bytes = sizeof(address->sockaddr);
    (void)getsockname(fd, &address->sockaddr.any, &address->bytes);
}

static enum status bind_place(struct listening_place *place, int *fd)
{
    struct resolver_address *address = &place->address;
    if (is_unix(place)) {
        return unix_listener_share(&place->unix_socket, fd);
    }
    const enum status status = listener_bind(&address->sockaddr.any, address->bytes, fd);
    if (status == STATUS_OK) {
        learn_port(*fd, address);
    }
    return status;
}

enum status listening_bind(struct listening *listening, int *fds)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        const enum status status = bind_place(&listening->places[i], &fds[i]);
        if (status != STATUS_OK) {
            (void)!tell_failure(&listening->places[i], status);
            while (i-- > 0) {
                close(fds[i]);
            }
            return status;
        }
    }
    return STATUS_OK;
}

static void log_place(const struct listening_place *place)
{
    const struct resolver_address *address = &place->address;
    if (is_unix(place)) {
        log_info("proxy.listening", "listening", "address=%.*s",
                 SPAN_ARGS(place->section->endpoint.text));
        return;
    }
    const struct address host = address_of_sockaddr(&address->sockaddr.any);
    const bool is_ipv6 = address->sockaddr.any.sa_family == AF_INET6;
    const uint16_t port =
        ntohs(is_ipv6 ? address->sockaddr.ipv6.sin6_port : address->sockaddr.ipv4.sin_port);
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(&host, &text);
    log_info("proxy.listening", "listening", is_ipv6 ? "address=[%.*s]:%u" : "address=%.*s:%u",
             SPAN_ARGS(text_span(&text)), port);
}

void listening_log(const struct listening *listening)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        log_place(&listening->places[i]);
    }
}

void listening_close(struct listening *listening)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        unix_listener_close(&listening->places[i].unix_socket);
    }
}
