/*  RESTING ─► CONNECTING ─► AWAITING ─► DRAINING ─► RESTING
 *                 │ refused,    │ closed, another status: it failed
 *                 └─────────────┴─► RESTING             any, by time ─► RESTING
 *
 * Happy path: connect, with TLS if the server is_https, send the request, read the status. The rest
 * of the answer is read and discarded. By HTTP/2 the connection closes after the status.
 *
 * Failures: no connection, no answer in time, or another status is a failed check. A check that the
 * proxy cannot make (no descriptor, no port, no address yet, no turn for its handshake) does not
 * count. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "net/loop.h"
#include "net/stream.h"
#include "proxy/core/proxy_env.h"
#include "proxy/upstream/upstream_outcome.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"
#include "tls/tls_stream.h"

enum {
    FIRST_WITHIN_US = 200 * 1000, /* spreads the first checks over several loop iterations */
    JITTER_PERCENT = 10,
    DRAINED_BYTES_MAX = 64 * 1024, /* longer answers to checks are cut */
    READ_BYTES = 4096,
};

enum {
    CHECK_STATUS_BYTES = 12,    /* "HTTP/1.1 200" */
    CHECK_REQUEST_BYTES = 9216, /* a target and a host, each of maximum length */
    CHECK_HOST_BYTES = 512,
};

static const char CLOSED[] = "a check's connection closed without an answer";

enum check_phase {
    CHECK_RESTING,
    CHECK_CONNECTING,
    CHECK_AWAITING, /* the answer's status */
    CHECK_DRAINING, /* the rest of the answer, so that the server can close normally */
};

struct health_check {
    struct upstream_server *server;
    enum check_phase phase;
    struct timer timer; /* until the next check, or the timeout of the current one */
    uint64_t started_us;
    struct stream stream;
    struct health_check_http2 *http2; /* NULL: the check is by HTTP/1.1 */
    char status[CHECK_STATUS_BYTES];  /* the first bytes of the status line */
    size_t status_len;
    size_t n_drained; /* bytes */
    size_t request_len;
    char request[CHECK_REQUEST_BYTES];
};

static const struct health_spec *spec_of(const struct health_check *check)
{
    return &check->server->group->spec->health;
}

static uint64_t random_below(uint64_t bound)
{
    uint64_t number;
    hash_random(&number, sizeof(number));
    return bound > 0 ? number % bound : 0;
}

/* --- the end of one check --- */

/* Schedule the next check one interval, with jitter, after the start of this one. */
static void rest(struct health_check *check)
{
    const uint64_t interval_us = spec_of(check)->interval_us;
    const uint64_t jitter_us = interval_us * JITTER_PERCENT / 100;
    const uint64_t wanted_us = interval_us - jitter_us + random_below(2 * jitter_us + 1);
    const uint64_t passed_us = clock_monotonic_us() - check->started_us;
    stream_close(&check->stream);
    health_check_http2_free(check->http2);
    check->http2 = NULL;
    check->phase = CHECK_RESTING;
    timer_arm(&check->timer, wanted_us > passed_us ? wanted_us - passed_us : 0);
}

static void note(struct health_check *check, bool passed, const char *why)
{
    struct server_health *health = &check->server->process->health;
    upstream_outcome_announce(
        check->server,
        server_health_note_check(health, check->server->group->spec, passed, clock_monotonic_us()),
        why);
}

static void fail(struct health_check *check, const char *why)
{
    if (check->phase != CHECK_DRAINING) {
        note(check, false, why);
    }
    rest(check);
}

/* --- the answer --- */

/* The status in "HTTP/1.x NNN"; 0: it is not valid. */
static unsigned read_status(const char text[CHECK_STATUS_BYTES])
{
    uint64_t status = 0;
    const bool is_http = memcmp(text, "HTTP/1.", 7) == 0 && text[8] == ' ';
    return is_http && span_to_u64(span_of(text + 9, 3), ANSWER_STATUS_MAX, &status)
               ? (unsigned)status
               : 0;
}

static void on_status(struct health_check *check, unsigned status)
{
    if (answer_set_has(&spec_of(check)->status, status)) {
        note(check, true, "");
    } else {
        note(check, false,
             status == 0 ? "a check's answer is not HTTP" : "a check's answer has another status");
    }
    check->phase = CHECK_DRAINING;
}

static void take(struct health_check *check, const char *bytes, size_t n)
{
    if (check->phase == CHECK_AWAITING) {
        const size_t room = sizeof(check->status) - check->status_len;
        const size_t taken = n < room ? n : room;
        memcpy(check->status + check->status_len, bytes, taken);
        check->status_len += taken;
        if (check->status_len == sizeof(check->status)) {
            on_status(check, read_status(check->status));
        }
    }
    check->n_drained += n;
}

/* Bytes of HTTP/2. */
static void take_frames(struct health_check *check, const char *bytes, size_t n)
{
    const int status = health_check_http2_read(check->http2, bytes, n);
    if (status != 0) {
        on_status(check, status > 0 ? (unsigned)status : 0);
        rest(check);
    } else if (!health_check_http2_flush(check->http2, &check->stream)) {
        fail(check, CLOSED);
    }
}

static void on_readable(void *owner)
{
    struct health_check *check = owner;
    char bytes[READ_BYTES];
    size_t n;
    switch (stream_read(&check->stream, bytes, sizeof(bytes), &n)) {
    case STREAM_DONE:
        if (check->http2 != NULL) {
            take_frames(check, bytes, n);
            return;
        }
        take(check, bytes, n);
        if (check->n_drained > DRAINED_BYTES_MAX) {
            rest(check); /* its status was already noted */
        }
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        fail(check, CLOSED);
        return;
    }
}

/* --- the request --- */

/* The host that the server is asked for. */
static void write_host(const struct health_check *check, struct text *text)
{
    const struct upstream_spec *spec = check->server->group->spec;
    if (spec->host == UPSTREAM_HOST_NAME) {
        text_add(text, spec->host_name);
    } else {
        upstream_name_write_host(check->server->endpoint, text);
    }
}

static void send_by_http2(struct health_check *check)
{
    char buffer[CHECK_HOST_BYTES];
    struct text host = text_of(buffer, sizeof(buffer));
    write_host(check, &host);
    check->phase = CHECK_AWAITING;
    check->http2 = health_check_http2_new(check->server, spec_of(check)->path, text_span(&host));
    if (check->http2 == NULL) {
        rest(check); /* no memory: this says nothing about the server */
    } else if (!health_check_http2_flush(check->http2, &check->stream)) {
        fail(check, CLOSED);
    }
}

static void send_request(struct health_check *check)
{
    if (check->server->endpoint->is_h2c ||
        (tls_is_used(&check->stream) && tls_alpn_of(&check->stream) == ALPN_H2)) {
        send_by_http2(check);
        return;
    }
    const struct iovec slice = {.iov_base = check->request, .iov_len = check->request_len};
    check->phase = CHECK_AWAITING;
    const enum stream_result result = stream_write(&check->stream, &slice, 1);
    if (result != STREAM_DONE && result != STREAM_BLOCKED) {
        fail(check, CLOSED);
    }
}

static void on_secured(void *owner, const struct tls_outcome *outcome)
{
    struct health_check *check = owner;
    char why[TLS_REASON_BYTES + 32];
    if (outcome->failure == TLS_FAILURE_NONE) {
        send_request(check);
        return;
    }
    upstream_name_on_failure(check->server);
    (void)snprintf(why, sizeof(why), "a check's TLS handshake: %s", outcome->reason);
    fail(check, why);
}

static void on_connected(struct health_check *check)
{
    static const struct tls_handler HANDLER_TLS = {.on_done = on_secured};
    if (stream_connect_status(&check->stream) != STATUS_OK) {
        upstream_name_on_failure(check->server);
        fail(check, "a check cannot reach it");
        return;
    }
    if (!check->server->endpoint->is_https) {
        send_request(check);
    } else if (upstream_name_secure(check->server, &check->stream, &HANDLER_TLS) != STATUS_OK) {
        rest(check); /* no memory: this says nothing about the server */
    }
}

static void on_drained(void *owner)
{
    struct health_check *check = owner;
    if (check->phase == CHECK_CONNECTING) {
        on_connected(check);
    } else if (check->http2 != NULL && !health_check_http2_flush(check->http2, &check->stream)) {
        fail(check, CLOSED);
    }
}

static const struct stream_handler HANDLER = {
    .on_readable = on_readable,
    .on_drained = on_drained,
};

static void start(struct health_check *check)
{
    const struct upstream_server *server = check->server;
    check->started_us = clock_monotonic_us();
    check->status_len = 0;
    check->n_drained = 0;
    if (server->n_addresses == 0) {
        rest(check);
        return;
    }
    const enum status status = upstream_name_connect(server, &check->stream, &HANDLER, check);
    if (status == STATUS_OK) {
        check->phase = CHECK_CONNECTING;
        timer_arm(&check->timer, spec_of(check)->timeout_us);
    } else if (status == STATUS_UNREACHABLE) {
        upstream_name_on_failure(check->server);
        fail(check, "a check cannot reach it");
    } else {
        if (status == STATUS_NO_PORT) {
            upstream_name_on_failure(check->server); /* there may be one to another address */
        }
        rest(check); /* no descriptor, port or memory: this says nothing about the server */
    }
}

static void on_timer(void *context)
{
    struct health_check *check = context;
    switch (check->phase) {
    case CHECK_RESTING:
        start(check);
        return;
    case CHECK_CONNECTING:
        if (tls_is_used(&check->stream) && tls_is_queued(&check->stream)) {
            rest(check); /* the handshake waits for its turn here */
            return;
        }
        upstream_name_on_failure(check->server);
        fail(check, "a check is not answered in time");
        return;
    case CHECK_AWAITING:
    case CHECK_DRAINING:
        fail(check, "a check is not answered in time");
        return;
    }
}

/* --- life --- */

static void write_request(struct health_check *check)
{
    const struct upstream_spec *spec = check->server->group->spec;
    struct text text = text_of(check->request, CHECK_REQUEST_BYTES);
    text_add_literal(&text, "GET ");
    text_add(&text, spec->health.path);
    text_add_literal(&text, " HTTP/1.1\r\nHost: ");
    write_host(check, &text);
    text_add_literal(&text, "\r\nUser-Agent: sluice\r\nConnection: close\r\n\r\n");
    assert(!text.truncated);
    check->request_len = text.len;
}

enum status health_check_new(struct upstream_server *server, struct health_check **check)
{
    struct health_check *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return STATUS_NO_MEMORY;
    }
    created->server = server;
    created->stream.fd = -1;
    timer_init(&created->timer, server->group->env->loop, on_timer, created);
    write_request(created);
    timer_arm(&created->timer, random_below(FIRST_WITHIN_US));
    *check = created;
    return STATUS_OK;
}

void health_check_free(struct health_check *check)
{
    if (check != NULL) {
        health_check_http2_free(check->http2);
        stream_close(&check->stream);
        timer_close(&check->timer);
        free(check);
    }
}
