/* The servers of an upstream; how requests are spread over them is in upstream_choice.c, where they are in
 * upstream_name.c. */

#include "proxy/upstream_group.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/balance.h"
#include "proxy/exchange.h"
#include "proxy/upstream.h"
#include "proxy/upstream_name.h"
#include "proxy/worker.h"

static enum status init_server(struct upstream_server *server, struct upstream_group *group,
                               size_t index)
{
    const size_t n_servers = group->spec->n_servers;
    const struct server_spec *spec = &group->spec->servers[index];
    const struct endpoint *endpoint = &spec->endpoint;
    server->group = group;
    server->spec = spec;
    server->endpoint = endpoint;
    server->process = &group->process->servers[index];
    server->seed = balance_seed(&group->hash_key, endpoint->text);
    /* Workers that all started with the first server would all come back to it together. */
    server->credit = balance_first_credit(index, n_servers, group->worker->number % n_servers);
    list_init(&server->idle);
    return upstream_name_init(server);
}

static enum status begin_checks(struct upstream_group *group)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < group->spec->n_servers && status == STATUS_OK; i++) {
        status = health_check_begin(&group->servers[i].check, &group->servers[i]);
    }
    return status;
}

/* Proxies that share limits also agree on who has which key. */
static struct hash_key balance_key(const struct policy *policy)
{
    struct hash_key key;
    hash_identity(policy->store.secret, SPAN("balance"), key.bytes);
    return key;
}

/* --- what other workers have for this one --- */

static void take_grants(struct upstream_group *group)
{
    struct upstream_waiter *waiter;
    while ((waiter = upstream_queue_take_grant(group)) != NULL) {
        exchange_on_grant(CONTAINER_OF(waiter, struct exchange, waiter));
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
        upstream_queue_yield_idle(group, clock_monotonic_us());
    }
}

/* --- life --- */

static enum status init_timeouts(struct upstream_group *group)
{
    const struct upstream_spec *spec = group->spec;
    struct loop *loop = group->worker->loop;
    enum status status = timeout_queue_init(&group->connect_timeouts, loop, spec->connect_us);
    if (status == STATUS_OK) {
        status = timeout_queue_init(&group->response_timeouts, loop, spec->response_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&group->idle_timeouts, loop, spec->idle_us);
    }
    if (status == STATUS_OK) {
        status = timeout_queue_init(&group->queue_timeouts, loop, spec->queue.wait_us);
    }
    return status;
}

static enum status init(struct upstream_group *group)
{
    const struct upstream_spec *spec = group->spec;
    enum status status = group->servers == NULL ? STATUS_NO_MEMORY : init_timeouts(group);
    for (size_t i = 0; i < spec->n_servers && status == STATUS_OK; i++) {
        status = init_server(&group->servers[i], group, i);
    }
    if (status == STATUS_OK && group->worker->number == 1 && spec->health.path.len > 0) {
        status = begin_checks(group);
    }
    if (status == STATUS_OK && group->is_limited) {
        upstream_queue_join(group);
    }
    return status;
}

enum status upstream_group_new(struct worker *worker, const struct policy *policy,
                               struct upstream_process *process, struct upstream_group **group)
{
    const struct upstream_spec *spec = process->spec;
    struct upstream_group *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    *created = (struct upstream_group){
        .spec = spec,
        .process = process,
        .worker = worker,
        .n_choices = worker->number,
        .hash_key = balance_key(policy),
        .is_limited = spec->max_connections > 0,
        .is_plain = spec->max_connections == 0 && spec->n_servers == 1,
        .counts_requests = spec->balance == BALANCE_LEAST_REQUESTS && spec->n_servers > 1,
    };
    atomic_init(&created->n_idle, 0);
    list_init(&created->node);
    list_init(&created->grants);
    loop_task_init(&created->grants_task, on_grants);
    created->servers = calloc(spec->n_servers, sizeof(created->servers[0]));
    const enum status status = init(created);
    if (status != STATUS_OK) {
        upstream_group_free(created);
        return status;
    }
    *group = created;
    return STATUS_OK;
}

static void close_idle(struct upstream_server *server)
{
    while (!list_is_empty(&server->idle)) {
        upstream_close(CONTAINER_OF(server->idle.next, struct upstream, node));
    }
}

void upstream_group_close_idle(struct upstream_group *group)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        close_idle(&group->servers[i]);
    }
}

static void close_server(struct upstream_server *server)
{
    if (server->group == NULL) {
        return; /* never begun */
    }
    close_idle(server);
    health_check_close(&server->check);
    upstream_name_close(server);
}

void upstream_group_free(struct upstream_group *group)
{
    for (size_t i = 0; group->servers != NULL && i < group->spec->n_servers; i++) {
        close_server(&group->servers[i]);
    }
    free(group->servers);
    timeout_queue_close(&group->connect_timeouts);
    timeout_queue_close(&group->response_timeouts);
    timeout_queue_close(&group->idle_timeouts);
    timeout_queue_close(&group->queue_timeouts);
    loop_task_cancel(&group->grants_task);
    if (!list_is_empty(&group->node)) {
        upstream_queue_part(group);
    }
    free(group);
}
