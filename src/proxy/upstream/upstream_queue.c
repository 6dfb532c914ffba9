/* Happy path: a waiter is granted the slot of a closed connection, or an idle connection, and its
 * worker is woken.
 *
 * Failures: a waiter that leaves with a grant returns it, and the next waiter gets it. A waiter
 * that may not use the server of a free slot is passed over. */

#include "proxy/upstream/upstream_queue.h"

#include <assert.h>
#include <unistd.h>

#include "proxy/core/proxy_env.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_choice.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"

static struct upstream_queue *queue_of(const struct upstream_group *group)
{
    return &group->process->queue;
}

static struct upstream_group *group_at(struct list *node)
{
    return CONTAINER_OF(node, struct upstream_group, node);
}

static void lock(const struct upstream_group *group)
{
    pthread_mutex_lock(&queue_of(group)->lock);
}

static void unlock(const struct upstream_group *group)
{
    pthread_mutex_unlock(&queue_of(group)->lock);
}

void upstream_queue_join(struct upstream_group *group)
{
    lock(group);
    list_push_back(&queue_of(group)->groups, &group->node);
    unlock(group);
}

void upstream_queue_part(struct upstream_group *group)
{
    struct upstream_queue *queue = queue_of(group);
    lock(group);
    list_remove(&group->node);
    if (!list_is_empty(&queue->retrying) && !list_is_empty(&queue->groups)) {
        /* another worker continues the pass */
        wakeup_signal(&group_at(queue->groups.next)->env->wakeup);
    }
    unlock(group);
}

bool upstream_queue_is_used(const struct upstream_queue *queue)
{
    return atomic_load(&queue->n_waiting) > 0;
}

/* --- grants; the lock is held --- */

static struct upstream_waiter *waiter_at(struct list *node)
{
    return CONTAINER_OF(node, struct upstream_waiter, node);
}

/* @by is the group of the calling worker. @server belongs to it. */
static void grant(struct upstream_waiter *waiter, struct upstream_group *by,
                  const struct upstream_server *server, int fd)
{
    struct upstream_group *group = waiter->group;
    list_remove(&waiter->node);
    atomic_fetch_sub(&queue_of(group)->n_waiting, 1);
    waiter->is_granted = true;
    waiter->server = &group->servers[server - by->servers];
    waiter->fd = fd;
    list_push_back(&group->grants, &waiter->node);
    if (group == by) {
        loop_at_iteration_end(group->env->loop, &group->grants_task);
    } else {
        wakeup_signal(&group->env->wakeup);
    }
}

static bool give_slot(struct upstream_waiter *waiter, struct upstream_group *by, uint64_t now_us)
{
    struct upstream_server *server;
    const bool has_slot = upstream_choice_reserve(by, waiter->choice, now_us, &server);
    if (has_slot) {
        grant(waiter, by, server, -1);
    }
    return has_slot;
}

/* Continue the pass over the waiters that have tried servers. Those that were checked in this pass
 * stand at the end. */
static void serve_retrying(struct upstream_group *group, uint64_t now_us)
{
    struct upstream_queue *queue = queue_of(group);
    for (unsigned n_checks = 0; !list_is_empty(&queue->retrying); n_checks++) {
        struct upstream_waiter *waiter = waiter_at(queue->retrying.next);
        if (waiter->pass == queue->pass) {
            return;
        }
        if (n_checks == UPSTREAM_QUEUE_CHECKS) {
            wakeup_signal(&group->env->wakeup);
            return;
        }
        waiter->pass = queue->pass;
        if (!give_slot(waiter, group, now_us)) {
            list_remove(&waiter->node);
            list_push_back(&queue->retrying, &waiter->node);
        }
    }
}

static void serve(struct upstream_group *group, uint64_t now_us)
{
    const struct list *waiters = &queue_of(group)->waiters;
    serve_retrying(group, now_us);
    while (!list_is_empty(waiters) && give_slot(waiter_at(waiters->next), group, now_us)) {
    }
}

static bool give_idle(struct upstream_waiter *waiter, struct upstream_server *server,
                      uint64_t now_us)
{
    const bool is_allowed = upstream_choice_allows(waiter->choice, server, now_us);
    if (is_allowed) {
        const int fd = upstream_give_up_idle(server, &waiter->address, &waiter->is_doubtful);
        upstream_choice_note(waiter->choice, server);
        grant(waiter, server->group, server, fd);
    }
    return is_allowed;
}

/* False: idle connections are left, and waiters that were not checked. */
static bool yield_idle_of(struct upstream_server *server, uint64_t now_us)
{
    const struct upstream_queue *queue = queue_of(server->group);
    const struct list *idle = &server->idle;
    struct list *node = queue->retrying.next;
    for (unsigned i = 0; i < UPSTREAM_QUEUE_CHECKS; i++) {
        if (node == &queue->retrying || list_is_empty(idle)) {
            break;
        }
        struct upstream_waiter *waiter = waiter_at(node);
        node = node->next;
        (void)give_idle(waiter, server, now_us);
    }
    while (!list_is_empty(idle) && !list_is_empty(&queue->waiters) &&
           give_idle(waiter_at(queue->waiters.next), server, now_us)) {
    }
    return list_is_empty(idle) || node == &queue->retrying;
}

/* Wake the other workers that have idle connections. */
static void ask_groups_for_idle(const struct upstream_queue *queue,
                                const struct upstream_group *group)
{
    for (struct list *node = queue->groups.next; node != &queue->groups; node = node->next) {
        struct upstream_group *other = group_at(node);
        if (other != group && atomic_load(&other->n_idle) > 0) {
            wakeup_signal(&other->env->wakeup);
        }
    }
}

/* --- waiters for the same servers in other members of the lineage --- */

static bool is_alone(const struct upstream_group *group)
{
    return atomic_load(&group->process->lineage->n_members) == 1;
}

/* The group of @env's worker in @upstream, or else of another worker. NULL: no group is left. The
 * queue's lock is held. */
static struct upstream_group *group_in(const struct upstream_process *upstream,
                                       const struct proxy_env *env)
{
    const struct list *groups = &upstream->queue.groups;
    for (struct list *node = groups->next; node != groups; node = node->next) {
        struct upstream_group *group = group_at(node);
        if (group->env == env) {
            return group;
        }
    }
    return list_is_empty(groups) ? NULL : group_at(groups->next);
}

/* Serve the waiters in @upstream, or wake a worker that can. @by is the group of this worker. */
static void serve_other(struct upstream_process *upstream, struct upstream_group *by,
                        uint64_t now_us)
{
    pthread_mutex_lock(&upstream->queue.lock);
    struct upstream_group *group = group_in(upstream, by->env);
    upstream->queue.pass++;
    if (group != NULL && group->env == by->env) {
        serve(group, now_us);
    } else if (group != NULL) {
        wakeup_signal(&group->env->wakeup);
    }
    pthread_mutex_unlock(&upstream->queue.lock);
}

/* Waiters of older members of the lineage come first. */
static void serve_others(struct upstream_group *by, uint64_t now_us)
{
    struct upstream_lineage *lineage = by->process->lineage;
    pthread_mutex_lock(&lineage->lock);
    for (struct list *node = lineage->members.next; node != &lineage->members; node = node->next) {
        struct upstream_process *upstream = CONTAINER_OF(node, struct upstream_process, node);
        if (upstream != by->process && upstream_queue_is_used(&upstream->queue)) {
            serve_other(upstream, by, now_us);
        }
    }
    pthread_mutex_unlock(&lineage->lock);
}

bool upstream_queue_others_wait(const struct upstream_group *group)
{
    struct upstream_lineage *lineage = group->process->lineage;
    bool do_wait = false;
    if (is_alone(group)) {
        return false;
    }
    pthread_mutex_lock(&lineage->lock);
    for (struct list *node = lineage->members.next; node != &lineage->members; node = node->next) {
        const struct upstream_process *upstream = CONTAINER_OF(node, struct upstream_process, node);
        do_wait |= upstream != group->process && upstream_queue_is_used(&upstream->queue);
    }
    pthread_mutex_unlock(&lineage->lock);
    return do_wait;
}

/* Wake the workers that have idle connections in other members: their slots are needed here. */
static void ask_others_for_idle(const struct upstream_group *group)
{
    struct upstream_lineage *lineage = group->process->lineage;
    pthread_mutex_lock(&lineage->lock);
    for (struct list *node = lineage->members.next; node != &lineage->members; node = node->next) {
        struct upstream_process *upstream = CONTAINER_OF(node, struct upstream_process, node);
        if (upstream != group->process) {
            pthread_mutex_lock(&upstream->queue.lock);
            ask_groups_for_idle(&upstream->queue, group);
            pthread_mutex_unlock(&upstream->queue.lock);
        }
    }
    pthread_mutex_unlock(&lineage->lock);
}

void upstream_queue_release_slot(struct upstream_server *server, uint64_t now_us)
{
    struct upstream_group *group = server->group;
    atomic_fetch_sub(&server->process->n_connections, 1);
    if (UNLIKELY(!is_alone(group))) {
        serve_others(group, now_us);
    }
    if (upstream_queue_is_used(queue_of(group))) {
        upstream_queue_serve(group, now_us);
    }
}

/* --- waiting --- */

enum status upstream_queue_enter(struct upstream_waiter *waiter, uint64_t now_us)
{
    struct upstream_group *group = waiter->group;
    struct upstream_queue *queue = queue_of(group);
    enum status status = STATUS_FULL;
    bool has_to_wait = false;
    lock(group);
    if (atomic_load(&queue->n_waiting) < group->spec->queue.requests) {
        status = STATUS_OK;
        if (upstream_choice_is_new(waiter->choice)) {
            list_push_back(&queue->waiters, &waiter->node);
        } else {
            list_push_front(&queue->retrying, &waiter->node);
        }
        atomic_fetch_add(&queue->n_waiting, 1);
        serve(group, now_us);
        has_to_wait = !waiter->is_granted;
        if (has_to_wait) {
            ask_groups_for_idle(queue, group);
        }
    }
    unlock(group);
    if (has_to_wait && UNLIKELY(!is_alone(group))) {
        ask_others_for_idle(group);
    }
    return status;
}

bool upstream_queue_leave(struct upstream_waiter *waiter)
{
    struct upstream_group *group = waiter->group;
    lock(group);
    const bool has_left = !waiter->is_granted;
    if (has_left) {
        list_remove(&waiter->node);
        atomic_fetch_sub(&queue_of(group)->n_waiting, 1);
    }
    unlock(group);
    return has_left;
}

void upstream_queue_return_grant(struct upstream_waiter *waiter, uint64_t now_us)
{
    assert(waiter->is_granted);
    lock(waiter->group);
    list_remove(&waiter->node);
    unlock(waiter->group);
    if (waiter->fd >= 0) {
        close(waiter->fd);
    }
    upstream_queue_release_slot(waiter->server, now_us);
}

void upstream_queue_serve(struct upstream_group *group, uint64_t now_us)
{
    lock(group);
    queue_of(group)->pass++;
    serve(group, now_us);
    unlock(group);
}

void upstream_queue_continue(struct upstream_group *group, uint64_t now_us)
{
    lock(group);
    serve(group, now_us);
    unlock(group);
}

bool upstream_queue_yield_idle(struct upstream_group *group, uint64_t now_us)
{
    if (atomic_load(&group->n_idle) == 0) {
        return true;
    }
    bool is_complete = true;
    lock(group);
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        is_complete &= yield_idle_of(&group->servers[i], now_us);
    }
    unlock(group);
    return is_complete;
}

struct upstream_waiter *upstream_queue_take_grant(struct upstream_group *group)
{
    struct upstream_waiter *waiter = NULL;
    lock(group);
    if (!list_is_empty(&group->grants)) {
        waiter = waiter_at(group->grants.next);
        list_remove(&waiter->node);
    }
    unlock(group);
    if (waiter != NULL && waiter->choice->fresh && waiter->fd >= 0) {
        close(waiter->fd); /* it uses only the slot of the grant; closed without the lock */
        waiter->fd = -1;
    }
    return waiter;
}
