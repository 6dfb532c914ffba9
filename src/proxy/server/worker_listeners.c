#include "proxy/server/worker_listeners.h"

#include <stdlib.h>
#include <unistd.h>

#include "net/listener.h"
#include "proxy/client/client_env.h"
#include "proxy/client/connection_limits.h"
#include "proxy/core/proxy_env.h"
#include "tls/tls_server.h"

struct worker_listener {
    struct list node; /* in listeners->all */
    struct listener listener;
    struct worker_listeners *listeners;
    const struct listen_address *listen_address;
    bool proxy_protocol;
    unsigned versions;      /* of HTTP: bits HTTP_VERSION_… */
    struct tls_server *tls; /* a reference; NULL: plain text */
    bool is_given;
    bool is_wanted; /* the policy that comes names it */
    bool is_leaving;
};

static struct worker_listener *listener_at(struct list *node)
{
    return CONTAINER_OF(node, struct worker_listener, node);
}

static void on_accept(void *context, int fd, const struct sockaddr *peer)
{
    const struct worker_listener *listener = context;
    struct client_env *clients = listener->listeners->clients;
    const bool awaits_header = listener->proxy_protocol;
    const struct address address = address_of_sockaddr(peer);
    bool is_counted;
    if (connection_limits_admit(clients, awaits_header, &address, &fd, &is_counted)) {
        downstream_open(clients, fd, &address, awaits_header, is_counted, listener->tls,
                        listener->versions);
    }
}

static struct worker_listener *find(struct worker_listeners *listeners,
                                    const struct listen_address *listen_address)
{
    for (struct list *node = listeners->all.next; node != &listeners->all; node = node->next) {
        if (listener_at(node)->listen_address == listen_address) {
            return listener_at(node);
        }
    }
    return NULL;
}

static struct worker_listener *open_listener(struct worker_listeners *listeners,
                                             const struct listening_offer *offer)
{
    struct worker_listener *opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        close(offer->fd);
        tls_server_release(offer->tls);
        return NULL;
    }
    opened->listeners = listeners;
    opened->listen_address = offer->listen_address;
    opened->is_given = offer->is_given;
    /* A connection may be accepted at once. */
    opened->proxy_protocol = offer->proxy_protocol;
    opened->versions = offer->versions;
    opened->tls = offer->tls;
    if (listener_open(&opened->listener, listeners->clients->env->loop, offer->fd, on_accept,
                      opened) != STATUS_OK) {
        tls_server_release(opened->tls);
        free(opened);
        return NULL;
    }
    list_push_back(&listeners->all, &opened->node);
    return opened;
}

static void drop(struct worker_listener *listener)
{
    list_remove(&listener->node);
    tls_server_release(listener->tls);
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
    struct worker_listeners *listeners = listener->listeners;
    drop(listener);
    listeners->ops->on_gone(listeners);
}

static void leave(struct worker_listener *listener)
{
    if (listener->is_leaving) {
        return;
    }
    tls_server_retire(listener->tls);
    if (listener->is_given) { /* other processes accept the connections that wait there */
        close_listener(listener);
        return;
    }
    listener->is_leaving = true;
    listener_leave(&listener->listener, on_left);
}

static void leave_unwanted(struct worker_listeners *listeners)
{
    struct list *node = listeners->all.next;
    while (node != &listeners->all) {
        struct worker_listener *listener = listener_at(node);
        node = node->next;
        if (!listener->is_wanted) {
            leave(listener);
        } else {
            listener->is_wanted = false; /* the next policy may not name it */
        }
    }
}

void worker_listeners_init(struct worker_listeners *listeners,
                           const struct worker_listeners_ops *ops, struct client_env *clients)
{
    *listeners = (struct worker_listeners){.ops = ops, .clients = clients};
    list_init(&listeners->all);
}

enum status worker_listeners_set(struct worker_listeners *listeners,
                                 const struct listening_offer *offers, size_t n)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        struct worker_listener *listener = offers[i].fd >= 0
                                               ? open_listener(listeners, &offers[i])
                                               : find(listeners, offers[i].listen_address);
        if (listener == NULL) {
            status = STATUS_NO_MEMORY;
            continue;
        }
        if (offers[i].fd < 0) { /* connections that are open keep the certificates that they have */
            tls_server_succeed(listener->tls, offers[i].tls);
            tls_server_release(listener->tls);
            listener->tls = offers[i].tls;
        }
        listener->proxy_protocol = offers[i].proxy_protocol;
        listener->versions = offers[i].versions;
        listener->is_wanted = true;
    }
    leave_unwanted(listeners);
    return status;
}

void worker_listeners_leave(struct worker_listeners *listeners)
{
    struct list *node = listeners->all.next;
    while (node != &listeners->all) {
        struct worker_listener *listener = listener_at(node);
        node = node->next;
        leave(listener);
    }
}

bool worker_listeners_are_leaving(struct worker_listeners *listeners)
{
    for (struct list *node = listeners->all.next; node != &listeners->all; node = node->next) {
        if (listener_at(node)->is_leaving) {
            return true;
        }
    }
    return false;
}

void worker_listeners_close(struct worker_listeners *listeners)
{
    while (!list_is_empty(&listeners->all)) {
        close_listener(listener_at(listeners->all.next));
    }
}
