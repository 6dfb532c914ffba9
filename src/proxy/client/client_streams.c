#include "proxy/client/connection_limits.h"

#include "base/clock.h"
#include "base/text.h"
#include "proxy/client/client_env.h"
#include "proxy/exchange/exchange_config.h"

enum { LEFT_SHARE = 4 }; /* a client has at most one in so many of the requests that are left */

enum status client_streams_join(struct client_env *clients, const struct address *client,
                                struct client_count **count)
{
    *count = NULL;
    if (connection_limits_is_protected(clients, client)) {
        return STATUS_OK;
    }
    *count = client_counts_join(&clients->connection_limits->http2_clients, client);
    return *count != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void client_streams_leave(struct client_env *clients, struct client_count *count)
{
    if (count != NULL) {
        client_counts_leave(&clients->connection_limits->http2_clients, count);
    }
}

static void report_refusal(struct client_env *clients, const struct address *client)
{
    uint64_t n_held;
    counter_up(&clients->env->meters->http2_refused);
    if (log_gate_pass(&clients->streams_gate, clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(client, &text);
        log_warn("proxy.http2", "too many requests of a client at a time",
                 "client=%.*s times_before=%llu hint=\"see max.streams_per_client and "
                 "max.http2_requests\"",
                 SPAN_ARGS(text_span(&text)), (unsigned long long)n_held);
    }
}

/* How many requests a client may have. Each may need a connection to a server: a client has no more
 * than are left for others, unless one connection would already. */
static uint32_t n_max_of_client(const struct client_env *clients)
{
    const struct max_section *max = &clients->env->config->policy->max;
    const uint32_t n_left = upstream_descriptors_left(clients->env->upstream_descriptors);
    const uint32_t n_fair = n_left > max->streams ? n_left : max->streams;
    return n_fair < max->streams_per_client ? n_fair : max->streams_per_client;
}

/* How many of @n_left requests, of which it asks for one, a client may have. */
static uint32_t n_share(uint32_t n_left)
{
    return (n_left + LEFT_SHARE - 1) / LEFT_SHARE;
}

static bool take(struct client_env *clients, struct client_count *count)
{
    atomic_uint *n_requests = &clients->connection_limits->n_http2_requests;
    const uint32_t n_all_max = clients->env->config->policy->max.http2_requests;
    const uint32_t n_all = atomic_fetch_add_explicit(n_requests, 1, memory_order_relaxed);
    const uint32_t n_max = n_max_of_client(clients);
    const uint32_t n_fair = n_all < n_all_max ? n_share(n_all_max - n_all) : 0;
    if (client_count_take(count, n_fair < n_max ? n_fair : n_max)) {
        return true;
    }
    atomic_fetch_sub_explicit(n_requests, 1, memory_order_relaxed);
    return false;
}

bool client_streams_take(struct client_env *clients, const struct address *client,
                         struct client_count *count)
{
    if (count == NULL || take(clients, count)) {
        return true;
    }
    report_refusal(clients, client);
    return false;
}

void client_streams_give(struct client_env *clients, struct client_count *count)
{
    if (count != NULL) {
        client_count_give(count);
        atomic_fetch_sub_explicit(&clients->connection_limits->n_http2_requests, 1,
                                  memory_order_relaxed);
    }
}
