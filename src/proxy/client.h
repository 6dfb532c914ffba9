/* The client side of an exchange, as the exchange sees it: whoever can take a response's head
 * and pieces of its body. */

#ifndef SLUICE_PROXY_CLIENT_H
#define SLUICE_PROXY_CLIENT_H

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
    const struct field *fields; /* of the upstream's response; NULL: an answer of our own */
    size_t n_fields;
    const struct field *own_fields; /* appended */
    size_t n_own_fields;
    enum body_kind body;  /* BODY_CHUNKED and BODY_UNTIL_CLOSE: of unknown length */
    struct span trailers; /* field lines behind a body that goes out chunked */
    bool is_switch;       /* a 101: what follows is a tunnel, and its request has ended */
};

struct client;
struct pipe;

struct client_ops {
    /* Send @response's head (NULL: it was sent) and a piece of its body; @last ends it.
     * Results as of stream_write(): with STREAM_BLOCKED, what they point to stays until
     * exchange_on_client_drained(). A whole answer may be STREAM_DONE before it is written: what
     * comes of it then is the connection's. In a tunnel @last, without a piece, ends our side
     * and leaves the client's. */
    enum stream_result (*send)(struct client *client, const struct response *response,
                               struct span piece, bool last);
    /* Send what is in @pipe, of a body of known length whose head was sent; not the last of it.
     * Results as of stream_write_pipe(). */
    enum stream_result (*send_pipe)(struct client *client, struct pipe *pipe);
    /* An interim response (1xx) to a client that understands them. */
    enum stream_result (*send_interim)(struct client *client, const struct response *response);
    /* Pieces of the request's body, or of a tunnel, are wanted: hand over what is
     * there, now and as it comes. */
    void (*pump)(struct client *client);
    /* The exchange is held, or no more: until then exchange_on_client_ended() is to be told,
     * whatever the client has sent. */
    void (*hold)(struct client *client, bool is_held);
    /* How many bytes it takes just now: IO_BLOCK_BYTES or more if it keeps up. 0: as if send() had
     * blocked, though there is nothing that would have to stay. */
    size_t (*await_room)(struct client *client);
    /* Bytes of what was sent that the client's side has not taken yet. */
    uint64_t (*unread_bytes)(struct client *client);
    /* The exchange is over and is not used any more: free it. */
    void (*on_done)(struct client *client, uint64_t now_us);
};

/* First member of whoever plays the client side. */
struct client {
    const struct client_ops *ops;
};

#endif /* SLUICE_PROXY_CLIENT_H */
