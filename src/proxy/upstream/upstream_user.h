/* What uses a connection to a server: a request, what it is asked, and the events that it gets. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_USER_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/span.h"
#include "base/status.h"
#include "http/head.h"

struct buffer_pools;
struct pipe;
struct upstream;
struct upstream_user;

/* What a request is, for the choice of a connection that is shared. */
struct upstream_request {
    struct address client;  /* as address_of_client() gives it */
    size_t head_bytes;      /* of its lines, about */
    size_t more_fields_max; /* than it has may be sent of it */
    bool has_body;
    uint64_t body_bytes; /* UINT64_MAX: not known */
    bool is_call;        /* to a server of gRPC, where calls of one client share a connection */
    bool is_long;       /* for its body alone it shares no connection: see upstream_http2_owner() */
    bool is_one_client; /* `client` stands for no others, as a proxy would */
    bool is_alone;      /* on connections of its client's own */
    bool is_single;     /* the same, while no other request of the client is on it */
};

/* How a request was lost. */
enum upstream_loss {
    LOSS_PLAIN,    /* its connection ended or broke */
    LOSS_SHARED,   /* the same, and another request has told so */
    LOSS_SUSPECT,  /* the same, and it may have been the cause */
    LOSS_REFUSED,  /* the server ended it for what it says */
    LOSS_CROWDED,  /* the same, or for the others on its connection */
    LOSS_DECLINED, /* the server says that it has not begun with it */
};

/* The events that a connection reports to its user: the mirror of struct client_ops. After an event
 * marked "over", or that returns false, the connection may belong to another user or be closed. */
struct upstream_events {
    /* A new connection is made, or failed: @status is from stream_connect_status(). Over. */
    void (*on_connected)(struct upstream_user *user, enum status status);
    /* It is made, but TLS with the server is not, for @reason, which is valid during the call.
     * Over. */
    void (*on_insecure)(struct upstream_user *user, const char *reason);
    /* The request goes on @upstream from now on, which is being made by HTTP/1.1. */
    void (*on_moved)(struct upstream_user *user, struct upstream *upstream);

    /* --- the request --- */

    /* A part of the blocked output was sent. */
    void (*on_progress)(struct upstream_user *user);
    /* All of the blocked output was sent. */
    void (*on_drained)(struct upstream_user *user);

    /* --- the answer --- */

    /* The first bytes have come: it is too late to try another server. */
    void (*on_byte)(struct upstream_user *user);
    /* user->response is an interim response. False: blocked, or over. */
    bool (*on_interim)(struct upstream_user *user);
    /* user->response is a 101. True: continue with on_body(). False: blocked, or over. */
    bool (*on_switch)(struct upstream_user *user);
    /* user->response is the final head. False: over. */
    bool (*on_head)(struct upstream_user *user);
    /* The head came without a piece of the body. */
    void (*on_head_alone)(struct upstream_user *user);
    /* How many bytes the user accepts now: IO_BLOCK_BYTES or more if it keeps up. 0: it is blocked
     * until upstream_pump(). */
    size_t (*await_room)(struct upstream_user *user);
    /* A piece of the body, or of the server's direction of a tunnel; @last ends it. False: blocked
     * until upstream_pump(), or over. */
    bool (*on_body)(struct upstream_user *user, struct span piece, bool last);
    /* The same with the bytes in @pipe. They are not the end of the body, and its head was sent. */
    bool (*on_pipe)(struct upstream_user *user, struct pipe *pipe);
    /* Whether the user is blocked and cannot take input. */
    bool (*is_blocked)(struct upstream_user *user);

    /* --- failures --- */

    /* The connection ended or broke before the end of the answer. */
    void (*on_lost)(struct upstream_user *user);
    /* The answer is malformed, for @reason. */
    void (*on_bad)(struct upstream_user *user, const char *reason);

    /* --- at the end --- */

    /* Set *client to the address that shares are counted by. False: it may be many clients. */
    bool (*find_client)(struct upstream_user *user, struct address *client);

    /* --- of a stream of HTTP/2 --- */

    /* Where the user keeps the body: a head has come, or the window of the stream was opened. */
    void (*on_begun)(struct upstream_user *user);
    void (*describe)(struct upstream_user *user, struct upstream_request *request);
    /* The request is not sent: the server would take it for a fault. To be answered with @status,
     * for @reason, which is static. Over. */
    void (*on_refused)(struct upstream_user *user, uint16_t status, const char *reason);
};

/* The request that uses a connection, and the storage for its answer. */
struct upstream_user {
    const struct upstream_events *events;
    struct buffer_pools *pools; /* for heads */
    struct head *response;      /* the latest head of the answer */
    struct field *fields;       /* of that head: an array of n_fields_max */
    size_t n_fields_max;
    size_t head_bytes_max;
    const struct field *trailers; /* n_trailers of the request; by HTTP/2 alone */
    size_t n_trailers;
    bool keeps_body; /* all of the body that was sent, until on_begun(): it may be sent again */
    bool is_head_request;          /* a HEAD: its answer has no body */
    bool takes_pipes, needs_http1; /* on_pipe() may be called; the request offers an upgrade */
};

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_USER_H */
