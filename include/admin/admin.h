/* The admin API: what operators and their tools ask a running proxy, over HTTP and in JSON.
 *
 * One thread with its own loop and listeners, apart from the workers: what is asked here costs no
 * request anything but what it reads of them. Who may ask what: src/admin/access.h. What there is
 * to ask: src/admin/resources.c. */

#ifndef SLUICE_ADMIN_ADMIN_H
#define SLUICE_ADMIN_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

struct admin;
struct bans;
struct loop;
struct meters;
struct reload_desk;
struct redis_process;
struct server;
struct store;

/* How the store that the proxies share is doing, as far as this process has heard. */
struct admin_store_state {
    uint32_t n_targets; /* Redis servers that were spoken to; 0: none yet, or none is wanted */
    uint32_t n_working; /* of those: the latest that was heard of them is good */
};

/* What the admin API is told of the process it serves. Everything is borrowed until admin_free();
 * the functions are called from the admin's thread. */
struct admin_options {
    const char *version; /* of the program */
    struct server *server;
    /* The policy that requests run under now; it stays until it is given back. */
    const struct policy *(*take_policy)(void *context);
    void (*give_policy)(void *context, const struct policy *policy);
    /* A store over what the workers' stores share, for the limits of @policy, which was taken, and
     * for @loop, the admin's. The policy stays with it until free_store(). STATUS_NO_MEMORY. */
    enum status (*make_store)(void *context, const struct policy *policy, struct loop *loop,
                              struct store **store);
    void (*free_store)(void *context, const struct policy *policy, struct store *store);
    void (*read_store_state)(void *context, struct admin_store_state *state);
    void *context;
    struct bans *bans; /* that operators set */
    /* What is counted, for /metrics and /v1/top. */
    struct reload_desk *desk; /* where reloads are asked for */
    const struct meters *meters;
    const struct store *memory;        /* the embedded store */
    const struct redis_process *redis; /* what the Redis stores share */
};

/* Open what the policy of take_policy() names for operators; it names something. What fails is
 * logged with what to do. STATUS_IN_USE: somebody else listens on one of the addresses;
 * STATUS_IO, STATUS_NO_MEMORY. */
MUST_USE enum status admin_new(const struct admin_options *options, struct admin **admin);

/* Any thread: whether the addresses for operators can be opened that @after names and @before,
 * which is in force, does not. What cannot is logged with what to do, and the last such is in
 * *place, borrowed from @after. STATUS_IN_USE, STATUS_IO. */
MUST_USE enum status admin_probe(const struct policy *before, const struct policy *after,
                                 struct span *place);

/* Start the thread. STATUS_NO_MEMORY. */
MUST_USE enum status admin_start(struct admin *admin);

/* End the thread, if it runs: connections are cut. */
void admin_stop(struct admin *admin);

/* It was stopped, or never started. NULL is a no-op. */
void admin_free(struct admin *admin);

#endif /* SLUICE_ADMIN_ADMIN_H */
