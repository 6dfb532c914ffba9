/* One connection to the server, that carries one request at a time. */

#ifndef SLUICE_BENCH_LOAD_CONNECTION_H
#define SLUICE_BENCH_LOAD_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "reply.h"
#include "shot.h"

enum connection_state {
    CONNECTION_CLOSED,
    CONNECTION_OPENING,
    CONNECTION_IDLE,
    CONNECTION_ASKING,
};

struct connection {
    int fd; /* -1: closed */
    int epoll;
    uint16_t port;
    bool is_redis;
    enum connection_state state;
    struct shot *shot; /* on its way; or NULL */
    uint64_t free_ns;  /* since when it could have sent */
    size_t next;       /* open loop: the number of its next shot */
    struct reply reply;
};

enum connection_event {
    CONNECTION_NOTHING,
    CONNECTION_FREE,     /* it is open now */
    CONNECTION_ANSWERED, /* the shot is done, and taken off */
    CONNECTION_FAILED,   /* the connection is closed; the shot, if there was one, is lost */
};

void connection_init(struct connection *connection, int epoll, uint16_t port, bool is_redis);

/* Begin to open a closed one. False: refused at once, and closed still. */
bool MUST_USE connection_open(struct connection *connection);

/* Send @request, of @shot, on an idle one. False: it failed, and is closed. */
bool MUST_USE connection_ask(struct connection *connection, struct shot *shot, struct span request);

/* What epoll tells of it. */
enum connection_event MUST_USE connection_turn(struct connection *connection, uint32_t events);

void connection_close(struct connection *connection);

#endif /* SLUICE_BENCH_LOAD_CONNECTION_H */
