/* The outbox: collects the messages of one loop iteration, on many streams, and writes them one
 * after the other at its end. Doing all reads, then all decisions, then all writes costs less than
 * alternating between them, because the code stays in the processor's caches.
 *
 * To its caller each message is a write that blocks: its stream calls on_drained when the message
 * has been taken, after all the other messages have been offered too. */

#ifndef SLUICE_NET_OUTBOX_H
#define SLUICE_NET_OUTBOX_H

#include <sys/uio.h>

#include "base/compiler.h"
#include "base/list.h"
#include "net/loop.h"
#include "net/stream.h"

enum {
    OUTBOX_MESSAGES_MAX = 32, /* messages that wait; then they are written at once */
};

struct outbox {
    struct loop *loop; /* borrowed */
    struct loop_task iteration_end;
    struct list posted;  /* struct stream, in order */
    struct list offered; /* offered streams whose on_drained waits for the end of the iteration */
    int n_posted;        /* since the last offer */
};

/* An outbox needs no close: close its streams instead. */
void outbox_init(struct outbox *outbox, struct loop *loop);

/* As stream_write(), but the write happens at the end of the iteration, or as soon as
 * OUTBOX_MESSAGES_MAX messages wait. Returns STREAM_BLOCKED or STREAM_BROKEN. Closing the stream
 * before that withdraws the message. */
MUST_USE enum stream_result outbox_write(struct outbox *outbox, struct stream *stream,
                                         const struct iovec *slices, int n_slices);

#endif /* SLUICE_NET_OUTBOX_H */
