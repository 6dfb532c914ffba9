/* The handshake of TLS on a connection from a client. Happy path: the handshake runs in the stream;
 * then the connection waits for its first request, as a plain one does after accept.
 *
 * Failures: every one is counted by its reason, and reported at most once a second. Plain text is
 * answered with a 400 in plain text. No request has begun, so nothing is charged to a limit. */

#include <assert.h>

#include "base/clock.h"
#include "base/text.h"
#include "proxy/client/connection_limits.h"
#include "proxy/client/downstream_inner.h"
#include "tls/tls_stream.h"

enum {
    HANDSHAKES_SHARE = 4,       /* one client has at most one in so many of max.handshakes */
    GIVES_WAY_US = 1000 * 1000, /* a handshake that took longer gives way to another */
    GIVES_WAY_SCAN = 64,        /* handshakes that are looked at for that */
};

static_assert((int)METER_TLS_FAILURES == (int)TLS_FAILURES, "each failure has its counter");

static void report_failure(struct downstream *downstream, enum tls_failure failure,
                           const char *reason)
{
    struct client_env *clients = downstream->connection.clients;
    uint64_t n_held;
    counter_up(&clients->env->meters->handshake_failures[failure]);
    if (log_gate_pass(&clients->handshake_gate, clock_monotonic_us(), &n_held)) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(&downstream->connection.peer, &text);
        log_warn("proxy.tls", "TLS handshake failed",
                 "client=%.*s reason=%s err=\"%s\" times_before=%llu", SPAN_ARGS(text_span(&text)),
                 tls_failure_label(failure), reason, (unsigned long long)n_held);
    }
}

void downstream_report_slow_handshake(struct downstream *downstream)
{
    report_failure(downstream, TLS_FAILURE_TIMEOUT, "it took longer than timeouts.handshake");
}

/* --- how many are under way --- */

/* Count a handshake of @client. STATUS_FULL: there are too many, of this @client if *is_own. A
 * trusted proxy and a unix socket carry many clients, and may have all. */
static enum status count(struct client_env *clients, const struct address *client, bool *is_own)
{
    struct connection_limits *limits = clients->connection_limits;
    const uint32_t n_max = clients->env->config->policy->max.handshakes;
    const uint32_t n_of_client = connection_limits_is_protected(clients, client) ? n_max
                                 : n_max < HANDSHAKES_SHARE                      ? 1
                                                            : n_max / HANDSHAKES_SHARE;
    enum status status = STATUS_FULL;
    *is_own = false;
    if (atomic_fetch_add_explicit(&limits->n_handshakes, 1, memory_order_relaxed) < n_max) {
        status = client_counts_add(&limits->handshakes, client, n_of_client);
        *is_own = status == STATUS_FULL;
    }
    if (status != STATUS_OK) {
        atomic_fetch_sub_explicit(&limits->n_handshakes, 1, memory_order_relaxed);
    }
    return status;
}

/* Close the oldest handshake of this worker that takes long, of @client if that is not NULL.
 * False: there is none. A client that goes on with its handshake needs a round trip or two, so
 * those that hold places for long are most likely those that never will. */
static bool make_room(struct client_env *clients, const struct address *client)
{
    const uint64_t now_us = clock_monotonic_us();
    struct list *node = clients->shaking.next;
    for (unsigned i = 0; i < GIVES_WAY_SCAN && node != &clients->shaking; i++) {
        struct downstream *oldest = CONTAINER_OF(node, struct downstream, shaking);
        node = node->next;
        if (now_us - oldest->secured_from_us < GIVES_WAY_US) {
            return false;
        }
        if (client == NULL || client_counts_are_same(&oldest->connection.peer, client)) {
            report_failure(oldest, TLS_FAILURE_REFUSED, "it took long, and gave way to another");
            downstream_close(oldest);
            return true;
        }
    }
    return false;
}

/* The first message is complete, and cryptography would begin. */
static bool on_hello(void *owner, const struct client_hello *hello,
                     const struct tls_server_entry *entry)
{
    struct downstream *downstream = owner;
    struct client_env *clients = downstream->connection.clients;
    const struct address *client = &downstream->connection.peer;
    bool is_own;
    (void)hello;
    (void)entry;
    enum status status = count(clients, client, &is_own);
    if (status == STATUS_FULL && make_room(clients, is_own ? client : NULL)) {
        status = count(clients, client, &is_own);
    }
    if (status != STATUS_OK) {
        return false;
    }
    downstream->is_shaking_hands = true;
    list_push_back(&clients->shaking, &downstream->shaking);
    return true;
}

void downstream_end_handshake(struct downstream *downstream)
{
    struct connection_limits *limits = downstream->connection.clients->connection_limits;
    if (downstream->is_shaking_hands) {
        downstream->is_shaking_hands = false;
        list_remove(&downstream->shaking);
        client_counts_remove(&limits->handshakes, &downstream->connection.peer);
        atomic_fetch_sub_explicit(&limits->n_handshakes, 1, memory_order_relaxed);
    }
    tls_server_release(downstream->tls_server);
    downstream->tls_server = NULL;
}

/* --- the end of a handshake --- */

static void answer_plain_text(struct downstream *downstream)
{
    static const char ANSWER[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
                                 "Content-Type: text/plain\r\nContent-Length: 36\r\n\r\n"
                                 "This port speaks TLS: use https://.\n";
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)ANSWER,
                                .iov_len = sizeof(ANSWER) - 1};
    (void)!stream_write(&downstream->stream, &slice, 1); /* the kernel takes it, or it is lost */
}

static void count_success(struct downstream *downstream)
{
    struct worker_meters *meters = downstream->connection.env->meters;
    const struct stream *stream = &downstream->stream;
    counter_up(&meters->handshakes[tls_version_of(stream)][tls_is_resumed(stream)]);
    latency_add(&meters->handshake, clock_monotonic_us() - downstream->secured_from_us);
}

static void on_done(void *owner, const struct tls_outcome *outcome)
{
    struct downstream *downstream = owner;
    downstream_end_handshake(downstream);
    if (outcome->failure == TLS_FAILURE_NONE) {
        count_success(downstream);
        downstream_on_secured(downstream);
        return;
    }
    report_failure(downstream, outcome->failure, outcome->reason);
    if (outcome->failure == TLS_FAILURE_PLAIN_TEXT) {
        answer_plain_text(downstream);
    }
    downstream_close(downstream);
}

static const struct tls_handler HANDLER = {.on_hello = on_hello, .on_done = on_done};

void downstream_secure(struct downstream *downstream, struct span first)
{
    struct client_env *clients = downstream->connection.clients;
    const uint64_t now_us = clock_monotonic_us();
    downstream->phase = DOWNSTREAM_SECURING;
    downstream->secured_from_us = now_us;
    timeout_arm(&downstream->timeout, &clients->handshake_timeouts, now_us);
    (void)!downstream_await_first(downstream, now_us);
    if (tls_accept(clients->env->tls, &downstream->stream, downstream->tls_server, first,
                   &HANDLER) != STATUS_OK) {
        report_failure(downstream, TLS_FAILURE_MEMORY, "out of memory");
        downstream_close(downstream);
    }
}
