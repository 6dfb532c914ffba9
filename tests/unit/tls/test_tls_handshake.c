#include <check.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/counted_calls.h"
#include "support/iterations.h"
#include "support/secured_stream.h"
#include "tls/tls_stream.h"

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

/* From 3.2 on OpenSSL reads record by record until the handshake is over. */
static const bool READS_AHEAD = OPENSSL_VERSION_NUMBER < 0x30200000L;

/* The server's side goes on until nothing changes; it polls its sockets once more than that. */
static void server_settles(void)
{
    for (unsigned i = 0; i < 4; i++) {
        iterations_once(loop);
    }
}

START_TEST(a_handshake_makes_no_call_that_it_does_not_need)
{
    iterations_once(loop); /* the socket is watched */
    counted_calls = (struct counted_calls){.n_recv = 0};
    ck_assert_int_eq(SSL_do_handshake(client), -1);
    server_settles();
    ck_assert_int_eq(SSL_do_handshake(client), 1);
    server_settles();
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(outcome.failure, TLS_FAILURE_NONE);
    ck_assert_uint_eq(counted_calls.n_epoll_ctl, 0);
    ck_assert(!READS_AHEAD || counted_calls.n_recv == 2); /* ClientHello, Finished */
    ck_assert_uint_eq(counted_calls.n_send, 2);           /* our messages, tickets */
}
END_TEST

static char read_bytes[64];
static size_t n_read_bytes;
static bool answers; /* else the answer comes later, or never */

static void read_at_once(void *owner)
{
    on_readable(owner);
    ck_assert_int_eq(server_reads(read_bytes, sizeof(read_bytes), &n_read_bytes), STREAM_DONE);
    if (answers) {
        ck_assert_int_eq(server_writes("200 ", 4, "OK", 2), STREAM_DONE);
    }
}

/* The client's request is there when the server's side of the handshake ends. */
static void secure_with_request(void)
{
    static const struct stream_handler READER = {.on_readable = read_at_once,
                                                 .on_drained = on_drained};
    stream_close(&stream);
    close(peer);
    open_stream_of(&READER);
    new_client("one.test");
    ck_assert_int_eq(SSL_do_handshake(client), -1);
    server_settles();
    ck_assert_int_eq(SSL_do_handshake(client), 1);
    client_writes("GET /", 5);
    counted_calls = (struct counted_calls){.n_recv = 0};
    n_readable = 0;
    iterations_once(loop);
    ck_assert_uint_eq(n_done, 1);
    ck_assert(!READS_AHEAD || n_readable == 1);
    iterations_until_count(loop, &n_readable, 1);
}

/* A client that sends its request together with its last message waits for no other iteration. */
START_TEST(bytes_behind_the_handshake_are_read_in_its_iteration)
{
    answers = true;
    secure_with_request();
    ck_assert_uint_eq(n_read_bytes, 5);
    ck_assert_mem_eq(read_bytes, "GET /", 5);
    ck_assert(!READS_AHEAD || counted_calls.n_recv == 1);
    server_settles();
    ck_assert_uint_eq(n_readable, 1);
    ck_assert_uint_eq(counted_calls.n_send, READS_AHEAD ? 1 : 2); /* tickets and the answer */
    client_reads("200 OK");
}
END_TEST

START_TEST(tickets_do_not_wait_for_an_answer_that_comes_later)
{
    answers = false;
    secure_with_request();
    server_settles();
    ck_assert_uint_eq(counted_calls.n_send, 1);
    ck_assert_int_eq(server_writes("200 ", 4, "OK", 2), STREAM_DONE);
    ck_assert_uint_eq(counted_calls.n_send, 2);
    client_reads("200 OK");
}
END_TEST

static void check_end_after_tickets(void)
{
    char byte;
    ck_assert_int_eq(SSL_read(client, &byte, 1), 0);
    ck_assert_int_eq(SSL_get_error(client, 0), SSL_ERROR_ZERO_RETURN);
    ck_assert(SSL_SESSION_is_resumable(SSL_get_session(client)));
}

START_TEST(an_end_comes_after_the_tickets)
{
    answers = false;
    secure_with_request();
    stream_close(&stream);
    check_end_after_tickets();

    secure_with_request();
    stream_shutdown(&stream);
    check_end_after_tickets();
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
    turn = TLS_TURN_NEVER;
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
    open_stream();
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

/* --- handshakes of low priority --- */

enum { LAST_STREAMS = 8 };

struct last_stream {
    struct stream stream;
    int peer;
};

static unsigned n_answered(const struct last_stream *lasts)
{
    unsigned n = 0;
    char byte;
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        n += recv(lasts[i].peer, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    }
    return n;
}

/* The next message of @ssl, which is given @received. */
static size_t write_message(SSL *ssl, struct span received, char *bytes, size_t capacity)
{
    char *data;
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    BIO_write(in, received.data, (int)received.len);
    SSL_set_bio(ssl, in, out);
    ck_assert_int_eq(SSL_do_handshake(ssl), -1);
    const size_t len = (size_t)BIO_get_mem_data(out, &data);
    ck_assert_uint_gt(len, 100);
    ck_assert_uint_le(len, capacity);
    memcpy(bytes, data, len);
    return len;
}

static void open_last(struct last_stream *last)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    last->peer = fds[1];
    ck_assert_int_eq(stream_open(&last->stream, loop, fds[0], stream.handler, &n_readable),
                     STATUS_OK);
    ck_assert_int_eq(tls_accept(worker, &last->stream, server, span_of(NULL, 0), &TLS_HANDLER),
                     STATUS_OK);
}

static void send_to_all(const struct last_stream *lasts, const char *bytes, size_t len)
{
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        ck_assert_int_eq(write(lasts[i].peer, bytes, len), (ssize_t)len);
    }
}

/* All get a HelloRetryRequest for their first message. Send the second. */
static void retry_all(const struct last_stream *lasts, SSL *ssl)
{
    char retry[2048];
    char bytes[2048];
    ssize_t n = 0;
    while (n_answered(lasts) < LAST_STREAMS) {
        iterations_once(loop);
    }
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        n = read(lasts[i].peer, retry, sizeof(retry));
        ck_assert_int_gt(n, 0);
    }
    const size_t len = write_message(ssl, span_of(retry, (size_t)n), bytes, sizeof(bytes));
    send_to_all(lasts, bytes, len);
}

/* Run handshakes of low priority until all have the server's first messages. Their exchange of keys
 * is by P-384, which takes long. @requests_on: in each iteration a request comes on this stream.
 * Returns whether there were pauses in between: without, each iteration has a step at least. */
static bool pauses(const struct stream *requests_on, bool is_retried)
{
    static struct last_stream lasts[LAST_STREAMS];
    char hello[2048];
    SSL *ssl = SSL_new(client_context);
    SSL_set_connect_state(ssl);
    ck_assert_int_eq(SSL_set1_groups_list(ssl, is_retried ? "X448:P-384" : "P-384"), 1);
    const size_t len = write_message(ssl, span_of(NULL, 0), hello, sizeof(hello));
    turn = TLS_TURN_LAST;
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        open_last(&lasts[i]);
    }
    send_to_all(lasts, hello, len);
    if (is_retried) {
        retry_all(lasts, ssl);
    }
    SSL_free(ssl);
    unsigned n_iterations = 0;
    while (n_answered(lasts) < LAST_STREAMS) {
        if (requests_on != NULL) {
            tls_note_activity(worker, requests_on);
        }
        iterations_once(loop);
        n_iterations++;
    }
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        stream_close(&lasts[i].stream);
        close(lasts[i].peer);
    }
    return n_iterations > LAST_STREAMS + 1; /* the first reads */
}

START_TEST(handshakes_of_low_priority_pause_while_requests_come)
{
    secure();
    ck_assert(!pauses(NULL, false));
    ck_assert(pauses(&stream, false));
}
END_TEST

START_TEST(a_second_hello_has_the_priority_of_the_first)
{
    secure();
    ck_assert(pauses(&stream, true));
}
END_TEST

/* A client that opens a connection for each request is kept from nothing by itself. */
START_TEST(the_first_activity_behind_such_a_handshake_does_not_count)
{
    turn = TLS_TURN_LAST;
    secure();
    tls_note_activity(worker, &stream); /* a request */
    tls_note_activity(worker, &stream); /* a piece of its answer */
    ck_assert(!pauses(NULL, false));
    ck_assert(pauses(&stream, false));
}
END_TEST

/* A record that comes byte by byte is a step for each byte. Those that fill each iteration come
 * behind one that has waited. */
START_TEST(many_steps_do_not_keep_another_from_its_turn)
{
    static struct last_stream lasts[LAST_STREAMS];
    static struct last_stream waiting;
    char hello[2048];
    char byte;
    SSL *ssl = SSL_new(client_context);
    SSL_set_connect_state(ssl);
    const size_t len = write_message(ssl, span_of(NULL, 0), hello, sizeof(hello));
    SSL_free(ssl);
    secure();
    turn = TLS_TURN_LAST;
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        open_last(&lasts[i]);
    }
    send_to_all(lasts, hello, len);
    while (n_answered(lasts) < LAST_STREAMS) {
        iterations_once(loop);
    }
    send_to_all(lasts, "\x17\x03\x03\x3e\x80", 5);
    iterations_for(loop, 5000);
    open_last(&waiting);
    ck_assert_int_eq(write(waiting.peer, hello, len), (ssize_t)len);
    for (unsigned i = 0; i < 8; i++) {
        send_to_all(lasts, "\x17", 1);
        iterations_once(loop);
    }
    ck_assert_int_eq(recv(waiting.peer, &byte, 1, MSG_PEEK | MSG_DONTWAIT), 1);
    for (unsigned i = 0; i < LAST_STREAMS; i++) {
        stream_close(&lasts[i].stream);
        close(lasts[i].peer);
    }
    stream_close(&waiting.stream);
    close(waiting.peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls_handshake");
    TCase *handshakes = tcase_create("handshakes");
    tcase_add_checked_fixture(handshakes, set_up, tear_down);
    tcase_add_test(handshakes, after_the_handshake_both_sides_read_what_the_other_writes);
    tcase_add_test(handshakes, a_handshake_makes_no_call_that_it_does_not_need);
    tcase_add_test(handshakes, bytes_behind_the_handshake_are_read_in_its_iteration);
    tcase_add_test(handshakes, tickets_do_not_wait_for_an_answer_that_comes_later);
    tcase_add_test(handshakes, an_end_comes_after_the_tickets);
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
    tcase_add_test(handshakes, handshakes_of_low_priority_pause_while_requests_come);
    tcase_add_test(handshakes, a_second_hello_has_the_priority_of_the_first);
    tcase_add_test(handshakes, the_first_activity_behind_such_a_handshake_does_not_count);
    tcase_add_test(handshakes, many_steps_do_not_keep_another_from_its_turn);
    suite_add_tcase(suite, handshakes);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
