#include "proxy/entrance.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "proxy/downstream.h"
#include "proxy/worker.h"

enum {
    /* Of the descriptors of the process, what clients leave to upstreams, Redis and names. */
    FD_RESERVE_SHARE = 8, /* an eighth, */
    FD_RESERVE_MIN = 16,  /* but not less than this, */
    FD_RESERVE_LIMIT = 2, /* nor more than half */
    FD_PIPES_SHARE = 4,   /* of that, what pipes may have: a quarter */
    FDS_PER_PIPE = 2,
    EVICTION_TRIES = 4, /* connections that turn out to be in use */
};

/* How each refusal is told. */
static const struct {
    const char *message;
    const char *hint;
    bool is_answered; /* with a 503: the client speaks HTTP */
} REFUSALS[ENTRANCE_REFUSALS] = {
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

size_t entrance_pipes(unsigned n_workers)
{
    const uint64_t n = reserve_of(count_descriptors()) / FD_PIPES_SHARE / FDS_PER_PIPE / n_workers;
    return n < PIPES_MAX ? (size_t)n : PIPES_MAX;
}

void entrance_check(const struct policy *policy)
{
    const uint64_t n_descriptors = count_descriptors();
    /* Each connection of a client may need one to an upstream too. */
    const uint64_t n_wanted = (uint64_t)policy->max.connections * 2;
    if (n_descriptors < n_wanted) {
        log_warn("proxy.entrance", "few file descriptors",
                 "limit=%llu wanted=%llu hint=\"raise ulimit -n, or lower max.connections: clients "
                 "get at most %d, the others are for upstreams\"",
                 (unsigned long long)n_descriptors, (unsigned long long)n_wanted,
                 fd_end_of(n_descriptors));
    }
}

void entrance_init(struct entrance *entrance)
{
    atomic_init(&entrance->n_connections, 0);
    entrance->fd_end = fd_end_of(count_descriptors());
    client_counts_init(&entrance->clients);
    eviction_init(&entrance->eviction);
}

void entrance_close(struct entrance *entrance)
{
    client_counts_close(&entrance->clients);
    eviction_close(&entrance->eviction);
}

/* --- refusing --- */

void entrance_refuse(struct worker *worker, int fd, const struct address *client,
                     enum entrance_refusal refusal, const char *detail)
{
    static const char ANSWER[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                                 "Retry-After: 1\r\nContent-Length: 0\r\n\r\n";
    uint64_t n_held;
    if (REFUSALS[refusal].is_answered) {
        (void)!send(fd, ANSWER, sizeof(ANSWER) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    counter_up(&worker->meters->refused[refusal]);
    if (log_gate_pass(&worker->refusal_gates[refusal], clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(client, &text);
        log_warn("proxy.entrance", REFUSALS[refusal].message,
                 "client=%.*s%s%s%s times_before=%llu hint=\"%s\"", SPAN_ARGS(text_span(&text)),
                 detail != NULL ? " err=\"" : "", detail != NULL ? detail : "",
                 detail != NULL ? "\"" : "", (unsigned long long)n_held, REFUSALS[refusal].hint);
    }
}

/* --- evicting --- */

static bool is_trusted(const struct worker *worker, const struct address *peer)
{
    return address_is_in(peer, worker->regime->policy->trusted_proxies,
                         worker->regime->policy->n_trusted_proxies);
}

bool entrance_is_protected(const struct worker *worker, const struct address *peer)
{
    return peer->family == ADDRESS_NONE || is_trusted(worker, peer);
}

static void report_eviction(struct worker *worker, const struct address *client,
                            enum eviction_kind kind)
{
    static const char *const KINDS[EVICTION_KINDS] = {
        [EVICTED_SILENT] = "silent", [EVICTED_IDLE] = "idle", [EVICTED_HEAD] = "head"};
    uint64_t n_held;
    counter_up(&worker->meters->evicted[kind]);
    if (log_gate_pass(&worker->eviction_gate, clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(client, &text);
        log_warn("proxy.entrance", "connection evicted for a new one",
                 "client=%.*s kind=%s times_before=%llu hint=\"see max.connections\"",
                 SPAN_ARGS(text_span(&text)), KINDS[kind], (unsigned long long)n_held);
    }
}

/* Close a connection of this worker that was chosen. False: it is in use, and a candidate again. */
static bool evict(struct worker *worker, struct eviction_candidate *victim)
{
    struct downstream *downstream = CONTAINER_OF(victim, struct downstream, candidate);
    const struct address peer = downstream->peer;
    /* The policy may have changed since it became a candidate. */
    const bool is_protected = entrance_is_protected(worker, &peer);
    const enum eviction_kind kind = is_protected ? EVICTED_NONE : downstream_evict(downstream);
    if (kind != EVICTED_NONE) {
        report_eviction(worker, &peer, kind);
    } else if (!is_protected) {
        eviction_add(&worker->shared->entrance.eviction, victim, &peer, EVICTION_NEVER);
    }
    return kind != EVICTED_NONE;
}

/* Have a connection of any worker give way. False: there is none to. */
static bool evict_one(struct worker *worker)
{
    struct eviction *eviction = &worker->shared->entrance.eviction;
    for (int i = 0; i < EVICTION_TRIES; i++) {
        struct eviction_candidate *own_victim;
        struct list *victims =
            eviction_choose(eviction, &worker->victims, clock_monotonic_us(), &own_victim);
        if (victims == NULL) {
            return false;
        }
        if (own_victim == NULL) {
            wakeup_signal(&CONTAINER_OF(victims, struct worker, victims)->wakeup);
            return true;
        }
        if (evict(worker, own_victim)) {
            return true;
        }
    }
    return false;
}

void entrance_on_wake(struct worker *worker)
{
    struct eviction *eviction = &worker->shared->entrance.eviction;
    struct eviction_candidate *victim;
    while ((victim = eviction_next_victim(eviction, &worker->victims)) != NULL) {
        if (!evict(worker, victim)) {
            (void)evict_one(worker); /* in its place */
        }
    }
}

/* --- coming and going --- */

bool entrance_count(struct worker *worker, const struct address *client, int fd, bool *is_counted)
{
    struct entrance *entrance = &worker->shared->entrance;
    const struct max_section *max = &worker->regime->policy->max;
    const bool counts_clients = max->connections_per_client < max->connections;
    *is_counted = false;
    /* Behind a proxy there are many clients, and so there are on a unix socket. */
    if (!counts_clients || entrance_is_protected(worker, client)) {
        return true;
    }
    const enum status status =
        client_counts_add(&entrance->clients, client, max->connections_per_client);
    *is_counted = status == STATUS_OK;
    if (!*is_counted) {
        entrance_refuse(worker, fd, client, status == STATUS_FULL ? REFUSAL_CLIENT : REFUSAL_MEMORY,
                        NULL);
    }
    return *is_counted;
}

void entrance_leave(struct worker *worker, const struct address *client)
{
    struct entrance *entrance = &worker->shared->entrance;
    if (client != NULL) {
        client_counts_remove(&entrance->clients, client);
    }
    atomic_fetch_sub_explicit(&entrance->n_connections, 1, memory_order_relaxed);
    counter_down(&worker->meters->connections);
}

/* A place for one connection more, where there were @n_before with it not yet counted. */
static bool make_place(struct worker *worker, unsigned n_before)
{
    const unsigned n_max = worker->regime->policy->max.connections;
    if (n_before < n_max) {
        return true;
    }
    /* Victims that are not closed yet have given their places to others already. */
    const unsigned n_given = n_max + eviction_n_pending(&worker->shared->entrance.eviction);
    if (n_before < n_given) {
        return true;
    }
    if (n_before - n_max >= EVICTIONS_PENDING_MAX || !evict_one(worker)) {
        return false;
    }
    if (n_before > n_given) {
        (void)evict_one(worker); /* one that was chosen before could not be closed */
    }
    return true;
}

/* Clients leave the last descriptors to upstreams: have a connection give way, and give *fd its
 * number. False: no lower one is free. */
static bool lower_descriptor(struct worker *worker, int *fd)
{
    const int fd_end = worker->shared->entrance.fd_end;
    if (*fd < fd_end) {
        return true;
    }
    const int moved = evict_one(worker) ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (moved >= 0) {
        close(moved < fd_end ? *fd : moved);
        *fd = moved < fd_end ? moved : *fd;
    }
    return *fd < fd_end;
}

/* Why the new connection *fd cannot be served, whoever it is of; ENTRANCE_REFUSALS: it can. It is
 * counted. */
static enum entrance_refusal find_refusal(struct worker *worker, bool proxy_protocol, int *fd,
                                          const struct address *peer)
{
    struct entrance *entrance = &worker->shared->entrance;
    const unsigned n_before =
        atomic_fetch_add_explicit(&entrance->n_connections, 1, memory_order_relaxed);
    counter_up(&worker->meters->connections);
    if (proxy_protocol && !is_trusted(worker, peer)) {
        return REFUSAL_UNTRUSTED;
    }
    if (!make_place(worker, n_before)) {
        return REFUSAL_CONNECTIONS;
    }
    return lower_descriptor(worker, fd) ? ENTRANCE_REFUSALS : REFUSAL_DESCRIPTORS;
}

void entrance_accept(struct worker *worker, bool proxy_protocol, int fd,
                     const struct sockaddr *peer)
{
    const struct address address = address_of_sockaddr(peer);
    const enum entrance_refusal refusal = find_refusal(worker, proxy_protocol, &fd, &address);
    bool is_counted = false;
    if (refusal != ENTRANCE_REFUSALS) {
        entrance_refuse(worker, fd, &address, refusal, NULL);
    } else if (proxy_protocol || entrance_count(worker, &address, fd, &is_counted)) {
        counter_up(&worker->meters->accepted);
        downstream_open(worker, fd, &address, proxy_protocol, is_counted);
        return;
    }
    close(fd);
    entrance_leave(worker, NULL);
}
