/* The client's side of an HTTP/2 connection: the session of http2/session.h, whose rules hold,
 * with requests that go out and answers that come in.
 *
 *   a request:  http2_session_open(), then http2_stream_send() of its body
 *   an answer:  HTTP2_NEEDS_ROOM, then HTTP2_HEAD, for interim heads and the final one, whose
 *               status is in room.head; HTTP2_BODY; HTTP2_TRAILERS
 *
 * NEEDS_ROOM names the stream whose head begins; the owner sets room.stream to it, and to NULL
 * after the head has come, or when it releases that stream. HTTP2_MALFORMED ends the stream that
 * it names. HTTP2_RESET says that the peer ended a stream before the end of its answer.
 *
 * The connection's window is kept open: each stream is held back by its own alone, so none waits
 * for another one's receiver. Abuse is not counted: the peer was chosen. Pushes are off. */

#ifndef SLUICE_HTTP2_CLIENT_SESSION_H
#define SLUICE_HTTP2_CLIENT_SESSION_H

#include "http2/session.h"

/* As http2_session_new(); of @config the connection_window is not used. */
MUST_USE struct http2_session *http2_session_new_client(const struct http2_config *config,
                                                        uint64_t now_us);

enum { HTTP2_NARROW_US = 100 * 1000 };

/* Whether less than a quarter of the connection's window has been open for HTTP2_NARROW_US: the
 * peer does not take what it was sent. */
bool http2_session_is_narrow(const struct http2_session *session, uint64_t now_us);

/* When to pack again though nothing has come: bytes wait for a wider window until then. 0: none do.
 */
uint64_t http2_session_held_until_us(const struct http2_session *session);

/* The widest that the connection's window was, in bytes; whether more than half of that is open, so
 * that a server which gathers half of it grants what it is sent. */
uint64_t http2_session_widest(const struct http2_session *session);
bool http2_session_is_wide(const struct http2_session *session);

/* Whether a request may be opened: the peer takes one more at a time, and takes new ones at all. */
bool http2_session_may_open(const struct http2_session *session);

/* How many requests at a time the peer has granted; 100 until it has said so. */
uint32_t http2_session_granted(const struct http2_session *session);

/* Whether the peer takes a head of @fields, by its SETTINGS_MAX_HEADER_LIST_SIZE. */
bool http2_session_takes_head(const struct http2_session *session,
                              const struct http2_fields *fields);

/* Whether the peer takes new requests, now or later. */
bool http2_session_takes_requests(const struct http2_session *session);

/* Whether the connection ends for a fault of the peer. */
bool http2_session_is_failed(const struct http2_session *session);

/* Then: the id of the stream whose frame it was. 0: it was another one's. */
int32_t http2_session_faulty_id(const struct http2_session *session);

/* Open @stream, which is all zero, with a head: @fields are copied, the pseudo-fields first.
 * @is_last: no body follows. False: no memory, and the connection is over. */
MUST_USE bool http2_session_open(struct http2_session *session, struct http2_stream *stream,
                                 const struct http2_fields *fields, bool is_answer_to_head,
                                 bool is_last);

/* Send no more of the request, nor its end: the piece that is not packed is dropped, and its memory
 * not used any more. The stream stays open. */
void http2_stream_stop_sending(struct http2_stream *stream);

/* As http2_stream_release(), of a request whose head was packed, but the peer is not told: it may
 * send the rest of the window, which is dropped. */
void http2_stream_drop(struct http2_stream *stream);

/* What the peer has said of the end of the connection. */
enum http2_goaway {
    HTTP2_GOAWAY_NONE,
    HTTP2_GOAWAY_FINE,    /* it ends without an error */
    HTTP2_GOAWAY_ERROR,   /* an error that may be its own */
    HTTP2_GOAWAY_REFUSAL, /* a fault of what it was sent */
};

enum http2_goaway http2_session_goaway(const struct http2_session *session);

/* Whether the peer has reset a stream before the end of its answer for what it was sent. */
bool http2_stream_is_refused(const struct http2_stream *stream);

/* Whether it has done so with ENHANCE_YOUR_CALM: this, or all of the connection, is too much. */
bool http2_stream_is_too_much(const struct http2_stream *stream);

/* Whether the peer has reset a stream before the end of its answer, for whatever reason, and has
 * not said that it did nothing for it. */
bool http2_stream_is_broken_off(const struct http2_stream *stream);

/* Whether the peer has seen nothing of a stream, or has said that it did nothing for it: the
 * request may be sent again, whatever it is (RFC 9113 section 8.7). A REFUSED_STREAM that comes
 * later than 250 ms behind the head, or behind a sign that the peer has begun, does not say so. */
bool http2_stream_is_unprocessed(const struct http2_stream *stream);

/* Whether nothing but REFUSED_STREAM says so: the peer takes as many streams as were open. */
bool http2_stream_is_declined_unproven(const struct http2_stream *stream);

#endif /* SLUICE_HTTP2_CLIENT_SESSION_H */
