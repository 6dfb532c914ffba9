/* Where operators connect. Failures: an address that is taken, or a socket's path that is,
 * is told with what to do. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/admin_connection.h"
#include "admin/internal.h"
#include "base/log.h"
#include "net/resolver.h"

static bool is_unix(const struct admin_door *door)
{
    return door->section->endpoint.unix_path.len > 0;
}

static struct access_peer peer_of(const struct admin_door *door, int fd,
                                  const struct sockaddr *sockaddr)
{
    struct access_peer peer = {.is_unix = is_unix(door), .uid = (uid_t)-1, .pid = -1};
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
    struct admin_door *door = context;
    const struct access_peer peer = peer_of(door, fd, sockaddr);
    if (door->n_connections >= ADMIN_CONNECTIONS_MAX && !admin_connection_make_place(door)) {
        close(fd);
        return;
    }
    if (admin_connection_new(door, fd, &peer) != STATUS_OK) {
        log_warn("admin.door", "no memory for a connection", "");
    }
}

static enum status tell_failure(const struct listener_section *section, enum status status)
{
    const char *hint = "see admin in the policy";
    if (status == STATUS_IN_USE) {
        hint = "another process listens there: stop it, or change admin";
    } else if (errno == ENOTSOCK) {
        hint = "a file that is no socket is in the way: remove it, or change admin";
    }
    log_error("admin.door", "cannot listen", "address=%.*s err=\"%s\" hint=\"%s\"",
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

static enum status bind_unix(struct admin_door *door, int *fd)
{
    const enum status status = unix_listener_open(
        &door->unix_socket, door->section->endpoint.unix_path, door->section->mode);
    return status == STATUS_OK ? unix_listener_share(&door->unix_socket, fd) : status;
}

static enum status open_door(struct admin_door *door, struct loop *loop)
{
    int fd;
    enum status status =
        is_unix(door) ? bind_unix(door, &fd) : bind_tcp(&door->section->endpoint, &fd);
    if (status != STATUS_OK) {
        unix_listener_close(&door->unix_socket);
        return tell_failure(door->section, status);
    }
    status = listener_open(&door->listener, loop, fd, on_accept, door);
    if (status != STATUS_OK) {
        unix_listener_close(&door->unix_socket);
    }
    return status;
}

static void free_door(struct admin_door *door)
{
    list_remove(&door->node);
    listener_close(&door->listener);
    unix_listener_close(&door->unix_socket);
    admin_connections_close(door);
    loop_task_cancel(&door->gone);
    free(door);
}

static void on_gone(struct loop_task *task)
{
    free_door(CONTAINER_OF(task, struct admin_door, gone));
}

static enum status add_door(struct admin *admin, const struct listener_section *section)
{
    struct admin_door *door = calloc(1, sizeof(*door));
    if (door == NULL) {
        return STATUS_NO_MEMORY;
    }
    door->admin = admin;
    door->section = section;
    door->listener.fd = -1;
    door->unix_socket.fd = -1;
    list_init(&door->connections);
    loop_task_init(&door->gone, on_gone);
    const enum status status = open_door(door, admin->loop);
    if (status != STATUS_OK) {
        free(door);
        return status;
    }
    list_push_back(&admin->doors, &door->node);
    return STATUS_OK;
}

/* --- all of them --- */

static bool is_same(const struct listener_section *a, const struct listener_section *b)
{
    return span_equals(a->endpoint.text, b->endpoint.text) && a->mode == b->mode;
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

static bool has_door(const struct admin *admin, const struct listener_section *section)
{
    for (struct list *node = admin->doors.next; node != &admin->doors; node = node->next) {
        if (CONTAINER_OF(node, struct admin_door, node)->section == section) {
            return true;
        }
    }
    return false;
}

static void leave(struct admin_door *door)
{
    log_info("admin.door", "no longer listening for operators", "address=%.*s",
             SPAN_ARGS(door->section->endpoint.text));
    listener_close(&door->listener); /* which may bring connections yet */
    unix_listener_close(&door->unix_socket);
    door->is_leaving = true;
    door->section = NULL;
    list_remove(&door->node);
    list_push_back(&door->admin->leaving, &door->node);
    admin_connections_leave(door);
    admin_door_on_connection_gone(door);
}

enum status admin_doors_renew(struct admin *admin, const struct policy *policy)
{
    const struct admin_section *section = &policy->admin;
    enum status result = STATUS_OK;
    for (struct list *node = admin->doors.next; node != &admin->doors;) {
        struct admin_door *door = CONTAINER_OF(node, struct admin_door, node);
        const struct listener_section *found = find_section(section, door->section);
        node = node->next;
        if (found != NULL) {
            door->section = found;
        } else {
            leave(door);
        }
    }
    for (size_t i = 0; i < section->n_listeners; i++) {
        if (!has_door(admin, &section->listeners[i])) {
            const enum status status = add_door(admin, &section->listeners[i]);
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
            result = tell_failure(section, status);
            *place = text;
        }
    }
    return result;
}

void admin_door_on_connection_gone(struct admin_door *door)
{
    if (door->is_leaving && door->n_connections == 0) {
        loop_at_turn_end(door->admin->loop, &door->gone);
    }
}

static void close_all(struct list *doors)
{
    while (!list_is_empty(doors)) {
        free_door(CONTAINER_OF(doors->next, struct admin_door, node));
    }
}

void admin_doors_close(struct admin *admin)
{
    close_all(&admin->doors);
    close_all(&admin->leaving);
}

static void log_door(const struct admin_door *door)
{
    struct resolver_address bound = {.bytes = sizeof(bound.sockaddr)};
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (is_unix(door) || getsockname(door->listener.fd, &bound.sockaddr.any, &bound.bytes) != 0) {
        log_info("admin.door", "listening for operators", "address=%.*s",
                 SPAN_ARGS(door->section->endpoint.text));
        return;
    }
    const struct address host = address_of_sockaddr(&bound.sockaddr.any);
    const bool is_ipv6 = bound.sockaddr.any.sa_family == AF_INET6;
    const uint16_t port =
        ntohs(is_ipv6 ? bound.sockaddr.ipv6.sin6_port : bound.sockaddr.ipv4.sin_port);
    address_write(&host, &text);
    log_info("admin.door", "listening for operators",
             is_ipv6 ? "address=[%.*s]:%u" : "address=%.*s:%u", SPAN_ARGS(text_span(&text)), port);
}

void admin_doors_log(const struct admin *admin)
{
    for (struct list *node = admin->doors.next; node != &admin->doors; node = node->next) {
        log_door(CONTAINER_OF(node, struct admin_door, node));
    }
}
