/* The outbox. Happy path: a message is copied behind the last one, and its stream knows that it is
 * there; at the end of the turn each goes out with one system call.
 *
 * Failures: a message that does not fit makes room by writing the others now; one that is long, or
 * whose stream still owes an earlier one, is its stream's own business. */

#include "net/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/span.h"

static void on_turn_end(struct loop_task *task)
{
    outbox_flush(CONTAINER_OF(task, struct outbox, flush));
}

enum status outbox_init(struct outbox *outbox, struct loop *loop)
{
    *outbox = (struct outbox){.loop = loop, .bytes = malloc(OUTBOX_BYTES)};
    loop_task_init(&outbox->flush, on_turn_end);
    return outbox->bytes != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void outbox_close(struct outbox *outbox)
{
    if (outbox->bytes == NULL) {
        return;
    }
    outbox_flush(outbox);
    loop_task_cancel(&outbox->flush);
    free(outbox->bytes);
    outbox->bytes = NULL;
}

void outbox_flush(struct outbox *outbox)
{
    const char *bytes = outbox->bytes;
    for (int i = 0; i < outbox->n_messages; i++) {
        const struct outbox_message *message = &outbox->messages[i];
        message->stream->outbox = NULL;
        stream_write_own(message->stream, span_of(bytes, message->len));
        bytes += message->len;
    }
    outbox->n_messages = 0;
    outbox->n_bytes = 0;
}

static size_t bytes_of(const struct iovec *slices, int n_slices)
{
    size_t n = 0;
    for (int i = 0; i < n_slices; i++) {
        n += slices[i].iov_len;
    }
    return n;
}

static void add(struct outbox *outbox, struct stream *stream, const struct iovec *slices,
                int n_slices)
{
    struct outbox_message *message = &outbox->messages[outbox->n_messages++];
    *message = (struct outbox_message){.stream = stream};
    for (int i = 0; i < n_slices; i++) {
        memcpy(outbox->bytes + outbox->n_bytes, slices[i].iov_base, slices[i].iov_len);
        outbox->n_bytes += slices[i].iov_len;
        message->len += slices[i].iov_len;
    }
    stream->outbox = outbox;
}

enum stream_result outbox_write(struct outbox *outbox, struct stream *stream,
                                const struct iovec *slices, int n_slices)
{
    const size_t n = bytes_of(slices, n_slices);
    if (n > OUTBOX_MESSAGE_BYTES_MAX || stream_is_broken(stream) || stream_is_behind(stream)) {
        return stream_write(stream, slices, n_slices);
    }
    if (outbox->n_messages == OUTBOX_MESSAGES_MAX || n > OUTBOX_BYTES - outbox->n_bytes) {
        outbox_flush(outbox);
    }
    if (outbox->n_messages == 0) {
        loop_at_turn_end(outbox->loop, &outbox->flush);
    }
    add(outbox, stream, slices, n_slices);
    return STREAM_DONE;
}
