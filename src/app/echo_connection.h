/* One client of `sluice echo`: requests are read one after the other, each
 * answered before the next. */

#ifndef SLUICE_APP_ECHO_CONNECTION_H
#define SLUICE_APP_ECHO_CONNECTION_H

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"

struct loop;
struct echo_connection;

/* Serve @fd (taken over) until either side ends; the connection is in @connections until then.
 * STATUS_NO_MEMORY: @fd is closed. */
MUST_USE enum status echo_connection_new(struct loop *loop, int fd, struct list *connections);

/* Close all of @connections. */
void echo_connections_free(struct list *connections);

#endif /* SLUICE_APP_ECHO_CONNECTION_H */
