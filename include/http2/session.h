/* The server's side of an HTTP/2 connection: bytes in, events out, frames out. It knows no socket,
 * no loop and no clock: time is an argument, monotonic microseconds.
 *
 * Nothing here calls back. The owner hands over the bytes that came and takes one event after the
 * other; it answers streams at any time; it packs the frames that are due and writes them:
 *
 *   bytes came:      while http2_session_read() gives an event, handle it
 *   iteration ends:  http2_session_pack(), write the slices; when they are written, hear from
 *                    http2_session_next_sent() whose piece has gone; read with no bytes for the
 *                    streams that have ended meanwhile; pack again while that gives slices
 *
 * Rules of frames, states and windows are kept here: a fault of the peer ends the stream
 * (HTTP2_RESET) or the connection (GOAWAY, then http2_session_is_over()). So does abuse, which is
 * counted by kind. What costs this side more than the peer is bounded: streams, decoded heads,
 * CONTINUATION, the table of HPACK, frames that wait. Sources: RFC 9113, RFC 7541. */

#ifndef SLUICE_HTTP2_SESSION_H
#define SLUICE_HTTP2_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/head_builder.h"
#include "http2/stream.h"

struct http2_session;

enum {
    HTTP2_PREFACE_BYTES = 24,
    HTTP2_CONTINUATIONS_MAX = 8, /* frames behind a HEADERS */
    HTTP2_FRAMES_AHEAD = 32,     /* that a reset is looked for in */
};

/* The first bytes of a client (RFC 9113 section 3.4). */
#define HTTP2_PREFACE SPAN("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

struct http2_config {
    uint32_t streams_max;       /* at a time: further ones are refused */
    uint32_t head_bytes_max;    /* announced to the peer */
    uint32_t stream_window;     /* bytes of a body that each stream may send ahead */
    uint32_t connection_window; /* bytes that all may; at least 65535 */
    uint32_t stream_window_max; /* of a stream that sends fast; 0: its window does not grow */
    uint32_t shared_window;     /* bytes by which the windows of all streams have grown at most */
    bool is_shared;             /* by many clients, behind a proxy: repeated heads cost nothing, and
                                   what requests cost ends no stream of others */
};

/* Where the next head goes. Once an event has come that used it, the owner provides another. */
struct http2_room {
    struct http2_stream *stream; /* NULL: no room */
    struct head *head;
    struct head_builder builder; /* the members that are its caller's */
};

enum http2_event_kind {
    HTTP2_NONE,       /* all bytes are read */
    HTTP2_NEEDS_ROOM, /* a head begins, and there is no room: read again with one */
    HTTP2_HEAD,       /* room.stream begins, with room.head; if head.error.status is not 0, answer
                         with that. @is_last: no body follows */
    HTTP2_MALFORMED,  /* a head broke the rules, and its stream was reset: room.head.error says why;
                         the room may be used again */
    HTTP2_BODY,       /* @piece of the body of @stream, in the bytes that were read; or empty */
    HTTP2_TRAILERS,   /* they end the body: fields of room.head */
    HTTP2_BAD_TRAILERS, /* too long or too many: room.head.error */
    HTTP2_RESET,        /* @stream has ended before its answer: end its exchange, and release it */
    HTTP2_WINDOW, /* the peer has opened the window of @stream, a request, for the first time */
};

struct http2_event {
    enum http2_event_kind kind;
    struct http2_stream *stream; /* of all but NONE, NEEDS_ROOM and MALFORMED */
    struct span piece;
    bool is_last;    /* the peer's side of the stream ends with this */
    bool is_by_peer; /* HTTP2_RESET: by its RST_STREAM; else for its fault */
};

/* NULL: out of memory. The connection's window is granted at once. */
MUST_USE struct http2_session *http2_session_new(const struct http2_config *config,
                                                 uint64_t now_us);

/* Its streams are the owner's to free; they must not be used any more. */
void http2_session_free(struct http2_session *session);
/* Take the next event out of *@bytes, which is shortened by what was read. @room is used while
 * http2_session_is_in_head() too, so it must stay the same then. With no bytes: only what has
 * happened meanwhile. */
MUST_USE struct http2_event http2_session_read(struct http2_session *session, struct span *bytes,
                                               struct http2_room *room, uint64_t now_us);

/* Behind HTTP2_HEAD: whether @ahead, the bytes that are not read yet, reset @stream, which has no
 * body. At most HTTP2_FRAMES_AHEAD frames are looked at. */
bool http2_stream_is_reset_ahead(const struct http2_stream *stream, struct span ahead);

/* A head has begun and is not complete. */
bool http2_session_is_in_head(const struct http2_session *session);

/* --- a stream --- */
/* @n bytes of its body were passed on: the peer may send as many more. */
void http2_stream_took(struct http2_stream *stream, size_t n);

/* Lines of a head, one behind the other; fields that are hop_by_hop are not sent. */
struct http2_fields {
    const struct field *fields;
    size_t n;
};

/* Send the head of an answer, or, with a @status below 200, an interim one. @fields are copied.
 * @is_last: no body follows. False: no memory, and the connection is over. */
MUST_USE bool http2_stream_send_head(struct http2_stream *stream, uint16_t status,
                                     const struct http2_fields *lists, size_t n_lists,
                                     bool is_last);

/* Send @piece of the body, of which none waits. Its memory, and that of @trailers (NULL: none; only
 * with @is_last), stays until http2_session_next_sent() has given @stream, or it is released and
 * the slices that were packed are written. An empty piece needs @is_last. */
void http2_stream_send(struct http2_stream *stream, struct span piece, bool is_last,
                       const struct http2_fields *trailers);

/* Bytes of the piece that are not packed: the peer's window is empty, if they stay. */
static inline size_t http2_stream_unsent(const struct http2_stream *stream)
{
    return stream->piece.len;
}

/* Bytes of a body that the peer's windows allow now. */
size_t http2_stream_window(const struct http2_stream *stream);
/* Its exchange is over: the memory is the owner's again. Unless the answer was packed to its end
 * the stream is reset; after an answer before the end of the body too, without an error. */
void http2_stream_release(struct http2_stream *stream);
/* In place of handling HTTP2_HEAD: reset it with REFUSED_STREAM. The room may be used again. */
void http2_stream_refuse(struct http2_stream *stream);

/* --- frames to send --- */
struct http2_batch {
    struct iovec *slices; /* the caller's, n_max (at least 2) of them */
    int n_max;
    char *bytes;     /* the caller's, for heads of frames and what is short */
    size_t capacity; /* at least 512 */
    int n;           /* slices in use */
    size_t used;     /* of bytes */
};

/* Fill @batch, which is empty, in order and fairly among streams. Its slices are valid until they
 * are written and the next call. If it came back with slices, there may be more. False: no memory,
 * and the connection is over. */
MUST_USE bool http2_session_pack(struct http2_session *session, struct http2_batch *batch,
                                 uint64_t now_us);

/* After the slices of the last batch were written: the next stream whose whole piece is among
 * them. NULL: none. */
struct http2_stream *http2_session_next_sent(struct http2_session *session);

/* --- the connection --- */

/* The connection shall end: GOAWAY(2^31 - 1) and PING; when that is answered, GOAWAY with the last
 * stream. Streams go on to their ends. */
void http2_session_drain(struct http2_session *session);
/* The same at once, without the PING. */
void http2_session_refuse_new(struct http2_session *session);
/* End it now: GOAWAY without an error, and no more events. */
void http2_session_stop(struct http2_session *session);
/* Its owner, abuse, or a fault that nghttp2 does not see ended it: at most GOAWAY is to be sent. */
bool http2_session_is_ended(const struct http2_session *session);
/* Its peer broke the protocol, or spent three quarters of its abuse budget: it was told GOAWAY. */
bool http2_session_is_misused(const struct http2_session *session);
/* Ask for a sign of life, unless one is awaited. */
void http2_session_ping(struct http2_session *session);
bool http2_session_awaits_pong(const struct http2_session *session);
/* Nothing is to be read or packed any more: close once the last batch is written. */
bool http2_session_is_over(const struct http2_session *session);

/* Streams that are not released, and bytes of memory that it holds, itself included. */
size_t http2_session_streams(const struct http2_session *session);
size_t http2_session_memory(const struct http2_session *session);
/* Units of abuse so far, HTTP2_ABUSE_KINDS of them. */
const uint64_t *http2_session_abuse(const struct http2_session *session);

#endif /* SLUICE_HTTP2_SESSION_H */
