/* The loop: one event base without locks, and lists of tasks for the end of the iteration.
 *
 * libevent runs the callbacks of ready events, and of events that they activate, then returns: that
 * is an iteration. The tasks run after it. A task that they add waits for the next iteration, which
 * does not block; so the loop polls its sockets between two runs of a task that adds itself
 * again. */

#include "net/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

enum { LOGGED_BYTES_MAX = 1024 };

_Static_assert(sizeof(struct event) <= sizeof(struct event_room), "an event fits into its room");

struct loop {
    struct event_base *base;
    struct list tasks;       /* of struct loop_task */
    struct list after_tasks; /* of struct loop_task, that run behind these */
    bool is_stopping;
};

static void run_tasks(struct list *tasks)
{
    struct list due; /* tasks added meanwhile wait for the next iteration */
    list_move_all(&due, tasks);
    while (!list_is_empty(&due)) {
        struct loop_task *task = CONTAINER_OF(due.next, struct loop_task, node);
        list_remove(&task->node);
        task->run(task);
    }
}

static void run_all_tasks(struct loop *loop)
{
    if (!list_is_empty(&loop->tasks)) {
        run_tasks(&loop->tasks);
    }
    if (!list_is_empty(&loop->after_tasks)) {
        run_tasks(&loop->after_tasks);
    }
}

static bool has_tasks(const struct loop *loop)
{
    return !list_is_empty(&loop->tasks) || !list_is_empty(&loop->after_tasks);
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

/* libevent's messages (name servers that do not answer) go to the program log. */
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
    list_init(&created->after_tasks);
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
    while (has_tasks(loop)) {
        run_all_tasks(loop);
    }
    /* Callbacks that libevent has deferred (cancelled name queries) free their memory now. */
    event_base_loop(loop->base, EVLOOP_NONBLOCK);
    free_loop(loop);
}

enum status loop_iteration(struct loop *loop, bool may_wait)
{
    const bool waits = may_wait && !has_tasks(loop);
    const int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (waits ? 0 : EVLOOP_NONBLOCK);
    const int failed = event_base_loop(loop->base, flags);
    run_all_tasks(loop);
    return failed == 0 ? STATUS_OK : STATUS_IO;
}

enum status loop_run(struct loop *loop)
{
    enum status status;
    do {
        status = loop_iteration(loop, !loop->is_stopping);
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

void loop_at_iteration_end(struct loop *loop, struct loop_task *task)
{
    if (list_is_empty(&task->node)) {
        list_push_back(&loop->tasks, &task->node);
    }
}

void loop_after_tasks(struct loop *loop, struct loop_task *task)
{
    if (list_is_empty(&task->node)) {
        list_push_back(&loop->after_tasks, &task->node);
    }
}

void loop_task_cancel(struct loop_task *task)
{
    list_remove(&task->node);
}

/* --- wakeups: libevent's bases are not thread-safe, but any thread may write to an eventfd --- */

static void on_signalled(evutil_socket_t fd, short events, void *context)
{
    struct wakeup *wakeup = context;
    uint64_t count;
    (void)events;
    if (read((int)fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
        wakeup->on_wake(wakeup->context);
    }
}

enum status wakeup_init(struct wakeup *wakeup, struct loop *loop, void (*on_wake)(void *context),
                        void *context)
{
    *wakeup = (struct wakeup){
        .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
        .on_wake = on_wake,
        .context = context,
    };
    if (wakeup->fd < 0) {
        return STATUS_IO;
    }
    struct event *event = event_in(&wakeup->event);
    (void)event_assign(event, loop_base(loop), wakeup->fd, EV_READ | EV_PERSIST, on_signalled,
                       wakeup);
    if (event_add(event, NULL) != 0) {
        wakeup_close(wakeup);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void wakeup_close(struct wakeup *wakeup)
{
    if (wakeup->fd >= 0) {
        event_del(event_in(&wakeup->event));
        close(wakeup->fd);
        wakeup->fd = -1;
    }
}

void wakeup_signal(struct wakeup *wakeup)
{
    const uint64_t one = 1;
    const int error = errno; /* saved for code that a signal handler interrupts */
    ssize_t n;
    /* EAGAIN: the counter is at its maximum, so the wakeup is signalled already. */
    do {
        n = write(wakeup->fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
    errno = error;
}
