/* Happy path: who waits is granted the place of a connection that was closed, or an idle connection
 * itself, and its worker is woken.
 *
 * Failures: a waiter that leaves with a grant gives it back, and the next one has it; one that may
 * not use the server of a place lets those behind it go first. */

#include "proxy/upstream_queue.h"

#include <assert.h>
#include <unistd.h>

#include "proxy/upstream.h"
#include "proxy/upstream_choice.h"
#include "proxy/upstream_group.h"
#include "proxy/upstream_process.h"
#include "proxy/worker.h"

enum status upstream_queue_init(struct upstream_queue *queue)
{
    list_init(&queue->waiters);
    list_init(&queue->groups);
    atomic_init(&queue->n_waiting, 0);
    return pthread_mutex_init(&queue->lock, NULL) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

void upstream_queue_close(struct upstream_queue *queue)
{
    assert(list_is_empty(&queue->waiters));
    pthread_mutex_destroy(&queue->lock);
}

static struct upstream_queue *queue_of(const struct upstream_group *group)
{
    return &group->process->queue;
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
    lock(group);
    list_remove(&group->node);
    unlock(group);
}

bool upstream_queue_is_used(const struct upstream_queue *queue)
{
    return atomic_load(&queue->n_waiting) > 0;
}

/* --- places --- */

bool upstream_queue_take_place(struct server_process *server, unsigned max)
{
    unsigned n = atomic_load(&server->n_connections);
    while (n < max) {
        if (atomic_compare_exchange_weak(&server->n_connections, &n, n + 1)) {
            return true;
        }
    }
    return false;
}

static void free_place(struct upstream_server *server)
{
    atomic_fetch_sub(&server->process->n_connections, 1);
}

/* --- grants; the lock is held --- */

static struct upstream_waiter *waiter_at(struct list *node)
{
    return CONTAINER_OF(node, struct upstream_waiter, node);
}

/* @by is the worker's that is at work. @server is its own, too. */
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
        loop_at_turn_end(group->worker->loop, &group->grants_task);
    } else {
        wakeup_signal(&group->worker->wakeup);
    }
}

static void serve(struct upstream_group *group, uint64_t now_us)
{
    struct upstream_queue *queue = queue_of(group);
    struct list *node = queue->waiters.next;
    while (node != &queue->waiters) {
        struct upstream_waiter *waiter = waiter_at(node);
        node = node->next;
        struct upstream_server *server;
        if (upstream_choice_reserve(group, waiter->choice, now_us, &server)) {
            grant(waiter, group, server, -1);
        } else if (upstream_choice_is_new(waiter->choice)) {
            return; /* those behind it have no more to choose from */
        }
    }
}

/* The first who may use @server; NULL: nobody. */
static struct upstream_waiter *first_for(struct upstream_server *server, uint64_t now_us)
{
    struct upstream_queue *queue = queue_of(server->group);
    for (struct list *node = queue->waiters.next; node != &queue->waiters; node = node->next) {
        if (upstream_choice_allows(waiter_at(node)->choice, server, now_us)) {
            return waiter_at(node);
        }
    }
    return NULL;
}

static void yield_idle_of(struct upstream_server *server, uint64_t now_us)
{
    struct upstream_waiter *waiter;
    while (!list_is_empty(&server->idle) && (waiter = first_for(server, now_us)) != NULL) {
        const int fd = upstream_give_up_idle(server, &waiter->address);
        upstream_choice_note(waiter->choice, server);
        if (waiter->choice->fresh) {
            close(fd);
            grant(waiter, server->group, server, -1);
        } else {
            grant(waiter, server->group, server, fd);
        }
    }
}

/* Other workers may have idle connections that nobody uses. */
static void ask_groups_for_idle(const struct upstream_queue *queue,
                                const struct upstream_group *group)
{
    for (struct list *node = queue->groups.next; node != &queue->groups; node = node->next) {
        struct upstream_group *other = CONTAINER_OF(node, struct upstream_group, node);
        if (other != group && atomic_load(&other->n_idle) > 0) {
            wakeup_signal(&other->worker->wakeup);
        }
    }
}

/* --- those who wait for the same servers under other policies --- */

static bool is_alone(const struct upstream_group *group)
{
    return atomic_load(&group->process->family->n_members) == 1;
}

/* The group of this worker in @upstream, or another's; NULL: there is none any
 * more. Its lock is held. */
static struct upstream_group *group_in(const struct upstream_process *upstream,
                                       const struct worker *worker)
{
    const struct list *groups = &upstream->queue.groups;
    for (struct list *node = groups->next; node != groups; node = node->next) {
        struct upstream_group *group = CONTAINER_OF(node, struct upstream_group, node);
        if (group->worker == worker) {
            return group;
        }
    }
    return list_is_empty(groups) ? NULL : CONTAINER_OF(groups->next, struct upstream_group, node);
}

/* There may be a place, at @server's of @by, for those who wait in @upstream. */
static void serve_other(struct upstream_process *upstream, struct upstream_group *by,
                        uint64_t now_us)
{
    pthread_mutex_lock(&upstream->queue.lock);
    struct upstream_group *group = group_in(upstream, by->worker);
    if (group != NULL && group->worker == by->worker) {
        serve(group, now_us);
    } else if (group != NULL) {
        wakeup_signal(&group->worker->wakeup);
    }
    pthread_mutex_unlock(&upstream->queue.lock);
}

/* Those who began to wait under earlier policies come first. */
static void serve_others(struct upstream_group *by, uint64_t now_us)
{
    struct upstream_family *family = by->process->family;
    pthread_mutex_lock(&family->lock);
    for (struct list *node = family->members.next; node != &family->members; node = node->next) {
        struct upstream_process *upstream = CONTAINER_OF(node, struct upstream_process, node);
        if (upstream != by->process && upstream_queue_is_used(&upstream->queue)) {
            serve_other(upstream, by, now_us);
        }
    }
    pthread_mutex_unlock(&family->lock);
}

bool upstream_queue_others_wait(const struct upstream_group *group)
{
    struct upstream_family *family = group->process->family;
    bool do_wait = false;
    if (is_alone(group)) {
        return false;
    }
    pthread_mutex_lock(&family->lock);
    for (struct list *node = family->members.next; node != &family->members; node = node->next) {
        const struct upstream_process *upstream = CONTAINER_OF(node, struct upstream_process, node);
        do_wait |= upstream != group->process && upstream_queue_is_used(&upstream->queue);
    }
    pthread_mutex_unlock(&family->lock);
    return do_wait;
}

/* Idle connections under other policies have places that are wanted under this one. */
static void ask_others_for_idle(const struct upstream_group *group)
{
    struct upstream_family *family = group->process->family;
    pthread_mutex_lock(&family->lock);
    for (struct list *node = family->members.next; node != &family->members; node = node->next) {
        struct upstream_process *upstream = CONTAINER_OF(node, struct upstream_process, node);
        if (upstream != group->process) {
            pthread_mutex_lock(&upstream->queue.lock);
            ask_groups_for_idle(&upstream->queue, group);
            pthread_mutex_unlock(&upstream->queue.lock);
        }
    }
    pthread_mutex_unlock(&family->lock);
}

void upstream_queue_give_place(struct upstream_server *server, uint64_t now_us)
{
    struct upstream_group *group = server->group;
    free_place(server);
    if (UNLIKELY(!is_alone(group))) {
        serve_others(group, now_us);
    }
    if (upstream_queue_is_used(queue_of(group))) {
        upstream_queue_serve(group, now_us);
    }
}

/* --- waiting --- */

enum status upstream_queue_enter(struct upstream_waiter *waiter, bool old, uint64_t now_us)
{
    struct upstream_group *group = waiter->group;
    struct upstream_queue *queue = queue_of(group);
    enum status status = STATUS_FULL;
    bool has_to_wait = false;
    waiter->is_granted = false;
    lock(group);
    if (atomic_load(&queue->n_waiting) < group->spec->queue.requests) {
        status = STATUS_OK;
        if (old) {
            list_push_front(&queue->waiters, &waiter->node);
        } else {
            list_push_back(&queue->waiters, &waiter->node);
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
    upstream_queue_give_place(waiter->server, now_us);
}

void upstream_queue_serve(struct upstream_group *group, uint64_t now_us)
{
    lock(group);
    serve(group, now_us);
    unlock(group);
}

void upstream_queue_yield_idle(struct upstream_group *group, uint64_t now_us)
{
    lock(group);
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        yield_idle_of(&group->servers[i], now_us);
    }
    unlock(group);
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
    return waiter;
}
