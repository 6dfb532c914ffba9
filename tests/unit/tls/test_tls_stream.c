#include "tls/tls_stream.h"

#include <check.h>
#include <errno.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "made_certificate.h"
#include "support/iterations.h"

enum {
    BIG_BYTES = 1024 * 1024, /* more than the buffers of a socket pair */
    SMALL_BUFFER = 4096,
};

static struct loop *loop;
static struct tls_worker *worker;
static struct tls_server_config *config;
static struct ticket_chain chain = TICKET_CHAIN_INIT;
static struct tls_server *server;
static struct stream stream;
static int peer; /* the client's socket */
static SSL_CTX *client_context;
static SSL *client;
static unsigned n_readable;
static unsigned n_drained;
static unsigned n_done;
static unsigned n_hellos;
static bool takes_hello;
static struct tls_outcome outcome;

static void on_readable(void *owner)
{
    ck_assert_ptr_eq(owner, &n_readable);
    n_readable++;
}

static void on_drained(void *owner)
{
    ck_assert_ptr_eq(owner, &n_readable);
    n_drained++;
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

static bool on_hello(void *owner, const struct client_hello *hello,
                     const struct tls_server_entry *entry)
{
    ck_assert_ptr_eq(owner, &n_readable);
    ck_assert_ptr_nonnull(hello);
    ck_assert_ptr_nonnull(entry);
    n_hellos++;
    return takes_hello;
}

static void on_done(void *owner, const struct tls_outcome *done)
{
    ck_assert_ptr_eq(owner, &n_readable);
    outcome = *done;
    n_done++;
}

static const struct tls_handler TLS_HANDLER = {.on_hello = on_hello, .on_done = on_done};

/* --- certificates --- */

static struct certificate *make_certificate(const char *san)
{
    struct made_certificate made =
        made_new((struct made_options){.name = "leaf", .key = EVP_EC_gen("P-256"), .san = san});
    BIO *pem = BIO_new(BIO_s_mem());
    struct certificate *certificate = NULL;
    struct certificate_problem problem;
    char *data;
    PEM_write_bio_X509(pem, made.x509);
    PEM_write_bio_PrivateKey(pem, made.key, NULL, NULL, 0, NULL, NULL);
    const size_t len = (size_t)BIO_get_mem_data(pem, &data);
    ck_assert_int_eq(certificate_read(span_of(data, len), "cert", span_of(data, len), "key",
                                      &certificate, &problem),
                     STATUS_OK);
    BIO_free(pem);
    made_free(&made);
    return certificate;
}

static void add_entry(const char *name)
{
    char san[64];
    size_t other;
    struct tls_entry_config *entry = &config->entries[config->n_entries];
    (void)snprintf(san, sizeof(san), "DNS:%s", name);
    entry->certificates[0] = make_certificate(san);
    entry->n_certificates = 1;
    entry->names = calloc(1, sizeof(*entry->names));
    entry->names[0] = span_of_text(strdup(name));
    entry->n_names = 1;
    ck_assert_int_eq(server_names_add(config->names, entry->names[0], config->n_entries, &other),
                     STATUS_OK);
    config->n_entries++;
}

static void make_server(void)
{
    struct certificate_problem problem;
    config = calloc(1, sizeof(*config));
    atomic_init(&config->n_references, 1);
    config->entries = calloc(2, sizeof(*config->entries));
    ck_assert_int_eq(server_names_new(2, &config->names), STATUS_OK);
    add_entry("one.test");
    add_entry("two.test");
    config->tickets = TLS_TICKETS_PROCESS;
    config->alpn = ALPN_HTTP_1_1;
    config->chain = &chain;
    config->secrets.n = 1; /* of zeros */
    ck_assert_int_eq(tls_server_new(tls_worker_library(worker), config, &server, &problem),
                     STATUS_OK);
}

/* --- the client --- */

static void open_stream(int type)
{
    int fds[2];
    const int small = SMALL_BUFFER;
    ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    peer = fds[1];
    ck_assert_int_eq(stream_open(&stream, loop, fds[0], &HANDLER, &n_readable), STATUS_OK);
    ck_assert_int_eq(tls_accept(worker, &stream, server, span_of(NULL, 0), &TLS_HANDLER),
                     STATUS_OK);
    n_done = 0;
}

static void new_client(const char *name)
{
    SSL_free(client);
    client = SSL_new(client_context);
    SSL_set_fd(client, peer);
    SSL_set_connect_state(client);
    if (name != NULL) {
        /* SSL_set_tlsext_host_name() with a cast that keeps clang content. */
        SSL_ctrl(client, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 (void *)(uintptr_t)name);
    }
}

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    (void)signal(SIGPIPE, SIG_IGN); /* the client's */
    loop = iterations_new_loop();
    ck_assert_int_eq(tls_worker_new(loop, &worker), STATUS_OK);
    make_server();
    client_context = SSL_CTX_new(TLS_client_method());
    client = NULL;
    n_readable = 0;
    n_drained = 0;
    n_hellos = 0;
    takes_hello = true;
    open_stream(SOCK_STREAM);
    new_client("one.test");
}

static void tear_down(void)
{
    SSL_free(client);
    SSL_CTX_free(client_context);
    stream_close(&stream);
    close(peer);
    tls_server_release(server);
    tls_server_config_release(config);
    tls_worker_free(worker);
    loop_free(loop);
}

/* Both sides go on until the server's is over; the client's may fail. */
static void shake_hands(void)
{
    int result = 0;
    for (unsigned i = 0; i < 10000 && (n_done == 0 || (result != 1 && outcome.failure == 0)); i++) {
        result = SSL_do_handshake(client);
        iterations_once(loop);
    }
    ERR_clear_error();
    ck_assert_uint_eq(n_done, 1);
}

static void secure(void)
{
    shake_hands();
    ck_assert_str_eq(outcome.reason, "");
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NONE);
}

static void reconnect(const char *name)
{
    stream_close(&stream);
    close(peer);
    open_stream(SOCK_STREAM);
    new_client(name);
}

/* Write @len bytes as the client; the server's side does not run meanwhile. */
static void client_writes(const void *bytes, size_t len)
{
    ck_assert_int_eq(SSL_write(client, bytes, (int)len), (int)len);
}

static enum stream_result server_reads(char *buffer, size_t capacity, size_t *n_read)
{
    return stream_read(&stream, buffer, capacity, n_read);
}

static enum stream_result server_writes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const struct iovec slices[] = {
        {.iov_base = (void *)(uintptr_t)a, .iov_len = a_len},
        {.iov_base = (void *)(uintptr_t)b, .iov_len = b_len},
    };
    return stream_write(&stream, slices, 2);
}

static void client_reads(const char *expected)
{
    char buffer[256];
    int n = 0;
    for (unsigned i = 0; i < 1000 && n <= 0; i++) {
        n = SSL_read(client, buffer, sizeof(buffer));
        iterations_once(loop);
    }
    ck_assert_int_eq(n, (int)strlen(expected));
    ck_assert_mem_eq(buffer, expected, strlen(expected));
}

/* --- handshakes --- */

START_TEST(after_the_handshake_both_sides_read_what_the_other_writes)
{
    char buffer[64];
    size_t n_read;
    secure();
    ck_assert_int_eq(tls_version_of(&stream), TLS_VERSION_1_3);
    ck_assert(!tls_is_resumed(&stream));
    ck_assert_uint_eq(tls_alpn_of(&stream), 0);
    client_writes("GET /", 5);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 5);
    ck_assert_mem_eq(buffer, "GET /", 5);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_BLOCKED);
    ck_assert_int_eq(server_writes("200 ", 4, "OK", 2), STREAM_DONE);
    client_reads("200 OK"); /* one record */
}
END_TEST

/* A socket that keeps apart what is sent apart: each send() wakes the client, and is a packet. */
START_TEST(the_tickets_after_a_handshake_are_one_write)
{
    char message[BIG_BYTES / 64];
    unsigned n_messages = 0;
    stream_close(&stream);
    close(peer);
    open_stream(SOCK_SEQPACKET);
    new_client("one.test");
    SSL_set_read_ahead(client, 1);
    secure();
    ck_assert_int_eq(SSL_version(client), TLS1_3_VERSION);
    while (recv(peer, message, sizeof(message), MSG_DONTWAIT) > 0) {
        n_messages++;
    }
    ck_assert_uint_eq(n_messages, 1);
}
END_TEST

START_TEST(a_client_of_tls_1_2_is_served)
{
    SSL_set_max_proto_version(client, TLS1_2_VERSION);
    secure();
    ck_assert_int_eq(tls_version_of(&stream), TLS_VERSION_1_2);
    ck_assert_int_eq(server_writes("a", 1, "b", 1), STREAM_DONE);
    client_reads("ab");
}
END_TEST

START_TEST(a_client_hello_may_come_byte_by_byte)
{
    BIO *out = BIO_new(BIO_s_mem());
    char *bytes;
    BIO_up_ref(out);
    SSL_set0_wbio(client, out);
    ck_assert_int_eq(SSL_do_handshake(client), -1);
    const long len = BIO_get_mem_data(out, &bytes);
    ck_assert_int_gt(len, 100);
    for (long i = 0; i < len; i++) {
        ck_assert_uint_eq(n_hellos, 0);
        ck_assert_int_eq(write(peer, bytes + i, 1), 1);
        iterations_once(loop);
    }
    SSL_set_wfd(client, peer);
    BIO_free(out);
    secure();
    ck_assert_uint_eq(n_hellos, 1);
}
END_TEST

START_TEST(the_name_chooses_the_certificate)
{
    new_client("TWO.test.");
    secure();
    ck_assert_ptr_eq(tls_client_of(&stream)->entry, &server->config->entries[1]);
    reconnect("other.test");
    secure();
    ck_assert_ptr_eq(tls_client_of(&stream)->entry, &server->config->entries[0]);
    reconnect(NULL);
    secure();
    ck_assert_ptr_eq(tls_client_of(&stream)->entry, &server->config->entries[0]);
    config->refuses_unknown_names = true;
    reconnect("other.test");
    shake_hands();
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NAME);
}
END_TEST

START_TEST(the_owner_may_refuse_before_any_cryptography)
{
    takes_hello = false;
    shake_hands();
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_REFUSED);
    ck_assert_uint_eq(n_hellos, 1);
}
END_TEST

START_TEST(plain_text_on_a_tls_port_can_be_answered)
{
    static const char ANSWER[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    char buffer[64];
    ck_assert_int_eq(write(peer, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    iterations_until_count(loop, &n_done, 1);
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_PLAIN_TEXT);
    ck_assert(!tls_is_used(&stream));
    ck_assert_int_eq(server_writes(ANSWER, strlen(ANSWER), "", 0), STREAM_DONE);
    ck_assert_int_eq(read(peer, buffer, sizeof(buffer)), (ssize_t)strlen(ANSWER));
}
END_TEST

START_TEST(each_failure_has_its_label)
{
    SSL_set_max_proto_version(client, TLS1_1_VERSION);
    SSL_set_min_proto_version(client, TLS1_1_VERSION);
    SSL_set_security_level(client, 0);
    shake_hands();
    ck_assert_str_eq(tls_failure_label(outcome.failure), "version");

    reconnect("one.test");
    SSL_set_alpn_protos(client, (const unsigned char *)"\3foo", 4);
    shake_hands();
    ck_assert_str_eq(tls_failure_label(outcome.failure), "alpn");

    reconnect("one.test");
    SSL_set_verify(client, SSL_VERIFY_PEER, NULL);
    shake_hands();
    ck_assert_str_eq(tls_failure_label(outcome.failure), "refused_by_peer");
    ck_assert_ptr_nonnull(strstr(outcome.reason, "unknown ca"));

    reconnect("one.test");
    shutdown(peer, SHUT_WR);
    iterations_until_count(loop, &n_done, 1);
    ck_assert_str_eq(tls_failure_label(outcome.failure), "closed");

    reconnect("one.test");
    ck_assert_int_eq(write(peer, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 10), 10);
    iterations_until_count(loop, &n_done, 1);
    ck_assert_str_eq(tls_failure_label(outcome.failure), "bad_hello");
}
END_TEST

START_TEST(alpn_agrees_on_http_1_1)
{
    SSL_set_alpn_protos(client, (const unsigned char *)"\2h2\10http/1.1", 12);
    secure();
    ck_assert_uint_eq(tls_alpn_of(&stream), ALPN_HTTP_1_1);
}
END_TEST

START_TEST(a_stream_may_be_closed_in_mid_handshake)
{
    SSL_do_handshake(client);
    iterations_once(loop);
    stream_close(&stream);
    ck_assert_uint_eq(n_done, 0);
    open_stream(SOCK_STREAM);
    SSL_do_handshake(client);
}
END_TEST

/* --- resumption --- */

static SSL_SESSION *session_after_reading(void)
{
    ck_assert_int_eq(server_writes("x", 1, "", 0), STREAM_DONE);
    client_reads("x");                           /* tickets come before it */
    SSL_set_shutdown(client, SSL_SENT_SHUTDOWN); /* else the session counts as cut */
    return SSL_get1_session(client);
}

static void check_resumption(int version)
{
    SSL_CTX_set_max_proto_version(client_context, version);
    reconnect("one.test");
    secure();
    SSL_SESSION *session = session_after_reading();

    reconnect("one.test");
    SSL_set_session(client, session);
    secure();
    ck_assert(tls_is_resumed(&stream));

    reconnect("two.test"); /* another entry */
    SSL_set_session(client, session);
    secure();
    ck_assert(!tls_is_resumed(&stream));
    SSL_SESSION_free(session);
}

START_TEST(sessions_are_resumed_by_tickets_for_the_same_entry_alone)
{
    check_resumption(TLS1_3_VERSION);
    check_resumption(TLS1_2_VERSION);
}
END_TEST

START_TEST(shared_secrets_resume_tls_1_3_alone)
{
    config->tickets = TLS_TICKETS_SHARED;
    check_resumption(TLS1_3_VERSION);
    SSL_CTX_set_max_proto_version(client_context, TLS1_2_VERSION);
    reconnect("one.test");
    secure();
    SSL_SESSION *session = session_after_reading();
    reconnect("one.test");
    SSL_set_session(client, session);
    secure();
    ck_assert(!tls_is_resumed(&stream));
    SSL_SESSION_free(session);
}
END_TEST

/* --- reading --- */

START_TEST(bytes_that_are_decrypted_and_not_read_are_reported_again)
{
    char buffer[4];
    size_t n_read;
    secure();
    client_writes("abcdefgh", 8);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, 4, &n_read), STREAM_DONE);
    ck_assert_mem_eq(buffer, "abcd", 4);
    n_readable = 0;
    iterations_until_count(loop, &n_readable, 2); /* until they are read */
    stream_want_read(&stream, false);
    iterations_once(loop);
    n_readable = 0;
    iterations_for(loop, 2000);
    ck_assert_uint_eq(n_readable, 0);
    stream_want_read(&stream, true);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, 4, &n_read), STREAM_DONE);
    ck_assert_mem_eq(buffer, "efgh", 4);
    n_readable = 0;
    iterations_for(loop, 2000);
    ck_assert_uint_eq(n_readable, 0);
}
END_TEST

START_TEST(peek_consumes_nothing)
{
    char buffer[4];
    size_t n_read;
    secure();
    ck_assert_int_eq(stream_peek(&stream), STREAM_BLOCKED);
    client_writes("ab", 2);
    ck_assert_int_eq(stream_peek(&stream), STREAM_DONE);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, 4, &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 2);
}
END_TEST

START_TEST(only_close_notify_is_an_end)
{
    char buffer[8];
    size_t n_read;
    secure();
    client_writes("ab", 2);
    SSL_shutdown(client);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 2);
    n_readable = 0;
    iterations_until_count(loop, &n_readable, 1); /* the socket is silent */
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_EOF);

    reconnect("one.test");
    secure();
    shutdown(peer, SHUT_WR);
    n_readable = 0;
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream_peek(&stream), STREAM_BROKEN);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_BROKEN);
}
END_TEST

START_TEST(bytes_that_are_no_record_break_the_connection)
{
    char buffer[8];
    size_t n_read;
    secure();
    ck_assert_int_eq(write(peer, "GET / HTTP/1.1\r\n", 16), 16);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_BROKEN);
}
END_TEST

/* The client's records go to memory until send_made(). */
static BIO *begin_making(void)
{
    BIO *made = BIO_new(BIO_s_mem());
    BIO_up_ref(made);
    SSL_set0_wbio(client, made);
    return made;
}

/* Returns how many bytes the socket took. */
static size_t send_made(BIO *made)
{
    char *bytes;
    const long len = BIO_get_mem_data(made, &bytes);
    const ssize_t n = send(peer, bytes, (size_t)len, MSG_DONTWAIT);
    ck_assert_int_gt(n, 0);
    SSL_set_wfd(client, peer);
    BIO_free(made);
    return (size_t)n;
}

static void make_key_updates(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(SSL_key_update(client, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        ck_assert_int_eq(SSL_do_handshake(client), 1);
    }
}

static size_t bytes_in_socket(void)
{
    int n = 0;
    ck_assert_int_eq(ioctl(stream.fd, FIONREAD, &n), 0);
    return (size_t)n;
}

START_TEST(key_updates_are_followed)
{
    char buffer[8];
    size_t n_read;
    secure();
    BIO *made = begin_making();
    make_key_updates(TLS_MESSAGES_MAX);
    client_writes("ab", 2);
    (void)send_made(made);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_mem_eq(buffer, "ab", 2);

    reconnect("one.test");
    secure();
    SSL_key_update(client, SSL_KEY_UPDATE_REQUESTED);
    client_writes("ab", 2);
    n_readable = 0;
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_int_eq(server_writes("c", 1, "d", 1), STREAM_DONE);
    client_reads("cd");
}
END_TEST

START_TEST(a_flood_of_key_updates_breaks_the_connection)
{
    char buffer[8];
    size_t n_read;
    secure();
    BIO *made = begin_making();
    make_key_updates(5000);
    client_writes("ab", 2);
    const size_t n_sent = send_made(made);
    ck_assert_uint_gt(n_sent, 100000);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_BROKEN);
    ck_assert_uint_gt(bytes_in_socket(), n_sent - 20000); /* those that OpenSSL reads ahead */
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_BROKEN);
    ck_assert_uint_gt(bytes_in_socket(), n_sent - 20000);
}
END_TEST

/* As many small records as fit into what one read takes would hold the loop for long. */
START_TEST(a_read_takes_few_of_many_small_records)
{
    enum { N_RECORDS = 3000, N_MOST = 100 };
    static char buffer[64 * 1024];
    size_t n_read;
    size_t n_all = 0;
    secure();
    BIO *made = begin_making();
    for (unsigned i = 0; i < N_RECORDS; i++) {
        client_writes("x", 1);
    }
    (void)send_made(made);
    iterations_until_count(loop, &n_readable, 1);
    while (n_all < N_RECORDS) {
        n_readable = 0;
        ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_DONE);
        ck_assert_uint_le(n_read, N_MOST);
        n_all += n_read;
        if (n_all < N_RECORDS) {
            iterations_until_count(loop, &n_readable, 1);
        }
    }
    ck_assert_uint_eq(n_all, N_RECORDS);
}
END_TEST

START_TEST(an_error_that_others_left_is_no_error_of_this_connection)
{
    char buffer[8];
    size_t n_read;
    secure();
    ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
    ck_assert_int_eq(server_reads(buffer, sizeof(buffer), &n_read), STREAM_BLOCKED);
    ERR_raise(ERR_LIB_SSL, SSL_R_CERTIFICATE_VERIFY_FAILED);
    ck_assert_int_eq(stream_peek(&stream), STREAM_BLOCKED);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}
END_TEST

/* --- writing --- */

/* The client reads until @n bytes have come; they count up. */
static void client_reads_pattern(size_t n)
{
    unsigned char buffer[5000];
    size_t n_seen = 0;
    unsigned n_wrong = 0;
    for (unsigned i = 0; i < 100000 && n_seen < n; i++) {
        const int n_read = SSL_read(client, buffer, sizeof(buffer));
        for (int j = 0; j < n_read; j++) {
            n_wrong += buffer[j] != (n_seen + (size_t)j) % 251;
        }
        n_seen += n_read > 0 ? (size_t)n_read : 0;
        iterations_once(loop);
    }
    ERR_clear_error();
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_eq(n_seen, n);
}

START_TEST(what_the_kernel_does_not_take_is_kept_until_it_does)
{
    char *big = malloc(BIG_BYTES);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        big[i] = (char)(i % 251);
    }
    secure();
    ck_assert_int_eq(server_writes(big, 300, big + 300, BIG_BYTES - 300), STREAM_BLOCKED);
    ck_assert(stream_is_blocked(&stream));
    ck_assert_uint_gt(stream_unread_bytes(&stream), 0);
    client_reads_pattern(BIG_BYTES);
    iterations_until_count(loop, &n_drained, 1);
    ck_assert(!stream_is_blocked(&stream));
    ck_assert_int_eq(server_writes("z", 1, "", 0), STREAM_DONE);
    client_reads("z");
    free(big);
}
END_TEST

START_TEST(a_single_byte_may_block_too)
{
    static char filler[60000];
    unsigned n_written = 0;
    secure();
    for (size_t i = 0; i < sizeof(filler); i++) {
        filler[i] = (char)(i % 251);
    }
    /* Fill the socket: the first write that blocks is drained with the others. */
    while (server_writes(&filler[n_written], 1, "", 0) == STREAM_DONE) {
        n_written++;
        ck_assert_uint_lt(n_written, sizeof(filler));
    }
    client_reads_pattern(n_written + 1);
    iterations_until_count(loop, &n_drained, 1);
}
END_TEST

START_TEST(our_end_is_announced_unless_the_connection_is_reset)
{
    char byte;
    secure();
    stream_shutdown(&stream);
    ck_assert_int_eq(SSL_read(client, &byte, 1), 0);
    ck_assert_int_eq(SSL_get_error(client, 0), SSL_ERROR_ZERO_RETURN);

    reconnect("one.test");
    secure();
    stream_close(&stream);
    ck_assert_int_eq(SSL_read(client, &byte, 1), 0);
    ck_assert_int_eq(SSL_get_error(client, 0), SSL_ERROR_ZERO_RETURN);

    reconnect("one.test");
    secure();
    stream_reset_on_close(&stream);
    stream_close(&stream);
    ck_assert_int_le(SSL_read(client, &byte, 1), 0);
    ck_assert_int_eq(SSL_get_shutdown(client) & SSL_RECEIVED_SHUTDOWN, 0);
    ERR_clear_error();
}
END_TEST

START_TEST(an_end_that_the_kernel_does_not_take_is_sent_later)
{
    static char filler[60000];
    secure();
    enum stream_result result = STREAM_DONE;
    for (size_t i = 0; i < sizeof(filler); i++) {
        filler[i] = (char)(i % 251);
    }
    result = server_writes(filler, sizeof(filler), "", 0);
    if (result == STREAM_BLOCKED) {
        client_reads_pattern(sizeof(filler));
        iterations_until_count(loop, &n_drained, 1);
    }
    stream_shutdown(&stream);
    char byte;
    int n = -1;
    for (unsigned i = 0; i < 1000 && n < 0; i++) {
        n = SSL_read(client, &byte, 1);
        iterations_once(loop);
    }
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(SSL_get_error(client, 0), SSL_ERROR_ZERO_RETURN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls_stream");
    TCase *handshakes = tcase_create("handshakes");
    tcase_add_checked_fixture(handshakes, set_up, tear_down);
    tcase_add_test(handshakes, after_the_handshake_both_sides_read_what_the_other_writes);
    tcase_add_test(handshakes, the_tickets_after_a_handshake_are_one_write);
    tcase_add_test(handshakes, a_client_of_tls_1_2_is_served);
    tcase_add_test(handshakes, a_client_hello_may_come_byte_by_byte);
    tcase_add_test(handshakes, the_name_chooses_the_certificate);
    tcase_add_test(handshakes, the_owner_may_refuse_before_any_cryptography);
    tcase_add_test(handshakes, plain_text_on_a_tls_port_can_be_answered);
    tcase_add_test(handshakes, each_failure_has_its_label);
    tcase_add_test(handshakes, alpn_agrees_on_http_1_1);
    tcase_add_test(handshakes, a_stream_may_be_closed_in_mid_handshake);
    tcase_add_test(handshakes, sessions_are_resumed_by_tickets_for_the_same_entry_alone);
    tcase_add_test(handshakes, shared_secrets_resume_tls_1_3_alone);
    suite_add_tcase(suite, handshakes);
    TCase *bytes = tcase_create("bytes");
    tcase_add_checked_fixture(bytes, set_up, tear_down);
    tcase_add_test(bytes, bytes_that_are_decrypted_and_not_read_are_reported_again);
    tcase_add_test(bytes, peek_consumes_nothing);
    tcase_add_test(bytes, only_close_notify_is_an_end);
    tcase_add_test(bytes, bytes_that_are_no_record_break_the_connection);
    tcase_add_test(bytes, key_updates_are_followed);
    tcase_add_test(bytes, a_flood_of_key_updates_breaks_the_connection);
    tcase_add_test(bytes, a_read_takes_few_of_many_small_records);
    tcase_add_test(bytes, an_error_that_others_left_is_no_error_of_this_connection);
    tcase_add_test(bytes, what_the_kernel_does_not_take_is_kept_until_it_does);
    tcase_add_test(bytes, a_single_byte_may_block_too);
    tcase_add_test(bytes, our_end_is_announced_unless_the_connection_is_reset);
    tcase_add_test(bytes, an_end_that_the_kernel_does_not_take_is_sent_later);
    suite_add_tcase(suite, bytes);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
