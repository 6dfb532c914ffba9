/* Messages of one turn of the loop, on many streams, written one after the other at the turn's
 * end: reads, decisions and writes in rows of a kind cost less than one of each in turn, since each
 * finds its own code in the processor's caches.
 *
 * For who gives a message it is a write that blocks: its stream tells by on_drained when it has
 * been taken, after all the others have been offered too. */

#ifndef SLUICE_NET_OUTBOX_H
#define SLUICE_NET_OUTBOX_H

#include <sys/uio.h>

#include "base/compiler.h"
#include "base/list.h"
#include "net/loop.h"
#include "net/stream.h"

enum {
    OUTBOX_MESSAGES_MAX = 32, /* so many wait for each other, and no more */
};

struct outbox {
    struct loop *loop; /* borrowed */
    struct loop_task turn_end;
    struct list posted;  /* struct stream, in order */
    struct list offered; /* the same, whose on_drained waits for the turn's end */
    int n_posted;        /* since the last offer */
};

/* There is nothing to close: it is as good as gone when its streams are closed. */
void outbox_init(struct outbox *outbox, struct loop *loop);

/* As stream_write(), but what is written goes at the end of the turn, or when so many others wait:
 * STREAM_BLOCKED, or STREAM_BROKEN. Who closes the stream before takes it back. */
MUST_USE enum stream_result outbox_write(struct outbox *outbox, struct stream *stream,
                                         const struct iovec *slices, int n_slices);

#endif /* SLUICE_NET_OUTBOX_H */
