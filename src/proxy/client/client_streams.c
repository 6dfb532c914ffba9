#include "base/clock.h"
#include "base/text.h"
#include "proxy/client/client_env.h"
#include "proxy/client/connection_limits.h"
#include "proxy/exchange/exchange_config.h"

enum {
    LEFT_SHARE = 4, /* a client has at most one in so many of the requests that are left */
    FEW_SHARE = 16, /* of all that may be: when no more are left, others give way */
};

enum status client_streams_join(struct client_env *clients, const struct address *address,
                                struct stream_client **client)
{
    *client = NULL;
    if (connection_limits_is_protected(clients, address)) {
        return STATUS_OK;
    }
    *client = stream_clients_join(&clients->stream_clients,
                                  &clients->connection_limits->http2_clients, address);
    return *client != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void client_streams_leave(struct client_env *clients, struct stream_client *client)
{
    if (client != NULL) {
        stream_clients_leave(&clients->stream_clients, &clients->connection_limits->http2_clients,
                             client);
    }
}

/* --- reports --- */

static struct span write_client(const struct stream_client *client, char *buffer)
{
    struct text text = text_of(buffer, ADDRESS_TEXT_MAX);
    address_write(&client->client, &text);
    return text_span(&text);
}

static void report_refusal(struct client_env *clients, const struct stream_client *client,
                           enum stream_refusal refusal)
{
    static const char HINT[] = "see max.http2_requests, and sluice_http2_active_requests";
    struct log_gate *gate = &clients->stream_refusal_gates[refusal];
    char buffer[ADDRESS_TEXT_MAX];
    uint64_t n_held;
    counter_up(&clients->env->meters->http2_refused);
    if (!log_gate_pass(gate, clock_monotonic_us(), &n_held)) {
        return;
    }
    const struct span name = write_client(client, buffer);
    const unsigned n_of_client = client_count_requests(client->count);
    switch (refusal) {
    case STREAMS_OF_CLIENT:
        log_warn("proxy.http2", "too many requests of a client at a time",
                 "client=%.*s requests=%u times_before=%llu hint=\"see max.streams_per_client, and "
                 "ulimit -n\"",
                 SPAN_ARGS(name), n_of_client, (unsigned long long)n_held);
        break;
    case STREAMS_OF_SHARE:
        log_warn("proxy.http2", "a client has its share of the requests that are left",
                 "client=%.*s requests=%u times_before=%llu hint=\"%s\"", SPAN_ARGS(name),
                 n_of_client, (unsigned long long)n_held, HINT);
        break;
    case STREAMS_OF_ALL:
    case STREAM_REFUSALS:
        log_warn("proxy.http2", "too many requests of all clients at a time",
                 "max=%u times_before=%llu hint=\"%s\"",
                 clients->env->config->policy->max.http2_requests, (unsigned long long)n_held,
                 HINT);
        break;
    }
}

static void report_eviction(struct client_env *clients, const struct stream_client *client)
{
    uint64_t n_held;
    counter_up(&clients->env->meters->http2_evicted);
    if (log_gate_pass(&clients->stream_eviction_gate, clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        const struct span name = write_client(client, buffer);
        log_warn("proxy.http2", "request evicted for one of another client",
                 "client=%.*s requests=%u times_before=%llu hint=\"see max.http2_requests\"",
                 SPAN_ARGS(name), client_count_requests(client->count), (unsigned long long)n_held);
    }
}

/* --- slots --- */

/* Make room for a request of @own, which then has @n_own. False: none gives way. */
static bool make_room(struct client_env *clients, const struct stream_client *own, uint32_t n_own)
{
    struct stream_slot *victim = stream_clients_choose(&clients->stream_clients, own, n_own);
    if (victim == NULL) {
        return false;
    }
    if (victim->ops->is_exempt(victim)) {
        client_streams_give(clients, victim);
        return true;
    }
    report_eviction(clients, victim->client);
    client_streams_give(clients, victim);
    victim->ops->evict(victim);
    return true;
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

/* Count one more request of @client. STREAM_REFUSALS: it is counted. */
static enum stream_refusal count_request(struct client_env *clients,
                                         const struct stream_client *client)
{
    const struct max_section *max = &clients->env->config->policy->max;
    atomic_uint *n_requests = &clients->connection_limits->n_http2_requests;
    struct client_count *count = client->count;
    if (!client_count_take(count, n_max_of_client(clients))) {
        return STREAMS_OF_CLIENT;
    }
    const uint32_t n_own = client_count_requests(count);
    const uint32_t n_all = atomic_fetch_add_explicit(n_requests, 1, memory_order_relaxed);
    const uint32_t n_left = n_all < max->http2_requests ? max->http2_requests - n_all : 0;
    if (LIKELY(n_own <= (n_left + LEFT_SHARE - 1) / LEFT_SHARE) ||
        (n_left <= max->http2_requests / FEW_SHARE && n_own <= max->streams &&
         make_room(clients, client, n_own))) {
        return STREAM_REFUSALS;
    }
    atomic_fetch_sub_explicit(n_requests, 1, memory_order_relaxed);
    client_count_give(count);
    return n_left > 0 ? STREAMS_OF_SHARE : STREAMS_OF_ALL;
}

bool client_streams_take(struct client_env *clients, struct stream_client *client,
                         const struct address *peer, struct stream_slot *slot)
{
    if (client == NULL) {
        return true;
    }
    const enum stream_refusal refusal = count_request(clients, client);
    if (refusal != STREAM_REFUSALS && connection_limits_is_protected(clients, peer)) {
        return true; /* a reload has made it a trusted proxy */
    }
    if (refusal != STREAM_REFUSALS) {
        report_refusal(clients, client, refusal);
        return false;
    }
    stream_clients_add(&clients->stream_clients, client, slot);
    counter_up(&clients->env->meters->http2_active);
    return true;
}

void client_streams_give(struct client_env *clients, struct stream_slot *slot)
{
    struct stream_client *client = slot->client;
    if (client == NULL) {
        return;
    }
    stream_clients_remove(&clients->stream_clients, slot);
    counter_down(&clients->env->meters->http2_active);
    client_count_give(client->count);
    atomic_fetch_sub_explicit(&clients->connection_limits->n_http2_requests, 1,
                              memory_order_relaxed);
}
