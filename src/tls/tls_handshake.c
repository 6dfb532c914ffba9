/* The handshake of a server, and that of a client, which begins at QUEUED.
 *
 *   HELLO ─ the ClientHello is complete ─► QUEUED ─ a turn in the loop ─► HANDSHAKE ─┬─► OPEN
 *                                            ▲  more bytes have come, or were sent  │
 *                                            └──────────────────────────────────────┘
 *
 * Failures: each way it can fail has a label; the owner closes the stream. */

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tls/tls_client.h"
#include "tls/tls_context.h"
#include "tls/tls_session.h"
#include "tls/tls_stream.h"

enum {
    SESSIONS_KEPT = 256,
    SEALED_BLOCKS_KEPT = 16,
    ALERT_BYTES = 7,
    PAUSE_SHORTEST_US = 1000,     /* a timer knows no shorter ones */
    PAUSE_LONGEST_US = 50 * 1000, /* where the worker itself did not run for a time */
};

const char *tls_failure_label(enum tls_failure failure)
{
    static const char *const LABELS[] = {
#define TLS_FAILURE_LABEL(name, label) label,
        TLS_FAILURE_LIST(TLS_FAILURE_LABEL)
#undef TLS_FAILURE_LABEL
    };
    return LABELS[failure];
}

/* --- the handshake --- */

/* Note who the client is. False: no memory. */
static bool read_client(struct tls_session *session)
{
    const struct tls_server_entry *entry = session->entry;
    X509 *x509 = SSL_get0_peer_certificate(session->ssl);
    session->client = (struct tls_client){
        .config = entry->server->config,
        .entry = entry->config,
        .server_name = SSL_get_servername(session->ssl, TLSEXT_NAMETYPE_host_name),
        .lineage = entry->server->lineage,
        .ja4 = span_of(session->ja4, session->has_ja4 ? JA4_BYTES : 0),
    };
    if (x509 == NULL || SSL_get_verify_result(session->ssl) != X509_V_OK) {
        return true;
    }
    session->client.certificate_end_s = tls_server_certificate_end(session->ssl);
    session->client.certificate = client_certificate_new(x509);
    return session->client.certificate != NULL;
}

static void end_handshake(struct tls_session *session, enum tls_failure failure, const char *reason)
{
    if (failure == TLS_FAILURE_NONE && session->entry != NULL && !read_client(session)) {
        failure = TLS_FAILURE_MEMORY;
        reason = "out of memory";
    }
    struct stream *stream = session->stream;
    const struct tls_handler *handler = session->tls_handler;
    struct tls_outcome outcome = {.failure = failure};
    (void)snprintf(outcome.reason, sizeof(outcome.reason), "%s", reason);
    list_remove(&session->queued);
    stream->handler = session->handler;
    stream->owner = session->owner;
    if (failure == TLS_FAILURE_NONE) {
        tls_session_open(session);
        if (SSL_has_pending(session->ssl) == 1 || session->hello != NULL) {
            tls_session_look_again(session, true);
            list_push_back(&session->worker->readable, &session->queued);
        }
    } else if (failure == TLS_FAILURE_PLAIN_TEXT) {
        tls_session_detach(stream);
    }
    handler->on_done(stream->owner, &outcome);
}

static enum tls_failure failure_of_error(unsigned long error)
{
    const int reason = ERR_GET_REASON(error);
    switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_INAPPROPRIATE_FALLBACK:
        return TLS_FAILURE_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
        return TLS_FAILURE_CIPHER;
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return TLS_FAILURE_PROTOCOL;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return TLS_FAILURE_CERTIFICATE_MISSING;
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return TLS_FAILURE_CERTIFICATE;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return TLS_FAILURE_CLOSED;
    default:
        /* An alert has a number behind the offset; far behind are errors of all libraries. */
        return reason >= SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + UINT8_MAX
                   ? TLS_FAILURE_PEER_REFUSED
                   : TLS_FAILURE_BROKEN;
    }
}

/* What OpenSSL says when a server answers in plain text. */
static bool is_no_tls(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

static void fail_handshake(struct tls_session *session)
{
    const unsigned long error = ERR_peek_error();
    const char *reason = ERR_reason_error_string(error);
    const long verified = SSL_get_verify_result(session->ssl);
    enum tls_failure failure = failure_of_error(error);
    if (failure == TLS_FAILURE_CERTIFICATE && verified != X509_V_OK) {
        reason = session->context != NULL ? session->context->reason
                                          : X509_verify_cert_error_string(verified);
    } else if (session->context != NULL && is_no_tls(ERR_GET_REASON(error))) {
        reason = "the server speaks no TLS there";
    } else if (session->is_lost || session->has_end) {
        failure = TLS_FAILURE_CLOSED;
        reason = "the peer closed the connection";
    }
    ERR_clear_error();
    end_handshake(session, failure, reason != NULL ? reason : "unknown error");
}

/* Go on with the handshake as far as the bytes at hand allow. */
static void step(struct tls_session *session)
{
    struct stream *stream = session->stream;
    session->phase = SESSION_HANDSHAKE;
    /* Behind a ClientHello nothing comes before our answer. */
    session->n_receives = session->hello != NULL ? 0 : RECEIVES_MAX;
    ERR_clear_error();
    tls_session_gather(session); /* a flight, and each ticket, is flushed by itself */
    const int result = SSL_do_handshake(session->ssl);
    if (result == 1 && SSL_has_pending(session->ssl) == 1) {
        tls_session_hold_gathered(session); /* the answer may follow at once */
    } else {
        tls_session_send_gathered(session);
    }
    const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(session->ssl, result);
    const bool goes_on = result == 1 || error == SSL_ERROR_WANT_READ;
    if (!goes_on || session->is_lost) {
        fail_handshake(session);
    } else if (session->unsent != NULL && !tls_session_is_held(session)) {
        session->owes_byte = true;
        stream_want_read(stream, false);
        if (!stream_await_flush(stream)) {
            end_handshake(session, TLS_FAILURE_MEMORY, "out of memory");
        }
    } else if (result == 1) {
        end_handshake(session, TLS_FAILURE_NONE, "");
    } else {
        stream_want_read(stream, true);
    }
}

/* The next step of a session of low priority may be the one that takes long: that behind a
 * HelloRetryRequest. It goes first there, so that a handshake waits once, but only it: a client may
 * cause any number of steps. */
static void enqueue(struct tls_session *session, enum tls_turn turn)
{
    struct tls_worker *worker = session->worker;
    if (session->is_low_priority && !session->went_first) {
        session->went_first = true;
        list_push_front(&worker->queued_last, &session->queued);
    } else if (session->is_low_priority || turn == TLS_TURN_LAST) {
        session->n_exempt = session->is_low_priority ? session->n_exempt : EXEMPT_ACTIVITIES;
        session->is_low_priority = true;
        list_push_back(&worker->queued_last, &session->queued);
    } else {
        list_push_back(&worker->queued, &session->queued);
    }
}

static void queue(struct tls_session *session, enum tls_turn turn)
{
    struct tls_worker *worker = session->worker;
    if (list_is_empty(&session->queued)) {
        session->phase = SESSION_QUEUED;
        enqueue(session, turn);
        loop_at_iteration_end(worker->loop, &worker->handshakes);
    }
}

static bool has_queued_last(const struct tls_worker *worker)
{
    return !list_is_empty(&worker->queued_last) && !worker->is_paused;
}

/* The list whose first session has its turn; NULL: none has. */
static struct list *choose_queue(struct tls_worker *worker)
{
    const bool is_for_last = ++worker->n_turns % TLS_LAST_TURNS == 0;
    if (has_queued_last(worker) && (is_for_last || list_is_empty(&worker->queued))) {
        return &worker->queued_last;
    }
    return list_is_empty(&worker->queued) ? NULL : &worker->queued;
}

/* A step of queued_last took @took_us. */
static void pause_after(struct tls_worker *worker, uint64_t took_us)
{
    if (worker->n_activities == worker->n_activities_seen) {
        worker->pause_debt_us = 0;
        return;
    }
    worker->pause_debt_us += TLS_LAST_PAUSE * took_us;
    if (worker->pause_debt_us >= PAUSE_SHORTEST_US) {
        timer_arm(&worker->pause, worker->pause_debt_us < PAUSE_LONGEST_US ? worker->pause_debt_us
                                                                           : PAUSE_LONGEST_US);
        worker->is_paused = true;
        worker->pause_debt_us = 0;
        worker->n_activities_seen = worker->n_activities;
    }
}

static void on_pause_end(void *context)
{
    struct tls_worker *worker = context;
    worker->is_paused = false;
    loop_at_iteration_end(worker->loop, &worker->handshakes);
}

/* What the client has sent behind its last message is read at once: the iteration of the loop that
 * would read it otherwise costs more than the answer of many requests. */
static void read_behind_handshakes(struct tls_worker *worker)
{
    while (!list_is_empty(&worker->readable)) {
        struct tls_session *session =
            CONTAINER_OF(worker->readable.next, struct tls_session, queued);
        list_remove(&session->queued);
        tls_session_read_more(session);
    }
}

static void on_turn(struct loop_task *task)
{
    struct tls_worker *worker = CONTAINER_OF(task, struct tls_worker, handshakes);
    const uint64_t start_us = clock_monotonic_us();
    uint64_t now_us = start_us;
    for (unsigned i = 0;
         i < TLS_HANDSHAKES_PER_ITERATION && (i == 0 || now_us - start_us < TLS_HANDSHAKES_US);
         i++) {
        struct list *from = choose_queue(worker);
        if (from == NULL) {
            break;
        }
        struct tls_session *session = CONTAINER_OF(from->next, struct tls_session, queued);
        const uint64_t step_from_us = now_us;
        list_remove(&session->queued);
        step(session);
        now_us = clock_monotonic_us();
        if (from == &worker->queued_last) {
            pause_after(worker, now_us - step_from_us);
        }
    }
    read_behind_handshakes(worker);
    if (!list_is_empty(&worker->queued) || has_queued_last(worker)) {
        loop_at_iteration_end(worker->loop, task);
    }
}

/* --- the ClientHello --- */

/* Tell the client why, in plain text as there are no keys yet. */
static void send_alert(struct tls_session *session, char description)
{
    const char alert[ALERT_BYTES] = {21, 3, 3, 0, 2, SSL3_AL_FATAL, description};
    (void)tls_session_send(session, alert, sizeof(alert));
}

static void on_hello(struct tls_session *session, const struct client_hello *hello)
{
    session->entry = tls_server_choose(session->server, hello->server_name);
    if (session->entry == NULL) {
        send_alert(session, SSL_AD_UNRECOGNIZED_NAME);
        end_handshake(session, TLS_FAILURE_NAME, "no certificate serves the name");
        return;
    }
    const enum tls_turn turn =
        session->tls_handler->on_hello != NULL
            ? session->tls_handler->on_hello(session->owner, hello, session->entry)
            : TLS_TURN_NEXT;
    if (turn == TLS_TURN_NEVER) {
        end_handshake(session, TLS_FAILURE_REFUSED, "too many handshakes");
        return;
    }
    if (session->server->config->computes_ja4) {
        session->has_ja4 = ja4_write(hello->all, session->ja4);
    }
    if (!tls_session_make_ssl(session, session->entry->context)) {
        end_handshake(session, TLS_FAILURE_MEMORY, "out of memory");
        return;
    }
    SSL_set_accept_state(session->ssl);
    queue(session, turn);
}

/* Append @n bytes to the kept ones. */
static bool keep_hello(struct tls_session *session, const char *bytes, size_t n)
{
    char *grown = realloc(session->hello, session->hello_end + n);
    if (grown == NULL) {
        return false;
    }
    memcpy(grown + session->hello_end, bytes, n);
    session->hello = grown;
    session->hello_end += n;
    return true;
}

static void parse_hello(struct tls_session *session)
{
    struct client_hello hello;
    const char *reason = "";
    switch (client_hello_parse(span_of(session->hello, session->hello_end), session->worker->joined,
                               &hello, &reason)) {
    case CLIENT_HELLO_PARTIAL:
        return;
    case CLIENT_HELLO_NOT_TLS:
        end_handshake(session, TLS_FAILURE_PLAIN_TEXT, "no TLS");
        return;
    case CLIENT_HELLO_BAD:
        send_alert(session, SSL_AD_DECODE_ERROR);
        end_handshake(session, TLS_FAILURE_BAD_HELLO, reason);
        return;
    case CLIENT_HELLO_DONE:
        on_hello(session, &hello);
        return;
    }
}

static void read_hello(struct tls_session *session)
{
    struct tls_worker *worker = session->worker;
    const ssize_t n =
        tls_session_receive(session, worker->received, CLIENT_HELLO_BYTES_MAX - session->hello_end);
    if (n <= 0) {
        if (session->has_end || session->is_lost) {
            end_handshake(session, TLS_FAILURE_CLOSED, "the client left before its first message");
        }
    } else if (!keep_hello(session, worker->received, (size_t)n)) {
        end_handshake(session, TLS_FAILURE_MEMORY, "out of memory");
    } else {
        parse_hello(session);
    }
}

/* --- the stream's callbacks during a handshake --- */

static void on_readable(void *owner)
{
    struct tls_session *session = owner;
    switch (session->phase) {
    case SESSION_HELLO:
        if (session->has_more) { /* bytes that the owner had read */
            tls_session_look_again(session, false);
            parse_hello(session);
        } else {
            read_hello(session);
        }
        return;
    case SESSION_HANDSHAKE:
        /* Its turn comes in this iteration, unless many are queued. */
        queue(session, TLS_TURN_NEXT);
        return;
    case SESSION_QUEUED:
        stream_want_read(session->stream, false);
        return;
    case SESSION_OPEN:
        return;
    }
}

/* What we owed the peer has been sent, or the socket is broken. */
static void on_drained(void *owner)
{
    struct tls_session *session = owner;
    if (stream_is_broken(session->stream)) {
        end_handshake(session, TLS_FAILURE_CLOSED, "the peer closed the connection");
    } else if (SSL_is_init_finished(session->ssl)) {
        struct tls_worker *worker = session->worker;
        end_handshake(session, TLS_FAILURE_NONE, "");
        read_behind_handshakes(worker);
    } else {
        stream_want_read(session->stream, true);
    }
}

static const struct stream_handler HANDSHAKE_HANDLER = {
    .on_readable = on_readable,
    .on_drained = on_drained,
};

/* --- life --- */

enum status tls_worker_new(struct loop *loop, struct tls_worker **worker)
{
    struct tls_worker *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->loop = loop;
    list_init(&made->queued);
    list_init(&made->queued_last);
    timer_init(&made->pause, loop, on_pause_end, made);
    list_init(&made->readable);
    list_init(&made->held);
    loop_task_init(&made->send_held, tls_session_on_send_held);
    loop_task_init(&made->handshakes, on_turn);
    pool_init(&made->sessions, sizeof(struct tls_session), SESSIONS_KEPT);
    pool_init(&made->sealed_blocks, SEALED_BYTES_MAX, SEALED_BLOCKS_KEPT);
    made->library = OSSL_LIB_CTX_new();
    made->bio_method = tls_session_bio_method();
    if (made->library == NULL || made->bio_method == NULL) {
        tls_worker_free(made);
        return STATUS_NO_MEMORY;
    }
    *worker = made;
    return STATUS_OK;
}

void tls_worker_free(struct tls_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    assert(list_is_empty(&worker->queued) && list_is_empty(&worker->queued_last) &&
           list_is_empty(&worker->held));
    timer_close(&worker->pause);
    loop_task_cancel(&worker->handshakes);
    loop_task_cancel(&worker->send_held);
    pool_close(&worker->sessions);
    pool_close(&worker->sealed_blocks);
    BIO_meth_free(worker->bio_method);
    OSSL_LIB_CTX_free(worker->library);
    free(worker);
}

struct ossl_lib_ctx_st *tls_worker_library(struct tls_worker *worker)
{
    return worker->library;
}

/* As if the session had not been made. */
static void undo_session(struct tls_session *session)
{
    struct stream *stream = session->stream;
    stream->handler = session->handler;
    stream->owner = session->owner;
    tls_session_detach(stream);
}

enum status tls_accept(struct tls_worker *worker, struct stream *stream, struct tls_server *server,
                       struct span first, const struct tls_handler *handler)
{
    assert(stream->transport == &transport_plain && !stream_is_blocked(stream));
    struct tls_session *session = tls_session_new(worker, stream, &HANDSHAKE_HANDLER, handler);
    if (session == NULL) {
        return STATUS_NO_MEMORY;
    }
    session->server = tls_server_acquire(server);
    if (first.len > 0 && !keep_hello(session, first.data, first.len)) {
        undo_session(session);
        return STATUS_NO_MEMORY;
    }
    stream_want_read(stream, true);
    tls_session_look_again(session, first.len > 0);
    return STATUS_OK;
}

enum status tls_connect(struct tls_worker *worker, struct stream *stream,
                        struct tls_client_context *client, struct span name,
                        struct tls_client_sessions *sessions, const struct tls_handler *handler)
{
    assert(stream->transport == &transport_plain && !stream_is_blocked(stream));
    struct tls_session *session = tls_session_new(worker, stream, &HANDSHAKE_HANDLER, handler);
    if (session == NULL) {
        return STATUS_NO_MEMORY;
    }
    session->context = tls_client_context_acquire(client);
    if (!tls_session_make_ssl(session, client->context) ||
        !tls_client_context_prepare(client, session->ssl, name, sessions)) {
        ERR_clear_error();
        undo_session(session);
        return STATUS_NO_MEMORY;
    }
    queue(session, TLS_TURN_NEXT);
    return STATUS_OK;
}
