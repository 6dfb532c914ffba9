#include "tls/tls_stream.h"

#include <check.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/iterations.h"
#include "support/secured_stream.h"

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

START_TEST(a_peer_that_left_without_close_notify_is_sent_nothing)
{
    char byte;
    size_t n_read;
    secure();
    while (recv(peer, &byte, 1, 0) > 0) { /* the tickets */
    }
    shutdown(peer, SHUT_WR);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(&byte, 1, &n_read), STREAM_BROKEN);
    stream_close(&stream);
    ck_assert_int_eq(recv(peer, &byte, 1, 0), 0);
}
END_TEST

START_TEST(a_peer_that_left_with_close_notify_is_told_our_end)
{
    char byte;
    size_t n_read;
    secure();
    SSL_shutdown(client);
    shutdown(peer, SHUT_WR);
    iterations_until_count(loop, &n_readable, 1);
    ck_assert_int_eq(server_reads(&byte, 1, &n_read), STREAM_EOF);
    stream_close(&stream);
    ck_assert_int_eq(SSL_read(client, &byte, 1), 0);
    ck_assert_int_eq(SSL_get_error(client, 0), SSL_ERROR_ZERO_RETURN);
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
    TCase *bytes = tcase_create("bytes");
    tcase_add_checked_fixture(bytes, set_up, tear_down);
    tcase_add_test(bytes, bytes_that_are_decrypted_and_not_read_are_reported_again);
    tcase_add_test(bytes, peek_consumes_nothing);
    tcase_add_test(bytes, only_close_notify_is_an_end);
    tcase_add_test(bytes, a_peer_that_left_without_close_notify_is_sent_nothing);
    tcase_add_test(bytes, a_peer_that_left_with_close_notify_is_told_our_end);
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
