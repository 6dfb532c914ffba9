#include "proxy/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/log.h"
#include "net/resolver.h"
#include "proxy/worker.h"

struct server {
    struct server_options options;
    const struct policy *policy; /* the options' */
    struct worker_shared shared;
    struct resolver_address addresses[LISTENERS_MAX]; /* of the policy's listeners */
    struct worker *workers;
    unsigned n_workers; /* that are initialised */
    unsigned n_started;
};

/* --- listening --- */

/* A host to listen on may be a name; looked up before anything is served, so it may block. */
static enum status find_address(const struct endpoint *endpoint, struct resolver_address *address)
{
    char host[HOST_BYTES_MAX + 1];
    char port[8];
    struct addrinfo *found;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    if (resolver_read_address(endpoint->host, endpoint->port, address)) {
        return STATUS_OK;
    }
    struct text host_text = text_of(host, sizeof(host) - 1);
    struct text port_text = text_of(port, sizeof(port) - 1);
    text_add(&host_text, endpoint->host);
    text_add_u64(&port_text, endpoint->port);
    host[host_text.len] = '\0';
    port[port_text.len] = '\0';
    if (host_text.truncated || getaddrinfo(host, port, &hints, &found) != 0) {
        return STATUS_NOT_FOUND;
    }
    memcpy(&address->sockaddr, found->ai_addr, found->ai_addrlen);
    address->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return STATUS_OK;
}

/* A port of 0 is chosen by the first socket; the other workers' follow it. */
static void learn_port(int fd, struct resolver_address *address)
{
    address->bytes = sizeof(address->sockaddr);
    (void)getsockname(fd, &address->sockaddr.any, &address->bytes);
}

static void log_listening(const struct resolver_address *address)
{
    const struct address host = address_of_sockaddr(&address->sockaddr.any);
    const bool is_ipv6 = host.family == ADDRESS_IPV6;
    const uint16_t port =
        ntohs(is_ipv6 ? address->sockaddr.ipv6.sin6_port : address->sockaddr.ipv4.sin_port);
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(&host, &text);
    log_info("proxy.server", "listening", is_ipv6 ? "address=[%.*s]:%u" : "address=%.*s:%u",
             SPAN_ARGS(text_span(&text)), port);
}

static enum status bind_failed(const struct endpoint *endpoint, enum status status)
{
    log_error("proxy.server", "cannot listen", "address=%.*s err=\"%s\" hint=\"%s\"",
              SPAN_ARGS(endpoint->text),
              status == STATUS_NOT_FOUND ? "no such host" : strerror(errno),
              status == STATUS_IN_USE ? "another process listens there: stop it, or change listen"
                                      : "see listen in the policy");
    return status;
}

static enum status find_listeners(struct server *server)
{
    for (size_t i = 0; i < server->policy->n_listeners; i++) {
        const struct endpoint *endpoint = &server->policy->listeners[i];
        struct resolver_address *address = &server->addresses[i];
        enum status status = find_address(endpoint, address);
        if (status == STATUS_OK) {
            status = listener_probe(&address->sockaddr.any, address->bytes);
        }
        if (status != STATUS_OK) {
            return bind_failed(endpoint, status);
        }
    }
    return STATUS_OK;
}

/* The sockets of one worker. On failure none is left open. */
static enum status bind_all(struct server *server, int *fds)
{
    for (size_t i = 0; i < server->policy->n_listeners; i++) {
        struct resolver_address *address = &server->addresses[i];
        const enum status status = listener_bind(&address->sockaddr.any, address->bytes, &fds[i]);
        if (status != STATUS_OK) {
            bind_failed(&server->policy->listeners[i], status);
            while (i-- > 0) {
                close(fds[i]);
            }
            return status;
        }
        if (server->n_workers == 0) {
            learn_port(fds[i], address);
        }
    }
    return STATUS_OK;
}

/* --- what the workers share --- */

/* A pipe may have a slow reader. Opened once more it is non-blocking for us alone, and not for those who share
 * our stdout; a write to it then fails where it would wait. */
static int open_stdout(void)
{
    struct stat stat;
    if (fstat(STDOUT_FILENO, &stat) == 0 && S_ISFIFO(stat.st_mode)) {
        const int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        return fd >= 0 ? fd : STDOUT_FILENO;
    }
    return STDOUT_FILENO;
}

static enum status open_log(struct server *server)
{
    const struct log_section *log = &server->policy->log;
    if (log->format == LOG_FORMAT_OFF) {
        return STATUS_OK;
    }
    if (log->path.len == 0) {
        server->shared.log_fd = open_stdout();
        return STATUS_OK;
    }
    server->shared.log_fd = open(log->path.data, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (server->shared.log_fd < 0) {
        log_error("proxy.server", "cannot open the access log", "file=\"%.*s\" err=\"%s\"",
                  SPAN_ARGS(log->path), strerror(errno));
        return STATUS_IO;
    }
    return STATUS_OK;
}

static unsigned count_workers(const struct policy *policy)
{
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (policy->workers > 0) {
        return policy->workers;
    }
    return n_cores < 1 ? 1 : n_cores > WORKERS_MAX ? WORKERS_MAX : (unsigned)n_cores;
}

static enum status init_workers(struct server *server)
{
    const unsigned n_workers = count_workers(server->policy);
    server->workers = calloc(n_workers, sizeof(server->workers[0]));
    if (server->workers == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (unsigned i = 0; i < n_workers; i++) {
        int fds[LISTENERS_MAX];
        enum status status = bind_all(server, fds);
        if (status == STATUS_OK) {
            status = worker_init(&server->workers[i], &server->shared, i + 1, fds);
        }
        if (status != STATUS_OK) {
            return status;
        }
        server->n_workers++;
    }
    return STATUS_OK;
}

static void name_in_via(struct via *via)
{
    uint8_t id[VIA_ID_BYTES];
    hash_random(id, sizeof(id));
    via_init(via, id);
}

enum status server_new(const struct server_options *options, struct server **server)
{
    struct server *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->options = *options;
    created->policy = options->policy;
    created->shared.options = &created->options;
    created->shared.policy = options->policy;
    created->shared.log_fd = -1;
    atomic_init(&created->shared.n_downstreams, 0);
    name_in_via(&created->shared.via);
    enum status status = find_listeners(created);
    if (status == STATUS_OK) {
        status = open_log(created);
    }
    if (status == STATUS_OK) {
        status = upstream_process_open(created->policy, &created->shared.upstreams);
    }
    if (status == STATUS_OK) {
        status = init_workers(created);
    }
    if (status != STATUS_OK) {
        server_free(created);
        return status;
    }
    *server = created;
    return STATUS_OK;
}

enum status server_start(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        const enum status status = worker_start(&server->workers[i]);
        if (status != STATUS_OK) {
            server_drain(server);
            server_wait(server);
            return status;
        }
        server->n_started++;
    }
    for (size_t i = 0; i < server->policy->n_listeners; i++) {
        log_listening(&server->addresses[i]);
    }
    return STATUS_OK;
}

void server_drain(struct server *server)
{
    for (unsigned i = 0; i < server->n_started; i++) {
        worker_drain(&server->workers[i]);
    }
}

static void log_decisions(const struct server *server)
{
    struct histogram all;
    histogram_init(&all);
    for (unsigned i = 0; i < server->n_workers; i++) {
        histogram_merge(&all, &server->workers[i].decision_us);
    }
    log_info("proxy.server", "decisions were made",
             "count=%llu p50_us=%llu p99_us=%llu p999_us=%llu max_us=%llu",
             (unsigned long long)histogram_count(&all),
             (unsigned long long)histogram_quantile(&all, 50, 100),
             (unsigned long long)histogram_quantile(&all, 99, 100),
             (unsigned long long)histogram_quantile(&all, 999, 1000),
             (unsigned long long)histogram_max(&all));
}

void server_wait(struct server *server)
{
    for (unsigned i = 0; i < server->n_started; i++) {
        worker_join(&server->workers[i]);
    }
    if (server->n_started > 0) {
        log_decisions(server);
    }
    server->n_started = 0;
}

void server_free(struct server *server)
{
    if (server == NULL) {
        return;
    }
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_close(&server->workers[i]);
    }
    free(server->workers);
    upstream_process_close(server->shared.upstreams, server->policy);
    if (server->shared.log_fd > STDOUT_FILENO) {
        close(server->shared.log_fd);
    }
    free(server);
}
