/* The first commands on a new connection. AUTH, SELECT, ROLE (when sentinels name the master), the
 * probe for redis-cell (if wanted) and TIME leave in one write; SCRIPT LOAD follows the reply to
 * TIME. Before login Redis answers an argument above 16 KiB with a protocol error. TIME is short,
 * so its error names the reason.
 *
 * Each connection is probed for redis-cell anew, since a server may restart with the module or
 * without it. When a server loses the module while connected, the next decision gets an error and
 * is sent to the script instead. A missing module is logged once a process, and again only after a
 * probe found the command in between. */

#ifndef SLUICE_STORE_REDIS_REDIS_HANDSHAKE_H
#define SLUICE_STORE_REDIS_REDIS_HANDSHAKE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis/redis_connection.h"
#include "store/redis_options.h"
#include "store/store.h"

/* redis-cell on one connection: whether the server has CL.THROTTLE. All zero: no probe has been
 * answered, and the script decides. */
struct redis_cell {
    struct redis_call call; /* of the probe */
    bool is_there;
};

enum { REDIS_HANDSHAKE_STEPS = 5 };

struct redis_handshake {
    /* REDIS_FAULT_NONE: the script is loaded. Otherwise @text is Redis's error or the reason. After
     * a failure it may be called again for later commands, so close the connection. Not called when
     * the connection is lost. */
    void (*on_end)(void *owner, enum redis_fault fault, struct span text);
    void *owner;
    struct redis_call call; /* of all commands but the probe */
    /* Reads the reply to each command, in the order in which they were sent. */
    void (*readers[REDIS_HANDSHAKE_STEPS])(struct redis_handshake *handshake,
                                           const struct redis_reply *reply);
    size_t n_sent;
    size_t n_answered;
    const struct span *source;              /* to load; borrowed until it is sent */
    struct redis_listener listener;         /* of the replies to ROLE and TIME */
    struct redis_listener *owners_listener; /* the connection's, restored after them */
    struct redis_connection *connection;    /* borrowed until on_end() */
    bool is_master;                         /* ROLE says so */
    struct redis_cell cell;                 /* valid after on_end with REDIS_FAULT_NONE */
};

/* Start the handshake on @connection. *@source is the script, which may be replaced before on_end()
 * and is borrowed until then or until the connection is closed. STATUS_NO_MEMORY,
 * STATUS_UNREACHABLE. */
MUST_USE enum status redis_handshake_send(struct redis_handshake *handshake,
                                          struct redis_connection *connection,
                                          const struct redis_store_options *options,
                                          const struct span *source);

/* Send the probe for redis-cell on @connection if a limit of @options wants CL.THROTTLE. Its answer
 * comes before the answers to later commands. STATUS_NO_MEMORY, STATUS_UNREACHABLE. */
MUST_USE enum status redis_cell_probe(struct redis_cell *cell, struct redis_connection *connection,
                                      const struct redis_store_options *options);

/* Whether CL.THROTTLE makes @decision. */
bool redis_cell_takes(const struct redis_cell *cell, const struct decision *decision);

/* Whether @text, CL.THROTTLE's error, says that the command is unknown. If so, nothing was decided,
 * and redis_cell_takes() returns false until the next probe. */
bool redis_cell_is_lost(struct redis_cell *cell, struct span text);

#endif /* SLUICE_STORE_REDIS_REDIS_HANDSHAKE_H */
