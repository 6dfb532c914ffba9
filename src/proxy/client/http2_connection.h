/* HTTP/2 on a downstream: one session, and an exchange for each stream. For the files of the client
 * room only.
 *
 * The downstream keeps the socket, the peer, the timeout and the place among the connection limits.
 * While its phase is DOWNSTREAM_HTTP2 it hands all else to the functions here. */

#ifndef SLUICE_PROXY_CLIENT_HTTP2_CONNECTION_H
#define SLUICE_PROXY_CLIENT_HTTP2_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/span.h"
#include "http2/session.h"
#include "net/loop.h"
#include "proxy/client/eviction.h"
#include "proxy/client/stream_clients.h"
#include "proxy/exchange/client.h"
#include "proxy/exchange/exchange.h"

struct client_env;
struct downstream;
struct exchange_config;
struct http2_connection;

/* Initialise the pool that requests are taken from. */
void http2_init_pool(struct pool *pool);

/* Begin HTTP/2: our SETTINGS are due, and @first (at most IO_BLOCK_BYTES) was read already. False:
 * no memory, and nothing has changed. */
MUST_USE bool http2_begin(struct downstream *downstream, struct span first);

/* Free all that belongs to HTTP/2; no exchange is left. NULL is a no-op. */
void http2_free(struct http2_connection *connection);

/* End all exchanges: the client is gone, or the proxy ends the connection, with a reset. */
enum http2_end { HTTP2_END_CLIENT_GONE, HTTP2_END_CUT };
void http2_end_requests(struct http2_connection *connection, enum http2_end end);

/* Cut the requests under @expired. Returns whether there were any. */
bool http2_cut_expired(struct http2_connection *connection, const struct exchange_config *expired);

/* The downstream's stream can be read; what it could not write at once is written, or a part of
 * it. */
void http2_on_readable(struct http2_connection *connection);
void http2_on_drained(struct http2_connection *connection);
void http2_on_progress(struct http2_connection *connection);

/* The connection was idle for too long, or its first request did not come. */
void http2_on_timeout(struct http2_connection *connection);

/* The worker is draining: GOAWAY; the connection closes after its last stream. */
void http2_drain(struct http2_connection *connection);

/* As evict() of the client_connection_ops. */
MUST_USE enum eviction_kind http2_evict(struct http2_connection *connection);

/* --- private to http2_connection.c and http2_request.c --- */

/* A block of a request's body that waits for the exchange; in a block of the worker's small
 * ones. */
struct http2_body_block {
    struct http2_body_block *next;
    uint32_t start; /* of what the exchange has not been given, or still uses */
    uint32_t end;   /* of what has come */
    char bytes[];
};

/* A stream and its exchange. It outlives the exchange while the end of an answer is not written. */
struct http2_request {
    struct client client; /* seen by the exchange */
    struct http2_stream stream;
    struct stream_slot slot;
    struct http2_connection *connection;
    struct client_env *clients;
    struct exchange_config *config; /* a reference */
    void *memory;                   /* of the exchange; NULL: it is over */
    struct exchange *exchange;      /* NULL: not begun, or over */
    char *head_block;               /* the request's names and values; NULL: returned */
    char *answer_block;             /* a copy of the end of a short answer; NULL: none */
    struct http2_body_block *first; /* of the body; NULL: none waits */
    struct http2_body_block *last;
    uint32_t n_given;       /* bytes of the first block that the exchange uses */
    uint64_t began_us;      /* monotonic: the first byte of the head */
    uint64_t waits_from_us; /* monotonic: since when the client is waited for, with awaits_body or
                               the whole answer in the stream; or EVICTION_NEVER */
    bool wants_body;        /* the exchange takes pieces of the body */
    bool awaits_body;       /* and no server waits for them */
    bool is_body_ended;     /* the last byte has come */
    bool is_shut_out;       /* its end waits for a window, and counts in connection->n_shut_out */
    struct list node;       /* in connection->requests */
    struct list awaiting;   /* in connection->awaiting_room, or in no list */
    struct list gathering;  /* in connection->gathering, or in no list */
    struct timeout timeout; /* the answer is complete, and its end waits for the client */
    struct loop_task death; /* frees it at the end of the iteration */
};

struct http2_connection {
    struct downstream *downstream;
    struct http2_session *session;
    struct list requests;      /* struct http2_request */
    struct list awaiting_room; /* those whose exchange waits for the window to open */
    struct list gathering;     /* those with small pieces that the exchange gets after this read */
    struct stream_client *client; /* whose requests they are; NULL: they are not counted */
    size_t n_begun;               /* requests so far */
    unsigned n_shut_out;          /* own answers that wait for a window: at most SHUT_OUT_MAX */
    struct http2_room room;       /* for the next head */
    struct http2_request *next;   /* the request that the room belongs to; NULL: none */
    char *block;                  /* bytes that were read and not processed; NULL: none */
    struct span unread;           /* of them */
    void *kept;                   /* a copy of what the socket did not take; NULL: none */
    uint64_t counted_abuse[HTTP2_ABUSE_KINDS]; /* in the worker's meters already */
    uint64_t read_us;                          /* monotonic: when bytes came last */
    uint64_t head_from_us;       /* monotonic: the begin of a head that is not whole */
    bool is_ended;               /* only GOAWAY is to be sent, and has its time */
    bool is_resting;             /* no request is under way, and the timeout for that runs */
    struct timeout head_timeout; /* of a head that has begun */
    struct timeout ping_timeout; /* of a client that sends nothing while requests are under way */
    struct loop_task flush;      /* frames may be due */
    struct loop_task go_on;      /* unread bytes are left */
};

/* Frames may be due: write them at the end of the iteration. */
void http2_wake(struct http2_connection *connection);

/* Publish when the connection may be evicted: a request begins or ends to wait for its client. */
void http2_publish(struct http2_connection *connection);

/* Take the memory of a request under the configuration in force, with the room for its head.
 * NULL: no memory. */
struct http2_request *http2_request_new(struct http2_connection *connection, uint64_t now_us);

/* Its head is complete: begin the exchange. */
void http2_request_begin(struct http2_request *request, bool has_body, uint64_t now_us);

/* A piece of the body has come. A small one joins connection->gathering if more bytes are unread.
 * False: no memory. */
MUST_USE bool http2_request_on_body(struct http2_request *request, struct span piece, bool is_last);

/* Hand over the pieces that wait, if the exchange takes them. */
void http2_request_end_gathering(struct http2_request *request);

/* The whole piece of the answer that was to be sent is written. */
void http2_request_on_sent(struct http2_request *request);

/* The client's window has opened, or the socket takes bytes again. */
void http2_request_on_room(struct http2_request *request);

/* The client has ended the stream, or left: end the exchange, if it is not over. */
void http2_request_on_reset(struct http2_request *request);

/* Whether @response, one of the proxy's own, answers a gRPC call: it is then sent by
 * http2_grpc_send(), whole and without its body. */
bool http2_grpc_maps(const struct http2_request *request, const struct response *response);

/* Send @response in the words of gRPC, with the end of the stream. False: no memory, and the
 * connection is over. */
MUST_USE bool http2_grpc_send(struct http2_request *request, const struct response *response);

/* No exchange is left: release the stream and the memory. */
void http2_request_free(struct http2_request *request);

#endif /* SLUICE_PROXY_CLIENT_HTTP2_CONNECTION_H */
