/* Where a server of an upstream is, when the policy gives it a name: its addresses, asked for again
 * whenever an answer has had its time. */

#ifndef SLUICE_PROXY_UPSTREAM_NAME_H
#define SLUICE_PROXY_UPSTREAM_NAME_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/status.h"

struct stream;
struct stream_handler;
struct upstream;
struct upstream_server;

/* Learn the addresses of @server, whose endpoint and group are set; a name is asked for at once.
 * STATUS_NO_MEMORY. */
MUST_USE enum status upstream_name_init(struct upstream_server *server);
/* @server, of which nothing is known yet, has the addresses of @old, which has the same name,
 * until its own are told. */
void upstream_name_take_over(struct upstream_server *server, const struct upstream_server *old);

void upstream_name_close(struct upstream_server *server);

/* Start to connect @stream to @server, which has an address; as stream_connect(). */
MUST_USE enum status upstream_name_connect(const struct upstream_server *server,
                                           struct stream *stream,
                                           const struct stream_handler *handler, void *owner);

/* A connection to @server could not be made: try its next address, and ask for its name again. */
void upstream_name_on_failure(struct upstream_server *server);

/* Whether the address that @upstream is connected to is still one of its server's. */
bool upstream_name_is_current(struct upstream *upstream);

#endif /* SLUICE_PROXY_UPSTREAM_NAME_H */
