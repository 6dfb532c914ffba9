/* The state of the admin API, for its own files. */

#ifndef SLUICE_ADMIN_INTERNAL_H
#define SLUICE_ADMIN_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "admin/access.h"
#include "admin/admin.h"
#include "admin/child.h"
#include "admin/history.h"
#include "admin/newcomers.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "net/listen_socket.h"
#include "net/listener.h"
#include "net/loop.h"
#include "policy/policy.h"

enum {
    ADMIN_CONNECTIONS_MAX = 64, /* per listener: a flood at one does not block the others */
    ADMIN_CHANGES_MAX = 16,     /* waiting for the shared store: leaves slots for other requests */
    ADMIN_ASKING_CHILDREN_MAX = 3,             /* child processes of requests that read, one of */
                                               /* them kept for those who may change, too */
    ADMIN_VIEWERS_MAX = 8,                     /* of /v1/live, at all listeners */
    ADMIN_ANSWER_BYTES_MAX = 64 * 1024 * 1024, /* per listener, of all answers not read yet */
    ADMIN_ANSWER_BYTES_FREE = 64 * 1024,       /* an answer up to this size is always sent */
};

/* One of the policy's admin listeners, or that of the options. */
struct tls_server;
struct tls_worker;

struct admin_listener {
    struct list node; /* in admin->admin_listeners or admin->leaving */
    struct admin *admin;
    /* of admin->policy or the options; invalid while leaving */
    const struct listener_section *section;
    bool is_leaving; /* the policy no longer names it: it is freed after its last request */
    struct listener listener;
    struct unix_listener unix_socket; /* fd -1: this is a TCP listener */
    struct tls_server *tls;           /* a reference; NULL: plain text */
    struct list connections;          /* struct admin_connection, the oldest first */
    size_t n_connections;
    size_t answer_bytes;   /* of content that its connections hold */
    struct loop_task gone; /* frees the listener after it has left */
};

/* A store, for the limits of one policy. */
struct admin_store {
    struct list node;
    const struct policy *policy;
    struct store *store;
};

struct admin {
    struct admin_options options;
    const struct policy *policy; /* taken; the source of the listeners and rules */
    struct access_rules rules;
    struct loop *loop;
    struct tls_worker *tls; /* NULL: no listener has needed it yet */
    size_t n_changes;       /* changes of keys that the shared store has not answered yet */
    struct child_set children;
    struct admin_replay *replay; /* of replay_resource.c; NULL: none */
    size_t n_asking_children;    /* that answer requests which change nothing */
    struct list stores;          /* struct admin_store: made at their first use, the latest first */
    struct wakeup stop;
    struct wakeup reloaded;      /* a reload has ended */
    struct list reloads;         /* struct reload_wait: requests that wait for a reload's end */
    struct list admin_listeners; /* struct admin_listener */
    struct list leaving;         /* struct admin_listener */
    struct log_gate refusals;    /* limits the log lines about refusals */
    struct history history;
    struct timer each_second; /* reads the meters for the history */
    char *history_text;       /* of this second; owned. NULL: not asked for */
    size_t history_text_bytes;
    size_t n_viewers; /* connections that stream */
    pthread_t thread;
    bool is_running;
    uint64_t started_us; /* monotonic */
    struct newcomers newcomers;
};

/* The store of @policy, for use in the admin's loop. NULL: no memory. */
MUST_USE struct store *admin_store(struct admin *admin, const struct policy *policy);

/* --- listeners --- */

/* Open the listeners that @policy and the options name and @admin does not have. Listeners that
 * neither names any longer leave: they accept no more connections and end with their requests in
 * progress. Listeners that cannot be opened are logged and skipped. STATUS_IN_USE, STATUS_IO,
 * STATUS_NO_MEMORY: of the first that failed. */
MUST_USE enum status admin_listeners_renew(struct admin *admin, const struct policy *policy);

/* Close all listeners at once. */
void admin_listeners_close(struct admin *admin);

/* Log the listen addresses. */
void admin_listeners_log(const struct admin *admin);

/* A connection of @admin_listener has been freed. */
void admin_listener_on_connection_gone(struct admin_listener *admin_listener);

/* --- connections: each request is answered before the next one is read --- */

/* Serve @fd (taken over) until either side closes; the connection is appended to those of
 * @admin_listener. STATUS_NO_MEMORY: @fd is closed. */
MUST_USE enum status admin_connection_new(struct admin_listener *admin_listener, int fd,
                                          const struct access_peer *peer);

/* Whether more than a few connections have come from the address of @peer lately of which no
 * request was let in. */
MUST_USE bool admin_newcomers_are_many(struct admin *admin, const struct access_peer *peer);

/* Close a connection of @admin_listener to free its slot for a new one of @peer. First one of which
 * no request was let in: the oldest of the client with the most of these, the new one counted, or
 * with the most in the last seconds. Then one that is not handling or answering a request, and then
 * one that has been reading its answer for two seconds, those with a token last. False: there is
 * none. */
MUST_USE bool admin_connection_make_place(struct admin_listener *admin_listener,
                                          const struct access_peer *peer);

/* Close the connections of @admin_listener that wait for another request. The others close after
 * their answer. */
void admin_connections_leave(struct admin_listener *admin_listener);

/* Close all connections of @admin_listener. */
void admin_connections_close(struct admin_listener *admin_listener);

/* Send @line to all viewers but those that have not taken the line before. An empty one ends
 * their answers: those that are still let in ask again. */
void admin_viewers_send(struct admin *admin, struct span line);

/* End the answer of the viewer that has been there longest of those that may change nothing. False:
 * there is none. */
bool admin_viewers_make_place(struct admin *admin);

/* Whether a request that began under @policy is in progress at @admin_listener. */
bool admin_connections_have_request(const struct admin_listener *admin_listener,
                                    const struct policy *policy);

/* --- history_resource.c --- */

/* Read the meters for the history now and each second, and send what is counted to viewers. */
void admin_history_start(struct admin *admin);

void admin_history_forget_text(struct admin *admin);

/* --- live_resource.c --- */

/* What is counted now, for the policy in force. NULL: no memory. */
json_t *live_describe(struct admin *admin, const struct policy *policy);

/* Send the line of this second to the viewers. */
void live_send(struct admin *admin);

/* --- reload_resource.c --- */

/* Answer the requests that wait for a reload, which has ended. */
void reload_on_ended(struct admin *admin);

#endif /* SLUICE_ADMIN_INTERNAL_H */
