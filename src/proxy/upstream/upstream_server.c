/* Happy path: a name is resolved at start, and again when the TTL of its answer ends. An address
 * that is not in the latest answer gets no new connection. Its idle connections are closed at once,
 * the others when their request is over.
 *
 * Failures: a name that cannot be resolved keeps its last addresses and is resolved again soon. A
 * connect that fails moves on to the next address. */

#include "proxy/upstream/upstream_server.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "net/listen_socket.h"
#include "proxy/core/proxy_env.h"
#include "tls/tls_stream.h"

enum { RESOLVE_RETRY_US = 1000 * 1000 }; /* after a failure */

/* New connections keep to the same address if the answer has it, regardless of the order. */
static void take_addresses(struct upstream_server *server, const struct resolver_answer *answer)
{
    const struct resolver_address last = server->addresses[server->next_address];
    memcpy(server->addresses, answer->addresses,
           answer->n_addresses * sizeof(answer->addresses[0]));
    server->n_addresses = answer->n_addresses;
    server->next_address = upstream_server_find_address(server, &last) % server->n_addresses;
    server->generation++;
    server->on_change(server);
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
    if (resolver_ask(server->group->env->resolver, server->endpoint->host, server->endpoint->port,
                     on_addresses, server, &server->query) != STATUS_OK) {
        timer_arm(&server->resolve_timer, RESOLVE_RETRY_US);
    }
}

enum status upstream_name_init(struct upstream_server *server,
                               void (*on_change)(struct upstream_server *server))
{
    server->on_change = on_change;
    const struct endpoint *endpoint = server->endpoint;
    timer_init(&server->resolve_timer, server->group->env->loop, resolve, server);
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

void upstream_name_write_host(const struct endpoint *server, struct text *text)
{
    const bool is_ipv6 = span_find(server->host, ':') < server->host.len;
    if (server->unix_path.len > 0) {
        text_add_literal(text, "localhost");
        return;
    }
    text_add(text, is_ipv6 ? SPAN("[") : SPAN(""));
    text_add(text, server->host);
    text_add(text, is_ipv6 ? SPAN("]") : SPAN(""));
    if (server->port != (server->is_https ? 443 : 80)) {
        text_add_char(text, ':');
        text_add_u64(text, server->port);
    }
}

enum status upstream_name_connect(const struct upstream_server *server, struct stream *stream,
                                  const struct stream_handler *handler, void *owner)
{
    struct loop *loop = server->group->env->loop;
    if (server->endpoint->unix_path.len > 0) {
        const struct sockaddr_un path = unix_socket_address(server->endpoint->unix_path);
        return stream_connect(stream, loop, (const struct sockaddr *)&path, sizeof(path), handler,
                              owner);
    }
    const struct resolver_address *address = &server->addresses[server->next_address];
    return stream_connect(stream, loop, &address->sockaddr.any, address->bytes, handler, owner);
}

enum status upstream_name_secure(struct upstream_server *server, struct stream *stream,
                                 const struct tls_handler *handler)
{
    struct upstream_group *group = server->group;
    const struct span name = group->tls->config->name;
    return tls_connect(group->env->tls, stream, group->tls,
                       name.len > 0 ? name : server->endpoint->host, &server->tls_sessions,
                       handler);
}

void upstream_name_report_insecure(struct upstream_server *server, const char *reason)
{
    uint64_t n_held;
    if (log_gate_pass(&server->group->tls_gate, clock_monotonic_us(), &n_held)) {
        log_warn("proxy.upstream", "TLS handshake failed",
                 "upstream=%.*s server=%.*s err=\"%s\" times_before=%llu",
                 SPAN_ARGS(server->group->spec->name), SPAN_ARGS(server->endpoint->text), reason,
                 (unsigned long long)n_held);
    }
}

void upstream_name_report_lack(struct upstream_server *server, enum status status)
{
    uint64_t n_held;
    if (log_gate_pass(&server->group->lack_gate, clock_monotonic_us(), &n_held)) {
        log_warn("proxy.upstream", "no connection can be made",
                 "upstream=%.*s server=%.*s err=\"%s\" times_before=%llu",
                 SPAN_ARGS(server->group->spec->name), SPAN_ARGS(server->endpoint->text),
                 status == STATUS_FULL ? "no file descriptor is left" : status_text(status),
                 (unsigned long long)n_held);
    }
}

void upstream_name_on_failure(struct upstream_server *server)
{
    if (server->n_addresses > 0) {
        server->next_address = (server->next_address + 1) % server->n_addresses;
    }
    /* Resolve soon, but never postpone: failures may be more frequent than this delay. */
    const uint64_t soon_us = clock_monotonic_us() + RESOLVE_RETRY_US;
    if (server->is_name && server->query == NULL && server->resolve_timer.deadline_us > soon_us) {
        timer_arm(&server->resolve_timer, RESOLVE_RETRY_US);
    }
}
