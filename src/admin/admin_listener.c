/* The admin listeners. Failures: an address or a socket path that is in use is logged with a
 * remedy. A certificate that OpenSSL refuses keeps the one before it. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/admin.h"
#include "admin/internal.h"
#include "base/log.h"
#include "net/resolver.h"
#include "tls/tls_stream.h"

/* In an iteration of the loop. In a flood each new connection closes an older one of which nothing
 * was read: several iterations pass before it is the turn of the newest, so that a request that it
 * has sent is read. Connections of an address that floods close each other: more of them are
 * accepted, so that no others wait behind them. */
enum {
    ACCEPTS_MAX = ADMIN_CONNECTIONS_MAX / 16,
    ACCEPTS_OF_FLOOD_MAX = ADMIN_CONNECTIONS_MAX,
};

static bool is_unix(const struct admin_listener *admin_listener)
{
    return admin_listener->section->endpoint.unix_path.len > 0;
}

static struct access_peer peer_of(const struct admin_listener *admin_listener, int fd,
                                  const struct sockaddr *sockaddr)
{
    struct access_peer peer = {.is_unix = is_unix(admin_listener), .uid = (uid_t)-1, .pid = -1};
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    if (!peer.is_unix) {
        peer.address = address_of_sockaddr(sockaddr);
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0) {
        peer.uid = credentials.uid;
        peer.pid = credentials.pid;
    }
    return peer;
}

static void on_accept(void *context, int fd, const struct sockaddr *sockaddr)
{
    struct admin_listener *admin_listener = context;
    const struct access_peer peer = peer_of(admin_listener, fd, sockaddr);
    if (!admin_newcomers_are_many(admin_listener->admin, &peer)) {
        admin_listener->listener.n_accepts += ACCEPTS_OF_FLOOD_MAX / ACCEPTS_MAX - 1;
    }
    if (admin_listener->n_connections >= ADMIN_CONNECTIONS_MAX &&
        !admin_connection_make_place(admin_listener, &peer)) {
        close(fd);
        return;
    }
    if (admin_connection_new(admin_listener, fd, &peer) != STATUS_OK) {
        log_warn("admin.listener", "no memory for a connection", "");
    }
}

static enum status report_failure(const struct listener_section *section, enum status status)
{
    const char *hint = "is the address one of this machine, and may the process listen there?";
    if (status == STATUS_IN_USE) {
        hint = "another process listens there: stop it, or name another address";
    } else if (errno == ENOTSOCK) {
        hint = "a file that is no socket is in the way: remove it, or name another path";
    }
    log_error("admin.listener", "cannot listen", "address=%.*s err=\"%s\" hint=\"%s\"",
              SPAN_ARGS(section->endpoint.text), strerror(errno), hint);
    return status;
}

static enum status probe_tcp(const struct endpoint *endpoint, struct resolver_address *address)
{
    if (!resolver_read_address(endpoint->host, endpoint->port, address)) {
        errno = EINVAL;
        return STATUS_IO;
    }
    return listener_probe(&address->sockaddr.any, address->bytes);
}

static enum status bind_tcp(const struct endpoint *endpoint, int *fd)
{
    struct resolver_address address;
    const enum status status = probe_tcp(endpoint, &address);
    return status == STATUS_OK ? listener_bind(&address.sockaddr.any, address.bytes, fd) : status;
}

static enum status bind_unix(struct admin_listener *admin_listener, int *fd)
{
    const enum status status = unix_listener_open(&admin_listener->unix_socket,
                                                  admin_listener->section->endpoint.unix_path,
                                                  admin_listener->section->mode);
    return status == STATUS_OK ? unix_listener_share(&admin_listener->unix_socket, fd) : status;
}

/* Use the certificates of the listener's section, from the next connection on. After a failure
 * those before are used. */
static enum status take_certificates(struct admin_listener *admin_listener)
{
    struct admin *admin = admin_listener->admin;
    struct tls_server_config *config = admin_listener->section->tls_config;
    struct certificate_problem problem = {.text = ""};
    struct tls_server *server = NULL;
    enum status status = STATUS_OK;
    if (config != NULL && admin->tls == NULL) {
        status = tls_worker_new(admin->loop, &admin->tls);
    }
    if (config != NULL && status == STATUS_OK) {
        status = tls_server_new(tls_worker_library(admin->tls), config, &server, &problem);
    }
    if (status != STATUS_OK) {
        log_error("admin.listener", "no TLS for a listener", "address=%.*s err=\"%s\"",
                  SPAN_ARGS(admin_listener->section->endpoint.text),
                  status == STATUS_INVALID ? problem.text : status_text(status));
        return status;
    }
    tls_server_succeed(admin_listener->tls, server);
    tls_server_release(admin_listener->tls);
    admin_listener->tls = server;
    return STATUS_OK;
}

static enum status open_listener(struct admin_listener *admin_listener, struct loop *loop)
{
    int fd;
    enum status status = is_unix(admin_listener)
                             ? bind_unix(admin_listener, &fd)
                             : bind_tcp(&admin_listener->section->endpoint, &fd);
    if (status != STATUS_OK) {
        unix_listener_close(&admin_listener->unix_socket);
        return report_failure(admin_listener->section, status);
    }
    status = listener_open(&admin_listener->listener, loop, fd, on_accept, admin_listener);
    admin_listener->listener.n_accepts_max = ACCEPTS_OF_FLOOD_MAX;
    if (status != STATUS_OK) {
        unix_listener_close(&admin_listener->unix_socket);
    }
    return status;
}

static void free_listener(struct admin_listener *admin_listener)
{
    list_remove(&admin_listener->node);
    listener_close(&admin_listener->listener);
    unix_listener_close(&admin_listener->unix_socket);
    admin_connections_close(admin_listener);
    tls_server_release(admin_listener->tls);
    loop_task_cancel(&admin_listener->gone);
    free(admin_listener);
}

static void on_gone(struct loop_task *task)
{
    free_listener(CONTAINER_OF(task, struct admin_listener, gone));
}

static enum status add_listener(struct admin *admin, const struct listener_section *section)
{
    struct admin_listener *admin_listener = calloc(1, sizeof(*admin_listener));
    if (admin_listener == NULL) {
        return STATUS_NO_MEMORY;
    }
    admin_listener->admin = admin;
    admin_listener->section = section;
    admin_listener->listener.fd = -1;
    admin_listener->unix_socket.fd = -1;
    list_init(&admin_listener->connections);
    loop_task_init(&admin_listener->gone, on_gone);
    enum status status = take_certificates(admin_listener);
    if (status == STATUS_OK) {
        status = open_listener(admin_listener, admin->loop);
    }
    if (status != STATUS_OK) {
        tls_server_release(admin_listener->tls);
        free(admin_listener);
        return status;
    }
    list_push_back(&admin->admin_listeners, &admin_listener->node);
    return STATUS_OK;
}

/* --- all of them --- */

static bool is_same(const struct listener_section *a, const struct listener_section *b)
{
    return span_equals(a->endpoint.text, b->endpoint.text) && a->mode == b->mode &&
           (a->tls == NULL) == (b->tls == NULL);
}

static const struct listener_section *find_section(const struct admin_section *admin,
                                                   const struct listener_section *wanted)
{
    for (size_t i = 0; i < admin->n_listeners; i++) {
        if (is_same(&admin->listeners[i], wanted)) {
            return &admin->listeners[i];
        }
    }
    return NULL;
}

static bool has_listener(const struct admin *admin, const struct listener_section *section)
{
    for (struct list *node = admin->admin_listeners.next; node != &admin->admin_listeners;
         node = node->next) {
        if (CONTAINER_OF(node, struct admin_listener, node)->section == section) {
            return true;
        }
    }
    return false;
}

static void leave(struct admin_listener *admin_listener)
{
    log_info("admin.listener", "no longer listening for operators", "address=%.*s",
             SPAN_ARGS(admin_listener->section->endpoint.text));
    listener_close(&admin_listener->listener); /* which may bring connections yet */
    unix_listener_close(&admin_listener->unix_socket);
    admin_listener->is_leaving = true;
    admin_listener->section = NULL;
    list_remove(&admin_listener->node);
    list_push_back(&admin_listener->admin->leaving, &admin_listener->node);
    admin_connections_leave(admin_listener);
    admin_listener_on_connection_gone(admin_listener);
}

enum status admin_listeners_renew(struct admin *admin, const struct policy *policy)
{
    const struct admin_section *section = &policy->admin;
    enum status result = STATUS_OK;
    const struct listener_section *control = admin->options.control;
    for (struct list *node = admin->admin_listeners.next; node != &admin->admin_listeners;) {
        struct admin_listener *admin_listener = CONTAINER_OF(node, struct admin_listener, node);
        const struct listener_section *found = admin_listener->section == control
                                                   ? control
                                                   : find_section(section, admin_listener->section);
        node = node->next;
        if (found != NULL) {
            admin_listener->section = found;
            (void)!take_certificates(admin_listener); /* failures were logged */
        } else {
            leave(admin_listener);
        }
    }
    if (control != NULL && !has_listener(admin, control)) {
        result = add_listener(admin, control);
    }
    for (size_t i = 0; i < section->n_listeners; i++) {
        if (!has_listener(admin, &section->listeners[i])) {
            const enum status status = add_listener(admin, &section->listeners[i]);
            result = result == STATUS_OK ? status : result;
        }
    }
    return result;
}

/* --- addresses to come --- */

static bool is_among(const struct listener_section *sections, size_t n, struct span place)
{
    for (size_t i = 0; i < n; i++) {
        if (span_equals(sections[i].endpoint.text, place)) {
            return true;
        }
    }
    return false;
}

static enum status probe(const struct listener_section *section)
{
    struct resolver_address address;
    struct unix_listener listener;
    if (section->endpoint.unix_path.len == 0) {
        return probe_tcp(&section->endpoint, &address);
    }
    const enum status status =
        unix_listener_open(&listener, section->endpoint.unix_path, section->mode);
    if (status == STATUS_OK) {
        unix_listener_close(&listener);
    }
    return status;
}

enum status admin_probe(const struct policy *before, const struct policy *after, struct span *place)
{
    enum status result = STATUS_OK;
    for (size_t i = 0; i < after->admin.n_listeners; i++) {
        const struct listener_section *section = &after->admin.listeners[i];
        const struct span text = section->endpoint.text;
        if (is_among(before->admin.listeners, before->admin.n_listeners, text) ||
            is_among(before->listeners, before->n_listeners, text)) {
            continue; /* it is ours */
        }
        const enum status status = probe(section);
        if (status != STATUS_OK) {
            result = report_failure(section, status);
            *place = text;
        }
    }
    return result;
}

void admin_listener_on_connection_gone(struct admin_listener *admin_listener)
{
    if (admin_listener->is_leaving && admin_listener->n_connections == 0) {
        loop_at_iteration_end(admin_listener->admin->loop, &admin_listener->gone);
    }
}

static void close_all(struct list *admin_listeners)
{
    while (!list_is_empty(admin_listeners)) {
        free_listener(CONTAINER_OF(admin_listeners->next, struct admin_listener, node));
    }
}

void admin_listeners_close(struct admin *admin)
{
    close_all(&admin->admin_listeners);
    close_all(&admin->leaving);
}

static void log_listener(const struct admin_listener *admin_listener)
{
    struct resolver_address bound = {.bytes = sizeof(bound.sockaddr)};
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (is_unix(admin_listener) ||
        getsockname(admin_listener->listener.fd, &bound.sockaddr.any, &bound.bytes) != 0) {
        log_info("admin.listener", "listening for operators", "address=%.*s",
                 SPAN_ARGS(admin_listener->section->endpoint.text));
        return;
    }
    const struct address host = address_of_sockaddr(&bound.sockaddr.any);
    const bool is_ipv6 = bound.sockaddr.any.sa_family == AF_INET6;
    const uint16_t port =
        ntohs(is_ipv6 ? bound.sockaddr.ipv6.sin6_port : bound.sockaddr.ipv4.sin_port);
    address_write(&host, &text);
    log_info("admin.listener", "listening for operators",
             is_ipv6 ? "address=[%.*s]:%u" : "address=%.*s:%u", SPAN_ARGS(text_span(&text)), port);
}

void admin_listeners_log(const struct admin *admin)
{
    for (struct list *node = admin->admin_listeners.next; node != &admin->admin_listeners;
         node = node->next) {
        log_listener(CONTAINER_OF(node, struct admin_listener, node));
    }
}
