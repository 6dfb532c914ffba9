#include "proxy/upstream/upstream_process.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- servers --- */

static struct server_process *new_server(void)
{
    struct server_process *server = aligned_alloc(CACHE_LINE_BYTES, sizeof(*server));
    if (server == NULL || server_health_init(&server->health) != STATUS_OK) {
        free(server);
        return NULL;
    }
    atomic_init(&server->n_requests, 0);
    atomic_init(&server->n_connections, 0);
    atomic_init(&server->n_users, 1);
    for (size_t i = 0; i < SERVER_CLOSING_KINDS; i++) {
        atomic_init(&server->closings[i], 0);
    }
    memset(server->closing_clients, 0, sizeof(server->closing_clients));
    return server;
}

static void leave_server(struct server_process *server)
{
    if (atomic_fetch_sub(&server->n_users, 1) == 1) {
        server_health_close(&server->health);
        free(server);
    }
}

/* The server at @endpoint, from @before if it has one. Endpoints are unique within an upstream.
 * NULL: no memory. */
static struct server_process *find_or_new_server(const struct upstream_process *before,
                                                 const struct upstream_spec *spec_before,
                                                 const struct endpoint *endpoint)
{
    for (size_t i = 0; before != NULL && i < before->n_servers; i++) {
        if (span_equals(spec_before->servers[i].endpoint.text, endpoint->text)) {
            atomic_fetch_add(&before->servers[i]->n_users, 1);
            return before->servers[i];
        }
    }
    return new_server();
}

bool server_process_take_place(struct server_process *server, unsigned max)
{
    unsigned n = atomic_load(&server->n_connections);
    while (n < max) {
        if (atomic_compare_exchange_weak(&server->n_connections, &n, n + 1)) {
            return true;
        }
    }
    return false;
}

/* The second at which the period of @closings began; @now_s if it is over, or there is none. */
static uint64_t period_of(uint64_t closings, uint64_t now_s)
{
    const uint64_t began_s = closings >> 32;
    const bool is_over = now_s >= began_s + SERVER_CLOSINGS_PERIOD_S;
    return is_over || (closings & UINT32_MAX) == 0 ? now_s : began_s;
}

bool server_process_take_closing(struct server_process *server, enum server_closing kind,
                                 const struct address *client, uint64_t now_us)
{
    const uint64_t now_s = now_us / 1000000;
    uint64_t before = atomic_load(&server->closings[kind]);
    if (client != NULL &&
        !closing_clients_take(&server->closing_clients[kind], client, period_of(before, now_s))) {
        return false;
    }
    uint64_t next;
    do {
        const uint64_t began_s = period_of(before, now_s);
        const uint64_t n = before >> 32 == began_s ? before & UINT32_MAX : 0;
        if (n >= SERVER_CLOSINGS_MAX) {
            return false;
        }
        next = began_s << 32 | (n + 1);
    } while (!atomic_compare_exchange_weak(&server->closings[kind], &before, next));
    return true;
}

/* --- queues --- */

static enum status init_queue(struct upstream_queue *queue)
{
    list_init(&queue->retrying);
    list_init(&queue->waiters);
    queue->pass = 1;
    list_init(&queue->groups);
    atomic_init(&queue->n_waiting, 0);
    return pthread_mutex_init(&queue->lock, NULL) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

/* --- lineages --- */

static enum status join_lineage(struct upstream_process *upstream,
                                const struct upstream_process *before)
{
    struct upstream_lineage *lineage =
        before != NULL ? before->lineage : calloc(1, sizeof(*upstream->lineage));
    if (lineage == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (before == NULL) {
        pthread_mutex_init(&lineage->lock, NULL); /* a plain mutex: cannot fail on Linux */
        list_init(&lineage->members);
        atomic_init(&lineage->n_members, 0);
    }
    pthread_mutex_lock(&lineage->lock);
    list_push_back(&lineage->members, &upstream->node);
    atomic_fetch_add(&lineage->n_members, 1);
    pthread_mutex_unlock(&lineage->lock);
    upstream->lineage = lineage;
    return STATUS_OK;
}

static void leave_lineage(struct upstream_process *upstream)
{
    struct upstream_lineage *lineage = upstream->lineage;
    pthread_mutex_lock(&lineage->lock);
    list_remove(&upstream->node);
    const bool was_last = atomic_fetch_sub(&lineage->n_members, 1) == 1;
    pthread_mutex_unlock(&lineage->lock);
    if (was_last) {
        pthread_mutex_destroy(&lineage->lock);
        free(lineage);
    }
}

/* --- upstreams --- */

static enum status open_servers(struct upstream_process *upstream, const struct upstream_spec *spec,
                                const struct upstream_process *before,
                                const struct upstream_spec *spec_before)
{
    upstream->servers = calloc(spec->n_servers, sizeof(struct server_process *));
    if (upstream->servers == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < spec->n_servers; i++) {
        upstream->servers[i] = find_or_new_server(before, spec_before, &spec->servers[i].endpoint);
        if (upstream->servers[i] == NULL) {
            return STATUS_NO_MEMORY;
        }
        upstream->n_servers++;
    }
    return STATUS_OK;
}

static void close_servers(struct upstream_process *upstream)
{
    for (size_t i = 0; i < upstream->n_servers; i++) {
        leave_server(upstream->servers[i]);
    }
    free(upstream->servers);
}

enum status upstream_process_new(const struct upstream_spec *spec, struct upstream_process *before,
                                 const struct upstream_spec *spec_before,
                                 struct upstream_process **upstream)
{
    struct upstream_process *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    atomic_init(&created->n_users, 1);
    atomic_init(&created->speaks_grpc, before != NULL && before->speaks_grpc);
    enum status status = open_servers(created, spec, before, spec_before);
    if (status == STATUS_OK) {
        status = init_queue(&created->queue);
    }
    if (status == STATUS_OK) {
        status = join_lineage(created, before);
    }
    if (status != STATUS_OK) {
        close_servers(created);
        free(created);
        return status;
    }
    *upstream = created;
    return STATUS_OK;
}

struct upstream_process *upstream_process_join(struct upstream_process *upstream)
{
    atomic_fetch_add(&upstream->n_users, 1);
    return upstream;
}

void upstream_process_leave(struct upstream_process *upstream)
{
    if (atomic_fetch_sub(&upstream->n_users, 1) == 1) {
        leave_lineage(upstream);
        close_servers(upstream);
        assert(list_is_empty(&upstream->queue.waiters));
        assert(list_is_empty(&upstream->queue.retrying));
        pthread_mutex_destroy(&upstream->queue.lock);
        free(upstream);
    }
}
