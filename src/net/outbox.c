/* The outbox. Happy path: a stream joins the list; at the end of the iteration each stream's
 * message is written with one system call, then each owner gets its callback.
 *
 * Failures belong to the stream: bytes that are not taken wait in it, and its next write reports
 * lost bytes. */

#include "net/outbox.h"

static void offer_all(struct outbox *outbox)
{
    while (!list_is_empty(&outbox->posted)) {
        struct stream *stream = CONTAINER_OF(outbox->posted.next, struct stream, posted);
        list_remove(&stream->posted);
        list_push_back(&outbox->offered, &stream->posted);
        stream_offer(stream);
    }
    outbox->n_posted = 0;
}

/* Messages that an owner adds in its callback wait for the next iteration. */
static void on_iteration_end(struct loop_task *task)
{
    struct outbox *outbox = CONTAINER_OF(task, struct outbox, iteration_end);
    struct list due;
    offer_all(outbox);
    list_move_all(&due, &outbox->offered);
    while (!list_is_empty(&due)) {
        stream_end_offer(CONTAINER_OF(due.next, struct stream, posted));
    }
}

void outbox_init(struct outbox *outbox, struct loop *loop)
{
    *outbox = (struct outbox){.loop = loop};
    loop_task_init(&outbox->iteration_end, on_iteration_end);
    list_init(&outbox->posted);
    list_init(&outbox->offered);
}

enum stream_result outbox_write(struct outbox *outbox, struct stream *stream,
                                const struct iovec *slices, int n_slices)
{
    if (stream_keep(stream, slices, n_slices) == STREAM_BROKEN) {
        return STREAM_BROKEN;
    }
    list_push_back(&outbox->posted, &stream->posted);
    loop_after_tasks(outbox->loop, &outbox->iteration_end);
    if (++outbox->n_posted == OUTBOX_MESSAGES_MAX) {
        offer_all(outbox);
    }
    return STREAM_BLOCKED;
}
