/* The client side of an exchange, as the exchange sees it: it takes a response's head and pieces
 * of its body. */

#ifndef SLUICE_PROXY_EXCHANGE_CLIENT_H
#define SLUICE_PROXY_EXCHANGE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "http/field.h"
#include "http/head.h"
#include "net/stream.h"

/* A response on its way to the client. Fields that are hop_by_hop are not sent. */
struct response {
    uint16_t status;
    const struct field *fields; /* of the upstream's response; NULL: made by the proxy */
    size_t n_fields;
    const struct field *own_fields; /* appended */
    size_t n_own_fields;
    enum body_kind body;  /* BODY_CHUNKED and BODY_UNTIL_CLOSE: of unknown length */
    struct span trailers; /* field lines after a body that is sent chunked */
    bool is_switch;       /* a 101: a tunnel follows, and the request has ended */
};

struct client;
struct client_identity;
struct pipe;

struct client_ops {
    /* Send @response's head (NULL: it was sent) and a piece of its body; @last ends the body.
     * Results as of stream_write(). With STREAM_BLOCKED, the memory that @response and @piece
     * point to must stay until exchange_on_client_drained(). A whole answer may be STREAM_DONE
     * before it is written: the connection then handles the result of the write. In a tunnel,
     * @last with an empty piece ends our side of the connection only. */
    enum stream_result (*send)(struct client *client, const struct response *response,
                               struct span piece, bool last);
    /* Send the content of @pipe: a piece, not the last, of a body of known length whose head was
     * sent. Results as of stream_write_pipe(). */
    enum stream_result (*send_pipe)(struct client *client, struct pipe *pipe);
    /* Send an interim response (1xx) to a client that understands them. */
    enum stream_result (*send_interim)(struct client *client, const struct response *response);
    /* Whether the rest of the request's body, of known length, has come. */
    bool (*has_whole_body)(struct client *client);
    /* Then: how many bytes that is. NULL: it is not known by this protocol. */
    uint64_t (*rest_bytes)(struct client *client);
    /* The exchange takes pieces of the request's body, or of a tunnel: hand over the bytes that
     * are there now, and later ones as they come. */
    void (*pump)(struct client *client);
    /* The exchange is held, or no longer held. While it is held, exchange_on_client_ended() must
     * be called when the client ends its side, even if bytes from the client are still unread. */
    void (*hold)(struct client *client, bool is_held);
    /* The exchange begins or ends to wait for the request's body, without a server. Meanwhile the
     * connection may be evicted. */
    void (*await_body)(struct client *client, bool is_awaited);
    /* How many bytes the client takes now: IO_BLOCK_BYTES or more if it keeps up. 0: blocked as
     * after send(), but no memory has to stay. */
    size_t (*await_room)(struct client *client);
    /* Bytes that were sent and that the client's side has not taken yet. */
    uint64_t (*unread_bytes)(struct client *client);
    /* How many answers wait for the client to take more of them from the same connection, this one
     * included. NULL: a connection has one answer at a time. */
    unsigned (*n_blocked)(struct client *client);
    /* The exchange is over and is not used any more: free it. */
    void (*on_done)(struct client *client, uint64_t now_us);
};

/* First member of each struct that implements the client side. */
struct client {
    const struct client_ops *ops;
    const struct stream *tls; /* the connection, for what its handshake agreed on; NULL: plain */
    struct client_identity *identity; /* that the connection keeps; NULL: none */
    bool is_http2;
    bool is_leaving;     /* its reset is read in this iteration or the next: no server is asked */
    uint8_t grpc_status; /* over HTTP/2: that the client got, of a gRPC call; GRPC_NONE: none yet */
};

#endif /* SLUICE_PROXY_EXCHANGE_CLIENT_H */
