/* The listening sockets of a worker: those of the policy in force. */

#ifndef SLUICE_PROXY_SERVER_WORKER_LISTENERS_H
#define SLUICE_PROXY_SERVER_WORKER_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/status.h"
#include "proxy/server/listening.h"

struct client_env;
struct worker_listeners;

struct worker_listeners_ops {
    /* A listener has left. */
    void (*on_gone)(struct worker_listeners *listeners);
};

struct worker_listeners {
    const struct worker_listeners_ops *ops; /* the worker's */
    struct client_env *clients;             /* that accepted connections belong to */
    struct list all;                        /* struct worker_listener */
};

/* The set is empty. */
void worker_listeners_init(struct worker_listeners *listeners,
                           const struct worker_listeners_ops *ops, struct client_env *clients);

/* Listen on the addresses of the @n @offers, whose sockets and TLS are taken over, and leave all
 * others. STATUS_NO_MEMORY: it does not listen on all of them. */
MUST_USE enum status worker_listeners_set(struct worker_listeners *listeners,
                                          const struct listening_offer *offers, size_t n);

/* Leave all addresses: a connection whose handshake has begun is accepted, a later one is not.
 * on_gone() is called for each listener that has left. Sockets that were given are closed at once,
 * without on_gone(): other processes accept from them. */
void worker_listeners_leave(struct worker_listeners *listeners);

/* Whether a listener has not left yet. */
bool worker_listeners_are_leaving(struct worker_listeners *listeners);

/* Accept what is queued, then close all listeners. */
void worker_listeners_close(struct worker_listeners *listeners);

#endif /* SLUICE_PROXY_SERVER_WORKER_LISTENERS_H */
