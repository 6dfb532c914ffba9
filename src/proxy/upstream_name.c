/* Happy path: a name is asked for at start, and again when its answer has had its time. An
 * address that is in no answer any more gets no new connection; idle ones are closed at once, the
 * others when they are free.
 *
 * Failures: a name that cannot be resolved keeps its last addresses and is asked for again soon; a
 * connect that fails moves on to the next address. */

#include "proxy/upstream_name.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/unix_socket.h"
#include "proxy/upstream.h"
#include "proxy/upstream_group.h"
#include "proxy/worker.h"

enum { RESOLVE_RETRY_US = 1000 * 1000 }; /* after a failure */

static bool is_same(const struct resolver_address *a, const struct resolver_address *b)
{
    return a->bytes == b->bytes && memcmp(&a->sockaddr, &b->sockaddr, a->bytes) == 0;
}

/* The place of @address among those of @server; n_addresses: it is none of them. */
static size_t find(const struct upstream_server *server, const struct resolver_address *address)
{
    size_t i = 0;
    while (i < server->n_addresses && !is_same(&server->addresses[i], address)) {
        i++;
    }
    return i;
}

bool upstream_name_is_current(struct upstream *upstream)
{
    const struct upstream_server *server = upstream->server;
    if (upstream->generation == server->generation) {
        return true;
    }
    upstream->generation = server->generation;
    return find(server, &upstream->address) < server->n_addresses;
}

static void close_outdated(struct upstream_server *server)
{
    struct list *node = server->idle.next;
    while (node != &server->idle) {
        struct upstream *upstream = CONTAINER_OF(node, struct upstream, node);
        node = node->next;
        if (!upstream_name_is_current(upstream)) {
            upstream_close(upstream);
        }
    }
}

/* New connections go on to the same address if it is still there, in
 * whatever order they are told. */
static void take_addresses(struct upstream_server *server, const struct resolver_answer *answer)
{
    const struct resolver_address last = server->addresses[server->next_address];
    memcpy(server->addresses, answer->addresses,
           answer->n_addresses * sizeof(answer->addresses[0]));
    server->n_addresses = answer->n_addresses;
    server->next_address = find(server, &last) % server->n_addresses;
    server->generation++;
    close_outdated(server);
}

static void on_addresses(void *context, const struct resolver_answer *answer)
{
    struct upstream_server *server = context;
    server->query = NULL;
    if (answer->status != STATUS_OK) {
        log_warn("proxy.upstream", "name not resolved", "server=%.*s err=\"%s\"",
                 SPAN_ARGS(server->endpoint->text), status_text(answer->status));
        timer_arm(&server->resolve_timer, RESOLVE_RETRY_US);
        return;
    }
    take_addresses(server, answer);
    timer_arm(&server->resolve_timer, answer->ttl_us);
}

static void resolve(void *context)
{
    struct upstream_server *server = context;
    if (server->query != NULL) {
        return;
    }
    if (resolver_ask(server->group->worker->resolver, server->endpoint->host,
                     server->endpoint->port, on_addresses, server, &server->query) != STATUS_OK) {
        timer_arm(&server->resolve_timer, RESOLVE_RETRY_US);
    }
}

enum status upstream_name_init(struct upstream_server *server)
{
    const struct endpoint *endpoint = server->endpoint;
    const enum status status =
        timer_init(&server->resolve_timer, server->group->worker->loop, resolve, server);
    if (status != STATUS_OK) {
        return status;
    }
    if (endpoint->unix_path.len > 0 ||
        resolver_read_address(endpoint->host, endpoint->port, &server->addresses[0])) {
        server->n_addresses = 1;
    } else {
        server->is_name = true;
        resolve(server);
    }
    return STATUS_OK;
}

void upstream_name_take_over(struct upstream_server *server, const struct upstream_server *old)
{
    memcpy(server->addresses, old->addresses, sizeof(server->addresses));
    server->n_addresses = old->n_addresses;
    server->next_address = old->next_address;
}

void upstream_name_close(struct upstream_server *server)
{
    if (server->query != NULL) {
        resolver_cancel(server->query);
        server->query = NULL;
    }
    timer_close(&server->resolve_timer);
}

enum status upstream_name_connect(const struct upstream_server *server, struct stream *stream,
                                  const struct stream_handler *handler, void *owner)
{
    struct loop *loop = server->group->worker->loop;
    if (server->endpoint->unix_path.len > 0) {
        const struct sockaddr_un path = unix_socket_address(server->endpoint->unix_path);
        return stream_connect(stream, loop, (const struct sockaddr *)&path, sizeof(path), handler,
                              owner);
    }
    const struct resolver_address *address = &server->addresses[server->next_address];
    return stream_connect(stream, loop, &address->sockaddr.any, address->bytes, handler, owner);
}

void upstream_name_on_failure(struct upstream_server *server)
{
    if (server->n_addresses > 0) {
        server->next_address = (server->next_address + 1) % server->n_addresses;
    }
    /* Soon, but never put off: failures may follow one another faster than that. */
    const uint64_t soon_us = clock_monotonic_us() + RESOLVE_RETRY_US;
    if (server->is_name && server->query == NULL && server->resolve_timer.deadline_us > soon_us) {
        timer_arm(&server->resolve_timer, RESOLVE_RETRY_US);
    }
}
