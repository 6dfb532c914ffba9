/* Where operators connect. Failures: an address that is taken, or a socket's path that is, is told with what to do. */

#include <errno.h>
#include <netinet/in.h>
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
    if (door->n_connections >= ADMIN_CONNECTIONS_MAX && !admin_connection_close_oldest(door)) {
        close(fd);
        return;
    }
    if (admin_connection_new(door, fd, &peer) != STATUS_OK) {
        log_warn("admin.door", "no memory for a connection", "");
    }
}

static enum status tell_failure(const struct admin_door *door, enum status status)
{
    const char *hint = "see admin in the policy";
    if (status == STATUS_IN_USE) {
        hint = "another process listens there: stop it, or change admin";
    } else if (errno == ENOTSOCK) {
        hint = "a file that is no socket is in the way: remove it, or change admin";
    }
    log_error("admin.door", "cannot listen", "address=%.*s err=\"%s\" hint=\"%s\"",
              SPAN_ARGS(door->section->endpoint.text), strerror(errno), hint);
    return status;
}

static enum status bind_tcp(const struct endpoint *endpoint, int *fd)
{
    struct resolver_address address;
    if (!resolver_read_address(endpoint->host, endpoint->port, &address)) {
        errno = EINVAL;
        return STATUS_IO;
    }
    const enum status status = listener_probe(&address.sockaddr.any, address.bytes);
    return status == STATUS_OK ? listener_bind(&address.sockaddr.any, address.bytes, fd) : status;
}

static enum status bind_unix(struct admin_door *door, int *fd)
{
    const enum status status = unix_listener_open(
        &door->unix_socket, door->section->endpoint.unix_path, door->section->mode);
    return status == STATUS_OK ? unix_listener_share(&door->unix_socket, fd) : status;
}

enum status admin_door_open(struct admin_door *door, struct admin *admin,
                            const struct listener_section *section)
{
    int fd;
    *door = (struct admin_door){.admin = admin, .section = section, .unix_socket = {.fd = -1}};
    list_init(&door->connections);
    enum status status = is_unix(door) ? bind_unix(door, &fd) : bind_tcp(&section->endpoint, &fd);
    if (status != STATUS_OK) {
        unix_listener_close(&door->unix_socket);
        return tell_failure(door, status);
    }
    status = listener_open(&door->listener, admin->loop, fd, on_accept, door);
    if (status != STATUS_OK) {
        unix_listener_close(&door->unix_socket);
    }
    return status;
}

void admin_door_close(struct admin_door *door)
{
    listener_close(&door->listener);
    unix_listener_close(&door->unix_socket);
    admin_connections_close(door);
}

void admin_door_log(const struct admin_door *door)
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
