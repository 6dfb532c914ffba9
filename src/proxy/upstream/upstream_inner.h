/* What the files of connections to servers share. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_INNER_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_INNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "http/field.h"
#include "net/stream.h"
#include "proxy/upstream/upstream_user.h"

struct resolver_address;
struct upstream;
struct upstream_http2;
struct upstream_server;
struct upstream_user;

/* What a connection does that carries streams, or may do (upstream_http2.c). */
struct upstream_carrier_ops {
    /* The connection is made, or could not be: @status, or no TLS for @reason (NULL: that is not
     * why). */
    void (*on_connected)(struct upstream *connection);
    void (*on_failed)(struct upstream *connection, enum status status, const char *reason);
    /* The server has agreed on HTTP/1.1: there is no more HTTP/2 on it. */
    void (*fall_back)(struct upstream *connection);
    /* As of a stream_handler. */
    void (*on_readable)(struct upstream *connection);
    void (*on_drained)(struct upstream *connection);
    /* Close it, on which no stream is left, with GOAWAY. */
    void (*end)(struct upstream *connection);
    /* It is being closed; and is to be freed, with @connection. False: that is done later. */
    void (*on_close)(struct upstream *connection);
    bool (*free)(struct upstream_http2 *http2);
};

/* A stream, each as the function of upstream.h (upstream_stream.c). */
struct upstream_stream_ops {
    void (*close)(struct upstream *upstream);
    enum stream_result (*send)(struct upstream *upstream, const struct span *pieces, int n_pieces,
                               bool last);
    void (*pump)(struct upstream *upstream);
    bool (*is_unprocessed)(const struct upstream *upstream);
    enum upstream_loss (*loss)(struct upstream *upstream, bool is_counted);
    const struct stream *(*socket)(const struct upstream *upstream);
    void (*keep_trailers)(struct upstream *upstream, char *memory);
    size_t (*trailer_bytes)(const struct upstream *upstream);
    bool (*is_held_back)(const struct upstream *upstream);
    bool (*is_at_work)(const struct upstream *upstream);
    bool (*hand_over)(struct upstream *upstream, struct upstream_user *user);
    bool (*is_starved)(const struct upstream *upstream);
};

extern const struct stream_handler UPSTREAM_HANDLER;

/* Initialize @upstream, which is all zero, as a connection to @server without a socket. */
void upstream_prepare(struct upstream *upstream, struct upstream_server *server);

/* Make a new connection to @server, without a slot. Errors as of upstream_acquire(). */
MUST_USE enum status upstream_connect_anew(struct upstream_server *server,
                                           struct upstream **upstream);

/* Whether the connection's address is still among those of its server. */
bool upstream_is_current(struct upstream *upstream);

/* Detach the connection from its request. */
void upstream_leave_user(struct upstream *upstream);

/* Make @upstream carry the request of @user. */
void upstream_begin_request(struct upstream *upstream, struct upstream_user *user);

/* Make @upstream idle. If its server has a max_connections, it may go to a waiting request. */
void upstream_enter_idle(struct upstream *upstream, uint64_t now_us);

/* Remove @upstream from the idle list, if it is there. */
void upstream_leave_idle(struct upstream *upstream);

/* Release the slot of a connection to @server. */
void upstream_release_slot(struct upstream_server *server);

/* The addresses of @server have changed: close its idle connections to addresses that are gone. */
void upstream_close_outdated(struct upstream_server *server);

/* Transfer the latest idle connection of @server, which must have one, and its slot to the caller.
 * Returns the descriptor, or -1 for the slot alone, with TLS; *address is the peer's address,
 * *is_doubtful that of the connection. */
int upstream_give_up_idle(struct upstream_server *server, struct resolver_address *address,
                          bool *is_doubtful);

/* The head of a request, as HTTP/1.1 writes it, as fields of HTTP/2. */

/* Room for HEAD_FIELDS_MAX of a client and its binary fields, and for all that the proxy adds. */
enum { UPSTREAM_HEAD_FIELDS_MAX = 1024 };

struct upstream_head_fields {
    struct field fields[UPSTREAM_HEAD_FIELDS_MAX]; /* they point into the head */
    size_t n;
    uint16_t status;   /* of the answer, where the head cannot be sent: 400 or 431 */
    const char *fault; /* then: why; a static phrase */
    size_t n_more;     /* private: see below */
};

/* Fill @fields. Names become lower case in the memory of @head. ":authority" is its Host, or
 * @own_name without one. Each member of the list of a binary field (see grpc.h) is a field; those
 * beyond the first of each line are @n_more_max at most. No field is ever left out: the server
 * would take the request for another one. False: it is refused, and @fields say why. */
MUST_USE bool upstream_head_fields_read(struct upstream_head_fields *fields, struct span head,
                                        bool is_https, struct span own_name, size_t n_more_max);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_INNER_H */
