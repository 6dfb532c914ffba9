/* TLS over a stream. OpenSSL reads and writes through a BIO of ours: it receives from the socket
 * straight into OpenSSL's buffer (which reads ahead, so that a record takes one recv()), and sends
 * from there if one record is written, or gathers several records for one send().
 *
 * Failures: a breach of the protocol is STREAM_BROKEN, as a lost socket is. */

#include "tls/tls_stream.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tls/tls_client.h"
#include "tls/tls_session.h"

static struct tls_session *session_of(const struct stream *stream)
{
    return stream->transport_state;
}

/* --- ciphertext to the socket --- */

/* Send @bytes as far as the kernel takes them; returns how many. */
size_t tls_session_send(struct tls_session *session, const char *bytes, size_t len)
{
    size_t n_sent = 0;
    while (n_sent < len && !session->is_lost) {
        const ssize_t n =
            send(session->stream->fd, bytes + n_sent, len - n_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            n_sent += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR) {
            session->is_lost = true;
        }
    }
    return n_sent;
}

/* Keep what the kernel did not take. */
static void keep_unsent(struct tls_session *session, const char *bytes, size_t len)
{
    if (session->unsent == NULL) {
        session->unsent = pool_take(&session->worker->sealed_blocks);
        session->unsent_start = 0;
        session->unsent_end = 0;
    }
    if (session->unsent == NULL || len > SEALED_BYTES_MAX - session->unsent_end) {
        session->is_lost = true; /* a gap in the ciphertext would break the connection anyway */
        return;
    }
    memcpy(session->unsent + session->unsent_end, bytes, len);
    session->unsent_end += len;
}

static void drop_unsent(struct tls_session *session)
{
    pool_give(&session->worker->sealed_blocks, session->unsent);
    session->unsent = NULL;
}

static void send_or_keep(struct tls_session *session, const char *bytes, size_t len)
{
    const size_t n_sent = session->unsent == NULL ? tls_session_send(session, bytes, len) : 0;
    if (n_sent < len && !session->is_lost) {
        keep_unsent(session, bytes + n_sent, len - n_sent);
    }
}

/* True: nothing is kept any more. */
static bool flush_unsent(struct tls_session *session)
{
    if (session->unsent != NULL) {
        session->unsent_start += tls_session_send(session, session->unsent + session->unsent_start,
                                                  session->unsent_end - session->unsent_start);
        if (session->unsent_start < session->unsent_end) {
            return false;
        }
        drop_unsent(session);
    }
    if (session->ends_writing) {
        shutdown(session->stream->fd, SHUT_WR);
    }
    return true;
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *written)
{
    struct tls_session *session = BIO_get_data(bio);
    struct tls_worker *worker = session->worker;
    *written = len; /* a broken socket is reported after the call, by is_lost */
    if (worker->gathers && len > sizeof(worker->sealed) - worker->n_sealed) {
        send_or_keep(session, worker->sealed, worker->n_sealed);
        worker->n_sealed = 0;
    }
    if (worker->gathers && len <= sizeof(worker->sealed)) {
        memcpy(worker->sealed + worker->n_sealed, bytes, len);
        worker->n_sealed += len;
    } else {
        send_or_keep(session, bytes, len);
    }
    return 1;
}

void tls_session_gather(struct tls_session *session)
{
    session->worker->gathers = true;
    session->worker->n_sealed = 0;
}

void tls_session_send_gathered(struct tls_session *session)
{
    struct tls_worker *worker = session->worker;
    worker->gathers = false;
    if (worker->n_sealed > 0) {
        send_or_keep(session, worker->sealed, worker->n_sealed);
    }
}

bool tls_session_is_held(const struct tls_session *session)
{
    return !list_is_empty(&session->held);
}

void tls_session_hold_gathered(struct tls_session *session)
{
    struct tls_worker *worker = session->worker;
    if (worker->n_sealed == 0 || worker->n_sealed > HELD_BYTES_MAX || session->unsent != NULL) {
        tls_session_send_gathered(session);
        return;
    }
    worker->gathers = false;
    keep_unsent(session, worker->sealed, worker->n_sealed);
    list_push_back(&worker->held, &session->held);
    loop_at_iteration_end(worker->loop, &worker->send_held);
}

/* What the kernel does not take now goes before the next write. */
static void end_hold(struct tls_session *session)
{
    struct tls_worker *worker = session->worker;
    list_remove(&session->held);
    if (list_is_empty(&worker->held)) {
        loop_task_cancel(&worker->send_held);
    }
    (void)flush_unsent(session);
}

void tls_session_on_send_held(struct loop_task *task)
{
    struct tls_worker *worker = CONTAINER_OF(task, struct tls_worker, send_held);
    while (!list_is_empty(&worker->held)) {
        end_hold(CONTAINER_OF(worker->held.next, struct tls_session, held));
    }
}

/* --- ciphertext from the socket --- */

static size_t take_hello(struct tls_session *session, char *buffer, size_t capacity)
{
    const size_t left = session->hello_end - session->hello_start;
    const size_t n = left < capacity ? left : capacity;
    memcpy(buffer, session->hello + session->hello_start, n);
    session->hello_start += n;
    if (n == left) {
        free(session->hello);
        session->hello = NULL;
    }
    return n;
}

ssize_t tls_session_receive(struct tls_session *session, char *buffer, size_t capacity)
{
    ssize_t n;
    do {
        n = recv(session->stream->fd, buffer, capacity, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        session->has_end = true;
    } else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        session->is_lost = true;
    }
    return n;
}

static int bio_read(BIO *bio, char *buffer, size_t capacity, size_t *n_read)
{
    struct tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (session->hello != NULL) {
        *n_read = take_hello(session, buffer, capacity);
        return 1;
    }
    *n_read = 0;
    /* A peer that takes no more may have said why. */
    if (session->n_receives > 0 && !session->has_end) {
        const ssize_t n = tls_session_receive(session, buffer, capacity);
        session->n_receives = n == (ssize_t)capacity ? session->n_receives - 1 : 0;
        if (n > 0) {
            *n_read = (size_t)n;
            return 1;
        }
    }
    if (!session->has_end && !session->is_lost) {
        BIO_set_retry_read(bio);
    }
    return 0;
}

/* The end of the socket is not reported to OpenSSL, which would answer it with an alert that the
 * peer does not read: see no_bytes(). */
static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP ? 1 : 0;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_session_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sluice");
    if (method != NULL && (BIO_meth_set_write_ex(method, bio_write) != 1 ||
                           BIO_meth_set_read_ex(method, bio_read) != 1 ||
                           BIO_meth_set_ctrl(method, bio_control) != 1 ||
                           BIO_meth_set_create(method, bio_create) != 1)) {
        BIO_meth_free(method);
        method = NULL;
    }
    return method;
}

/* --- the transport of an open session --- */

void tls_session_look_again(struct tls_session *session, bool has_more)
{
    session->has_more = has_more;
    if (has_more) {
        loop_at_iteration_end(session->worker->loop, &session->look_again);
    } else {
        loop_task_cancel(&session->look_again);
    }
}

void tls_session_read_more(struct tls_session *session)
{
    struct stream *stream = session->stream;
    if (session->has_more && stream->reading) {
        /* As a socket that stays readable: again, unless this call reads everything. */
        loop_at_iteration_end(session->worker->loop, &session->look_again);
        stream->handler->on_readable(stream->owner); /* may close the stream */
    }
}

static void on_look_again(struct loop_task *task)
{
    tls_session_read_more(CONTAINER_OF(task, struct tls_session, look_again));
}

/* What a call of OpenSSL that gave no bytes means: 0 for an end, -1 with errno otherwise. */
static ssize_t no_bytes(struct tls_session *session, int result)
{
    const int error = SSL_get_error(session->ssl, result);
    if (error == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET) {
        session->alert = ERR_reason_error_string(ERR_peek_error());
    }
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ && !session->is_lost) {
        errno = EAGAIN;
        return -1;
    }
    if (error == SSL_ERROR_ZERO_RETURN && !session->is_lost) {
        return 0;
    }
    errno = ECONNRESET; /* an end without close_notify too: what came may be cut short */
    return -1;
}

/* What others have left in the error queue, which is the thread's, is no error of this session. */
static void begin_reading(struct tls_session *session)
{
    session->n_receives = RECEIVES_MAX;
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

/* The last recv() of this call filled its buffer. Where the call has made none yet, the loop says
 * whether the socket is readable. */
static bool may_receive_more(const struct tls_session *session)
{
    return session->n_receives > 0 && session->n_receives < RECEIVES_MAX;
}

/* Bounded in bytes, in calls of recv() and in records: a peer that sends a byte a record makes us
 * compute as much as one that sends thousands. */
static ssize_t tls_read(struct stream *stream, void *buffer, size_t capacity)
{
    struct tls_session *session = session_of(stream);
    size_t n_read = 0;
    ssize_t end = -1;
    unsigned n_records = 0;
    int result;
    begin_reading(session);
    errno = EAGAIN;
    do {
        const size_t room = capacity - n_read;
        result =
            SSL_read(session->ssl, (char *)buffer + n_read, room < INT_MAX ? (int)room : INT_MAX);
        if (result <= 0) {
            end = no_bytes(session, result);
            break;
        }
        n_read += (size_t)result;
    } while (n_read < capacity && ++n_records < RECORDS_READ_MAX &&
             (may_receive_more(session) || SSL_has_pending(session->ssl)));
    if (n_read == 0) {
        const int error = errno;
        tls_session_look_again(session, false);
        errno = error;
        return end;
    }
    /* An end that was met behind the bytes is reported by the next read; the socket may be silent
     * about it. */
    tls_session_look_again(session, result <= 0 ? end == 0 || errno != EAGAIN
                                                : SSL_has_pending(session->ssl) == 1);
    return (ssize_t)n_read;
}

static ssize_t tls_peek(struct stream *stream, void *buffer, size_t capacity)
{
    struct tls_session *session = session_of(stream);
    begin_reading(session);
    const int result = SSL_peek(session->ssl, buffer, (int)capacity);
    const ssize_t n = result > 0 ? result : no_bytes(session, result);
    const int error = errno;
    tls_session_look_again(session, n >= 0 || error != EAGAIN);
    errno = error;
    return n;
}

/* Seal up to a record of the slices from *@slice and *@at on. Returns the number of plaintext
 * bytes; 0: OpenSSL refuses. */
static size_t seal_record(struct tls_session *session, const struct iovec *slices, int n_slices,
                          int *slice, size_t *at)
{
    char *joined = session->worker->joined;
    const char *bytes = (const char *)slices[*slice].iov_base + *at;
    size_t len = slices[*slice].iov_len - *at;
    if (len >= RECORD_BYTES_MAX || *slice == n_slices - 1) {
        len = len < RECORD_BYTES_MAX ? len : RECORD_BYTES_MAX;
        *at += len;
    } else { /* gather several slices into one record */
        len = 0;
        while (*slice < n_slices && len < RECORD_BYTES_MAX) {
            const size_t left = slices[*slice].iov_len - *at;
            const size_t n = left < RECORD_BYTES_MAX - len ? left : RECORD_BYTES_MAX - len;
            memcpy(joined + len, (const char *)slices[*slice].iov_base + *at, n);
            len += n;
            *at += n;
            if (*at == slices[*slice].iov_len) {
                ++*slice;
                *at = 0;
            }
        }
        bytes = joined;
    }
    if (*slice < n_slices && *at == slices[*slice].iov_len) {
        ++*slice;
        *at = 0;
    }
    return len == 0 || SSL_write(session->ssl, bytes, (int)len) == (int)len ? len : 0;
}

static size_t bytes_of(const struct iovec *slices, int n_slices)
{
    size_t n = 0;
    for (int i = 0; i < n_slices; i++) {
        n += slices[i].iov_len;
    }
    return n;
}

/* Seal and send @slices as far as one write takes them. */
static size_t seal(struct tls_session *session, const struct iovec *slices, int n_slices)
{
    const size_t all = bytes_of(slices, n_slices);
    size_t n_taken = 0;
    size_t at = 0;
    int slice = 0;
    const bool is_gathered = all > RECORD_BYTES_MAX;
    if (is_gathered) {
        tls_session_gather(session);
    }
    while (n_taken < all && n_taken + RECORD_BYTES_MAX <= PLAIN_BYTES_MAX) {
        const size_t n = seal_record(session, slices, n_slices, &slice, &at);
        if (n == 0) {
            ERR_clear_error();
            session->is_lost = true;
            break;
        }
        n_taken += n;
    }
    if (is_gathered) {
        tls_session_send_gathered(session);
    }
    return n_taken;
}

static ssize_t tls_writev(struct stream *stream, const struct iovec *slices, int n_slices)
{
    struct tls_session *session = session_of(stream);
    const bool is_held = tls_session_is_held(session);
    const bool may_seal = is_held || flush_unsent(session);
    if (session->is_lost || !may_seal) {
        errno = session->is_lost ? EPIPE : EAGAIN;
        return -1;
    }
    if (session->owes_byte) {
        session->owes_byte = false;
        return 1;
    }
    const size_t n_taken = seal(session, slices, n_slices);
    if (is_held) {
        end_hold(session);
    }
    if (session->is_lost) {
        errno = EPIPE;
        return -1;
    }
    if (session->unsent == NULL) {
        return (ssize_t)n_taken;
    }
    /* The kernel is full. The last byte counts as taken when all is sent, so the stream is blocked
     * until then. */
    session->owes_byte = true;
    if (n_taken == 1) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)n_taken - 1;
}

/* Tell the peer that nothing follows. One that has left without saying so does not listen: it would
 * answer with a reset. */
static void send_close_notify(struct tls_session *session)
{
    if (session->phase != SESSION_OPEN || session->is_lost) {
        return;
    }
    const int shut = SSL_get_shutdown(session->ssl);
    const bool has_left = session->has_end && (shut & SSL_RECEIVED_SHUTDOWN) == 0;
    if (!has_left && (shut & SSL_SENT_SHUTDOWN) == 0) {
        (void)SSL_shutdown(session->ssl);
        ERR_clear_error();
    }
}

static enum stream_result tls_shutdown(struct stream *stream)
{
    struct tls_session *session = session_of(stream);
    send_close_notify(session);
    if (tls_session_is_held(session)) {
        end_hold(session);
    }
    if (session->unsent != NULL && !session->is_lost) {
        session->ends_writing = true;
        session->owes_byte = true;
        return STREAM_BLOCKED;
    }
    shutdown(stream->fd, SHUT_WR);
    return STREAM_DONE;
}

static void tls_resume(struct stream *stream)
{
    struct tls_session *session = session_of(stream);
    if (session->has_more) {
        tls_session_look_again(session, true);
    }
}

static size_t tls_unsent(const struct stream *stream)
{
    const struct tls_session *session = session_of(stream);
    return session->unsent == NULL ? 0 : session->unsent_end - session->unsent_start;
}

/* What OpenSSL frees lies between what is in use, so that the C library keeps it: give it back when
 * most of many sessions are gone. That takes milliseconds, once for many sessions. */
static void give_memory_back(struct tls_worker *worker)
{
    const size_t n_sessions = worker->sessions.n_taken;
    if (worker->n_sessions_most >= SESSIONS_MANY && n_sessions <= worker->n_sessions_most / 8) {
        worker->n_sessions_most = n_sessions;
        malloc_trim(0);
    }
}

static void free_session(struct tls_session *session)
{
    struct tls_worker *worker = session->worker;
    list_remove(&session->queued);
    list_remove(&session->held);
    loop_task_cancel(&session->look_again);
    SSL_free(session->ssl);
    free(session->hello);
    drop_unsent(session);
    client_certificate_free(session->client.certificate);
    tls_server_release(session->server);
    tls_client_context_release(session->context);
    pool_give(&worker->sessions, session);
    give_memory_back(worker);
}

/* The stream is plain again. */
void tls_session_detach(struct stream *stream)
{
    free_session(session_of(stream));
    stream->transport = &transport_plain;
    stream->transport_state = NULL;
}

static void tls_close(struct stream *stream)
{
    struct tls_session *session = session_of(stream);
    /* An answer that is cut must not look complete, and a close in mid write is no orderly one. */
    if (!stream->is_reset && !stream->is_broken && stream->n_kept == 0) {
        send_close_notify(session);
    } else if (stream->is_reset && session->phase == SESSION_OPEN && !session->is_lost) {
        /* Nothing is wrong with the session, which OpenSSL would not resume without this. */
        SSL_set_shutdown(session->ssl, SSL_get_shutdown(session->ssl) | SSL_SENT_SHUTDOWN);
    }
    if (tls_session_is_held(session) && !stream->is_reset) {
        end_hold(session);
    }
    if (session->phase != SESSION_OPEN) {
        stream->handler = session->handler;
        stream->owner = session->owner;
    }
    tls_session_detach(stream);
}

static const struct transport TRANSPORT_TLS = {
    .name = "tls",
    .read = tls_read,
    .writev = tls_writev,
    .peek = tls_peek,
    .shutdown = tls_shutdown,
    .resume = tls_resume,
    .unsent = tls_unsent,
    .close = tls_close,
};

/* --- life --- */

/* Messages and alerts after the handshake are rare; a peer that sends many makes us compute for
 * nothing. An attempt to renegotiate is seen by the alert that answers it. */
static void on_message(const SSL *ssl, int where, int result)
{
    struct tls_session *session = BIO_get_data(SSL_get_rbio(ssl));
    const bool is_message = (where & SSL_CB_EXIT) != 0 && SSL_get_state(ssl) == TLS_ST_OK;
    (void)result;
    if (!is_message && (where & SSL_CB_ALERT) == 0) {
        return;
    }
    const uint64_t now_us = clock_monotonic_us();
    if (now_us - session->messages_from_us >= 1000000) {
        session->messages_from_us = now_us;
        session->n_messages = 0;
    }
    if (++session->n_messages > TLS_MESSAGES_MAX) {
        session->is_lost = true;
        /* OpenSSL drops what it has received and not read yet. */
        SSL_set_shutdown(session->ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
    }
}

bool tls_session_make_ssl(struct tls_session *session, SSL_CTX *context)
{
    BIO *bio = BIO_new_ex(session->worker->library, session->worker->bio_method);
    session->ssl = bio == NULL ? NULL : SSL_new(context);
    if (session->ssl == NULL) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, session);
    SSL_set_bio(session->ssl, bio, bio);
    return true;
}

void tls_session_open(struct tls_session *session)
{
    session->phase = SESSION_OPEN;
    SSL_set_info_callback(session->ssl, on_message);
    stream_want_read(session->stream, true);
}

struct tls_session *tls_session_new(struct tls_worker *worker, struct stream *stream,
                                    const struct stream_handler *callbacks,
                                    const struct tls_handler *handler)
{
    struct tls_session *session = pool_take(&worker->sessions);
    if (session == NULL) {
        return NULL;
    }
    *session = (struct tls_session){
        .worker = worker,
        .stream = stream,
        .handler = stream->handler,
        .owner = stream->owner,
        .tls_handler = handler,
    };
    if (worker->sessions.n_taken > worker->n_sessions_most) {
        worker->n_sessions_most = worker->sessions.n_taken;
    }
    list_init(&session->queued);
    list_init(&session->held);
    loop_task_init(&session->look_again, on_look_again);
    stream->transport = &TRANSPORT_TLS;
    stream->transport_state = session;
    stream->handler = callbacks;
    stream->owner = session;
    return session;
}

/* --- what a handshake has agreed on --- */

bool tls_is_used(const struct stream *stream)
{
    return stream->transport == &TRANSPORT_TLS;
}

struct ssl_st *tls_ssl_of(const struct stream *stream)
{
    return session_of(stream)->ssl;
}

enum tls_version tls_version_of(const struct stream *stream)
{
    return SSL_version(tls_ssl_of(stream)) == TLS1_3_VERSION ? TLS_VERSION_1_3 : TLS_VERSION_1_2;
}

bool tls_is_queued(const struct stream *stream)
{
    return session_of(stream)->phase == SESSION_QUEUED;
}

void tls_note_activity(struct tls_worker *worker, const struct stream *tls)
{
    struct tls_session *session = tls != NULL ? session_of(tls) : NULL;
    if (session != NULL && session->n_exempt > 0) {
        session->n_exempt--;
    } else {
        worker->n_activities++;
    }
}

bool tls_is_resumed(const struct stream *stream)
{
    return SSL_session_reused(tls_ssl_of(stream)) == 1;
}

unsigned tls_alpn_of(const struct stream *stream)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(tls_ssl_of(stream), &name, &len);
    if (len == 0) {
        return 0;
    }
    return len == 2 ? ALPN_H2 : ALPN_HTTP_1_1;
}

bool tls_offer_http_1_1(const struct stream *stream)
{
    static const unsigned char HTTP_1_1[] = "\10http/1.1";
    return SSL_set_alpn_protos(tls_ssl_of(stream), HTTP_1_1, sizeof(HTTP_1_1) - 1) == 0;
}

struct span tls_server_name_of(const struct stream *stream)
{
    const char *name = SSL_get_servername(tls_ssl_of(stream), TLSEXT_NAMETYPE_host_name);
    return name == NULL ? span_of(NULL, 0) : span_of_text(name);
}

const char *tls_alert_of(const struct stream *stream)
{
    return session_of(stream)->alert;
}

bool tls_has_late_handshake(const struct stream *stream)
{
    return SSL_version(tls_ssl_of(stream)) >= TLS1_3_VERSION;
}

const struct tls_client *tls_client_of(const struct stream *stream)
{
    return &session_of(stream)->client;
}
