/* redis-cell on one link: whether the server has CL.THROTTLE, and what it decides.
 *
 * Asked anew on each connection, since a server may come back with the module or without it. A
 * server that lost it while connected says so to the next decision, which then goes the script's
 * way. The log is told once a process, and again only after the command was there meanwhile. */

#ifndef SLUICE_STORE_REDIS_CELL_H
#define SLUICE_STORE_REDIS_CELL_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/status.h"
#include "store/redis_connection.h"
#include "store/redis_store.h"
#include "store/store.h"

/* All zero: nothing is known, and the script decides. */
struct redis_cell {
    struct redis_call call; /* the probe's */
    bool is_there;
};

/* Ask on @connection, if a limit of @options would have it; the answer comes before that to
 * whatever is sent next. STATUS_NO_MEMORY, STATUS_UNREACHABLE. */
MUST_USE enum status redis_cell_probe(struct redis_cell *cell, struct redis_connection *connection,
                                      const struct redis_store_options *options);

/* Whether @decision is CL.THROTTLE's here. */
bool redis_cell_takes(const struct redis_cell *cell, const struct decision *decision);

/* Read the answer to such a @decision. False: it makes no sense. */
MUST_USE bool redis_cell_read(const struct redis_reply *reply, struct decision *decision);

/* Whether the error @text, the answer to such a decision, says that the command is gone: then
 * nothing was decided, and redis_cell_takes() no more until the next probe. */
bool redis_cell_is_lost(struct redis_cell *cell, struct span text);

#endif /* SLUICE_STORE_REDIS_CELL_H */
