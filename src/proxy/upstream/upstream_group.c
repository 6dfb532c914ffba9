/* The servers of an upstream. The choice among them is in upstream_choice.c, their addresses in
 * upstream_server.c. */

#include "proxy/upstream/upstream_group.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "proxy/core/proxy_env.h"
#include "proxy/upstream/balance.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_queue.h"
#include "proxy/upstream/upstream_server.h"

static enum status init_server(struct upstream_server *server, struct upstream_group *group,
                               size_t index)
{
    const size_t n_servers = group->spec->n_servers;
    const struct server_spec *spec = &group->spec->servers[index];
    const struct endpoint *endpoint = &spec->endpoint;
    server->group = group;
    server->spec = spec;
    server->endpoint = endpoint;
    server->has_plain_text = text_is_plain_word(endpoint->text);
    server->process = group->process->servers[index];
    server->seed = balance_seed(&group->hash_key, endpoint->text);
    /* If all workers started with the first server, they would return to it at the same time. */
    server->credit = balance_first_credit(index, n_servers, group->env->number % n_servers);
    list_init(&server->idle);
    list_init(&server->http2);
    for (size_t i = 0; i < ARRAY_LEN(server->http2_own); i++) {
        list_init(&server->http2_own[i]);
    }
    list_init(&server->http2_for_bodies);
    list_init(&server->http2_withdrawn);
    return upstream_name_init(server, upstream_close_outdated);
}

static enum status begin_checks(struct upstream_group *group)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < group->spec->n_servers && status == STATUS_OK; i++) {
        status = health_check_new(&group->servers[i], &group->servers[i].check);
    }
    return status;
}

static void close_check(struct upstream_server *server)
{
    health_check_free(server->check);
    server->check = NULL;
}

/* Proxies with one secret, which share limits, map each key to the same server. */
static struct hash_key balance_key(const struct policy *policy)
{
    struct hash_key key;
    hash_identity(policy->store.secret, SPAN("balance"), key.bytes);
    return key;
}

/* --- grants from other workers --- */

static void take_grants(struct upstream_group *group)
{
    struct upstream_waiter *waiter;
    while ((waiter = upstream_queue_take_grant(group)) != NULL) {
        waiter->on_grant(waiter);
    }
}

static void on_grants(struct loop_task *task)
{
    take_grants(CONTAINER_OF(task, struct upstream_group, grants_task));
}

void upstream_group_on_wake(struct upstream_group *group)
{
    take_grants(group);
    if (upstream_queue_is_used(&group->process->queue)) {
        if (!upstream_queue_yield_idle(group, clock_monotonic_us())) {
            upstream_group_close_idle(group);
        }
        upstream_queue_continue(group, clock_monotonic_us());
    } else if (upstream_queue_others_wait(group)) {
        upstream_group_close_idle(group);
    }
}

/* --- life --- */

static void init_timeouts(struct upstream_group *group)
{
    const struct upstream_spec *spec = group->spec;
    struct loop *loop = group->env->loop;
    timeout_queue_init(&group->connect_timeouts, loop, spec->connect_us);
    timeout_queue_init(&group->response_timeouts, loop, spec->response_us);
    timeout_queue_init(&group->idle_timeouts, loop, spec->idle_us);
    timeout_queue_init(&group->queue_timeouts, loop, spec->queue.wait_us);
}

static enum status init(struct upstream_group *group)
{
    const struct upstream_spec *spec = group->spec;
    enum status status = group->servers == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    init_timeouts(group);
    for (size_t i = 0; i < spec->n_servers && status == STATUS_OK; i++) {
        status = init_server(&group->servers[i], group, i);
    }
    if (status == STATUS_OK && group->is_limited) {
        upstream_queue_join(group);
    }
    return status;
}

/* Use the previous addresses of names until their queries are answered. */
static void take_over_addresses(struct upstream_group *group, const struct upstream_group *before)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        struct upstream_server *server = &group->servers[i];
        for (size_t j = 0; j < before->spec->n_servers && server->is_name; j++) {
            const struct upstream_server *old = &before->servers[j];
            if (server->n_addresses == 0 &&
                span_equals(server->endpoint->text, old->endpoint->text)) {
                upstream_name_take_over(server, old);
            }
        }
    }
}

enum status upstream_group_new(struct proxy_env *env, const struct policy *policy, size_t index,
                               struct upstream_process *process, struct upstream_group *before,
                               struct upstream_group **group)
{
    const struct upstream_spec *spec = &policy->upstreams[index];
    struct upstream_group *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    *created = (struct upstream_group){
        .n_users = 1,
        .spec = spec,
        .process = upstream_process_join(process),
        .env = env,
        .n_choices = env->number,
        .hash_key = balance_key(policy),
        .is_limited = spec->max_connections > 0,
        .ping_us = policy->timeouts.ping_us,
        .is_plain = spec->max_connections == 0 && spec->n_servers == 1,
        .counts_requests = spec->balance == BALANCE_LEAST_REQUESTS && spec->n_servers > 1,
    };
    atomic_init(&created->n_idle, 0);
    list_push_back(&env->upstream_groups, &created->of_worker);
    list_init(&created->node);
    list_init(&created->grants);
    loop_task_init(&created->grants_task, on_grants);
    created->servers = calloc(spec->n_servers, sizeof(created->servers[0]));
    const enum status status = init(created);
    if (status != STATUS_OK) {
        upstream_group_leave(created);
        return status;
    }
    if (before != NULL) {
        take_over_addresses(created, before);
    }
    *group = created;
    return STATUS_OK;
}

void upstream_group_secure(struct upstream_group *group, struct tls_client_context *client)
{
    if (group->tls == NULL) {
        group->tls = tls_client_context_acquire(client);
    }
}

void upstream_group_refer_to(struct upstream_group *group, const struct policy *policy,
                             size_t index)
{
    group->spec = &policy->upstreams[index];
    group->ping_us = policy->timeouts.ping_us;
    group->hash_key = balance_key(policy);
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        struct upstream_server *server = &group->servers[i];
        server->spec = &group->spec->servers[i];
        server->endpoint = &server->spec->endpoint;
        server->seed = balance_seed(&group->hash_key, server->endpoint->text);
    }
}

enum status upstream_group_begin(struct upstream_group *group, const struct policy *policy,
                                 size_t index)
{
    upstream_group_refer_to(group, policy, index);
    if (group->env->number != 1) {
        return STATUS_OK;
    }
    if (group->spec->health.path.len > 0) {
        return group->servers[0].check != NULL ? STATUS_OK : begin_checks(group);
    }
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        server_health_forget_checks(&group->servers[i].process->health);
    }
    return STATUS_OK;
}

void upstream_group_retire(struct upstream_group *group)
{
    group->is_retired = true;
    upstream_group_close_idle(group);
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        close_check(&group->servers[i]);
    }
}

bool upstream_group_is_ready(const struct upstream_group *group)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        const struct upstream_server *server = &group->servers[i];
        if (server->n_addresses == 0 && server->query != NULL) {
            return false;
        }
    }
    return true;
}

static void close_idle(struct upstream_server *server)
{
    while (!list_is_empty(&server->idle)) {
        upstream_close(CONTAINER_OF(server->idle.next, struct upstream, node));
    }
    upstream_http2_close_idle(server);
}

void upstream_group_close_idle(struct upstream_group *group)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        close_idle(&group->servers[i]);
    }
}

static bool close_one_idle(struct upstream_group *group)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        struct list *idle = &group->servers[i].idle;
        if (!list_is_empty(idle)) {
            upstream_close(CONTAINER_OF(idle->prev, struct upstream, node));
            return true;
        }
    }
    return false;
}

bool upstream_groups_close_one_idle(struct proxy_env *env)
{
    for (struct list *node = env->upstream_groups.next; node != &env->upstream_groups;
         node = node->next) {
        if (close_one_idle(CONTAINER_OF(node, struct upstream_group, of_worker))) {
            return true;
        }
    }
    return false;
}

static void close_server(struct upstream_server *server)
{
    if (server->group == NULL) {
        return; /* not initialized */
    }
    close_idle(server);
    assert(server->n_connections == 0); /* they point to it */
    close_check(server);
    tls_client_sessions_close(&server->tls_sessions);
    upstream_name_close(server);
}

static void free_group(struct upstream_group *group)
{
    for (size_t i = 0; group->servers != NULL && i < group->process->n_servers; i++) {
        close_server(&group->servers[i]);
    }
    list_remove(&group->of_worker);
    free(group->servers);
    timeout_queue_close(&group->connect_timeouts);
    timeout_queue_close(&group->response_timeouts);
    timeout_queue_close(&group->idle_timeouts);
    timeout_queue_close(&group->queue_timeouts);
    loop_task_cancel(&group->grants_task);
    if (!list_is_empty(&group->node)) {
        upstream_queue_part(group);
    }
    upstream_process_leave(group->process);
    tls_client_context_release(group->tls);
    free(group);
}

struct upstream_group *upstream_group_join(struct upstream_group *group)
{
    group->n_users++;
    return group;
}

void upstream_group_leave(struct upstream_group *group)
{
    if (--group->n_users == 0) {
        free_group(group);
    }
}
