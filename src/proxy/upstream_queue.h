/* Who waits for a connection, where an upstream's servers have a max_connections: one queue for all
 * workers of the process, first come, first served.
 *
 * A server's place is a connection to it: one that is being made, in use, or idle. A place that
 * becomes free, and an idle connection wherever it is, go to the first in the queue who may use
 * that server; the connection itself moves to the worker of whoever gets it.
 *
 *     enter ─► waiting ─► granted ─► taken by its worker
 *                 └─ leave   └─ given back
 *
 * Whoever frees a place looks for somebody who waits, and whoever begins to wait looks for a place,
 * both after having said so: one of the two sees the other. */

#ifndef SLUICE_PROXY_UPSTREAM_QUEUE_H
#define SLUICE_PROXY_UPSTREAM_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/resolver.h"

struct server_process;
struct upstream_choice;
struct upstream_group;
struct upstream_server;

struct upstream_queue {
    pthread_mutex_t lock;  /* of the lists, of who waits in them, and of groups' grants */
    struct list waiters;   /* struct upstream_waiter, the first first */
    struct list groups;    /* struct upstream_group of each worker */
    atomic_uint n_waiting; /* read without the lock, too */
};

/* A request that waits, a member of whoever makes it. */
struct upstream_waiter {
    struct list node;               /* in the queue, or in its group's grants */
    struct upstream_group *group;   /* its worker's */
    struct upstream_choice *choice; /* its servers; others write it while it waits */
    bool is_granted;
    struct upstream_server *server;  /* that it was granted a place of; of its own group */
    int fd;                          /* the connection; -1: it is to be made */
    struct resolver_address address; /* of the connection */
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status upstream_queue_init(struct upstream_queue *queue);
/* Nobody waits. */
void upstream_queue_close(struct upstream_queue *queue);

/* The worker of @group is there, or no more. */
void upstream_queue_join(struct upstream_group *group);
void upstream_queue_part(struct upstream_group *group);

/* --- places --- */

/* Take a place of a server that has @max of them; false: there is none. */
MUST_USE bool upstream_queue_take_place(struct server_process *server, unsigned max);

/* A place of @server is free. */
void upstream_queue_give_place(struct upstream_server *server, uint64_t now_us);

/* --- waiting --- */

/* Whether somebody waits already, so that a newcomer has to, too. */
bool upstream_queue_is_used(const struct upstream_queue *queue);

/* @waiter's group and choice are set: let it wait, before all others if it is an @old one that has
 * waited before. STATUS_FULL: as many wait as may. */
MUST_USE enum status upstream_queue_enter(struct upstream_waiter *waiter, bool old,
                                          uint64_t now_us);

/* It does not wait any longer. False: it has a grant by now, which stays. */
bool upstream_queue_leave(struct upstream_waiter *waiter);

/* Give back the grant of a waiter that did not leave in time. */
void upstream_queue_return_grant(struct upstream_waiter *waiter, uint64_t now_us);

/* Whether somebody waits for the same servers under another policy, as the upstream
 * was before it was changed. */
bool upstream_queue_others_wait(const struct upstream_group *group);

/* Give free places to who waits: some may have become free, or a server may have come in. */
void upstream_queue_serve(struct upstream_group *group, uint64_t now_us);

/* Give the idle connections of @group's worker to who waits. */
void upstream_queue_yield_idle(struct upstream_group *group, uint64_t now_us);

/* The next of @group's waiters that has a grant, which is its own now; NULL: none has. */
struct upstream_waiter *upstream_queue_take_grant(struct upstream_group *group);

#endif /* SLUICE_PROXY_UPSTREAM_QUEUE_H */
