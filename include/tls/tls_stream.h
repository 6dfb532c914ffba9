/* TLS as a transport of a stream (net/stream.h): after the handshake the stream's owner reads and
 * writes as on a plain one.
 *
 * During the handshake the stream's callbacks are the session's. The owner has a timeout, and may
 * close the stream at any time. A read takes one recv() and a write one send(). What the kernel
 * does not take is kept as ciphertext. Bytes that were decrypted but not read are reported by a
 * task of the loop, since the socket does not report them. An end without close_notify is
 * STREAM_BROKEN, not STREAM_EOF. */

#ifndef SLUICE_TLS_TLS_STREAM_H
#define SLUICE_TLS_TLS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/stream.h"
#include "tls/client_certificate.h"
#include "tls/client_hello.h"
#include "tls/tls_server.h"

struct tls_client_context;
struct tls_client_sessions;

enum {
    /* So that other connections go on: steps of handshakes in an iteration of the loop, and the
     * time after which no further one begins. */
    TLS_HANDSHAKES_PER_ITERATION = 8,
    TLS_HANDSHAKES_US = 500,
    TLS_LAST_TURNS = 4, /* of so many steps one is of low priority */
    TLS_LAST_PAUSE = 3, /* see tls_note_activity() */
    /* Messages and alerts of the peer after the handshake, a second: changes of key and attempts
     * to renegotiate; more break the connection. */
    TLS_MESSAGES_MAX = 100,
};

/* Why a handshake failed: for metrics and the log. X(NAME, label) */
#define TLS_FAILURE_LIST(X)                                                                        \
    X(NONE, "none")                                                                                \
    X(PLAIN_TEXT, "plain_text")              /* no TLS at all */                                   \
    X(BAD_HELLO, "bad_hello")                /* the first message is malformed */                  \
    X(NAME, "unknown_name")                  /* unknown_name: refuse */                            \
    X(REFUSED, "refused")                    /* the owner's on_hello() said no */                  \
    X(CLOSED, "closed")                      /* the peer left */                                   \
    X(TIMEOUT, "timeout")                    /* told by the owner */                               \
    X(VERSION, "version")                    /* no common version */                               \
    X(CIPHER, "cipher")                      /* no common cipher, group or signature */            \
    X(PROTOCOL, "alpn")                      /* no common protocol of ALPN */                      \
    X(CERTIFICATE_MISSING, "no_certificate") /* the peer sent none */                              \
    X(CERTIFICATE, "bad_certificate")        /* the peer's does not verify */                      \
    X(PEER_REFUSED, "refused_by_peer") /* an alert: it does not trust our certificate, … */      \
    X(BROKEN, "protocol_error")        /* other breaches of the protocol */                        \
    X(MEMORY, "no_memory")

enum tls_failure {
#define TLS_FAILURE_ENUM(name, label) TLS_FAILURE_##name,
    TLS_FAILURE_LIST(TLS_FAILURE_ENUM)
#undef TLS_FAILURE_ENUM
        TLS_FAILURES,
};

/* The label of metrics and log lines. */
const char *tls_failure_label(enum tls_failure failure);

/* What the TLS connections of one loop share. */
struct tls_worker;

/* STATUS_NO_MEMORY. */
MUST_USE enum status tls_worker_new(struct loop *loop, struct tls_worker **worker);
/* All its streams are closed. NULL is a no-op. */
void tls_worker_free(struct tls_worker *worker);
struct ossl_lib_ctx_st *tls_worker_library(struct tls_worker *worker);

struct tls_outcome {
    enum tls_failure failure;      /* NONE: the handshake is done */
    char reason[TLS_REASON_BYTES]; /* of a failure: OpenSSL's words or ours; printable */
};

/* When the cryptography of a handshake begins. */
enum tls_turn {
    TLS_TURN_NEXT,  /* behind those that are queued for that */
    TLS_TURN_LAST,  /* behind all, but for one in TLS_LAST_TURNS; see tls_note_activity() too */
    TLS_TURN_NEVER, /* the connection is refused */
};

/* A request has begun, on @tls or, if NULL, on a stream without TLS; or a piece of a body or of a
 * tunnel has passed. While there is such activity, handshakes of low priority, TLS_TURN_LAST, pause
 * in between for TLS_LAST_PAUSE times as long as they take, so that nothing waits for them again
 * and again. The first activity behind such a handshake does not count: without that of others, a
 * client has the worker for itself. */
void tls_note_activity(struct tls_worker *worker, const struct stream *tls);

struct tls_handler {
    /* The client's first message is complete, and @entry will serve it. NULL: TLS_TURN_NEXT. */
    enum tls_turn (*on_hello)(void *owner, const struct client_hello *hello,
                              const struct tls_server_entry *entry);
    /* The handshake is over, and the stream's callbacks are its owner's again. After a failure the
     * owner closes the stream; after TLS_FAILURE_PLAIN_TEXT it is a plain one, which may be written
     * to, and what the peer has sent is lost. */
    void (*on_done)(void *owner, const struct tls_outcome *outcome);
};

/* Begin the handshake of a server on @stream, which is open, plain, and reads; @first has the bytes
 * of TLS that were read already, fewer than CLIENT_HELLO_BYTES_MAX. Callbacks get the stream's
 * owner; none comes before the next iteration of the loop. The session takes a reference to
 * @server. STATUS_NO_MEMORY: nothing has changed. */
MUST_USE enum status tls_accept(struct tls_worker *worker, struct stream *stream,
                                struct tls_server *server, struct span first,
                                const struct tls_handler *handler);

/* Begin the handshake of a client of the server @name, a host or an address, on @stream, which is
 * open, plain, and reads. The session takes a reference to @client and borrows @sessions, which
 * belong to that server and @client, until the stream is closed. on_hello is not called; otherwise
 * as tls_accept(). */
MUST_USE enum status tls_connect(struct tls_worker *worker, struct stream *stream,
                                 struct tls_client_context *client, struct span name,
                                 struct tls_client_sessions *sessions,
                                 const struct tls_handler *handler);

/* Offer HTTP/1.1 alone by ALPN on @stream, whose handshake was just begun by tls_connect(). False:
 * no memory. */
MUST_USE bool tls_offer_http_1_1(const struct stream *stream);

/* --- what a handshake has agreed on; the stream is over TLS and not closed --- */

bool tls_is_used(const struct stream *stream);
/* Whether the handshake could go on, and waits for its turn here: it is not the peer that is late.
 * During one. */
bool tls_is_queued(const struct stream *stream);
enum tls_version tls_version_of(const struct stream *stream);
bool tls_is_resumed(const struct stream *stream);
/* ALPN_HTTP_1_1, ALPN_H2; 0: the peer offered none. */
unsigned tls_alpn_of(const struct stream *stream);
/* The name that the client asked for; empty: none. Valid as long as the session. */
struct span tls_server_name_of(const struct stream *stream);
/* The client and what serves it. Of tls_accept() alone; valid as long as the session. */
const struct tls_client *tls_client_of(const struct stream *stream);
/* The alert by which the peer ended the connection after the handshake, as a client does whose
 * certificate a server of TLS 1.3 refuses. Static; NULL: there was none. */
const char *tls_alert_of(const struct stream *stream);
/* Whether such an alert may be one of the handshake. By TLS 1.2 that is over for both sides before
 * the first byte, so that an alert is about what was asked for, as a new handshake that we decline
 * is (a certificate for one path). */
bool tls_has_late_handshake(const struct stream *stream);
struct ssl_st *tls_ssl_of(const struct stream *stream);

#endif /* SLUICE_TLS_TLS_STREAM_H */
