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
    HANDSHAKES_IN_TURN = 8,     /* of a client: further ones come behind those of others */
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

/* How many @client may have. A trusted proxy and a unix socket carry many clients. */
static uint32_t n_max_of(const struct client_env *clients, const struct address *client)
{
    const uint32_t n_max = clients->env->config->policy->max.handshakes;
    return connection_limits_is_protected(clients, client) ? n_max
           : n_max < HANDSHAKES_SHARE                      ? 1
                                                           : n_max / HANDSHAKES_SHARE;
}

/* Take a place for a handshake of the client with @count, which may have @n_of_client. False: there
 * are too many, of the client if *is_own. */
static bool take_place(struct client_env *clients, struct client_count *count, uint32_t n_of_client,
                       bool *is_own)
{
    atomic_uint *n_handshakes = &clients->connection_limits->n_handshakes;
    const uint32_t n_max = clients->env->config->policy->max.handshakes;
    *is_own = !client_count_take(count, n_of_client);
    if (*is_own) {
        return false;
    }
    if (atomic_fetch_add_explicit(n_handshakes, 1, memory_order_relaxed) < n_max) {
        return true;
    }
    atomic_fetch_sub_explicit(n_handshakes, 1, memory_order_relaxed);
    client_count_give(count);
    return false;
}

/* The handshake of this worker that gives way to one of the client with @count; NULL: none. Where
 * that client has too many (@is_own), the oldest of its own that takes long: a client that goes on
 * with a handshake needs a round trip or two. Where all have, the oldest of the client with the
 * most, if that has more than the new one would have; else the oldest that takes long. Only the
 * oldest ones are looked at: those that hold places for long are most likely those that never go
 * on. */
static struct downstream *choose_victim(const struct client_env *clients,
                                        const struct client_count *count, bool is_own,
                                        uint64_t now_us)
{
    struct downstream *oldest_slow = NULL;
    struct downstream *of_most = NULL;
    uint32_t n_most = client_count_requests(count) + 1;
    struct list *node = clients->shaking.next;
    for (unsigned i = 0; i < GIVES_WAY_SCAN && node != &clients->shaking; i++) {
        struct downstream *shaking = CONTAINER_OF(node, struct downstream, shaking);
        const bool is_slow = now_us - shaking->secured_from_us >= GIVES_WAY_US;
        const uint32_t n = client_count_requests(shaking->handshakes);
        if (is_slow && oldest_slow == NULL && (!is_own || shaking->handshakes == count)) {
            oldest_slow = shaking;
        }
        if (n > n_most) {
            n_most = n;
            of_most = shaking;
        }
        node = node->next;
    }
    return is_own || of_most == NULL ? oldest_slow : of_most;
}

/* Make room for a handshake of the client with @count. False: none gives way. */
static bool make_room(struct client_env *clients, const struct client_count *count, bool is_own)
{
    struct downstream *victim = choose_victim(clients, count, is_own, clock_monotonic_us());
    if (victim == NULL) {
        return false;
    }
    report_failure(victim, TLS_FAILURE_REFUSED, "it gave way to another");
    downstream_close(victim);
    return true;
}

/* The first message is complete, and cryptography would begin. */
static enum tls_turn on_hello(void *owner, const struct client_hello *hello,
                              const struct tls_server_entry *entry)
{
    struct downstream *downstream = owner;
    struct client_env *clients = downstream->connection.clients;
    struct client_counts *handshakes = &clients->connection_limits->handshakes;
    const struct address *client = &downstream->connection.peer;
    const uint32_t n_max = n_max_of(clients, client);
    struct client_count *count = client_counts_join(handshakes, client);
    bool is_own;
    (void)entry;
    if (count == NULL) {
        return TLS_TURN_NEVER;
    }
    if (!take_place(clients, count, n_max, &is_own) &&
        (!make_room(clients, count, is_own) || !take_place(clients, count, n_max, &is_own))) {
        client_counts_leave(handshakes, count);
        return TLS_TURN_NEVER;
    }
    downstream->handshakes = count;
    list_push_back(&clients->shaking, &downstream->shaking);
    const uint32_t n_in_turn = hello->is_costly ? 0 : HANDSHAKES_IN_TURN;
    return client_count_requests(count) > n_in_turn &&
                   !connection_limits_is_protected(clients, client)
               ? TLS_TURN_LAST
               : TLS_TURN_NEXT;
}

void downstream_end_handshake(struct downstream *downstream)
{
    struct connection_limits *limits = downstream->connection.clients->connection_limits;
    if (downstream->handshakes != NULL) {
        list_remove(&downstream->shaking);
        client_count_give(downstream->handshakes);
        client_counts_leave(&limits->handshakes, downstream->handshakes);
        downstream->handshakes = NULL;
        atomic_fetch_sub_explicit(&limits->n_handshakes, 1, memory_order_relaxed);
    }
    tls_server_release(downstream->tls_server);
    downstream->tls_server = NULL;
}

/* --- the end of a handshake --- */

static void answer_plain_text(struct downstream *downstream)
{
    static const char ANSWER[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
                                 "Cache-Control: no-store\r\n"
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
