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
    ADMIN_CHANGES_MAX = 16,     /* that wait for the shared store: others find a place meanwhile */
    ADMIN_ANSWER_BYTES_MAX =
        64 * 1024 * 1024,                /* of all answers at one listener that are not read yet */
    ADMIN_ANSWER_BYTES_FREE = 64 * 1024, /* an answer of so few bytes is always given */
};

/* One of the policy's admin listeners. */
struct admin_door {
    struct list node; /* of the admin's doors, or of those that are leaving */
    struct admin *admin;
    const struct listener_section *section; /* of admin->policy; not of one that is leaving */
    bool is_leaving; /* the policy names it no more: it goes with its last request */
    struct listener listener;
    struct unix_listener unix_socket; /* fd -1: of TCP */
    struct list connections;          /* struct admin_connection, the longest there first */
    size_t n_connections;
    size_t answer_bytes;   /* content that its connections hold */
    struct loop_task gone; /* frees one that has left */
};

/* A store, for the limits of one policy. */
struct admin_store {
    struct list node;
    const struct policy *policy;
    struct store *store;
};

struct admin {
    struct admin_options options;
    const struct policy *policy; /* taken: what doors and rules were made by */
    struct access_rules rules;
    struct loop *loop;
    size_t n_changes;   /* of keys, that the shared store has not answered yet */
    struct list stores; /* struct admin_store: made when they are first asked, the latest first */
    struct wakeup stop;
    struct wakeup reloaded;   /* a reload has ended */
    struct list reloads;      /* struct reload_wait: who waits for that */
    struct list doors;        /* struct admin_door */
    struct list leaving;      /* the same */
    struct log_gate refusals; /* of the lines that tell of them */
    pthread_t thread;
    bool is_running;
};

/* The store of @policy, to be asked from the admin's loop. NULL: no memory. */
MUST_USE struct store *admin_store(struct admin *admin, const struct policy *policy);

/* Let go of those that nobody asks any more, but for that of the policy in force. */
void admin_store_renew(struct admin *admin);

/* Let go of all of them. */
void admin_store_free_all(struct admin *admin);

/* Open the doors that @policy names and @admin does not have, and let those leave that it
 * names no more: they take no more connections, and end with the requests that are under way.
 * What cannot be opened is logged, and is not there. STATUS_IN_USE, STATUS_IO,
 * STATUS_NO_MEMORY: of the first such. */
MUST_USE enum status admin_doors_renew(struct admin *admin, const struct policy *policy);

/* Close all, at once. */
void admin_doors_close(struct admin *admin);

/* Tell in the log where. */
void admin_doors_log(const struct admin *admin);

/* A connection of @door has been freed. */
void admin_door_on_connection_gone(struct admin_door *door);

#endif /* SLUICE_ADMIN_INTERNAL_H */
