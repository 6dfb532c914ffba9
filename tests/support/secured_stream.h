/* A stream with TLS and its client, in one process: each test has both sides in its hands. */

#ifndef SLUICE_TESTS_SECURED_STREAM_H
#define SLUICE_TESTS_SECURED_STREAM_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/loop.h"
#include "net/stream.h"
#include "tls/tls_server.h"
#include "tls/tls_stream.h"

enum {
    BIG_BYTES = 1024 * 1024, /* more than the buffers of a socket pair */
    SMALL_BUFFER = 4096,
};

/* --- the server's side, with a certificate for one.test and one for two.test --- */

extern struct loop *loop;
extern struct tls_worker *worker;
extern struct tls_server_config *config;
extern struct tls_server *server;
extern struct stream stream;

/* What its callbacks have seen. */
extern unsigned n_readable;
extern unsigned n_drained;
extern unsigned n_done;
extern unsigned n_hellos;
extern enum tls_turn turn; /* what on_hello answers */
extern struct tls_outcome outcome;
extern const struct tls_handler TLS_HANDLER;
/* Those of HANDLER: a test may call them from its own. */
void on_readable(void *owner);
void on_drained(void *owner);

/* --- the client's side --- */

extern int peer; /* its socket */
extern SSL_CTX *client_context;
extern SSL *client;

/* --- a test --- */

void set_up(void);
void tear_down(void);
/* A new pair of sockets, with the server's handshake begun. */
void open_stream_of(const struct stream_handler *handler);
void open_stream(void);
/* @name: of the server; NULL: none. */
void new_client(const char *name);
/* Close all, and begin anew. */
void reconnect(const char *name);
/* Both sides go on until the server's is over; the client's may fail. */
void shake_hands(void);
/* The same, and both succeed. */
void secure(void);
/* Write as the client; the server's side does not run meanwhile. */
void client_writes(const void *bytes, size_t len);
enum stream_result server_reads(char *buffer, size_t capacity, size_t *n_read);
enum stream_result server_writes(const char *a, size_t a_len, const char *b, size_t b_len);
/* The client reads these bytes; the server's side runs meanwhile. */
void client_reads(const char *expected);

#endif /* SLUICE_TESTS_SECURED_STREAM_H */
