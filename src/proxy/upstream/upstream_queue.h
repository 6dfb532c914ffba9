/* The queue of requests that wait for a connection slot, where an upstream's servers have a
 * max_connections. All workers of the process share it, first come, first served.
 *
 * A connection to a server holds a slot while it is being made, in use, or idle. A free slot, or an
 * idle connection of any worker, goes to the first waiter that may use that server. A granted
 * connection moves to the waiter's worker.
 *
 *     enter ─► waiting ─► granted ─► taken by its worker
 *                 └─ leave   └─ returned
 *
 * Publish, then check: a releaser decrements the in-use count, then scans the waiters; a waiter
 * enqueues itself, then scans for capacity. With sequentially consistent atomics one of them sees
 * the other, so no wakeup is lost.
 *
 * Under the lock, few waiters are checked at a time. Waiters that have tried no server may use any:
 * if the first of them finds no slot, none behind it does. Waiters that have tried servers are
 * checked in turn, UPSTREAM_QUEUE_CHECKS at a time. A slot that becomes free begins a pass over all
 * of them; the worker wakes itself until the pass is complete. An idle connection that none of the
 * first UPSTREAM_QUEUE_CHECKS may use is closed if there are more, which frees its slot. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_QUEUE_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "net/resolver.h"

struct upstream_choice;
struct upstream_group;
struct upstream_queue;
struct upstream_server;

enum { UPSTREAM_QUEUE_CHECKS = 32 };

/* A request that waits for a slot. */
struct upstream_waiter {
    struct list node;                                 /* in the queue, or in its group's grants */
    void (*on_grant)(struct upstream_waiter *waiter); /* called in its worker's thread */
    struct upstream_group *group;                     /* of its worker */
    struct upstream_choice *choice; /* its servers; other workers write it while it waits */
    uint64_t pass;                  /* of the queue, when it was last checked */
    bool is_granted;
    bool is_doubtful;                /* the granted connection is, see upstream.h */
    struct upstream_server *server;  /* of the granted slot; belongs to its own group */
    int fd;                          /* the granted connection; -1: only a slot was granted */
    struct resolver_address address; /* of the connection */
};

/* Add or remove the group of a worker. */
void upstream_queue_join(struct upstream_group *group);
void upstream_queue_part(struct upstream_group *group);

/* --- slots --- */

/* Release a slot of @server, and grant it to a waiter if there is one. */
void upstream_queue_release_slot(struct upstream_server *server, uint64_t now_us);

/* --- waiting --- */

/* Whether requests are waiting. If so, a new request has to wait, too. */
bool upstream_queue_is_used(const struct upstream_queue *queue);

/* Enqueue @waiter, whose group, choice and on_grant are set, and everything else is zero. If it has
 * tried a server, it comes before all that have not. STATUS_FULL: the queue is full. */
MUST_USE enum status upstream_queue_enter(struct upstream_waiter *waiter, uint64_t now_us);

/* Remove @waiter from the queue. False: it already has a grant, and keeps it. */
bool upstream_queue_leave(struct upstream_waiter *waiter);

/* Return the grant of a waiter that could not leave because it was already granted. */
void upstream_queue_return_grant(struct upstream_waiter *waiter, uint64_t now_us);

/* Whether requests wait for the same servers in another member of the upstream's lineage. */
bool upstream_queue_others_wait(const struct upstream_group *group);

/* Grant free slots to waiters, after a slot may have become free or a server may have recovered. */
void upstream_queue_serve(struct upstream_group *group, uint64_t now_us);

/* Continue what upstream_queue_serve() has begun; for a worker that was woken. */
void upstream_queue_continue(struct upstream_group *group, uint64_t now_us);

/* Grant the idle connections of @group's worker to waiters. False: some are left, and not all
 * waiters were checked, so the caller closes them. */
MUST_USE bool upstream_queue_yield_idle(struct upstream_group *group, uint64_t now_us);

/* Remove and return @group's next waiter with a grant, which now owns the grant. NULL: none. */
struct upstream_waiter *upstream_queue_take_grant(struct upstream_group *group);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_QUEUE_H */
