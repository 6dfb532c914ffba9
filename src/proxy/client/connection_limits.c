#include "proxy/client/connection_limits.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "proxy/client/client_env.h"
#include "proxy/exchange/exchange_config.h"

enum {
    /* Descriptors of the process that are reserved for upstreams, Redis and name lookups. */
    FD_RESERVE_SHARE = 8,   /* an eighth, */
    FD_RESERVE_MIN = 16,    /* but at least this many, */
    FD_RESERVE_LIMIT = 2,   /* and at most half */
    FD_PIPES_SHARE = 4,     /* pipes may have a quarter of the reserve */
    FD_ACCEPT_SHARE = 2,    /* half of the reserve is left to accept clients with */
    FD_UPSTREAMS_SHARE = 2, /* connections to servers may have half of all descriptors */
    FDS_PER_PIPE = 2,
    EVICTION_TRIES = 4,     /* tries, since a chosen connection may be in use */
    EVICTIONS_FOR_SLOT = 2, /* for one new connection: a victim before it may have stayed */
};

static_assert((int)METER_REFUSALS == (int)CONNECTION_REFUSALS, "each refusal has its counter");
static_assert((int)METER_EVICTIONS == (int)EVICTION_KINDS, "each kind has its counter");

/* How each refusal is reported. */
static const struct {
    const char *message;
    const char *hint;
    bool is_answered; /* with a 503: the client speaks HTTP */
} REFUSALS[CONNECTION_REFUSALS] = {
    [REFUSAL_CONNECTIONS] = {"too many connections", "see max.connections", true},
    [REFUSAL_CLIENT] = {"too many connections of a client", "see max.connections_per_client", true},
    [REFUSAL_DESCRIPTORS] = {"no file descriptor for a client", "raise ulimit -n", true},
    [REFUSAL_MEMORY] = {"no memory for a connection", "lower max.connections", true},
    [REFUSAL_UNTRUSTED] = {"no trusted proxy", "see proxy_protocol and trusted_proxies", false},
    [REFUSAL_HEADER] = {"no sound PROXY header", "see proxy_protocol of the listener", false},
};

/* --- life --- */

/* How many descriptors the process may have. */
static uint64_t count_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX) {
        return INT_MAX;
    }
    return limit.rlim_cur;
}

static uint64_t reserve_of(uint64_t n_descriptors)
{
    const uint64_t most = n_descriptors / FD_RESERVE_LIMIT;
    uint64_t reserve = n_descriptors / FD_RESERVE_SHARE;
    reserve = reserve < FD_RESERVE_MIN ? FD_RESERVE_MIN : reserve;
    return reserve > most ? most : reserve;
}

static int fd_end_of(uint64_t n_descriptors)
{
    return (int)(n_descriptors - reserve_of(n_descriptors));
}

size_t connection_limits_pipes(unsigned n_workers)
{
    const uint64_t n = reserve_of(count_descriptors()) / FD_PIPES_SHARE / FDS_PER_PIPE / n_workers;
    return n < PIPES_MAX ? (size_t)n : PIPES_MAX;
}

/* Whether requests that share a connection of a client may need connections to servers of their
 * own: clients speak HTTP/2, and a server does not. */
static bool has_parted_streams(const struct policy *policy)
{
    bool has_http2 = false;
    bool has_http1 = false;
    for (size_t i = 0; i < policy->n_listeners; i++) {
        has_http2 = has_http2 || (policy->listeners[i].versions & HTTP_VERSION_2) != 0;
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        has_http1 = has_http1 || !policy->upstreams[i].speaks_http2;
    }
    return has_http2 && has_http1;
}

/* The requests of one client get no more connections to servers than all requests together. */
static void check_streams(const struct policy *policy, uint64_t n_descriptors)
{
    const struct max_section *max = &policy->max;
    const uint32_t n_wanted =
        max->streams > max->streams_per_client ? max->streams : max->streams_per_client;
    const uint64_t n_for_servers = n_descriptors / FD_UPSTREAMS_SHARE;
    if (has_parted_streams(policy) && n_for_servers < n_wanted) {
        log_warn("proxy.connection_limits", "few file descriptors for requests by HTTP/2",
                 "limit=%llu for_servers=%llu wanted=%u hint=\"raise ulimit -n, or lower "
                 "max.streams and max.streams_per_client: each request may need a connection to a "
                 "server\"",
                 (unsigned long long)n_descriptors, (unsigned long long)n_for_servers, n_wanted);
    }
}

void connection_limits_check(const struct policy *policy)
{
    const uint64_t n_descriptors = count_descriptors();
    check_streams(policy, n_descriptors);
    /* Each connection of a client may need one to an upstream too. */
    const uint64_t n_wanted = (uint64_t)policy->max.connections * 2;
    if (n_descriptors < n_wanted) {
        log_warn("proxy.connection_limits", "few file descriptors",
                 "limit=%llu wanted=%llu hint=\"raise ulimit -n, or lower max.connections: clients "
                 "get at most %d, the others are for upstreams\"",
                 (unsigned long long)n_descriptors, (unsigned long long)n_wanted,
                 fd_end_of(n_descriptors));
    }
}

void connection_limits_init(struct connection_limits *connection_limits)
{
    const uint64_t n_descriptors = count_descriptors();
    const uint64_t n_for_accept = reserve_of(n_descriptors) / FD_ACCEPT_SHARE;
    connection_limits->fd_end = fd_end_of(n_descriptors);
    upstream_descriptors_init(&connection_limits->upstream_descriptors,
                              (unsigned)(n_descriptors / FD_UPSTREAMS_SHARE),
                              (int)(n_descriptors - n_for_accept));
    client_counts_init(&connection_limits->clients);
    client_counts_init(&connection_limits->http2_clients);
    client_counts_init(&connection_limits->handshakes);
    atomic_init(&connection_limits->n_handshakes, 0);
    atomic_init(&connection_limits->n_http2_requests, 0);
    eviction_init(&connection_limits->eviction);
}

void connection_limits_close(struct connection_limits *connection_limits)
{
    client_counts_close(&connection_limits->clients);
    client_counts_close(&connection_limits->http2_clients);
    client_counts_close(&connection_limits->handshakes);
    eviction_close(&connection_limits->eviction);
}

/* --- refusing --- */

void connection_limits_refuse(struct client_env *clients, int fd, const struct address *client,
                              enum connection_limits_refusal refusal, const char *detail)
{
    static const char ANSWER[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                                 "Cache-Control: no-store\r\n"
                                 "Retry-After: 1\r\nContent-Length: 0\r\n\r\n";
    uint64_t n_held;
    if (REFUSALS[refusal].is_answered) {
        (void)!send(fd, ANSWER, sizeof(ANSWER) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    counter_up(&clients->env->meters->refused[refusal]);
    if (log_gate_pass(&clients->refusal_gates[refusal], clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(client, &text);
        log_warn("proxy.connection_limits", REFUSALS[refusal].message,
                 "client=%.*s%s%s%s times_before=%llu hint=\"%s\"", SPAN_ARGS(text_span(&text)),
                 detail != NULL ? " err=\"" : "", detail != NULL ? detail : "",
                 detail != NULL ? "\"" : "", (unsigned long long)n_held, REFUSALS[refusal].hint);
    }
}

/* --- evicting --- */

static bool is_trusted(const struct client_env *clients, const struct address *peer)
{
    return address_is_in(peer, clients->env->config->policy->trusted_proxies,
                         clients->env->config->policy->n_trusted_proxies);
}

bool connection_limits_is_protected(const struct client_env *clients, const struct address *peer)
{
    return peer->family == ADDRESS_NONE || is_trusted(clients, peer);
}

static void report_eviction(struct client_env *clients, const struct address *client,
                            enum eviction_kind kind)
{
    static const char *const KINDS[EVICTION_KINDS] = {[EVICTED_SILENT] = "silent",
                                                      [EVICTED_IDLE] = "idle",
                                                      [EVICTED_HEAD] = "head",
                                                      [EVICTED_BODY] = "body"};
    uint64_t n_held;
    counter_up(&clients->env->meters->evicted[kind]);
    if (log_gate_pass(&clients->eviction_gate, clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(client, &text);
        log_warn("proxy.connection_limits", "connection evicted for a new one",
                 "client=%.*s kind=%s times_before=%llu hint=\"see max.connections\"",
                 SPAN_ARGS(text_span(&text)), KINDS[kind], (unsigned long long)n_held);
    }
}

/* Evict a connection of this worker that was chosen: close it, or let it close after its answer.
 * False: it stays. */
static bool evict(struct client_env *clients, struct eviction_candidate *victim)
{
    struct client_connection *connection =
        CONTAINER_OF(victim, struct client_connection, candidate);
    const struct address peer = connection->peer;
    /* The policy may have changed since it became a candidate. */
    const bool stays = !connection->awaits_header && connection_limits_is_protected(clients, &peer);
    const enum eviction_kind kind = stays ? EVICTED_NONE : connection->ops->evict(connection);
    if (kind == EVICTED_NONE) {
        eviction_take_slot_again(&clients->connection_limits->eviction, victim);
        return false;
    }
    report_eviction(clients, &peer, kind);
    return true;
}

/* Evict a connection of any worker to make room for one of @newcomer (NULL: not known). False:
 * none may be evicted. */
static bool evict_one(struct client_env *clients, const struct address *newcomer)
{
    struct eviction *eviction = &clients->connection_limits->eviction;
    for (int i = 0; i < EVICTION_TRIES; i++) {
        struct eviction_candidate *own_victim;
        struct list *victims = eviction_choose(eviction, newcomer, &clients->victims,
                                               clock_monotonic_us(), &own_victim);
        if (victims == NULL) {
            return false;
        }
        if (own_victim == NULL) {
            wakeup_signal(&CONTAINER_OF(victims, struct client_env, victims)->env->wakeup);
            return true;
        }
        if (evict(clients, own_victim)) {
            return true;
        }
    }
    return false;
}

void connection_limits_on_wake(struct client_env *clients)
{
    struct eviction *eviction = &clients->connection_limits->eviction;
    struct eviction_candidate *victim;
    while ((victim = eviction_next_victim(eviction, &clients->victims)) != NULL) {
        if (!evict(clients, victim)) {
            (void)evict_one(clients, NULL); /* evict another one instead */
        }
    }
}

/* --- coming and going --- */

bool connection_limits_count(struct client_env *clients, const struct address *client, int fd,
                             bool *is_counted)
{
    struct connection_limits *connection_limits = clients->connection_limits;
    const struct max_section *max = &clients->env->config->policy->max;
    const bool counts_clients = max->connections_per_client < max->connections;
    *is_counted = false;
    /* A trusted proxy and a unix socket carry many clients. */
    if (!counts_clients || connection_limits_is_protected(clients, client)) {
        return true;
    }
    const enum status status =
        client_counts_add(&connection_limits->clients, client, max->connections_per_client);
    *is_counted = status == STATUS_OK;
    if (!*is_counted) {
        connection_limits_refuse(clients, fd, client,
                                 status == STATUS_FULL ? REFUSAL_CLIENT : REFUSAL_MEMORY, NULL);
    }
    return *is_counted;
}

static void release(struct client_env *clients, const struct address *client, bool has_slot)
{
    struct connection_limits *connection_limits = clients->connection_limits;
    if (client != NULL) {
        client_counts_remove(&connection_limits->clients, client);
    }
    if (has_slot) {
        atomic_fetch_sub_explicit(&connection_limits->eviction.n_slots, 1, memory_order_relaxed);
    }
    counter_down(&clients->env->meters->connections);
}

void connection_limits_release(struct client_env *clients, const struct address *client)
{
    release(clients, client, true);
}

void connection_limits_forget(struct client_connection *connection)
{
    if (!connection->has_left) {
        connection->has_left = true;
        release(connection->clients, connection->is_counted ? &connection->peer : NULL,
                !connection->candidate.gave_slot);
    }
}

/* Take a slot for a connection of @peer. False: none is free, and no connection may be evicted. */
static bool take_slot(struct client_env *clients, const struct address *peer)
{
    const unsigned n_max = clients->env->config->policy->max.connections;
    atomic_uint *n_slots = &clients->connection_limits->eviction.n_slots;
    for (int n_evicted = 0; n_evicted <= EVICTIONS_FOR_SLOT; n_evicted++) {
        unsigned n = atomic_load_explicit(n_slots, memory_order_relaxed);
        while (n < n_max || n_evicted == EVICTIONS_FOR_SLOT) {
            if (atomic_compare_exchange_weak_explicit(n_slots, &n, n + 1, memory_order_relaxed,
                                                      memory_order_relaxed)) {
                return true;
            }
        }
        if (!evict_one(clients, peer)) {
            return false;
        }
    }
    return false;
}

/* The last descriptors are reserved for upstreams. If *fd is one of them, evict a connection for
 * that of @peer and move *fd to a lower number. False: no lower one is free. */
static bool lower_descriptor(struct client_env *clients, int *fd, const struct address *peer)
{
    const int fd_end = clients->connection_limits->fd_end;
    if (*fd < fd_end) {
        return true;
    }
    const int moved = evict_one(clients, peer) ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (moved >= 0) {
        close(moved < fd_end ? *fd : moved);
        *fd = moved < fd_end ? moved : *fd;
    }
    return *fd < fd_end;
}

/* Why the new connection *fd cannot be served, whatever its client. CONNECTION_REFUSALS: it can,
 * and has a slot. */
static enum connection_limits_refusal find_refusal(struct client_env *clients, bool proxy_protocol,
                                                   int *fd, const struct address *peer)
{
    if (proxy_protocol && !is_trusted(clients, peer)) {
        return REFUSAL_UNTRUSTED;
    }
    if (!take_slot(clients, peer)) {
        return REFUSAL_CONNECTIONS;
    }
    counter_up(&clients->env->meters->connections);
    if (!lower_descriptor(clients, fd, peer)) {
        connection_limits_release(clients, NULL);
        return REFUSAL_DESCRIPTORS;
    }
    return CONNECTION_REFUSALS;
}

bool connection_limits_admit(struct client_env *clients, bool proxy_protocol,
                             const struct address *peer, int *fd, bool *is_counted)
{
    const enum connection_limits_refusal refusal = find_refusal(clients, proxy_protocol, fd, peer);
    *is_counted = false;
    if (refusal != CONNECTION_REFUSALS) {
        connection_limits_refuse(clients, *fd, peer, refusal, NULL);
    } else if (proxy_protocol || connection_limits_count(clients, peer, *fd, is_counted)) {
        counter_up(&clients->env->meters->accepted);
        return true;
    } else {
        connection_limits_release(clients, NULL);
    }
    close(*fd);
    return false;
}
