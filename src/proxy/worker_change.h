/* How a worker comes under another policy.
 *
 *   offered ─► PREPARE ─► made ─► ready, or as good as it will be ─► TURN ─► leaving ─► turned
 *                 └ no memory: failed                           └──► DROP
 *   (leaving: until it has left where it listens no more)
 *
 * The server's thread gives orders, one at a time to all workers, and each answers. None is told to
 * turn before all have made what they need: from there on nothing can fail. None is offered the
 * next policy before all have left, so that an address which comes again is free. */

#ifndef SLUICE_PROXY_WORKER_CHANGE_H
#define SLUICE_PROXY_WORKER_CHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/log_output.h"
#include "base/status.h"
#include "net/loop.h"
#include "proxy/listening.h"

struct edition;
struct regime;
struct worker;

enum worker_order {
    WORKER_NO_ORDER,
    WORKER_PREPARE, /* make what the offer's policy needs */
    WORKER_TURN,    /* be under it from now on */
    WORKER_DROP,    /* it does not come */
};

enum worker_answer {
    WORKER_IS_SILENT, /* it has not carried out the order yet */
    WORKER_HAS_MADE,  /* what the policy needs: links and names are waited for */
    WORKER_IS_READY,
    WORKER_FAILED, /* no memory: nothing was made */
    WORKER_TURNED,
    WORKER_DROPPED,
};

/* What a worker gets for a policy. */
struct worker_offer {
    struct edition *edition; /* joined for the worker; NULL: there is no offer */
    struct log_output *log;  /* the access log; NULL: off. Borrowed while the policy is in force */
    struct listening_offer
        listeners[LISTENERS_MAX]; /* the sockets are the worker's when it turns */
    size_t n_listeners;           /* 0 from then on */
};

struct worker_change {
    atomic_int order;          /* enum worker_order; the server's */
    atomic_int answer;         /* enum worker_answer; the worker's */
    struct worker_offer offer; /* written by the server while there is no order */
    struct regime *coming;     /* the worker's, from here on; NULL: none */
    struct timer look_timer;   /* while it prepares */
    bool is_turning;           /* it has turned, but not left yet where it listens no more */
};

/* --- the worker's --- */

/* STATUS_NO_MEMORY. */
MUST_USE enum status worker_change_init(struct worker *worker);
void worker_change_close(struct worker *worker);

/* There may be an order. */
void worker_change_on_wake(struct worker *worker);

/* One of the worker's listeners has left. */
void worker_change_on_listener_gone(struct worker *worker);

/* The worker drains: no other policy comes. */
void worker_change_abandon(struct worker *worker);

/* --- the server's --- */

/* Give @order, by way of the worker's wakeup. TURN: when it has made, or is ready. DROP:
 * at any time, and a PREPARE that is not carried out yet is forgotten. A worker that
 * drains does not answer. */
void worker_change_order(struct worker *worker, enum worker_order order);
enum worker_answer worker_change_answer(const struct worker *worker);

/* Close the last @n_left sockets of @offer. */
void worker_offer_close(const struct worker_offer *offer, size_t n_left);

#endif /* SLUICE_PROXY_WORKER_CHANGE_H */
