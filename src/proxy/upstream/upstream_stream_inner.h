/* A request on a stream of HTTP/2: what its connection tells it, and how it is sent. Of those that
 * call the user, each may end the request. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_STREAM_INNER_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_STREAM_INNER_H

#include "proxy/upstream/upstream_http2_inner.h"

/* Provide http2->room for the next head. False: no memory. */
MUST_USE bool upstream_stream_make_room(struct upstream_stream *stream);
void upstream_stream_on_head(struct upstream_stream *stream, bool is_last);
/* The server has opened the window of @stream for the first time. */
void upstream_stream_on_begun(struct upstream_stream *stream);
/* @block: has the bytes of @piece. @is_more: bytes follow in it, so that a small piece may wait.
 * False: no memory. */
MUST_USE bool upstream_stream_on_body(struct upstream_stream *stream, struct upstream_block *block,
                                      struct span piece, bool is_last, bool is_more);
void upstream_stream_on_trailers(struct upstream_stream *stream);
void upstream_stream_on_bad(struct upstream_stream *stream, const char *reason);
void upstream_stream_on_lost(struct upstream_stream *stream);
/* Its request is not sent. */
void upstream_stream_on_refused(struct upstream_stream *stream);
/* No more of the body comes with these bytes. */
void upstream_stream_on_read_end(struct upstream_stream *stream);

/* --- sending (upstream_stream_send.c) --- */

/* See upstream_send(). */
enum stream_result upstream_stream_send(struct upstream *upstream, const struct span *pieces,
                                        int n_pieces, bool last);
/* What is not sent yet is not sent any more. */
void upstream_stream_stop_sending(struct upstream_stream *stream);
/* The connection ends, and the answer has come whole: the rest of the request is for nobody. */
void upstream_stream_end_sending(struct upstream_stream *stream);
/* What was to be sent is written. */
void upstream_stream_on_sent(struct upstream_stream *stream);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_STREAM_INNER_H */
