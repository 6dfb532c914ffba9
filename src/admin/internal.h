/* The admin API as a whole, for its own files. */

#ifndef SLUICE_ADMIN_INTERNAL_H
#define SLUICE_ADMIN_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "admin/access.h"
#include "admin/admin.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/unix_socket.h"

enum {
    ADMIN_CONNECTIONS_MAX = 64, /* at one listener: what floods one leaves the others free */
};

/* One of the policy's admin listeners. */
struct admin_door {
    struct admin *admin;
    const struct listener_section *section; /* of admin->policy */
    struct listener listener;
    struct unix_listener unix_socket; /* fd -1: of TCP */
    struct list connections;          /* struct admin_connection, the longest there first */
    size_t n_connections;
};

struct admin {
    struct admin_options options;
    const struct policy *policy; /* taken: what doors and rules were made by */
    struct access_rules rules;
    struct loop *loop;
    struct store *store;  /* made when it is first asked */
    bool store_is_shared; /* and is not the admin's to free */
    struct wakeup stop;
    struct admin_door doors[ADMIN_LISTENERS_MAX];
    size_t n_doors;           /* that are open */
    struct log_gate refusals; /* of the lines that tell of them */
    pthread_t thread;
    bool is_running;
};

/* The store of @policy, to be asked from the admin's loop. NULL: no memory. */
MUST_USE struct store *admin_store(struct admin *admin, const struct policy *policy);

/* Open the door of @section, which outlives it. What fails is logged. STATUS_IN_USE, STATUS_IO, STATUS_NO_MEMORY. */
MUST_USE enum status admin_door_open(struct admin_door *door, struct admin *admin,
                                     const struct listener_section *section);

/* Cut its connections and close it. */
void admin_door_close(struct admin_door *door);

/* Tell in the log where. */
void admin_door_log(const struct admin_door *door);

#endif /* SLUICE_ADMIN_INTERNAL_H */
