/* What is said first on a new connection: AUTH, SELECT, where sentinels lead there ROLE, the probe
 * for redis-cell where it is wanted, and SCRIPT LOAD, in one write. */

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
    struct redis_call load_call;
    struct redis_call role_call;
    struct redis_listener role_listener; /* of the reply to ROLE */
    struct redis_connection *connection; /* borrowed while ROLE is under way */
    bool is_master;                      /* ROLE says so */
    struct redis_cell cell;              /* known when on_end says that all is well */
};

/* Send it on @connection. @source is the script. STATUS_NO_MEMORY, STATUS_UNREACHABLE. */
MUST_USE enum status redis_handshake_send(struct redis_handshake *handshake,
                                          struct redis_connection *connection,
                                          const struct redis_store_options *options,
                                          struct span source);

#endif /* SLUICE_STORE_REDIS_HANDSHAKE_H */
