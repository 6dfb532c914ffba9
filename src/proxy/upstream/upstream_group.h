/* The upstream group: the servers of one upstream in one worker, their creation and release. */

#ifndef SLUICE_PROXY_UPSTREAM_UPSTREAM_GROUP_H
#define SLUICE_PROXY_UPSTREAM_UPSTREAM_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"

struct proxy_env;

struct tls_client_context;
struct upstream_group;
struct upstream_process;

/* Create the group of @policy's upstream number @index, with one user. @process is shared by all
 * workers. @before is the worker's previous group of that upstream; its addresses are used until
 * names are resolved; NULL: none. Nothing is sent to the servers before upstream_group_begin().
 * STATUS_NO_MEMORY. */
MUST_USE enum status upstream_group_new(struct proxy_env *env, const struct policy *policy,
                                        size_t index, struct upstream_process *process,
                                        struct upstream_group *before,
                                        struct upstream_group **group);

/* Give @group, whose servers speak TLS, the @client of their configuration. No-op if it has one, as
 * a group that is shared with an earlier policy does. */
void upstream_group_secure(struct upstream_group *group, struct tls_client_context *client);

/* Put @group in force as upstream number @index of @policy. It may already be in force under a
 * policy with the same upstream. STATUS_NO_MEMORY: checks cannot begin. */
MUST_USE enum status upstream_group_begin(struct upstream_group *group, const struct policy *policy,
                                          size_t index);

/* Borrow from @policy, which has the same upstream, instead of the previous policy. */
void upstream_group_refer_to(struct upstream_group *group, const struct policy *policy,
                             size_t index);

/* @group is no longer in force: requests under way continue, and no idle connection is kept. */
void upstream_group_retire(struct upstream_group *group);

/* Add or remove a user. Removing the last one frees the group; then only idle connections may be
 * left. */
struct upstream_group *upstream_group_join(struct upstream_group *group);
void upstream_group_leave(struct upstream_group *group);

/* Whether no server is still waiting for its first addresses. */
bool upstream_group_is_ready(const struct upstream_group *group);

/* Another worker has woken this one: it may have made grants, or need idle connections. */
void upstream_group_on_wake(struct upstream_group *group);

/* Close an idle connection of this worker to any server, the one of its server that is idle
 * longest. False: there is none. */
MUST_USE bool upstream_groups_close_one_idle(struct proxy_env *env);

/* Close all idle connections. */
void upstream_group_close_idle(struct upstream_group *group);

#endif /* SLUICE_PROXY_UPSTREAM_UPSTREAM_GROUP_H */
