/* A connected byte stream, for client and upstream connections: it reads on request, writes at once
 * and keeps what the kernel does not take.
 *
 * The owner reads and writes; the stream handles bytes and readiness, not protocols. No function
 * here calls back into its caller: on_readable and on_drained come from the loop alone, or from an
 * outbox at the end of the loop iteration. */

#ifndef SLUICE_NET_STREAM_H
#define SLUICE_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/loop.h"

struct pipe;
struct stream;

enum {
    STREAM_SLICES_MAX = 8, /* of one stream_write() */
};

enum stream_result {
    STREAM_DONE,    /* read: some bytes were read; write: the kernel took all */
    STREAM_BLOCKED, /* read: no bytes yet; write: the rest is kept until on_drained */
    STREAM_EOF,     /* read: the peer has closed its side */
    STREAM_BROKEN,  /* the connection is lost, of which errno has the reason: close it */
};

/* How bytes reach the socket: plain, or by TLS (tls/tls_stream.h). Results are those of readv,
 * writev and splice, with errno set. */
struct transport {
    const char *name;
    ssize_t (*read)(struct stream *stream, void *buffer, size_t capacity);
    ssize_t (*writev)(struct stream *stream, const struct iovec *slices, int n_slices);
    ssize_t (*peek)(struct stream *stream, void *buffer, size_t capacity);
    /* Move at most @most bytes between the socket and a pipe's end. NULL: not supported. */
    ssize_t (*to_pipe)(struct stream *stream, int pipe_fd, size_t most);
    ssize_t (*from_pipe)(struct stream *stream, int pipe_fd, size_t most);
    /* Close our side. STREAM_BLOCKED: writev() of one more byte, which is not sent, ends it. */
    enum stream_result (*shutdown)(struct stream *stream);
    /* NULL in the following: not needed, as by plain sockets. */
    void (*resume)(struct stream *stream);         /* reading is wanted again */
    size_t (*unsent)(const struct stream *stream); /* bytes that writev() took and did not send */
    void (*close)(struct stream *stream);          /* the socket is about to be closed */
};

extern const struct transport transport_plain;

struct stream_handler {
    /* Bytes, an end or an error can be read. Called again until they are read or reading is not
     * wanted. */
    void (*on_readable)(void *owner);
    /* The peer has closed its side or is gone. Only with stream_watch_end(). */
    void (*on_ended)(void *owner);
    /* Some of the kept bytes have been taken, or an outbox has offered them, but not all were
     * taken. NULL: not needed. */
    void (*on_progress)(void *owner);
    /* All kept bytes have been taken, or the connection broke: the next write reports it. */
    void (*on_drained)(void *owner);
};

struct stream {
    int fd; /* -1: closed */
    const struct transport *transport;
    void *transport_state; /* the transport's own */
    const struct stream_handler *handler;
    void *owner;
    struct event_room read_event; /* of on_ended while the end is watched */
    struct event_room write_event;
    bool reading;                /* read_event is armed for on_readable */
    bool watches_end;            /* it is armed for on_ended */
    bool connecting;             /* waits for writability, the end of connect() */
    bool is_broken;              /* kept bytes could not be written and are lost */
    bool is_unwatched;           /* no memory to watch the socket: reads return STREAM_BROKEN */
    bool awaits_room;            /* no bytes are kept, but on_drained must be called */
    bool is_reset;               /* stream_reset_on_close() was called */
    struct connect_retry *retry; /* the server's queue was full; NULL: not */
    struct iovec kept[STREAM_SLICES_MAX]; /* bytes not taken yet; memory is the owner's */
    int n_kept;
    struct list posted;         /* node in an outbox; empty: in none */
    bool is_offered;            /* the outbox has offered the kept bytes */
    enum stream_result offered; /* the result of the offer */
    struct pipe *kept_pipe;     /* borrowed: has bytes that the kernel did not take; NULL: none */
};

/* Take ownership of the connected, non-blocking @fd and start reading. If this fails, @fd is
 * closed. STATUS_NO_MEMORY. */
MUST_USE enum status stream_open(struct stream *stream, struct loop *loop, int fd,
                                 const struct stream_handler *handler, void *owner);

/* Start to connect to @sockaddr: on_drained reports the end, stream_connect_status() the result. A
 * full queue of a unix socket is waited for. STATUS_UNREACHABLE: failed at once, with errno. What
 * lacks here: STATUS_FULL, a descriptor; STATUS_NO_PORT, a port or an address; STATUS_NO_MEMORY. */
struct sockaddr;
MUST_USE enum status stream_connect(struct stream *stream, struct loop *loop,
                                    const struct sockaddr *sockaddr, size_t sockaddr_bytes,
                                    const struct stream_handler *handler, void *owner);

/* After on_drained of a connecting stream: STATUS_OK, and reading has started; or
 * STATUS_UNREACHABLE, with errno. */
MUST_USE enum status stream_connect_status(struct stream *stream);

/* Make stream_close() reset the connection instead of closing it in order. */
void stream_reset_on_close(struct stream *stream);
/* Close the socket. No-op on a closed stream, or one that is all zero with fd -1. */
void stream_close(struct stream *stream);

/* Close all but the socket, which becomes the caller's. No bytes may be kept. */
int stream_detach(struct stream *stream);

/* Read up to @capacity (>= 1) bytes, *n_read of them; 0 but for STREAM_DONE. One system call. */
MUST_USE enum stream_result stream_read(struct stream *stream, void *buffer, size_t capacity,
                                        size_t *n_read);

/* The result that stream_read() would give; nothing is consumed. */
MUST_USE enum stream_result stream_peek(struct stream *stream);

/* Set whether on_readable is wanted. Turning it off costs a system call: do so only after an
 * unwanted on_readable. Without memory to watch, it comes once; later reads are STREAM_BROKEN. */
void stream_want_read(struct stream *stream, bool wanted);

/* With true, on_ended is called in place of on_readable, even if unread bytes precede the end; with
 * false, on_readable again. Do not write while the end is watched. A no-op without memory. */
void stream_watch_end(struct stream *stream, bool wanted);

/* Write @n_slices (<= STREAM_SLICES_MAX) in order. With STREAM_BLOCKED their memory must stay valid
 * until on_drained, and no other write may come before it. One system call. */
MUST_USE enum stream_result stream_write(struct stream *stream, const struct iovec *slices,
                                         int n_slices);

/* After a write that blocked: copy the kept bytes, so that their memory may be reused. The caller
 * frees the copy after on_drained or the close. NULL: no memory. */
MUST_USE void *stream_copy_kept(struct stream *stream);

/* Read up to @most (>= 1) bytes into @pipe, which must be empty. As stream_read(), except:
 * STREAM_BROKEN also if the kernel cannot splice, and STREAM_BLOCKED also before an urgent byte.
 * stream_read() gives the actual state. */
MUST_USE enum stream_result stream_read_pipe(struct stream *stream, struct pipe *pipe, size_t most);

/* Write the contents of @pipe. As stream_write(): with STREAM_BLOCKED the pipe must stay until
 * on_drained. The process must ignore SIGPIPE, because a write to a closed connection raises it
 * here. */
MUST_USE enum stream_result stream_write_pipe(struct stream *stream, struct pipe *pipe);

/* End all writing: kept bytes are lost, and on_drained and on_progress are not called any more.
 * Bytes from the peer can still be read. Not while connecting. */
void stream_give_up_writing(struct stream *stream);

/* Whether kept bytes were lost. No write succeeds any more, but received bytes can be read. */
bool stream_is_broken(const struct stream *stream);

/* --- for an outbox (net/outbox.h), in this order --- */

/* As stream_write(), but without writing yet: STREAM_BLOCKED, or STREAM_BROKEN. */
MUST_USE enum stream_result stream_keep(struct stream *stream, const struct iovec *slices,
                                        int n_slices);

/* Write the kept bytes, without a callback. */
void stream_offer(struct stream *stream);

/* End the offer: on_drained is called if all bytes were taken or the connection broke. Otherwise
 * the rest waits for writability, and on_progress is called. */
void stream_end_offer(struct stream *stream);

/* Whether the kept bytes have not been offered to the kernel yet. */
bool stream_is_unoffered(const struct stream *stream);

/* Whether bytes are kept, or room is awaited. */
bool stream_is_blocked(const struct stream *stream);
/* Written bytes that are kept, or in the socket and not acknowledged. One system call. */
uint64_t stream_unread_bytes(const struct stream *stream);
/* Received bytes that are not read; with TLS those of its records. One system call. */
uint64_t stream_received_bytes(const struct stream *stream);
/* Whether the peer has ended its side; bytes may be unread. One system call. */
bool stream_has_peer_ended(const struct stream *stream);
/* Whether all written bytes have been sent, so that the peer takes more at the moment. Always true
 * if the kernel cannot tell. One system call. */
bool stream_keeps_up(const struct stream *stream);

/* How many bytes can probably be written without any being kept: IO_BLOCK_BYTES if the peer keeps
 * up, a few SMALL_BLOCK_BYTES if not. 0: none now, and the stream is blocked as if bytes had been
 * kept. One system call, two if the peer does not keep up. */
MUST_USE size_t stream_await_room(struct stream *stream);

/* Close our side: the peer reads an end after the written bytes. Write nothing after it. */
void stream_shutdown(struct stream *stream);

/* --- for transports --- */

/* Call writev() with one byte, which is not sent, when the socket is writable, until it takes that
 * byte; then on_drained is called. The stream is blocked meanwhile. False: no memory. */
MUST_USE bool stream_await_flush(struct stream *stream);

#endif /* SLUICE_NET_STREAM_H */
