#include "proxy/worker_listeners.h"

#include <stdlib.h>
#include <unistd.h>

#include "net/listener.h"
#include "proxy/entrance.h"
#include "proxy/worker.h"

struct worker_listener {
    struct list node; /* in worker->listeners */
    struct listener listener;
    struct worker *worker;
    const struct listening_place *place;
    bool proxy_protocol;
    bool is_given;
    bool is_wanted; /* by the policy that comes */
    bool is_leaving;
};

static struct worker_listener *listener_at(struct list *node)
{
    return CONTAINER_OF(node, struct worker_listener, node);
}

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    const struct worker_listener *listener = context;
    entrance_accept(listener->worker, listener->proxy_protocol, fd, peer);
}

static struct worker_listener *find(struct worker *worker, const struct listening_place *place)
{
    for (struct list *node = worker->listeners.next; node != &worker->listeners;
         node = node->next) {
        if (listener_at(node)->place == place) {
            return listener_at(node);
        }
    }
    return NULL;
}

static struct worker_listener *open_listener(struct worker *worker,
                                             const struct listening_offer *offer)
{
    struct worker_listener *opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        close(offer->fd);
        return NULL;
    }
    opened->worker = worker;
    opened->place = offer->place;
    opened->is_given = offer->is_given;
    opened->proxy_protocol = offer->proxy_protocol; /* the first may be accepted at once */
    if (listener_open(&opened->listener, worker->loop, offer->fd, on_accept, opened) != STATUS_OK) {
        free(opened);
        return NULL;
    }
    list_push_back(&worker->listeners, &opened->node);
    return opened;
}

static void drop(struct worker_listener *listener)
{
    list_remove(&listener->node);
    free(listener);
}

static void close_listener(struct worker_listener *listener)
{
    listener_close(&listener->listener);
    drop(listener);
}

/* --- leaving --- */

static void on_left(void *context)
{
    struct worker_listener *listener = context;
    struct worker *worker = listener->worker;
    drop(listener);
    worker_on_listener_gone(worker);
}

static void leave(struct worker_listener *listener)
{
    if (listener->is_leaving) {
        return;
    }
    if (listener->is_given) { /* connections wait there for the next one who accepts */
        close_listener(listener);
        return;
    }
    listener->is_leaving = true;
    listener_leave(&listener->listener, on_left);
}

static void leave_unwanted(struct worker *worker)
{
    struct list *node = worker->listeners.next;
    while (node != &worker->listeners) {
        struct worker_listener *listener = listener_at(node);
        node = node->next;
        if (!listener->is_wanted) {
            leave(listener);
        } else {
            listener->is_wanted = false; /* by the next one, as far as is known */
        }
    }
}

enum status worker_listeners_set(struct worker *worker, const struct listening_offer *offers,
                                 size_t n)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        struct worker_listener *listener =
            offers[i].fd >= 0 ? open_listener(worker, &offers[i]) : find(worker, offers[i].place);
        if (listener == NULL) {
            status = STATUS_NO_MEMORY;
            continue;
        }
        listener->proxy_protocol = offers[i].proxy_protocol;
        listener->is_wanted = true;
    }
    leave_unwanted(worker);
    return status;
}

void worker_listeners_leave(struct worker *worker)
{
    struct list *node = worker->listeners.next;
    while (node != &worker->listeners) {
        struct worker_listener *listener = listener_at(node);
        node = node->next;
        leave(listener);
    }
}

bool worker_listeners_are_leaving(struct worker *worker)
{
    for (struct list *node = worker->listeners.next; node != &worker->listeners;
         node = node->next) {
        if (listener_at(node)->is_leaving) {
            return true;
        }
    }
    return false;
}

void worker_listeners_close(struct worker *worker)
{
    while (!list_is_empty(&worker->listeners)) {
        close_listener(listener_at(worker->listeners.next));
    }
}
