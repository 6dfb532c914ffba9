/*  RESTING ─► CONNECTING ─► AWAITING ─► DRAINING ─► RESTING
 *                 │ refused     │ closed, another status: it failed
 *                 └─────────────┴─► RESTING             any, by time ─► RESTING
 *
 * Happy path: connect, send the request, read the status; what follows of the answer is read and
 * thrown away.
 *
 * Failures: no connection, no answer in time or an answer of another status is a check that failed;
 * a check that we could not make (no descriptor, no address yet) says nothing. */

#include "proxy/health_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "proxy/forwarded.h"
#include "proxy/upstream_group.h"
#include "proxy/upstream_name.h"
#include "proxy/upstream_outcome.h"
#include "proxy/upstream_process.h"
#include "proxy/worker.h"

enum {
    FIRST_WITHIN_US = 200 * 1000, /* so that a thousand checks do not begin in one turn */
    JITTER_PERCENT = 10,
    DRAINED_BYTES_MAX = 64 * 1024, /* an answer to a check that is longer is cut */
    READ_BYTES = 4096,
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

/* The next one starts an interval after this one did, more or less. */
static void rest(struct health_check *check)
{
    const uint64_t interval_us = spec_of(check)->interval_us;
    const uint64_t jitter_us = interval_us * JITTER_PERCENT / 100;
    const uint64_t wanted_us = interval_us - jitter_us + random_below(2 * jitter_us + 1);
    const uint64_t passed_us = clock_monotonic_us() - check->started_us;
    stream_close(&check->stream);
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

/* The status of "HTTP/1.x NNN"; 0: that is none. */
static unsigned read_status(const char text[CHECK_STATUS_BYTES])
{
    uint64_t status = 0;
    const bool is_http = memcmp(text, "HTTP/1.", 7) == 0 && text[8] == ' ';
    return is_http && span_to_u64(span_of(text + 9, 3), ANSWER_STATUS_MAX, &status)
               ? (unsigned)status
               : 0;
}

static void on_status(struct health_check *check)
{
    const unsigned status = read_status(check->status);
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
            on_status(check);
        }
    }
    check->n_drained += n;
}

static void on_readable(void *owner)
{
    struct health_check *check = owner;
    char bytes[READ_BYTES];
    size_t n;
    switch (stream_read(&check->stream, bytes, sizeof(bytes), &n)) {
    case STREAM_DONE:
        take(check, bytes, n);
        if (check->n_drained > DRAINED_BYTES_MAX) {
            rest(check); /* its status came long ago */
        }
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        fail(check, "a check's connection closed without an answer");
        return;
    }
}

/* --- the request --- */

static void on_connected(struct health_check *check)
{
    const struct iovec slice = {.iov_base = check->request, .iov_len = check->request_len};
    if (stream_connect_status(&check->stream) != STATUS_OK) {
        upstream_name_on_failure(check->server);
        fail(check, "a check cannot reach it");
        return;
    }
    check->phase = CHECK_AWAITING;
    const enum stream_result result = stream_write(&check->stream, &slice, 1);
    if (result != STREAM_DONE && result != STREAM_BLOCKED) {
        fail(check, "a check's connection closed without an answer");
    }
}

static void on_drained(void *owner)
{
    struct health_check *check = owner;
    if (check->phase == CHECK_CONNECTING) {
        on_connected(check);
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
        rest(check); /* we have no descriptor or no memory: that says nothing of the server */
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

static enum status write_request(struct health_check *check)
{
    check->request = malloc(CHECK_REQUEST_BYTES);
    if (check->request == NULL) {
        return STATUS_NO_MEMORY;
    }
    const struct upstream_spec *spec = check->server->group->spec;
    struct text text = text_of(check->request, CHECK_REQUEST_BYTES);
    text_add_literal(&text, "GET ");
    text_add(&text, spec->health.path);
    text_add_literal(&text, " HTTP/1.1\r\nHost: ");
    if (spec->host == UPSTREAM_HOST_NAME) {
        text_add(&text, spec->host_name);
    } else {
        forwarded_write_server_host(check->server->endpoint, &text);
    }
    text_add_literal(&text, "\r\nUser-Agent: sluice\r\nConnection: close\r\n\r\n");
    assert(!text.truncated);
    check->request_len = text.len;
    return STATUS_OK;
}

enum status health_check_begin(struct health_check *check, struct upstream_server *server)
{
    check->server = server;
    check->stream.fd = -1;
    enum status status = timer_init(&check->timer, server->group->worker->loop, on_timer, check);
    if (status == STATUS_OK) {
        status = write_request(check);
    }
    if (status != STATUS_OK) {
        return status;
    }
    timer_arm(&check->timer, random_below(FIRST_WITHIN_US));
    return STATUS_OK;
}

void health_check_close(struct health_check *check)
{
    if (check->server == NULL) {
        return;
    }
    stream_close(&check->stream);
    timer_close(&check->timer);
    free(check->request);
    check->server = NULL;
}
