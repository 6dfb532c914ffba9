/* The loop: one event base without locks, and the list of what waits for the end of the turn.
 *
 * libevent runs the callbacks of what is ready, and what they activate, then returns: that is a
 * turn, and the tasks run behind it. What they themselves ask for waits for the next one, which
 * does not sleep: a task that asks for itself lets the loop look at its sockets in between. */

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
    struct list tasks; /* of struct loop_task */
    bool is_stopping;
};

static void run_tasks(struct loop *loop)
{
    struct list due; /* what is added meanwhile waits for the next turn */
    list_move_all(&due, &loop->tasks);
    while (!list_is_empty(&due)) {
        struct loop_task *task = CONTAINER_OF(due.next, struct loop_task, node);
        list_remove(&task->node);
        task->run(task);
    }
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

enum status loop_turn(struct loop *loop, bool may_wait)
{
    const bool waits = may_wait && list_is_empty(&loop->tasks);
    const int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (waits ? 0 : EVLOOP_NONBLOCK);
    const int failed = event_base_loop(loop->base, flags);
    if (!list_is_empty(&loop->tasks)) {
        run_tasks(loop);
    }
    return failed == 0 ? STATUS_OK : STATUS_IO;
}

enum status loop_run(struct loop *loop)
{
    enum status status;
    do {
        status = loop_turn(loop, !loop->is_stopping);
    } while (status == STATUS_OK && !loop->is_stopping);
    loop->is_stopping = false;
    return status;
}

void loop_stop(struct loop *loop)
{
    loop->is_stopping = true;
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
    if (list_is_empty(&task->node)) {
        list_push_back(&loop->tasks, &task->node);
    }
}

void loop_task_cancel(struct loop_task *task)
{
    list_remove(&task->node);
}
