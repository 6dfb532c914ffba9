/* Internals of HTTP/2 to servers: upstream_http2.c, upstream_sharing.c, upstream_stream*.c. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_HTTP2_INNER_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_HTTP2_INNER_H

#include "http2/client_session.h"
#include "proxy/core/proxy_env.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_bodies.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_liveness.h"
#include "proxy/upstream/upstream_server.h"

enum {
    UPSTREAM_TRAILERS_MAX = 64,
    UPSTREAM_STREAM_WINDOW = 65535, /* of an answer: what may wait here for a slow client */
    UPSTREAM_LEAVERS_MAX = 4,
};

/* What was read, for streams whose users have not taken theirs. In a block for bodies. */
struct upstream_block {
    unsigned n_users;
    char bytes[];
};

/* A part of an answer's body that waits for its user; in a small block of the worker's. */
struct upstream_piece {
    struct upstream_piece *next;
    uint32_t start;
    uint32_t end;
    char bytes[];
};

/* The head of an answer that came while its user was blocked by an earlier, interim one. */
struct upstream_late_head {
    struct head head;
    bool is_whole;
    char *block;
    struct field fields[];
};

struct upstream_stream {
    struct upstream upstream; /* as its user sees it */
    struct upstream *connection;
    struct list node; /* in http2->streams */
    struct http2_stream stream;
    struct address client;
    uint64_t body_bytes; /* 0: none; UPSTREAM_UNKNOWN_BODY_BYTES: not known */
    uint64_t shown_us;   /* when what an answer shows to be read was sent last; 0: nothing was */
    uint64_t risky_us;   /* when its head, trailers or a small piece was sent last; 0: not yet */
    bool is_one_client, is_risky_body; /* it was not only the head */
    /* Monotonic: since when the client holds back the rest of the answer; 0: it does not. */
    uint64_t held_since_us;
    enum upstream_loss loss;
    struct list refused_node; /* in http2->refused */
    const char *refusal;      /* then: why */
    uint16_t refusal_status;

    struct span pieces[SENDER_PIECES_MAX]; /* of the request, borrowed: to be sent */
    int n_pieces, next_piece;
    bool is_last, is_sending; /* they end the request; the user waits for on_drained() */
    bool is_unsendable;       /* its connection is gone: the user waits for the answer's end */
    char *head_block;         /* of the latest head; NULL: none */
    char *large_block;        /* the rest of a long one; NULL: none */
    struct upstream_late_head *late;
    bool is_head_alone;          /* the user has got the head, and none of the body */
    struct list unreported_node; /* in http2->unreported, or in no list */
    struct upstream_piece *first, *last;
    uint32_t n_given;              /* bytes of the first piece that the user has */
    struct upstream_block *pinned; /* has bytes that the user has; NULL: none */
    size_t n_pinned;
    bool is_whole;     /* the last byte has come */
    bool is_end_given; /* the user has been told so */
    char *trailers;    /* the user's, of TRAILER_BYTES_MAX; NULL: they are dropped */
    size_t trailer_bytes;
};

/* A client of which the proxy has reset streams: those that it had left, or that were given up. */
struct upstream_leaver {
    struct address client;
    uint64_t left_us;     /* monotonic: when, of the last; 0: there is none */
    uint32_t n, n_recent; /* of them, each within a second of the one before */
    bool is_risky_body;   /* of one of these */
};

struct upstream_http2 {
    struct upstream *connection;
    struct http2_session *session; /* NULL: it is being made */
    struct list node;    /* in server->http2, _own, _for_bodies or _withdrawn; at its end in none */
    struct list streams; /* struct upstream_stream */
    struct list unreported; /* those whose users get a head or small pieces after the read */
    struct list refused;    /* those whose request is not sent */
    size_t n_streams;
    bool is_exclusive, is_for_bodies; /* for requests of `owner` alone; for long bodies so far */
    bool is_single;                   /* the same, and for one at a time: see upstream_request */
    bool is_set_aside;                /* the same, or for nobody, while answers are held back */
    struct address owner;             /* of these; as address_of_client() gives it */
    struct upstream_bodies bodies;    /* those whose length is known */
    struct upstream_leaver leavers[UPSTREAM_LEAVERS_MAX]; /* the latest, in no order */
    struct upstream_leaver given_up[UPSTREAM_LEAVERS_MAX];
    uint32_t n_resets;       /* streams that the proxy has reset, whoever left them */
    size_t n_held;           /* streams whose answer is held back */
    bool has_carried;        /* a request that the server has not reset with ENHANCE_YOUR_CALM */
    bool is_full;            /* no stream is taken any more: see upstream_sharing.c */
    struct timer full_timer; /* then: until it is looked at whose answers are held back */
    bool has_failed;         /* and a user counts that: the others get LOSS_SHARED */
    bool is_ending;          /* no stream is taken any more */
    bool is_survived;        /* it is closed, and streams are left */
    bool is_resting;         /* no stream is under way, and it may be used again */
    enum upstream_rest rest; /* with is_resting */
    bool has_counted;        /* among the server's connections that speak HTTP/2 */
    struct http2_room room;  /* for the head that is being read */
    struct head trailers_head;
    struct field trailer_fields[UPSTREAM_TRAILERS_MAX];
    char *trailer_bytes; /* of TRAILER_BYTES_MAX; NULL: none came so far */
    void *kept;          /* a copy of what the socket did not take; NULL: none */
    uint64_t read_us;    /* monotonic: when bytes came last */
    struct upstream_liveness liveness;
    struct timer ping;       /* while streams are under way or a reply is awaited */
    struct timer held_timer; /* see http2_session_held_until_us() */
    struct loop_task flush;
};

static inline struct upstream_stream *upstream_stream_of(struct upstream *upstream)
{
    return CONTAINER_OF(upstream, struct upstream_stream, upstream);
}

static inline struct upstream_http2 *upstream_http2_of(const struct upstream_stream *stream)
{
    return stream->connection->http2;
}

static inline struct upstream_stream *upstream_stream_at(struct list *node)
{
    return CONTAINER_OF(node, struct upstream_stream, node);
}

static inline bool upstream_http2_is_current(struct upstream *connection)
{
    return upstream_is_current(connection) && !connection->server->group->is_retired &&
           !connection->server->group->env->is_draining;
}

/* Frames may be due: write them at the end of the iteration. */
void upstream_http2_wake(struct upstream_http2 *http2);

/* A stream begins. */
void upstream_http2_end_rest(struct upstream_http2 *http2);

/* Whether its server reads on, as far as is known. */
bool upstream_http2_is_read(const struct upstream_http2 *http2);

/* A stream has left: the connection may be at rest, have to end, or be freed. */
void upstream_http2_on_left(struct upstream_http2 *http2);

/* --- which requests share a connection (upstream_sharing.c) --- */

/* @http2, whose connection, is_exclusive and owner are set, begins; is to rest (false: there is no
 * room for it); and ends. */
void upstream_sharing_init(struct upstream_http2 *http2);
MUST_USE bool upstream_sharing_rest(struct upstream_http2 *http2);
void upstream_sharing_close(struct upstream_http2 *http2);

/* What the client of @stream has not taken has become more or less. */
void upstream_sharing_on_taken(struct upstream_stream *stream);
/* @stream ends: leave its session, by a reset if the server has to know. */
void upstream_sharing_leave(struct upstream_stream *stream);
/* The server has ended the connection, whose streams are not told yet. */
void upstream_sharing_on_end(struct upstream_http2 *http2);
/* The proxy ends it because the server broke a rule, for @cause. NULL: that is not known. */
void upstream_sharing_on_fault(struct upstream_http2 *http2, struct upstream_stream *cause);
/* The server has ended a stream, by RST_STREAM or GOAWAY. */
void upstream_sharing_on_reset(struct upstream_stream *stream);

/* Whether the server has reset @stream before its answer, and may have done so for others there. */
bool upstream_sharing_is_crowded(const struct upstream_stream *stream);

/* A user of @block less: the last returns it to @env. NULL is a no-op. */
void upstream_block_release(struct proxy_env *env, struct upstream_block *block);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_HTTP2_INNER_H */
