/* The admin API: operators and their tools query and change a running proxy over HTTP and JSON.
 *
 * One thread with its own loop and listeners, apart from the workers: apart from reads of the
 * workers' data, admin requests do not slow down proxied requests. Access rules:
 * src/admin/access.h. Resources: src/admin/resources.c. */

#ifndef SLUICE_ADMIN_ADMIN_H
#define SLUICE_ADMIN_ADMIN_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"

struct admin;
struct bans;
struct tenants;
struct loop;
struct meters;
struct redis_process;
struct reload_requests;
struct server;
struct store;

/* Everything is borrowed until admin_free(); the functions are called from the admin's thread. */
struct admin_options {
    const char *version;     /* of the program */
    const char *policy_path; /* of its policy's file */
    struct server *server;
    /* The policy in force; it is valid until give_policy(). */
    const struct policy *(*take_policy)(void *context);
    void (*give_policy)(void *context, const struct policy *policy);
    /* Make a store over the resources that the workers' stores share, for the limits of @policy,
     * which was taken, and for @loop, the admin's. The store keeps the policy until free_store().
     * STATUS_NO_MEMORY. */
    enum status (*make_store)(void *context, const struct policy *policy, struct loop *loop,
                              struct store **store);
    void (*free_store)(void *context, const struct policy *policy, struct store *store);
    void *context;
    /* A listener beside those of the policy, which no reload takes away; NULL: none. */
    const struct listener_section *control;
    struct bans *bans; /* set by operators */
    struct tenants *tenants;
    struct reload_requests *requests;
    /* Counters for /metrics and /v1/top. */
    const struct meters *meters;
    const struct store *memory;        /* the embedded store */
    const struct redis_process *redis; /* shared by the Redis stores */
};

/* Open the admin listeners of the policy that take_policy() returns, and that of @options: together
 * at least one.
 * Failures are logged with a remedy. STATUS_IN_USE: another process listens on one of the
 * addresses; STATUS_IO, STATUS_NO_MEMORY. */
MUST_USE enum status admin_new(const struct admin_options *options, struct admin **admin);

/* Check whether the admin listen addresses that @after names and @before, which is in force, does
 * not can be opened. Failures are logged with a remedy, and *place is the last address that failed,
 * borrowed from @after. Any thread. STATUS_IN_USE, STATUS_IO. */
MUST_USE enum status admin_probe(const struct policy *before, const struct policy *after,
                                 struct span *place);

/* Start the thread. STATUS_NO_MEMORY. */
MUST_USE enum status admin_start(struct admin *admin);

/* End the thread, if it runs, and close its connections. */
void admin_stop(struct admin *admin);

/* @admin is stopped or was never started. NULL is a no-op. */
void admin_free(struct admin *admin);

#endif /* SLUICE_ADMIN_ADMIN_H */
