#include "connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "now.h"

enum { READ_BYTES = 16 * 1024 };

void connection_init(struct connection *connection, int epoll, uint16_t port, bool is_redis)
{
    connection->fd = -1;
    connection->epoll = epoll;
    connection->port = port;
    connection->is_redis = is_redis;
    connection->state = CONNECTION_CLOSED;
    connection->shot = NULL;
}

void connection_close(struct connection *connection)
{
    if (connection->fd >= 0) {
        close(connection->fd); /* epoll forgets it with its last descriptor */
    }
    connection->fd = -1;
    connection->state = CONNECTION_CLOSED;
}

static bool watch(struct connection *connection, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    return epoll_ctl(connection->epoll, operation, connection->fd, &event) == 0;
}

static bool begin_to_connect(const struct connection *connection)
{
    const int yes = 1;
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(connection->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    return connect(connection->fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
           errno == EINPROGRESS;
}

bool connection_open(struct connection *connection)
{
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || !begin_to_connect(connection) ||
        !watch(connection, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT)) {
        connection_close(connection);
        return false;
    }
    connection->state = CONNECTION_OPENING;
    return true;
}

bool connection_ask(struct connection *connection, struct shot *shot, struct span request)
{
    shot->sent_ns = now_ns();
    const uint64_t could_ns =
        shot->intended_ns > connection->free_ns ? shot->intended_ns : connection->free_ns;
    const uint64_t lag_ns = shot->sent_ns - could_ns;
    shot->lag_ns = lag_ns < UINT32_MAX ? (uint32_t)lag_ns : UINT32_MAX;
    reply_start(&connection->reply);
    /* One request is under way at most, so that there is room for it in the socket. */
    if (send(connection->fd, request.data, request.len, MSG_NOSIGNAL) != (ssize_t)request.len) {
        connection_close(connection);
        return false;
    }
    connection->shot = shot;
    connection->state = CONNECTION_ASKING;
    return true;
}

static enum connection_event fail(struct connection *connection)
{
    connection_close(connection);
    return CONNECTION_FAILED;
}

static enum connection_event finish_opening(struct connection *connection)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0 ||
        !watch(connection, EPOLL_CTL_MOD, EPOLLIN)) {
        return fail(connection);
    }
    connection->state = CONNECTION_IDLE;
    connection->free_ns = now_ns();
    return CONNECTION_FREE;
}

static enum connection_event finish_shot(struct connection *connection)
{
    connection->free_ns = now_ns();
    connection->shot->done_ns = connection->free_ns;
    connection->shot->status = connection->reply.status;
    connection->shot = NULL;
    connection->state = CONNECTION_IDLE;
    if (connection->reply.closes) {
        connection_close(connection);
    }
    return CONNECTION_ANSWERED;
}

static enum connection_event read_some(struct connection *connection)
{
    char data[READ_BYTES];
    const ssize_t n = recv(connection->fd, data, sizeof(data), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return CONNECTION_NOTHING;
    }
    if (n <= 0 || connection->state != CONNECTION_ASKING) {
        return fail(connection);
    }
    const enum reply_state state = (connection->is_redis ? reply_read_redis : reply_read_http)(
        &connection->reply, data, (size_t)n);
    switch (state) {
    case REPLY_PARTIAL:
        return CONNECTION_NOTHING;
    case REPLY_DONE:
        return finish_shot(connection);
    case REPLY_BAD:
        return fail(connection);
    }
    return fail(connection);
}

enum connection_event connection_turn(struct connection *connection, uint32_t events)
{
    if (connection->state == CONNECTION_OPENING) {
        return finish_opening(connection);
    }
    return events != 0 && connection->fd >= 0 ? read_some(connection) : CONNECTION_NOTHING;
}
