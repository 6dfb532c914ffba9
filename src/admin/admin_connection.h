/* One connection to the admin API: its requests are read one after another, each
 * answered before the next. */

#ifndef SLUICE_ADMIN_ADMIN_CONNECTION_H
#define SLUICE_ADMIN_ADMIN_CONNECTION_H

#include "admin/access.h"
#include "base/compiler.h"
#include "base/status.h"

struct admin_connection;
struct admin_door;

/* Serve @fd (taken over) until either side ends; the connection is the last of @door's until then.
 * STATUS_NO_MEMORY: @fd is closed. */
MUST_USE enum status admin_connection_new(struct admin_door *door, int fd,
                                          const struct access_peer *peer);

/* Close a connection of @door for another to have its place: the one that has been there longest
 * without a request under way; where all have one, the one that has been longest at reading its
 * answer, two seconds or more. False: there is none. */
MUST_USE bool admin_connection_make_place(struct admin_door *door);

/* Close those of @door that wait for another request; the others end with their answer. */
void admin_connections_leave(struct admin_door *door);

/* Close all of @door's. */
void admin_connections_close(struct admin_door *door);

#endif /* SLUICE_ADMIN_ADMIN_CONNECTION_H */
