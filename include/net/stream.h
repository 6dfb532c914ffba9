/* A connected byte stream under downstream and upstream alike: reads when asked, writes at once and
 * keeps what the kernel does not take.
 *
 * Its owner reads and writes; the stream knows bytes and readiness, not what travels. Nothing here
 * calls back into its caller: on_readable and on_drained come from the loop alone, or at the end of
 * its turn from an outbox. */

#ifndef SLUICE_NET_STREAM_H
#define SLUICE_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"

struct event;
struct loop;
struct pipe;
struct stream;

enum {
    STREAM_SLICES_MAX = 8, /* of one stream_write() */
};

enum stream_result {
    STREAM_DONE,    /* read: some bytes came; write: the kernel took all */
    STREAM_BLOCKED, /* read: nothing there now; write: the rest is kept, on_drained will be called
                     */
    STREAM_EOF,     /* read: the peer has ended its side */
    STREAM_BROKEN,  /* the connection is lost: close it */
};

/* How bytes reach the socket: plain today, TLS as a second kind. Results as of readv, writev and
 * splice, errno set. */
struct transport {
    const char *name;
    ssize_t (*read)(struct stream *stream, void *buffer, size_t capacity);
    ssize_t (*writev)(struct stream *stream, const struct iovec *slices, int n_slices);
    ssize_t (*peek)(struct stream *stream, void *buffer, size_t capacity);
    /* Between the socket and a pipe's end, at most @most bytes; NULL: it cannot. */
    ssize_t (*to_pipe)(struct stream *stream, int pipe_fd, size_t most);
    ssize_t (*from_pipe)(struct stream *stream, int pipe_fd, size_t most);
    void (*shutdown)(struct stream *stream); /* end our side */
};

extern const struct transport transport_plain;

struct stream_handler {
    /* Bytes, an end or an error can be read. Comes again while they are not read and reading is
     * wanted. */
    void (*on_readable)(void *owner);
    /* The peer has ended its side or is gone; with stream_watch_end() alone. */
    void (*on_ended)(void *owner);
    /* Some of what a write kept has been taken, not all; or an outbox has offered it, and not all
     * was. NULL: nobody wants to know. */
    void (*on_progress)(void *owner);
    /* What a write kept has been taken, or the connection broke: the next write tells. */
    void (*on_drained)(void *owner);
};

struct stream {
    int fd; /* -1: closed */
    const struct transport *transport;
    const struct stream_handler *handler;
    void *owner;
    struct event *read_event;  /* owned */
    struct event *write_event; /* owned */
    struct event *end_event;   /* owned; NULL: never wanted */
    bool reading;              /* read_event is armed */
    bool connecting;           /* writability is awaited as the end of connect() */
    bool is_broken;            /* what was kept could not be written, and is lost */
    bool awaits_room;          /* nothing is kept, and on_drained is to come all the same */
    struct iovec
        kept[STREAM_SLICES_MAX]; /* what the kernel did not take yet; memory is the owner's */
    int n_kept;
    struct list posted;         /* in an outbox; empty: in none */
    bool is_offered;            /* what is kept by an outbox has been */
    enum stream_result offered; /* what came of it */
    struct pipe *kept_pipe;     /* borrowed: it has what the kernel did not take yet; NULL: none */
};

/* Take over the connected, non-blocking @fd and start reading. On failure @fd is closed.
 * STATUS_NO_MEMORY. */
MUST_USE enum status stream_open(struct stream *stream, struct loop *loop, int fd,
                                 const struct stream_handler *handler, void *owner);

/* Start to connect to @sockaddr. on_drained tells the end of it; then stream_connect_status() says
 * how it went. STATUS_UNREACHABLE when it failed at once, STATUS_NO_MEMORY, STATUS_FULL: no file
 * descriptor. */
struct sockaddr;
MUST_USE enum status stream_connect(struct stream *stream, struct loop *loop,
                                    const struct sockaddr *sockaddr, size_t sockaddr_bytes,
                                    const struct stream_handler *handler, void *owner);

/* After on_drained of a connecting stream: STATUS_OK, and reading has started; or
 * STATUS_UNREACHABLE. */
MUST_USE enum status stream_connect_status(struct stream *stream);

/* Let stream_close() reset the connection instead of ending it in order. */
void stream_reset_on_close(struct stream *stream);

/* Let go of the socket. A stream that is closed, or all zero with fd -1, stays closed. */
void stream_close(struct stream *stream);

/* Let go of the socket without closing it: the caller's, of the result. Nothing may be kept. */
int stream_detach(struct stream *stream);

/* Hand a live stream to another owner (a pooled connection to its next request). */
void stream_set_handler(struct stream *stream, const struct stream_handler *handler, void *owner);

/* Read up to @capacity (>= 1) bytes; *n_read of them with STREAM_DONE, else 0. One system call. */
MUST_USE enum stream_result stream_read(struct stream *stream, void *buffer, size_t capacity,
                                        size_t *n_read);

/* What stream_read() would say, without taking anything. */
MUST_USE enum stream_result stream_peek(struct stream *stream);

/* Whether on_readable is wanted. Turning it off costs a system call: do so only when it came
 * unwanted. */
void stream_want_read(struct stream *stream, bool wanted);

/* Have on_ended called in place of on_readable, whatever the peer has sent before it
 * ended; or, with false, on_readable again. Nothing may be written meanwhile. Without
 * memory on_readable stays. */
void stream_watch_end(struct stream *stream, bool wanted);

/* Write @n_slices (<= STREAM_SLICES_MAX) in order. With STREAM_BLOCKED their memory must stay until
 * on_drained, and nothing may be written before. One system call. */
MUST_USE enum stream_result stream_write(struct stream *stream, const struct iovec *slices,
                                         int n_slices);

/* Read up to @most (>= 1) bytes into @pipe, which is empty. As stream_read(), but STREAM_BROKEN
 * also where the kernel cannot, and STREAM_BLOCKED also before an urgent byte: stream_read()
 * tells. */
MUST_USE enum stream_result stream_read_pipe(struct stream *stream, struct pipe *pipe, size_t most);

/* Write what is in @pipe. As stream_write(): with STREAM_BLOCKED it must stay until on_drained. The
 * process must ignore SIGPIPE: nothing else keeps it from a write to a peer that is gone. */
MUST_USE enum stream_result stream_write_pipe(struct stream *stream, struct pipe *pipe);

/* Whether some of what was kept is lost: nothing can be written any more, though what the peer has
 * sent can be read. */
bool stream_is_broken(const struct stream *stream);

/* --- for an outbox (net/outbox.h), in this order --- */

/* As stream_write(), but nothing is written yet: STREAM_BLOCKED, or STREAM_BROKEN. */
MUST_USE enum stream_result stream_keep(struct stream *stream, const struct iovec *slices,
                                        int n_slices);

/* Write what is kept, and tell nobody. */
void stream_offer(struct stream *stream);

/* What was not taken of it waits until it can be written, and on_progress tells; when all was
 * taken, on_drained does. */
void stream_end_offer(struct stream *stream);

/* Whether what is kept has not been offered to the kernel at all. */
bool stream_is_unoffered(const struct stream *stream);

/* Whether something is kept, or room is awaited. */
bool stream_is_blocked(const struct stream *stream);

/* Bytes that were written and that the peer's side has not taken yet: those that are kept, and
 * those in the socket's buffer. One system call. */
uint64_t stream_unread_bytes(const struct stream *stream);

/* Whether all that was written is on its way, so that the peer takes more just now. Always, where
 * the kernel cannot tell. One system call. */
bool stream_keeps_up(const struct stream *stream);

/* How many bytes can be written without any being kept, as far as the kernel tells: IO_BLOCK_BYTES
 * to who keeps up, a few SMALL_BLOCK_BYTES to who does not. 0: none now, and the stream is blocked
 * as if bytes had been kept. One system call, two where the peer does not keep up. */
MUST_USE size_t stream_await_room(struct stream *stream);

/* End our side; the peer reads an end after what was written. */
void stream_shutdown(struct stream *stream);

#endif /* SLUICE_NET_STREAM_H */
