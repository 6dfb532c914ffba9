/* TLS to Redis and to sentinels: the contexts of one loop that the connections of a store share. */

#ifndef SLUICE_STORE_REDIS_REDIS_TLS_H
#define SLUICE_STORE_REDIS_REDIS_TLS_H

#include "base/compiler.h"
#include "base/status.h"

struct loop;
struct redis_store_options;
struct tls_client_context;
struct tls_worker;

/* Counted by references of the loop's thread. */
struct redis_tls {
    struct tls_worker *worker;            /* owned */
    struct tls_client_context *servers;   /* owned; NULL: Redis is spoken to in plain text */
    struct tls_client_context *sentinels; /* owned; NULL: likewise the sentinels */
    unsigned n_references;
};

/* Take one reference more to the contexts of @options or, if there are none, make those that its
 * configurations ask for. STATUS_INVALID: OpenSSL refuses something, which is logged;
 * STATUS_NO_MEMORY. */
MUST_USE enum status redis_tls_open(struct loop *loop, struct redis_store_options *options);

/* Release what redis_tls_open() took. Of the last, all connections that used it are closed. */
void redis_tls_close(struct redis_store_options *options);

#endif /* SLUICE_STORE_REDIS_REDIS_TLS_H */
