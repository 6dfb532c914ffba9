/* How much of bodies the peer of a session may send ahead. */

#ifndef SLUICE_HTTP2_WINDOWS_H
#define SLUICE_HTTP2_WINDOWS_H

#include <stdint.h>

#include "http2/session.h"

/* @n bytes of DATA have been taken, or are dropped: grant them again. */
void windows_return(struct http2_session *session, uint32_t n);
void windows_return_of_stream(struct http2_stream *stream, uint32_t n);

/* The peer has read our SETTINGS: the windows of its streams have changed. */
void windows_on_settings_read(struct http2_session *session);

/* @n bytes of a request's body have come on @stream, and more may follow. */
void windows_note_body(struct http2_stream *stream, uint32_t n);

/* Bytes of @stream were taken, or it has ended: what its window has grown by may be another's. */
void windows_shrink(struct http2_stream *stream);

#endif /* SLUICE_HTTP2_WINDOWS_H */
