/* The request of a health check by HTTP/2, on a connection of its own, and the status of its
 * answer. */

#ifndef SLUICE_PROXY_UPSTREAM_HEALTH_CHECK_HTTP2_H
#define SLUICE_PROXY_UPSTREAM_HEALTH_CHECK_HTTP2_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "net/stream.h"

struct upstream_server;
struct health_check_http2;

/* Begin: a GET of @path, with @host for the server's name. NULL: no memory. */
MUST_USE struct health_check_http2 *health_check_http2_new(const struct upstream_server *server,
                                                           struct span path, struct span host);
/* NULL is a no-op. */
void health_check_http2_free(struct health_check_http2 *check);

/* Write the frames that are due to @stream, unless it is blocked. False: the connection ended. */
MUST_USE bool health_check_http2_flush(struct health_check_http2 *check, struct stream *stream);

/* @n bytes have come. Returns the status of the answer; 0: it has not come; negative: it is not
 * valid HTTP/2. */
int health_check_http2_read(struct health_check_http2 *check, const char *bytes, size_t n);

#endif /* SLUICE_PROXY_UPSTREAM_HEALTH_CHECK_HTTP2_H */
