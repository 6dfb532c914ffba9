/* The sources of connections to servers: idle connections, new ones, and those granted by other
 * workers.
 *
 * Happy path: the most recently used idle connection.
 *
 * Failures: an idle connection that may have ended is not used for a request that can be sent only
 * once. A server that has its max_connections gives none. Without a descriptor for a new one, an
 * idle one to another server is closed. */

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/core/proxy_env.h"
#include "proxy/core/upstream_descriptors.h"
#include "proxy/upstream/upstream.h"
#include "proxy/upstream/upstream_group.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_queue.h"
#include "proxy/upstream/upstream_server.h"

enum {
    SURE_FOR_US = 10 * 1000, /* after its last use a connection is trusted for this time */
};

/* --- idle connections --- */

/* Publish, then check: increment n_idle, then look for waiters. A waiter enqueues itself, then
 * reads n_idle. One of them sees the other. */
static void offer_idle(struct upstream_group *group, uint64_t now_us)
{
    atomic_fetch_add(&group->n_idle, 1);
    if (upstream_queue_is_used(&group->process->queue)
            ? !upstream_queue_yield_idle(group, now_us)
            : UNLIKELY(upstream_queue_others_wait(group))) {
        upstream_group_close_idle(group);
    }
}

void upstream_enter_idle(struct upstream *upstream, uint64_t now_us)
{
    struct upstream_group *group = upstream->server->group;
    upstream->phase = UPSTREAM_IDLE;
    counter_up(&upstream_server_meters(upstream->server)->idle);
    if (UNLIKELY(upstream->is_doubtful)) {
        list_push_back(&upstream->server->idle, &upstream->node); /* is taken last */
    } else {
        list_push_front(&upstream->server->idle, &upstream->node);
    }
    timeout_arm(&upstream->timeout, &group->idle_timeouts, now_us);
    if (group->is_limited) {
        offer_idle(group, now_us);
    }
}

void upstream_leave_idle(struct upstream *upstream)
{
    list_remove(&upstream->node);
    timeout_disarm(&upstream->timeout);
    if (upstream->phase != UPSTREAM_IDLE) {
        return;
    }
    counter_down(&upstream_server_meters(upstream->server)->idle);
    if (upstream->server->group->is_limited) {
        atomic_fetch_sub(&upstream->server->group->n_idle, 1);
    }
}

/* An idle connection may have ended before the loop reports it. A check costs a system call, so
 * connections that were used within SURE_FOR_US are trusted; under load these are all of them. */
static bool is_surely_open(struct upstream *upstream)
{
    const uint64_t idle_since_us =
        upstream->timeout.deadline_us - upstream->server->group->idle_timeouts.length_us;
    return clock_monotonic_us() - idle_since_us < SURE_FOR_US ||
           stream_peek(&upstream->stream) == STREAM_BLOCKED;
}

/* Bytes that came after a bodyless answer would be read as the next one. */
static bool is_acceptable(struct upstream *upstream, enum upstream_use use)
{
    if (UNLIKELY(upstream->is_doubtful)) {
        return stream_peek(&upstream->stream) == STREAM_BLOCKED;
    }
    return use != UPSTREAM_SURE || is_surely_open(upstream);
}

/* The latest idle connection that is acceptable; NULL: there is none. */
static struct upstream *take_idle(struct upstream_server *server, enum upstream_use use)
{
    while (use != UPSTREAM_FRESH && !list_is_empty(&server->idle)) {
        struct upstream *upstream = CONTAINER_OF(server->idle.next, struct upstream, node);
        if (!is_acceptable(upstream, use)) {
            upstream_close(upstream);
            continue;
        }
        upstream_leave_idle(upstream);
        upstream->phase = UPSTREAM_AWAITING;
        upstream->is_reused = true;
        return upstream;
    }
    return NULL;
}

/* --- slots and new connections --- */

void upstream_release_slot(struct upstream_server *server)
{
    if (server->group->is_limited) {
        upstream_queue_release_slot(server, clock_monotonic_us());
    }
}

/* STATUS_FULL: no descriptor is left for it. */
static enum status connect_to(struct upstream_server *server, struct upstream *upstream)
{
    struct upstream_descriptors *descriptors = server->group->env->upstream_descriptors;
    if (!upstream_descriptors_take(descriptors)) {
        return STATUS_FULL;
    }
    upstream->phase = UPSTREAM_CONNECTING;
    counter_up(&upstream_server_meters(server)->connects);
    upstream->address = server->addresses[server->next_address];
    upstream->generation = server->generation;
    enum status status =
        upstream_name_connect(server, &upstream->stream, &UPSTREAM_HANDLER, upstream);
    if (status == STATUS_OK && upstream->stream.fd >= descriptors->fd_end) {
        stream_close(&upstream->stream);
        status = STATUS_FULL;
    }
    if (status != STATUS_OK) {
        upstream_descriptors_give(descriptors);
    }
    return status;
}

static enum status connect_with_room(struct upstream_server *server, struct upstream *upstream)
{
    enum status status = connect_to(server, upstream);
    if (status == STATUS_FULL && upstream_groups_close_one_idle(server->group->env)) {
        status = connect_to(server, upstream);
    }
    if (status != STATUS_OK && status != STATUS_UNREACHABLE) {
        upstream_name_report_lack(server, status);
    }
    return status;
}

/* Take over the connection in @grant. */
static enum status adopt(struct upstream *upstream, const struct upstream_waiter *grant)
{
    upstream->phase = UPSTREAM_AWAITING;
    upstream->is_reused = true;
    upstream->address = grant->address;
    /* The address is from another worker's query: force is_current() to check it. */
    upstream->generation = upstream->server->generation - 1;
    struct proxy_env *env = upstream->server->group->env;
    const enum status status =
        stream_open(&upstream->stream, env->loop, grant->fd, &UPSTREAM_HANDLER, upstream);
    if (status == STATUS_OK) {
        upstream_descriptors_add(env->upstream_descriptors);
    }
    return status;
}

/* Make a connection for which the caller has a slot: the one in @grant, if any, or a new one.
 * @is_carrier: for streams, which have the slots; those of @owner, see upstream_http2_init(). */
static enum status make(struct upstream_server *server, const struct upstream_waiter *grant,
                        bool is_carrier, const struct address *owner, struct upstream **upstream)
{
    const bool is_there = grant != NULL && grant->fd >= 0;
    struct upstream *made = calloc(1, sizeof(*made));
    if (made == NULL && is_there) {
        close(grant->fd);
    }
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    upstream_prepare(made, server);
    made->has_slot = made->has_slot && !is_carrier;
    if (is_carrier && !upstream_http2_init(made, owner)) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    const enum status status = is_there ? adopt(made, grant) : connect_with_room(server, made);
    if (status != STATUS_OK) {
        if (is_carrier) {
            upstream_http2_drop(made);
        }
        free(made);
        return status;
    }
    server->n_connections++;
    counter_up(&upstream_server_meters(server)->connections);
    *upstream = made;
    return STATUS_OK;
}

/* Get a slot for a new connection, if necessary by closing an idle one. */
static bool acquire_slot(struct upstream_server *server)
{
    const unsigned max = server->group->spec->max_connections;
    if (!server->group->is_limited || server_process_take_place(server->process, max)) {
        return true;
    }
    if (list_is_empty(&server->idle)) {
        return false;
    }
    struct upstream *oldest = CONTAINER_OF(server->idle.prev, struct upstream, node);
    oldest->has_slot = false;
    upstream_close(oldest);
    return true;
}

/* An upgrade needs HTTP/1.1, which a server may speak that is asked by ALPN. @server may speak
 * HTTP/2. */
static bool goes_on_stream(const struct upstream_server *server, const struct upstream_user *user)
{
    const bool may_choose =
        !server->endpoint->is_h2c && server->group->spec->protocol == UPSTREAM_AUTO;
    return !(user->needs_http1 && may_choose &&
             clock_monotonic_us() >= server->no_upgrade_until_us);
}

/* Take a stream of @server, for which the caller has a slot. On failure it is released. */
static enum status take_stream(struct upstream_server *server, struct upstream_user *user,
                               enum upstream_use use, struct upstream **upstream, bool *is_ready)
{
    struct upstream_request request;
    user->events->describe(user, &request);
    const struct address *owner = upstream_http2_owner(server, &request);
    struct upstream *connection = upstream_http2_find(server, owner, &request, use);
    enum status status = STATUS_OK;
    if (connection == NULL) {
        status = make(server, NULL, true, owner, &connection);
    }
    struct upstream *taken =
        status == STATUS_OK ? upstream_stream_new(connection, user, &request) : NULL;
    if (taken == NULL) {
        upstream_release_slot(server);
        return status == STATUS_OK ? STATUS_NO_MEMORY : status;
    }
    *is_ready = taken->phase == UPSTREAM_AWAITING;
    *upstream = taken;
    return STATUS_OK;
}

/* A new connection to @server by HTTP/1.1, for an upgrade. Unless it speaks nothing else other
 * requests do not go on it. */
static enum status take_single(struct upstream_server *server, struct upstream_user *user,
                               struct upstream **upstream, bool *is_ready)
{
    const enum status status = make(server, NULL, false, NULL, upstream);
    if (status != STATUS_OK) {
        upstream_release_slot(server);
        return status;
    }
    if (!server->is_http1) {
        (*upstream)->is_single = true;
        (*upstream)->generation = server->generation - 1;
    }
    *is_ready = false;
    upstream_begin_request(*upstream, user);
    return STATUS_OK;
}

/* The same of @server, which may speak HTTP/2: a stream, or a connection for an upgrade. */
static enum status take_new(struct upstream_server *server, struct upstream_user *user,
                            enum upstream_use use, struct upstream **upstream, bool *is_ready)
{
    return goes_on_stream(server, user) ? take_stream(server, user, use, upstream, is_ready)
                                        : take_single(server, user, upstream, is_ready);
}

enum status upstream_acquire(struct upstream_server *server, struct upstream_user *user,
                             enum upstream_use use, struct upstream **upstream, bool *is_ready)
{
    struct upstream *taken = take_idle(server, use);
    *is_ready = taken != NULL;
    if (taken == NULL && UNLIKELY(upstream_speaks_http2(server))) {
        return acquire_slot(server) ? take_new(server, user, use, upstream, is_ready)
                                    : STATUS_IN_USE;
    }
    if (taken == NULL) {
        if (!acquire_slot(server)) {
            return STATUS_IN_USE;
        }
        const enum status status = make(server, NULL, false, NULL, &taken);
        if (status != STATUS_OK) {
            upstream_release_slot(server);
            return status;
        }
    }
    upstream_begin_request(taken, user);
    *upstream = taken;
    return STATUS_OK;
}

enum status upstream_connect_anew(struct upstream_server *server, struct upstream **upstream)
{
    return make(server, NULL, false, NULL, upstream);
}

/* Replace a granted connection that has ended. The slot stays in use. */
static enum status replace(struct upstream **upstream)
{
    struct upstream_server *server = (*upstream)->server;
    (*upstream)->has_slot = false;
    upstream_close(*upstream);
    return make(server, NULL, false, NULL, upstream);
}

enum status upstream_acquire_granted(struct upstream_user *user,
                                     const struct upstream_waiter *grant, enum upstream_use use,
                                     struct upstream **upstream, bool *is_ready)
{
    struct upstream *taken;
    if (grant->fd < 0 && UNLIKELY(upstream_speaks_http2(grant->server))) {
        return take_new(grant->server, user, use, upstream, is_ready);
    }
    enum status status = make(grant->server, grant, false, NULL, &taken);
    *is_ready = grant->fd >= 0;
    if (status == STATUS_OK && *is_ready && (use == UPSTREAM_SURE || grant->is_doubtful) &&
        stream_peek(&taken->stream) != STREAM_BLOCKED) {
        *is_ready = false;
        status = replace(&taken);
    }
    if (status != STATUS_OK) {
        upstream_release_slot(grant->server);
        return status;
    }
    upstream_begin_request(taken, user);
    *upstream = taken;
    return STATUS_OK;
}

int upstream_give_up_idle(struct upstream_server *server, struct resolver_address *address,
                          bool *is_doubtful)
{
    struct upstream *upstream = CONTAINER_OF(server->idle.next, struct upstream, node);
    const int fd = server->endpoint->is_https ? -1 : stream_detach(&upstream->stream);
    *address = upstream->address;
    *is_doubtful = upstream->is_doubtful;
    upstream->has_slot = false;
    upstream_close(upstream);
    return fd;
}
