/* The loop: one event base without locks, and the list of what waits for the end of the turn.
 *
 * libevent runs the events that became active in one queue, and events activated meanwhile join its
 * end. So one event, activated when the first task is added, runs after all callbacks of the turn.
 * What the tasks themselves ask for comes a turn later, by way of a timer of no length: activated
 * at once, a task that asks for itself would never let the loop look at its sockets. */

#include "net/loop.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum { LOGGED_BYTES_MAX = 1024 };

struct loop {
    struct event_base *base;
    struct event *turn_end;
    struct event *next_turn; /* activates turn_end in the turn after this one */
    struct list tasks;       /* of struct loop_task */
    bool is_running_tasks;
};

static void run_tasks(struct loop *loop)
{
    struct list due; /* what is added meanwhile waits for the next turn */
    list_init(&due);
    loop->is_running_tasks = true;
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
    loop->is_running_tasks = false;
}

static void on_turn_end(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    run_tasks(context);
}

/* Timers come after sockets, but other timers may still follow: turn_end goes behind them. */
static void on_next_turn(evutil_socket_t fd, short events, void *context)
{
    struct loop *loop = context;
    (void)fd;
    (void)events;
    event_active(loop->turn_end, EV_TIMEOUT, 0);
}

/* NULL: the kernel gives no epoll, or there is no memory. */
static struct event_base *new_base(void)
{
    struct event_base *base = NULL;
    struct event_config *config = event_config_new();
    if (config == NULL) {
        return NULL;
    }
    if (event_config_set_flag(config,
                              EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST) == 0) {
        base = event_base_new_with_config(config);
    }
    event_config_free(config);
    return base;
}

static void free_loop(struct loop *loop)
{
    if (loop->turn_end != NULL) {
        event_free(loop->turn_end);
    }
    if (loop->next_turn != NULL) {
        event_free(loop->next_turn);
    }
    if (loop->base != NULL) {
        event_base_free(loop->base);
    }
    free(loop);
}

/* What libevent has to say (name servers that do not answer) goes where ours does. */
static void on_libevent_log(int severity, const char *message)
{
    char buffer[LOGGED_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_logfmt(&text, span_of(message, strnlen(message, LOGGED_BYTES_MAX / 4)));
    log_at(severity >= EVENT_LOG_WARN ? LOG_WARN : LOG_DEBUG, "net.loop", "libevent", "text=%.*s",
           SPAN_ARGS(text_span(&text)));
}

enum status loop_new(struct loop **loop)
{
    struct loop *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    event_set_log_callback(on_libevent_log);
    list_init(&created->tasks);
    created->base = new_base();
    if (created->base == NULL) {
        free_loop(created);
        return STATUS_IO;
    }
    created->turn_end = event_new(created->base, -1, 0, on_turn_end, created);
    created->next_turn = event_new(created->base, -1, 0, on_next_turn, created);
    if (created->turn_end == NULL || created->next_turn == NULL) {
        free_loop(created);
        return STATUS_NO_MEMORY;
    }
    *loop = created;
    return STATUS_OK;
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
    free_loop(loop);
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

static void ask_for_turn_end(struct loop *loop)
{
    const struct timeval at_once = {0, 0};
    if (loop->is_running_tasks) {
        event_add(loop->next_turn, &at_once);
    } else {
        event_active(loop->turn_end, EV_TIMEOUT, 0);
    }
}

void loop_at_turn_end(struct loop *loop, struct loop_task *task)
{
    if (!list_is_empty(&task->node)) {
        return;
    }
    if (list_is_empty(&loop->tasks)) {
        ask_for_turn_end(loop);
    }
    list_push_back(&loop->tasks, &task->node);
}

void loop_task_cancel(struct loop_task *task)
{
    list_remove(&task->node);
}
