#include "proxy/listening.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/listener.h"

static uint16_t port_of(const struct resolver_address *address)
{
    return ntohs(address->sockaddr.any.sa_family == AF_INET6 ? address->sockaddr.ipv6.sin6_port
                                                             : address->sockaddr.ipv4.sin_port);
}

/* --- what the policy names --- */

static enum status tell_failure(const struct listener_section *section, enum status status)
{
    const char *hint = "see listen in the policy";
    if (status == STATUS_IN_USE) {
        hint = "another process listens there: stop it, or change listen";
    } else if (errno == ENOTSOCK) {
        hint = "a file that is no socket is in the way: remove it, or change listen";
    }
    log_error("proxy.listening", "cannot listen", "address=%.*s err=\"%s\" hint=\"%s\"",
              SPAN_ARGS(section->endpoint.text), strerror(errno), hint);
    return status;
}

static bool is_of(const struct listening_place *place, const struct endpoint *endpoint,
                  const struct resolver_address *wanted)
{
    if (place->is_unix || endpoint->unix_path.len > 0) {
        return place->is_unix &&
               span_equals(span_of_text(place->unix_socket.address.sun_path), endpoint->unix_path);
    }
    return place->wanted.bytes == wanted->bytes &&
           memcmp(&place->wanted.sockaddr, &wanted->sockaddr, wanted->bytes) == 0;
}

static bool has(const struct listening *listening, const struct listening_place *place)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        if (listening->places[i] == place) {
            return true;
        }
    }
    return false;
}

/* Several listeners may name one place, where the kernel chooses the port: each has its own. */
static struct listening_place *find(const struct listening *before,
                                    const struct listening *listening,
                                    const struct endpoint *endpoint,
                                    const struct resolver_address *wanted)
{
    for (size_t i = 0; i < before->n_places; i++) {
        if (is_of(before->places[i], endpoint, wanted) && !has(listening, before->places[i])) {
            return before->places[i];
        }
    }
    return NULL;
}

/* An address of ours may be in the way, as 0.0.0.0 is of 127.0.0.1: that is well,
 * all sockets are shared. */
static bool is_ours(const struct listening *before, const struct resolver_address *address)
{
    for (size_t i = 0; i < before->n_places; i++) {
        const struct listening_place *place = before->places[i];
        if (!place->is_unix && port_of(&place->address) == port_of(address)) {
            return true;
        }
    }
    return false;
}

static enum status probe(const struct listening_place *place, const struct listening *before)
{
    const struct resolver_address *address = &place->wanted;
    const enum status status = listener_probe(&address->sockaddr.any, address->bytes);
    return status == STATUS_IN_USE && is_ours(before, address) ? STATUS_OK : status;
}

static enum status open_unix(struct listening_place *place, const struct listener_section *section,
                             struct given_sockets *given)
{
    const struct span path = section->endpoint.unix_path;
    int fd = -1;
    if (given != NULL && given_sockets_share_unix(given, path, &fd) != STATUS_OK) {
        return STATUS_IO;
    }
    if (fd >= 0) { /* its file is not ours */
        place->unix_socket = (struct unix_listener){.fd = fd, .address = unix_socket_address(path)};
        place->is_given = true;
        return STATUS_OK;
    }
    return unix_listener_open(&place->unix_socket, path, section->mode);
}

static enum status open_place(struct listening_place *place, const struct listener_section *section,
                              const struct listening *before)
{
    place->address = place->wanted;
    place->is_new = true;
    place->is_unix = section->endpoint.unix_path.len > 0;
    place->unix_socket.fd = -1;
    place->given_fd = -1;
    if (place->is_unix) {
        return open_unix(place, section, before->given);
    }
    if (before->given != NULL && given_sockets_share(before->given, &place->wanted.sockaddr.any,
                                                     &place->given_fd) != STATUS_OK) {
        return STATUS_IO;
    }
    place->is_given = place->given_fd >= 0;
    return place->is_given ? STATUS_OK : probe(place, before);
}

/* --- opening --- */

static enum status add(struct listening *listening, const struct listener_section *section,
                       const struct listening *before)
{
    const struct endpoint *endpoint = &section->endpoint;
    struct resolver_address wanted = {.bytes = 0};
    if (endpoint->unix_path.len == 0 &&
        !resolver_read_address(endpoint->host, endpoint->port, &wanted)) {
        errno = EINVAL;
        return tell_failure(section, STATUS_IO);
    }
    struct listening_place *place = find(before, listening, endpoint, &wanted);
    if (place != NULL) {
        place->is_new = false;
    } else {
        place = calloc(1, sizeof(*place));
        if (place == NULL) {
            return STATUS_NO_MEMORY;
        }
        place->wanted = wanted;
        const enum status status = open_place(place, section, before);
        if (status != STATUS_OK) {
            free(place);
            return tell_failure(section, status);
        }
    }
    listening->places[listening->n_places++] = place;
    return STATUS_OK;
}

enum status listening_open(struct listening *listening, const struct policy *policy,
                           const struct listening *before)
{
    *listening = (struct listening){.given = before->given};
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const enum status status = add(listening, &policy->listeners[i], before);
        if (status != STATUS_OK) {
            listening_discard(listening);
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
    if (place->is_unix) {
        return unix_listener_share(&place->unix_socket, fd);
    }
    if (place->given_fd >= 0) {
        *fd = fcntl(place->given_fd, F_DUPFD_CLOEXEC, 0);
        return *fd >= 0 ? STATUS_OK : STATUS_IO;
    }
    const enum status status = listener_bind(&address->sockaddr.any, address->bytes, fd);
    if (status == STATUS_OK) {
        learn_port(*fd, address);
    }
    return status;
}

static void close_offers(const struct listening_offer *offers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (offers[i].fd >= 0) {
            close(offers[i].fd);
        }
    }
}

enum status listening_offer(struct listening *listening, const struct policy *policy, bool all,
                            struct listening_offer *offers)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        struct listening_place *place = listening->places[i];
        offers[i] = (struct listening_offer){
            .place = place,
            .fd = -1,
            .proxy_protocol = policy->listeners[i].proxy_protocol,
            .is_given = place->is_given,
        };
        const enum status status =
            all || place->is_new ? bind_place(place, &offers[i].fd) : STATUS_OK;
        if (status != STATUS_OK) {
            close_offers(offers, i);
            return tell_failure(&policy->listeners[i], status);
        }
    }
    return STATUS_OK;
}

/* --- the log --- */

static void log_place(const struct listening_place *place, const char *message)
{
    const struct resolver_address *address = &place->address;
    if (place->is_unix) {
        log_info("proxy.listening", message, "address=unix:%s",
                 place->unix_socket.address.sun_path);
        return;
    }
    const struct address host = address_of_sockaddr(&address->sockaddr.any);
    const bool is_ipv6 = address->sockaddr.any.sa_family == AF_INET6;
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(&host, &text);
    log_info("proxy.listening", message, is_ipv6 ? "address=[%.*s]:%u" : "address=%.*s:%u",
             SPAN_ARGS(text_span(&text)), port_of(address));
}

void listening_log(const struct listening *listening)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        if (listening->places[i]->is_new) {
            log_place(listening->places[i], "listening");
        }
    }
}

/* --- the end --- */

static void close_place(struct listening_place *place)
{
    unix_listener_close(&place->unix_socket);
    if (place->given_fd >= 0) {
        close(place->given_fd);
        place->given_fd = -1;
    }
}

static void drop(struct listening_place *place)
{
    close_place(place);
    free(place);
}

void listening_close(struct listening *listening)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        close_place(listening->places[i]);
    }
}

void listening_part(struct listening *before, const struct listening *after)
{
    for (size_t i = 0; i < before->n_places; i++) {
        if (!has(after, before->places[i])) {
            close_place(before->places[i]);
        }
    }
}

void listening_succeed(struct listening *before, const struct listening *after)
{
    for (size_t i = 0; i < before->n_places; i++) {
        if (!has(after, before->places[i])) {
            log_place(before->places[i], "listening no more");
            drop(before->places[i]);
        }
    }
    before->n_places = 0;
}

void listening_discard(struct listening *after)
{
    for (size_t i = 0; i < after->n_places; i++) {
        if (after->places[i]->is_new) {
            drop(after->places[i]);
        }
    }
    after->n_places = 0;
}

void listening_free(struct listening *listening)
{
    for (size_t i = 0; i < listening->n_places; i++) {
        drop(listening->places[i]);
    }
    listening->n_places = 0;
}
