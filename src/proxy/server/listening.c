#include "proxy/server/listening.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/listener.h"
#include "tls/tls_server.h"

static uint16_t port_of(const struct resolver_address *address)
{
    return ntohs(address->sockaddr.any.sa_family == AF_INET6 ? address->sockaddr.ipv6.sin6_port
                                                             : address->sockaddr.ipv4.sin_port);
}

/* --- what the policy names --- */

static enum status report_failure(const struct listener_section *section, enum status status)
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

static bool is_of(const struct listen_address *listen_address, const struct endpoint *endpoint,
                  const struct resolver_address *wanted)
{
    if (listen_address->is_unix || endpoint->unix_path.len > 0) {
        return listen_address->is_unix &&
               span_equals(span_of_text(listen_address->unix_socket.address.sun_path),
                           endpoint->unix_path);
    }
    return listen_address->wanted.bytes == wanted->bytes &&
           memcmp(&listen_address->wanted.sockaddr, &wanted->sockaddr, wanted->bytes) == 0;
}

static bool has(const struct listening *listening, const struct listen_address *listen_address)
{
    for (size_t i = 0; i < listening->n_addresses; i++) {
        if (listening->listen_addresses[i] == listen_address) {
            return true;
        }
    }
    return false;
}

/* Several listeners may name the same address if the kernel chooses the port: each has its own. */
static struct listen_address *find(const struct listening *before,
                                   const struct listening *listening,
                                   const struct endpoint *endpoint,
                                   const struct resolver_address *wanted)
{
    for (size_t i = 0; i < before->n_addresses; i++) {
        if (is_of(before->listen_addresses[i], endpoint, wanted) &&
            !has(listening, before->listen_addresses[i])) {
            return before->listen_addresses[i];
        }
    }
    return NULL;
}

/* Whether this process already listens on the port of @address. Such a conflict, as of 0.0.0.0
 * with 127.0.0.1, is no failure: all sockets are shared. */
static bool is_ours(const struct listening *before, const struct resolver_address *address)
{
    for (size_t i = 0; i < before->n_addresses; i++) {
        const struct listen_address *listen_address = before->listen_addresses[i];
        if (!listen_address->is_unix && port_of(&listen_address->address) == port_of(address)) {
            return true;
        }
    }
    return false;
}

static enum status probe(const struct listen_address *listen_address,
                         const struct listening *before)
{
    const struct resolver_address *address = &listen_address->wanted;
    const enum status status = listener_probe(&address->sockaddr.any, address->bytes);
    return status == STATUS_IN_USE && is_ours(before, address) ? STATUS_OK : status;
}

static enum status open_unix(struct listen_address *listen_address,
                             const struct listener_section *section, struct given_sockets *given)
{
    const struct span path = section->endpoint.unix_path;
    int fd = -1;
    if (given != NULL && given_sockets_share_unix(given, path, &fd) != STATUS_OK) {
        return STATUS_IO;
    }
    if (fd >= 0) { /* its file is not ours */
        listen_address->unix_socket =
            (struct unix_listener){.fd = fd, .address = unix_socket_address(path)};
        listen_address->is_given = true;
        return STATUS_OK;
    }
    return unix_listener_open(&listen_address->unix_socket, path, section->mode);
}

static enum status open_address(struct listen_address *listen_address,
                                const struct listener_section *section,
                                const struct listening *before)
{
    listen_address->address = listen_address->wanted;
    listen_address->is_new = true;
    listen_address->is_unix = section->endpoint.unix_path.len > 0;
    listen_address->unix_socket.fd = -1;
    listen_address->given_fd = -1;
    if (listen_address->is_unix) {
        return open_unix(listen_address, section, before->given);
    }
    if (before->given != NULL &&
        given_sockets_share(before->given, &listen_address->wanted.sockaddr.any,
                            &listen_address->given_fd) != STATUS_OK) {
        return STATUS_IO;
    }
    listen_address->is_given = listen_address->given_fd >= 0;
    return listen_address->is_given ? STATUS_OK : probe(listen_address, before);
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
        return report_failure(section, STATUS_IO);
    }
    struct listen_address *listen_address = find(before, listening, endpoint, &wanted);
    if (listen_address != NULL) {
        listen_address->is_new = false;
    } else {
        listen_address = calloc(1, sizeof(*listen_address));
        if (listen_address == NULL) {
            return STATUS_NO_MEMORY;
        }
        listen_address->wanted = wanted;
        const enum status status = open_address(listen_address, section, before);
        if (status != STATUS_OK) {
            free(listen_address);
            return report_failure(section, status);
        }
    }
    listening->listen_addresses[listening->n_addresses++] = listen_address;
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

/* The kernel chooses a port of 0 for the first socket; the other workers' sockets use the same. */
static void learn_port(int fd, struct resolver_address *address)
{
    address->bytes = sizeof(address->sockaddr);
    (void)getsockname(fd, &address->sockaddr.any, &address->bytes);
}

static enum status bind_address(struct listen_address *listen_address, int *fd)
{
    struct resolver_address *address = &listen_address->address;
    if (listen_address->is_unix) {
        return unix_listener_share(&listen_address->unix_socket, fd);
    }
    if (listen_address->given_fd >= 0) {
        *fd = fcntl(listen_address->given_fd, F_DUPFD_CLOEXEC, 0);
        return *fd >= 0 ? STATUS_OK : STATUS_IO;
    }
    const enum status status = listener_bind(&address->sockaddr.any, address->bytes, fd);
    if (status == STATUS_OK) {
        learn_port(*fd, address);
    }
    return status;
}

void listening_close_offers(const struct listening_offer *offers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (offers[i].fd >= 0) {
            close(offers[i].fd);
        }
        tls_server_release(offers[i].tls);
    }
}

enum status listening_offer(struct listening *listening, const struct policy *policy, bool all,
                            struct listening_offer *offers)
{
    for (size_t i = 0; i < listening->n_addresses; i++) {
        struct listen_address *listen_address = listening->listen_addresses[i];
        offers[i] = (struct listening_offer){
            .listen_address = listen_address,
            .fd = -1,
            .proxy_protocol = policy->listeners[i].proxy_protocol,
            .versions = policy->listeners[i].versions,
            .is_given = listen_address->is_given,
        };
        const enum status status =
            all || listen_address->is_new ? bind_address(listen_address, &offers[i].fd) : STATUS_OK;
        if (status != STATUS_OK) {
            listening_close_offers(offers, i);
            return report_failure(&policy->listeners[i], status);
        }
    }
    return STATUS_OK;
}

/* --- the log --- */

static void log_destination(const struct listen_address *listen_address, const char *message)
{
    const struct resolver_address *address = &listen_address->address;
    if (listen_address->is_unix) {
        log_info("proxy.listening", message, "address=unix:%s",
                 listen_address->unix_socket.address.sun_path);
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
    for (size_t i = 0; i < listening->n_addresses; i++) {
        if (listening->listen_addresses[i]->is_new) {
            log_destination(listening->listen_addresses[i], "listening");
        }
    }
}

/* --- the end --- */

static void close_address(struct listen_address *listen_address)
{
    unix_listener_close(&listen_address->unix_socket);
    if (listen_address->given_fd >= 0) {
        close(listen_address->given_fd);
        listen_address->given_fd = -1;
    }
}

static void drop(struct listen_address *listen_address)
{
    close_address(listen_address);
    free(listen_address);
}

void listening_close(struct listening *listening, const struct listening *after)
{
    for (size_t i = 0; i < listening->n_addresses; i++) {
        if (after == NULL || !has(after, listening->listen_addresses[i])) {
            close_address(listening->listen_addresses[i]);
        }
    }
}

void listening_succeed(struct listening *before, const struct listening *after)
{
    for (size_t i = 0; i < before->n_addresses; i++) {
        if (!has(after, before->listen_addresses[i])) {
            log_destination(before->listen_addresses[i], "listening no more");
            drop(before->listen_addresses[i]);
        }
    }
    before->n_addresses = 0;
}

void listening_discard(struct listening *after)
{
    for (size_t i = 0; i < after->n_addresses; i++) {
        if (after->listen_addresses[i]->is_new) {
            drop(after->listen_addresses[i]);
        }
    }
    after->n_addresses = 0;
}

void listening_free(struct listening *listening)
{
    for (size_t i = 0; i < listening->n_addresses; i++) {
        drop(listening->listen_addresses[i]);
    }
    listening->n_addresses = 0;
}
