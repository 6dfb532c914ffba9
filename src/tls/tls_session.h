/* A TLS connection: what its transport (tls_stream.c) and its handshake (tls_handshake.c) share. */

#ifndef SLUICE_TLS_TLS_SESSION_H
#define SLUICE_TLS_TLS_SESSION_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/memory.h"
#include "net/loop.h"
#include "net/stream.h"
#include "tls/client_hello.h"
#include "tls/tls_client.h"
#include "tls/tls_stream.h"

enum {
    EXEMPT_ACTIVITIES = 4, /* behind a handshake of low priority: a request, and its answer */
    RECORD_BYTES_MAX = 16 * 1024,
    RECORD_OVERHEAD = 64, /* header, nonce, tag and content type: 22 to 29 bytes */
    RECORDS_MAX = 5,      /* of one write: a large block and a head */
    PLAIN_BYTES_MAX = RECORDS_MAX * RECORD_BYTES_MAX,
    RECEIVES_MAX = 6,      /* of one read: a large block, and the rest of a record before it */
    RECORDS_READ_MAX = 64, /* of one read: a large block in records of a packet each */
    SESSIONS_MANY = 200,
    HELD_BYTES_MAX = 2048, /* two tickets are some 600 bytes */
    SEALED_BYTES_MAX = RECORDS_MAX * (RECORD_BYTES_MAX + RECORD_OVERHEAD) + 1024 + HELD_BYTES_MAX,
};

struct tls_worker {
    struct loop *loop;
    OSSL_LIB_CTX *library;
    BIO_METHOD *bio_method;
    struct pool sessions;
    size_t n_sessions_most;    /* at once, since memory was given back */
    struct pool sealed_blocks; /* ciphertext that the kernel did not take */
    struct list queued;        /* sessions whose handshake can go on */
    struct list queued_last;   /* those of low priority: TLS_TURN_LAST */
    unsigned n_turns;
    uint64_t n_activities;      /* see tls_note_activity() */
    uint64_t n_activities_seen; /* when the latest pause began */
    uint64_t pause_debt_us;     /* of queued_last, before it is long enough for a timer */
    struct timer pause;         /* of queued_last */
    bool is_paused;             /* it is armed */
    struct list readable;       /* those that have ended it, and have bytes to read */
    struct loop_task handshakes;
    struct list held; /* sessions whose `unsent` waits for what their owners write */
    struct loop_task send_held;
    bool gathers;    /* ciphertext goes to `sealed` until the write is complete */
    size_t n_sealed; /* gathered bytes */
    char sealed[SEALED_BYTES_MAX];
    char joined[RECORD_BYTES_MAX]; /* one record's plaintext, or a ClientHello */
    char received[CLIENT_HELLO_BYTES_MAX];
};

enum session_phase {
    SESSION_HELLO,
    SESSION_QUEUED,
    SESSION_HANDSHAKE,
    SESSION_OPEN,
};

struct tls_session {
    struct tls_worker *worker;
    struct stream *stream;
    SSL *ssl; /* NULL before the ClientHello is complete */
    enum session_phase phase;
    /* The stream's own, while the handshake's callbacks are in their place. */
    const struct stream_handler *handler;
    void *owner;
    const struct tls_handler *tls_handler;
    struct tls_server *server;            /* a reference; NULL: we are the client */
    const struct tls_server_entry *entry; /* NULL: not chosen yet */
    bool has_ja4;
    char ja4[JA4_BYTES];
    struct tls_client client;           /* after the handshake; owns its certificate */
    struct tls_client_context *context; /* a reference; NULL: we are the server */
    const char *alert;                  /* that ended an open session; static; NULL: none */
    struct list queued;                 /* node in worker->queued or worker->readable */
    bool is_low_priority;               /* its steps are for worker->queued_last */
    bool went_first;                    /* there, once */
    unsigned n_exempt;                  /* so many activities do not count yet */
    struct list held;                   /* node in worker->held */
    struct loop_task look_again;
    /* bytes of the ClientHello and after it, received and not read by OpenSSL; NULL: none */
    char *hello;
    size_t hello_start;
    size_t hello_end;
    char *unsent; /* a block of worker->sealed_blocks; NULL: none */
    size_t unsent_start;
    size_t unsent_end;
    unsigned n_receives; /* calls of recv() that this call may still make */
    bool has_end;        /* the socket has ended */
    bool is_lost;        /* the socket is broken */
    bool owes_byte;      /* the last byte of a write was sealed, and is reported when it is sent */
    bool has_more;       /* bytes may be read though the socket may not be readable */
    bool ends_writing;   /* shut the socket down when all is sent */
    unsigned n_messages; /* messages and alerts after the handshake in this second */
    uint64_t messages_from_us;
};

/* A session on @stream, whose callbacks are @callbacks from now on, with the session as owner.
 * NULL: no memory, and nothing has changed. */
MUST_USE struct tls_session *tls_session_new(struct tls_worker *worker, struct stream *stream,
                                             const struct stream_handler *callbacks,
                                             const struct tls_handler *handler);

/* Give the session an SSL object of @context. False: no memory. */
MUST_USE bool tls_session_make_ssl(struct tls_session *session, SSL_CTX *context);

/* The handshake is complete. */
void tls_session_open(struct tls_session *session);

/* Make the stream a plain one again, and free its session. */
void tls_session_detach(struct stream *stream);

/* Receive from the socket, and note its end. */
ssize_t tls_session_receive(struct tls_session *session, char *buffer, size_t capacity);

/* Send @bytes as far as the kernel takes them. Returns how many. */
size_t tls_session_send(struct tls_session *session, const char *bytes, size_t len);

/* From now on what OpenSSL writes is gathered, until tls_session_send_gathered(): one send() for
 * several records. No other session of the worker writes meanwhile. */
void tls_session_gather(struct tls_session *session);
void tls_session_send_gathered(struct tls_session *session);

/* Instead of tls_session_send_gathered(): what is gathered goes in one send() with what the owner
 * writes in this iteration of the loop, or without it in the next one. */
void tls_session_hold_gathered(struct tls_session *session);
bool tls_session_is_held(const struct tls_session *session);
void tls_session_on_send_held(struct loop_task *task);

/* @has_more: bytes can be read though the socket may be silent, so that on_readable comes at the
 * end of each iteration until they are read. */
void tls_session_look_again(struct tls_session *session, bool has_more);

/* Call on_readable if there may be such bytes; the stream may be closed then. */
void tls_session_read_more(struct tls_session *session);

/* How OpenSSL reaches the socket of a session, which is the data of the BIO. NULL: no memory. */
MUST_USE BIO_METHOD *tls_session_bio_method(void);

#endif /* SLUICE_TLS_TLS_SESSION_H */
