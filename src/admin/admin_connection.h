/* A connection to the admin API, for admin_connection.c, which serves it, and admin_connections.c,
 * which looks after those of a listener. */

#ifndef SLUICE_ADMIN_ADMIN_CONNECTION_H
#define SLUICE_ADMIN_ADMIN_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/access.h"
#include "admin/internal.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "http/head.h"
#include "net/stream.h"

enum {
    HEAD_BYTES_MAX = 16 * 1024,
    FIELDS_MAX = 64,
    IN_BYTES = HEAD_BYTES_MAX + 4096, /* a head that is too long is refused before this is full */
    CHUNK_SIZE_BYTES = 24,            /* of the line before a chunk */
};

enum connection_state {
    STATE_HANDSHAKE, /* of TLS */
    STATE_IDLE,      /* no byte of a request has been read */
    STATE_READ_HEAD,
    STATE_READ_BODY,
    STATE_RECEIVE, /* the body is passed to its resource in pieces; then the answer is awaited */
    STATE_HANDLE,
    STATE_WRITE,
    STATE_STREAM, /* lines are sent as they come */
    STATE_LINGER,
    N_STATES,
};

struct admin_connection {
    struct list node; /* of the listener's */
    struct admin_listener *admin_listener;
    struct access_peer peer;
    enum access_title known_by; /* by which a request was let in last, not for the page */
    struct stream stream;
    struct timer timer;
    struct loop_task answered; /* continues after the resource's answer, outside its call stack */
    enum connection_state state;
    uint64_t began_us, state_began_us; /* of the monotonic clock */

    char in[IN_BYTES];
    size_t in_start; /* of the unused bytes */
    size_t in_end;   /* of the bytes read */

    struct head_parser parser;
    struct field fields[FIELDS_MAX];
    char method[METHOD_BYTES_MAX]; /* as sent */
    size_t method_bytes;
    char target[ADMIN_PATH_BYTES_MAX]; /* as sent: path and query */
    size_t target_bytes;
    char path[ADMIN_PATH_BYTES_MAX]; /* decoded: captures */
    char allow[RESOURCE_ALLOW_BYTES];
    struct resource_match match;
    struct access_verdict verdict;
    bool is_head; /* no content is sent */
    bool keep_alive;
    uint8_t minor;

    struct body_reader reader;
    bool is_received; /* STATE_RECEIVE: all of the body */
    bool is_held;     /* STATE_RECEIVE: the resource takes no more for now */
    char body[ADMIN_BODY_BYTES_MAX];
    size_t body_bytes;

    bool has_request;   /* a request has begun and has not ended */
    bool has_asked;     /* at least one request was received */
    bool is_on_its_way; /* STATE_WRITE: the answer was passed to the stream */
    bool is_viewer;     /* counted in admin->n_viewers */
    void *kept_line;    /* STATE_STREAM: bytes that were not taken yet; owned */
    struct admin_request request;
    char out_head[ANSWER_HEAD_BYTES];
};

/* A connection of @peer has come of which no request was let in yet. */
void admin_newcomers_add(struct admin *admin, const struct access_peer *peer);

/* The first request of such a connection was let in. */
void admin_newcomers_let_in(struct admin *admin, const struct access_peer *peer);

/* Close it. Its request, if it has one, is told that the client is gone. */
void admin_connection_free(struct admin_connection *connection);

/* In STATE_STREAM: send @line, unless the line before is not taken yet. The connection may be freed
 * afterwards. */
void admin_connection_send_line(struct admin_connection *connection, struct span line);

/* In STATE_STREAM: end the answer. The connection may be freed. */
void admin_connection_end_stream(struct admin_connection *connection);

/* Give its client the time of a head for its first request. */
void admin_connection_await_head(struct admin_connection *connection);

#endif /* SLUICE_ADMIN_ADMIN_CONNECTION_H */
