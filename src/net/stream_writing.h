/* The two halves of a stream to each other: its life and its reads, and its writes. */

#ifndef SLUICE_NET_STREAM_WRITING_H
#define SLUICE_NET_STREAM_WRITING_H

#include <event2/event.h>

#include "net/stream.h"

/* What @error of a system call says of the stream: STREAM_BLOCKED or STREAM_BROKEN. */
enum stream_result stream_failure(int error);

/* The callback of its write event; @context: the stream. */
void stream_on_writable(evutil_socket_t fd, short events, void *context);

/* Let go of what is kept. */
void stream_forget_kept(struct stream *stream);

#endif /* SLUICE_NET_STREAM_WRITING_H */
