#include "tls/tls_client.h"

#include <check.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "made_certificate.h"
#include "support/iterations.h"
#include "tls/tls_stream.h"

static struct loop *loop;
static struct tls_worker *worker;
static struct tls_client_config *config;
static struct tls_client_context *client;
static struct tls_client_sessions sessions;
static struct stream stream;
static int peer; /* the server's socket */
static SSL_CTX *server_context;
static SSL *server;
static unsigned n_readable;
static unsigned n_done;
static struct tls_outcome outcome;
static struct made_certificate authority;

static void on_readable(void *owner)
{
    ck_assert_ptr_eq(owner, &n_readable);
    n_readable++;
}

static void on_drained(void *owner)
{
    ck_assert_ptr_eq(owner, &n_readable);
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

static void on_done(void *owner, const struct tls_outcome *done)
{
    ck_assert_ptr_eq(owner, &n_readable);
    outcome = *done;
    n_done++;
}

static const struct tls_handler TLS_HANDLER = {.on_done = on_done};

/* --- both sides --- */

static struct span der_of(const struct made_certificate *made)
{
    unsigned char *bytes = NULL;
    const int len = i2d_X509(made->x509, &bytes);
    char *copy = malloc((size_t)len);
    ck_assert_int_gt(len, 0);
    memcpy(copy, bytes, (size_t)len);
    OPENSSL_free(bytes);
    return span_of(copy, (size_t)len);
}

static void trust(const struct made_certificate *made)
{
    config->cas = calloc(1, sizeof(*config->cas));
    config->cas[0] = der_of(made);
    config->n_cas = 1;
}

static struct tls_client_config *new_config(void)
{
    struct tls_client_config *made = calloc(1, sizeof(*made));
    atomic_init(&made->n_references, 1);
    made->verifies = true;
    return made;
}

/* The client's context, once the configuration is as the test wants it. */
static void make_client(void)
{
    struct certificate_problem problem;
    ck_assert_int_eq(tls_client_context_new(tls_worker_library(worker), config, &client, &problem),
                     STATUS_OK);
}

/* The server shows a certificate as @options say, by the authority unless they say otherwise. */
static void serve(struct made_options options)
{
    options.name = "server";
    options.key = EVP_EC_gen("P-256");
    struct made_certificate made = made_new(options);
    SSL_CTX_free(server_context);
    server_context = SSL_CTX_new(TLS_server_method());
    ck_assert_int_eq(SSL_CTX_use_certificate(server_context, made.x509), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(server_context, made.key), 1);
    made_free(&made);
}

static void connect_to(const char *name)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    peer = fds[1];
    ck_assert_int_eq(stream_open(&stream, loop, fds[0], &HANDLER, &n_readable), STATUS_OK);
    ck_assert_int_eq(
        tls_connect(worker, &stream, client, span_of_text(name), &sessions, &TLS_HANDLER),
        STATUS_OK);
    n_done = 0;
    n_readable = 0;
    SSL_free(server);
    server = SSL_new(server_context);
    SSL_set_fd(server, peer);
    SSL_set_accept_state(server);
}

static void disconnect(void)
{
    stream_close(&stream);
    close(peer);
}

static void shake_hands(void)
{
    int result = 0;
    for (unsigned i = 0; i < 10000 && (n_done == 0 || (result != 1 && outcome.failure == 0)); i++) {
        result = SSL_do_handshake(server);
        iterations_once(loop);
    }
    ERR_clear_error();
    ck_assert_uint_eq(n_done, 1);
}

static void check_secure(const char *name)
{
    connect_to(name);
    shake_hands();
    ck_assert_str_eq(outcome.reason, "");
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NONE);
}

static void check_refused(const char *name, const char *reason)
{
    connect_to(name);
    shake_hands();
    ck_assert_str_eq(outcome.reason, reason);
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_CERTIFICATE);
    disconnect();
}

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    (void)signal(SIGPIPE, SIG_IGN); /* the server's */
    loop = iterations_new_loop();
    ck_assert_int_eq(tls_worker_new(loop, &worker), STATUS_OK);
    config = new_config();
    authority = made_new(
        (struct made_options){.name = "authority", .key = EVP_EC_gen("P-256"), .is_ca = 1});
    trust(&authority);
    server_context = NULL;
    server = NULL;
    serve((struct made_options){.issuer = &authority, .san = "DNS:one.test,IP:127.0.0.1"});
    memset(&sessions, 0, sizeof(sessions));
}

static void tear_down(void)
{
    SSL_free(server);
    SSL_CTX_free(server_context);
    made_free(&authority);
    tls_client_sessions_close(&sessions);
    tls_client_context_release(client);
    tls_client_config_release(config);
    tls_worker_free(worker);
    loop_free(loop);
}

/* --- who is a server --- */

START_TEST(a_host_is_verified_and_named_in_the_hello)
{
    char buffer[8];
    size_t n_read;
    make_client();
    check_secure("one.test.");
    ck_assert_str_eq(SSL_get_servername(server, TLSEXT_NAMETYPE_host_name), "one.test");
    ck_assert_int_eq(SSL_write(server, "hello", 5), 5);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream_read(&stream, buffer, sizeof(buffer), &n_read), STREAM_DONE);
    ck_assert_uint_eq(n_read, 5);
    disconnect();
}
END_TEST

START_TEST(a_handshake_waits_for_its_turn_before_it_waits_for_the_server)
{
    make_client();
    connect_to("one.test");
    ck_assert(tls_is_queued(&stream));
    iterations_once(loop);
    ck_assert(!tls_is_queued(&stream)); /* the hello is sent */
    shake_hands();
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NONE);
    disconnect();
}
END_TEST

START_TEST(an_address_is_verified_and_not_named)
{
    make_client();
    check_secure("127.0.0.1");
    ck_assert_ptr_null(SSL_get_servername(server, TLSEXT_NAMETYPE_host_name));
    disconnect();
    check_refused("127.0.0.2", "the server's certificate is not for 127.0.0.2 but for one.test, "
                               "127.0.0.1");
}
END_TEST

START_TEST(a_certificate_of_another_name_is_refused_with_both_names)
{
    make_client();
    check_refused("two.test",
                  "the server's certificate is not for two.test but for one.test, 127.0.0.1");
    serve((struct made_options){.issuer = &authority, .san = "DNS:*.one.test"});
    check_secure("a.one.test");
    disconnect();
    check_refused("one.test", "the server's certificate is not for one.test but for *.one.test");
    serve((struct made_options){.issuer = &authority}); /* its common name is no name */
    check_refused("server", "the server's certificate is not for server but for no host");
}
END_TEST

START_TEST(a_certificate_out_of_date_is_refused)
{
    make_client();
    serve((struct made_options){
        .issuer = &authority, .san = "DNS:one.test", .begin_s = 1500000000, .end_s = 1600000000});
    check_refused("one.test", "the server's certificate expired on 2020-09-13T12:26:40Z");
    serve((struct made_options){
        .issuer = &authority, .san = "DNS:one.test", .begin_s = 4000000000, .end_s = 4100000000});
    check_refused("one.test", "the server's certificate is not valid before 2096-10-02T07:06:40Z");
}
END_TEST

START_TEST(a_certificate_of_an_unknown_authority_is_refused)
{
    struct made_certificate other =
        made_new((struct made_options){.name = "other", .key = EVP_EC_gen("P-256"), .is_ca = 1});
    make_client();
    serve((struct made_options){.issuer = &other, .san = "DNS:one.test"});
    check_refused("one.test", "the server's certificate has an issuer that is neither among ca nor "
                              "sent by the server: /CN=other");
    serve((struct made_options){.san = "DNS:one.test"});
    check_refused("one.test", "the server's certificate is self-signed, and not among ca");
    made_free(&other);
}
END_TEST

START_TEST(an_intermediate_may_be_trusted_by_itself)
{
    struct made_certificate between = made_new((struct made_options){
        .name = "between", .key = EVP_EC_gen("P-256"), .issuer = &authority, .is_ca = 1});
    tls_client_config_release(config);
    config = new_config();
    trust(&between);
    make_client();
    serve((struct made_options){.issuer = &between, .san = "DNS:one.test"});
    check_secure("one.test");
    disconnect();
    made_free(&between);
}
END_TEST

START_TEST(a_client_that_does_not_verify_takes_anything)
{
    config->verifies = false;
    make_client();
    serve((struct made_options){.san = "DNS:two.test", .begin_s = 1, .end_s = 2});
    check_secure("one.test");
    ck_assert_str_eq(SSL_get_servername(server, TLSEXT_NAMETYPE_host_name), "one.test");
    disconnect();
}
END_TEST

START_TEST(a_server_without_tls_is_named_as_such)
{
    make_client();
    connect_to("one.test");
    iterations_once(loop);
    ck_assert_int_eq(write(peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28), 28);
    iterations_until_count(loop, &n_done, 1);
    ck_assert_str_eq(outcome.reason, "the server speaks no TLS there");
    disconnect();
    connect_to("one.test");
    shutdown(peer, SHUT_WR);
    iterations_until_count(loop, &n_done, 1);
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_CLOSED);
    disconnect();
}
END_TEST

START_TEST(the_least_version_holds)
{
    config->min_version = TLS_VERSION_1_3;
    make_client();
    SSL_CTX_set_max_proto_version(server_context, TLS1_2_VERSION);
    connect_to("one.test");
    shake_hands();
    ck_assert_int_ne(outcome.failure, TLS_FAILURE_NONE);
    ck_assert_str_ne(outcome.reason, "");
    disconnect();
}
END_TEST

START_TEST(a_certificate_is_shown_to_servers_that_ask)
{
    struct made_certificate made = made_new((struct made_options){
        .name = "client", .key = EVP_EC_gen("P-256"), .issuer = &authority, .san = "DNS:c.test"});
    BIO *pem = BIO_new(BIO_s_mem());
    struct certificate_problem problem;
    char *data;
    char byte;
    size_t n_read;
    made_write_certificate(pem, &made);
    made_write_key(pem, &made, NULL);
    const size_t len = (size_t)BIO_get_mem_data(pem, &data);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(server_context), authority.x509);
    SSL_CTX_set_verify(server_context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);

    make_client(); /* without one: TLS 1.3 tells it after the handshake */
    connect_to("one.test");
    for (unsigned i = 0; i < 1000 && n_readable == 0; i++) {
        (void)SSL_do_handshake(server);
        iterations_once(loop);
    }
    ERR_clear_error();
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NONE);
    ck_assert_int_eq(stream_read(&stream, &byte, 1, &n_read), STREAM_BROKEN);
    ck_assert_ptr_nonnull(strstr(tls_alert_of(&stream), "certificate required"));
    disconnect();

    tls_client_context_release(client);
    ck_assert_int_eq(certificate_read(span_of(data, len), "cert", span_of(data, len), "key",
                                      &config->certificate, &problem),
                     STATUS_OK);
    make_client();
    check_secure("one.test");
    X509 *shown = SSL_get1_peer_certificate(server);
    ck_assert_int_eq(X509_cmp(shown, made.x509), 0);
    X509_free(shown);
    disconnect();
    BIO_free(pem);
    made_free(&made);
}
END_TEST

/* --- sessions --- */

/* Tickets make the socket readable, but bring no bytes. */
static void take_tickets(void)
{
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(stream_peek(&stream), STREAM_BLOCKED);
    n_readable = 0;
    iterations_once(loop);
    ck_assert_uint_eq(n_readable, 0);
}

START_TEST(sessions_are_resumed)
{
    make_client();
    check_secure("one.test");
    ck_assert(!tls_is_resumed(&stream));
    take_tickets();
    disconnect();
    check_secure("one.test");
    ck_assert(tls_is_resumed(&stream));
    disconnect();
}
END_TEST

START_TEST(sessions_of_tls_1_2_are_resumed_each_time)
{
    make_client();
    SSL_CTX_set_max_proto_version(server_context, TLS1_2_VERSION);
    for (unsigned i = 0; i < 3; i++) {
        check_secure("one.test");
        ck_assert_int_eq(tls_is_resumed(&stream), i > 0);
        disconnect();
    }
}
END_TEST

START_TEST(at_most_two_sessions_are_kept)
{
    make_client();
    SSL_CTX_set_num_tickets(server_context, 5);
    check_secure("one.test");
    take_tickets();
    disconnect();
    ck_assert_ptr_nonnull(sessions.kept[0]);
    ck_assert_ptr_nonnull(sessions.kept[1]);
    check_secure("one.test"); /* uses one up, and gets another */
    ck_assert(tls_is_resumed(&stream));
    disconnect();
}
END_TEST

START_TEST(a_session_of_an_expired_certificate_is_not_resumed)
{
    config->verifies = false;
    make_client();
    serve((struct made_options){.san = "DNS:one.test", .begin_s = 1500000000, .end_s = 1600000000});
    check_secure("one.test");
    take_tickets();
    disconnect();
    check_secure("one.test");
    ck_assert(!tls_is_resumed(&stream));
    disconnect();
}
END_TEST

/* --- the identity of a configuration --- */

static bool is_same_as(const struct tls_client_config *other)
{
    tls_client_config_digest(config);
    return memcmp(config->digest, other->digest, TLS_DIGEST_BYTES) == 0;
}

START_TEST(configurations_with_other_rules_have_other_digests)
{
    struct tls_client_config *same = new_config();
    same->cas = calloc(1, sizeof(*same->cas));
    same->cas[0] = der_of(&authority);
    same->n_cas = 1;
    tls_client_config_digest(same);
    ck_assert(is_same_as(same));
    config->verifies = false;
    ck_assert(!is_same_as(same));
    config->verifies = true;
    config->min_version = TLS_VERSION_1_3;
    ck_assert(!is_same_as(same));
    config->min_version = TLS_VERSION_1_2;
    config->name = span_of_text(strdup("one.test"));
    ck_assert(!is_same_as(same));
    same->name = span_of_text(strdup("one.test"));
    tls_client_config_digest(same);
    ck_assert(is_same_as(same));
    ((char *)(uintptr_t)config->cas[0].data)[10] ^= 1;
    ck_assert(!is_same_as(same));
    tls_client_config_release(same);
    client = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls_client");
    TCase *servers = tcase_create("servers");
    tcase_add_checked_fixture(servers, set_up, tear_down);
    tcase_add_test(servers, a_host_is_verified_and_named_in_the_hello);
    tcase_add_test(servers, a_handshake_waits_for_its_turn_before_it_waits_for_the_server);
    tcase_add_test(servers, an_address_is_verified_and_not_named);
    tcase_add_test(servers, a_certificate_of_another_name_is_refused_with_both_names);
    tcase_add_test(servers, a_certificate_out_of_date_is_refused);
    tcase_add_test(servers, a_certificate_of_an_unknown_authority_is_refused);
    tcase_add_test(servers, an_intermediate_may_be_trusted_by_itself);
    tcase_add_test(servers, a_client_that_does_not_verify_takes_anything);
    tcase_add_test(servers, a_server_without_tls_is_named_as_such);
    tcase_add_test(servers, the_least_version_holds);
    tcase_add_test(servers, a_certificate_is_shown_to_servers_that_ask);
    suite_add_tcase(suite, servers);
    TCase *resumption = tcase_create("sessions");
    tcase_add_checked_fixture(resumption, set_up, tear_down);
    tcase_add_test(resumption, sessions_are_resumed);
    tcase_add_test(resumption, sessions_of_tls_1_2_are_resumed_each_time);
    tcase_add_test(resumption, at_most_two_sessions_are_kept);
    tcase_add_test(resumption, a_session_of_an_expired_certificate_is_not_resumed);
    tcase_add_test(resumption, configurations_with_other_rules_have_other_digests);
    suite_add_tcase(suite, resumption);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
