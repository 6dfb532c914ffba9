/* Small messages of one turn of the loop, on many streams: copied here, and written one after the
 * other at the turn's end. Reads, decisions and writes in rows of a kind cost less than one of each
 * in turn, since each finds its own code in the processor's caches.
 *
 * For who gives a message it is written. What the kernel does not take of it then, its stream keeps
 * (see stream_write_own()). */

#ifndef SLUICE_NET_OUTBOX_H
#define SLUICE_NET_OUTBOX_H

#include <stddef.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"

enum {
    OUTBOX_MESSAGES_MAX = 32, /* then they are written at once: nobody waits for more */
    OUTBOX_BYTES = 32 * 1024,
    OUTBOX_MESSAGE_BYTES_MAX = 2048, /* a longer one costs more to copy than it gains */
};

struct outbox_message {
    struct stream *stream;
    size_t len;
};

struct outbox {
    struct loop *loop; /* borrowed */
    struct loop_task flush;
    char *bytes; /* owned; the messages, one behind the other */
    size_t n_bytes;
    struct outbox_message messages[OUTBOX_MESSAGES_MAX];
    int n_messages;
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status outbox_init(struct outbox *outbox, struct loop *loop);

/* Write what is there, and free. An outbox that is all zero is closed already. */
void outbox_close(struct outbox *outbox);

/* As stream_write(), but a short message to a stream that is not behind goes at the end of the
 * turn: STREAM_DONE. Whoever closes the stream meanwhile, or writes to it by itself, has it
 * written before. */
MUST_USE enum stream_result outbox_write(struct outbox *outbox, struct stream *stream,
                                         const struct iovec *slices, int n_slices);

/* Write what is there now. */
void outbox_flush(struct outbox *outbox);

#endif /* SLUICE_NET_OUTBOX_H */
