/* The options of the proxy: a policy, and the dependencies that go with it. */

#ifndef SLUICE_PROXY_SERVER_OPTIONS_H
#define SLUICE_PROXY_SERVER_OPTIONS_H

#include <stdbool.h>

#include "base/status.h"
#include "policy/policy.h"

struct bans;
struct tenants;
struct given_sockets;
struct loop;
struct meters;
struct resolver_options;
struct store;
struct store_meters;

/* One policy and its store. All of it stays valid until release() is called. */
struct server_generation {
    const struct policy *policy; /* meters_enter() has been called for it */
    /* generations with an equal value can share a store, which adds the limits of each */
    const void *store;
    /* Make the store of one worker, with the worker's loop and meters. *is_shared: all workers
     * share it; otherwise it is freed with store_free() after the worker has ended.
     * STATUS_NO_MEMORY. */
    enum status (*make_store)(void *context, struct loop *loop, struct store_meters *meters,
                              struct store **store, bool *is_shared);
    /* Called once, from any thread, when the generation is no longer used. */
    void (*release)(void *context);
    void *context;
};

/* Borrowed until server_free(), except the configuration generation. */
struct server_options {
    struct server_generation first;
    struct meters *meters;                   /* where the workers count */
    const struct resolver_options *resolver; /* NULL: the system's */
    struct tenants *tenants;                 /* keys with a plan; NULL: there are never any */
    struct bans *bans;                       /* set by operators; NULL: there are never any */
    struct given_sockets *given;             /* used for listen addresses that match; NULL: none */
};

#endif /* SLUICE_PROXY_SERVER_OPTIONS_H */
