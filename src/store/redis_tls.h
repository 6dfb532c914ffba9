/* TLS to Redis, where hiredis has a part for it: certificates are checked against those that the
 * system trusts, or SSL_CERT_FILE and SSL_CERT_DIR name, for the host's name or address. A build
 * without it has redis_tls_none.c, and a policy that does not ask for it. */

#ifndef SLUICE_STORE_REDIS_TLS_H
#define SLUICE_STORE_REDIS_TLS_H

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

struct redisAsyncContext;
struct redis_tls;

/* For connections to @host, copied. STATUS_NO_MEMORY; STATUS_INVALID: what is trusted cannot be
 * read, or this build has no TLS. */
MUST_USE enum status redis_tls_new(struct span host, struct redis_tls **tls);
/* NULL is a no-op. */
void redis_tls_free(struct redis_tls *tls);

/* Have @redis, which has begun to connect, speak TLS. STATUS_NO_MEMORY, STATUS_UNREACHABLE: where
 * redis_tls_trouble() knows nothing, errno does. */
MUST_USE enum status redis_tls_begin(struct redis_tls *tls, struct redisAsyncContext *redis);

/* What of TLS ails the connection that just broke, or could not begin, for the log: lasts until the
 * next one begins. NULL: nothing. */
const char *redis_tls_trouble(struct redis_tls *tls);

/* A connection has ended: what it leaves behind in this thread must not be taken for another's. */
void redis_tls_end(struct redis_tls *tls);

#endif /* SLUICE_STORE_REDIS_TLS_H */
