#include "support/secured_stream.h"

#include <check.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "support/iterations.h"
#include "unit/tls/made_certificate.h"

struct loop *loop;
struct tls_worker *worker;
struct tls_server_config *config;
static struct ticket_chain chain = TICKET_CHAIN_INIT;
struct tls_server *server;
struct stream stream;
int peer;
SSL_CTX *client_context;
SSL *client;
unsigned n_readable;
unsigned n_drained;
unsigned n_done;
unsigned n_hellos;
enum tls_turn turn;
struct tls_outcome outcome;

void on_readable(void *owner)
{
    ck_assert_ptr_eq(owner, &n_readable);
    n_readable++;
}

void on_drained(void *owner)
{
    ck_assert_ptr_eq(owner, &n_readable);
    n_drained++;
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

static enum tls_turn on_hello(void *owner, const struct client_hello *hello,
                              const struct tls_server_entry *entry)
{
    ck_assert_ptr_eq(owner, &n_readable);
    ck_assert_ptr_nonnull(hello);
    ck_assert_ptr_nonnull(entry);
    n_hellos++;
    return turn;
}

static void on_done(void *owner, const struct tls_outcome *done)
{
    ck_assert_ptr_eq(owner, &n_readable);
    outcome = *done;
    n_done++;
}

const struct tls_handler TLS_HANDLER = {.on_hello = on_hello, .on_done = on_done};

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

void open_stream_of(const struct stream_handler *handler)
{
    int fds[2];
    const int small = SMALL_BUFFER;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    peer = fds[1];
    ck_assert_int_eq(stream_open(&stream, loop, fds[0], handler, &n_readable), STATUS_OK);
    ck_assert_int_eq(tls_accept(worker, &stream, server, span_of(NULL, 0), &TLS_HANDLER),
                     STATUS_OK);
    n_done = 0;
}

void open_stream(void)
{
    open_stream_of(&HANDLER);
}

void new_client(const char *name)
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

void set_up(void)
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
    turn = TLS_TURN_NEXT;
    open_stream();
    new_client("one.test");
}

void tear_down(void)
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
void shake_hands(void)
{
    int result = 0;
    for (unsigned i = 0; i < 10000 && (n_done == 0 || (result != 1 && outcome.failure == 0)); i++) {
        result = SSL_do_handshake(client);
        iterations_once(loop);
    }
    ERR_clear_error();
    ck_assert_uint_eq(n_done, 1);
}

void secure(void)
{
    shake_hands();
    ck_assert_str_eq(outcome.reason, "");
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NONE);
}

void reconnect(const char *name)
{
    stream_close(&stream);
    close(peer);
    open_stream();
    new_client(name);
}

/* Write @len bytes as the client; the server's side does not run meanwhile. */
void client_writes(const void *bytes, size_t len)
{
    ck_assert_int_eq(SSL_write(client, bytes, (int)len), (int)len);
}

enum stream_result server_reads(char *buffer, size_t capacity, size_t *n_read)
{
    return stream_read(&stream, buffer, capacity, n_read);
}

enum stream_result server_writes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const struct iovec slices[] = {
        {.iov_base = (void *)(uintptr_t)a, .iov_len = a_len},
        {.iov_base = (void *)(uintptr_t)b, .iov_len = b_len},
    };
    return stream_write(&stream, slices, 2);
}

void client_reads(const char *expected)
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
