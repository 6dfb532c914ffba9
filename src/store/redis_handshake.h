/* The first commands on a new connection: AUTH, SELECT, ROLE where sentinels name the master, the
 * probe for redis-cell where it is wanted, and TIME, in one write; SCRIPT LOAD when TIME was
 * answered. Until a client has logged in Redis reads no argument above 16 KiB, and answers with a
 * protocol error: TIME is short enough to be answered with the reason. */

#ifndef SLUICE_STORE_REDIS_HANDSHAKE_H
#define SLUICE_STORE_REDIS_HANDSHAKE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_cell.h"
#include "store/redis_connection.h"
#include "store/redis_store.h"

struct redis_handshake {
    /* REDIS_FAULT_NONE with the SHA-1 of the script, REDIS_SHA_BYTES of hex; or a fault with what
     * Redis said, or what is wrong. After a failure it may come again, for the commands that
     * follow: close the connection. Not called when the connection is lost. */
    void (*on_end)(void *owner, enum redis_fault fault, struct span text);
    void *owner;
    struct redis_call auth_call;
    struct redis_call select_call;
    struct redis_call time_call;
    struct redis_call load_call;
    struct span source; /* to load; borrowed until it is sent */
    struct redis_call role_call;
    struct redis_listener listener;         /* of the replies to ROLE and TIME */
    struct redis_listener *owners_listener; /* the connection's, put back after them */
    struct redis_connection *connection;    /* borrowed until on_end() */
    bool is_master;                         /* ROLE says so */
    struct redis_cell cell;                 /* known when on_end says that all is well */
};

/* Begin it on @connection. @source is the script, borrowed until on_end() or until the connection
 * is closed. STATUS_NO_MEMORY, STATUS_UNREACHABLE. */
MUST_USE enum status redis_handshake_send(struct redis_handshake *handshake,
                                          struct redis_connection *connection,
                                          const struct redis_store_options *options,
                                          struct span source);

#endif /* SLUICE_STORE_REDIS_HANDSHAKE_H */
