#include "proxy/client/client_env.h"

#include <assert.h>

#include "base/clock.h"
#include "proxy/core/proxy_env.h"

enum { GRACE_US = 1000 * 1000 }; /* more than a round trip to anywhere */

/* How long a new connection has for the head of its first request, from accept. */
static uint64_t first_us(const struct timeouts_section *timeouts)
{
    return timeouts->head_us < timeouts->idle_us ? timeouts->head_us : timeouts->idle_us;
}

void client_env_init(struct client_env *clients, void (*on_gone)(struct client_env *clients),
                     struct proxy_env *env, struct connection_limits *connection_limits)
{
    *clients =
        (struct client_env){.on_gone = on_gone, .env = env, .connection_limits = connection_limits};
    list_init(&clients->open);
    list_init(&clients->shaking);
    list_init(&clients->victims);
    stream_clients_init(&clients->stream_clients);
}

void client_env_open(struct client_env *clients, const struct timeouts_section *timeouts)
{
    struct loop *loop = clients->env->loop;
    timeout_queue_init(&clients->rest_timeouts, loop, timeouts->idle_us);
    timeout_queue_init(&clients->first_timeouts, loop, first_us(timeouts));
    timeout_queue_init(&clients->handshake_timeouts, loop, timeouts->handshake_us);
    timeout_queue_init(&clients->ping_timeouts, loop, timeouts->ping_us);
    timeout_queue_init(&clients->linger_timeouts, loop, LINGER_PAUSE_US);
    timeout_queue_init(&clients->grace_timeouts, loop, GRACE_US);
}

void client_env_set_timeouts(struct client_env *clients, const struct timeouts_section *timeouts)
{
    const uint64_t now_us = clock_monotonic_us();
    timeout_queue_set_length(&clients->rest_timeouts, timeouts->idle_us, now_us);
    timeout_queue_set_length(&clients->first_timeouts, first_us(timeouts), now_us);
    timeout_queue_set_length(&clients->handshake_timeouts, timeouts->handshake_us, now_us);
    timeout_queue_set_length(&clients->ping_timeouts, timeouts->ping_us, now_us);
}

bool client_env_is_empty(const struct client_env *clients)
{
    return clients->downstreams.n_taken == 0 && clients->http2_requests.n_taken == 0;
}

void client_env_close(struct client_env *clients)
{
    assert(client_env_is_empty(clients));
    timeout_queue_close(&clients->rest_timeouts);
    timeout_queue_close(&clients->first_timeouts);
    timeout_queue_close(&clients->handshake_timeouts);
    timeout_queue_close(&clients->ping_timeouts);
    timeout_queue_close(&clients->linger_timeouts);
    timeout_queue_close(&clients->grace_timeouts);
    pool_close(&clients->downstreams);
    pool_close(&clients->http2_requests);
}

/* --- a lingering close --- */

void linger_begin(struct lingering *linger, uint64_t now_us)
{
    linger->until_us = now_us + LINGER_US_MAX;
    linger->bytes_left = LINGER_BYTES_MAX;
}

bool linger_takes(struct lingering *linger, size_t n, uint64_t now_us)
{
    const bool goes_on = n < linger->bytes_left && now_us < linger->until_us;
    linger->bytes_left -= goes_on ? n : linger->bytes_left;
    return goes_on;
}
