/* What a request may have of the windows of a connection to a server, and whether it is worth a
 * frame. */

#ifndef SLUICE_HTTP2_SHARE_H
#define SLUICE_HTTP2_SHARE_H

#include "http2/session_inner.h"

/* A WINDOW_UPDATE has come: of a stream; of the connection. */
void share_note_update(struct http2_session *session, uint32_t increment);
void share_on_update(struct http2_session *session, uint32_t increment);

/* Time has passed: streams that were held back as long as they may be become ready. */
void share_on_time(struct http2_session *session);

/* The window of the connection may have changed: note whether little of it is open. */
void share_note_window(struct http2_session *session);

/* How many bytes @stream, which has more than none, may send now. 0: its window is closed, or it
 * has its share, or what it may send is too little; it becomes ready again with an update or in
 * time. */
size_t share_of_window(struct http2_stream *stream);

#endif /* SLUICE_HTTP2_SHARE_H */
