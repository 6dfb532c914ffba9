/* The loop: one event base without locks, and the list of what waits for the end of the turn.
 *
 * libevent runs the events that became active in one queue, and events activated meanwhile join its
 * end. So one event, activated when the first task is added, runs after all callbacks of the turn. */

#include "net/loop.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>

struct loop {
    struct event_base *base;
    struct event *turn_end;
    struct list tasks; /* of struct loop_task */
};

static void run_tasks(struct loop *loop)
{
    /* What is added meanwhile waits for the next turn, or a task that asks for itself would never
     * let the loop go on. */
    struct list due;
    list_init(&due);
    while (!list_is_empty(&loop->tasks)) {
        struct list *node = loop->tasks.next;
        list_remove(node);
        list_push_back(&due, node);
    }
    while (!list_is_empty(&due)) {
        struct loop_task *task = CONTAINER_OF(due.next, struct loop_task, node);
        list_remove(&task->node);
        task->run(task);
    }
}

static void on_turn_end(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    run_tasks(context);
}

enum status loop_new(struct loop **loop)
{
    struct loop *created = calloc(1, sizeof(*created));
    struct event_config *config = event_config_new();
    enum status status = STATUS_NO_MEMORY;
    if (created == NULL || config == NULL) {
        goto out;
    }
    list_init(&created->tasks);
    status = STATUS_IO;
    if (event_config_set_flag(config,
                              EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST) != 0) {
        goto out;
    }
    created->base = event_base_new_with_config(config);
    if (created->base == NULL) {
        goto out;
    }
    created->turn_end = event_new(created->base, -1, 0, on_turn_end, created);
    if (created->turn_end == NULL) {
        status = STATUS_NO_MEMORY;
        goto out;
    }
    *loop = created;
    created = NULL;
    status = STATUS_OK;
out:
    if (config != NULL) {
        event_config_free(config);
    }
    if (created != NULL && created->base != NULL) {
        event_base_free(created->base);
    }
    free(created);
    return status;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return;
    }
    while (!list_is_empty(&loop->tasks)) {
        run_tasks(loop);
    }
    /* What libevent itself has deferred (cancelled name queries) frees its memory now. */
    event_base_loop(loop->base, EVLOOP_NONBLOCK);
    event_free(loop->turn_end);
    event_base_free(loop->base);
    free(loop);
}

enum status loop_run(struct loop *loop)
{
    return event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY) == 0 ? STATUS_OK : STATUS_IO;
}

void loop_stop(struct loop *loop)
{
    event_base_loopexit(loop->base, NULL);
}

struct event_base *loop_base(struct loop *loop)
{
    return loop->base;
}

void loop_task_init(struct loop_task *task, void (*run)(struct loop_task *task))
{
    list_init(&task->node);
    task->run = run;
}

void loop_at_turn_end(struct loop *loop, struct loop_task *task)
{
    if (!list_is_empty(&task->node)) {
        return;
    }
    if (list_is_empty(&loop->tasks)) {
        event_active(loop->turn_end, EV_TIMEOUT, 0);
    }
    list_push_back(&loop->tasks, &task->node);
}

void loop_task_cancel(struct loop_task *task)
{
    list_remove(&task->node);
}
